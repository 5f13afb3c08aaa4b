// One kind of sharing at a time: what the op lists, when it counts as taken, and where the part
// lies.
#include "ir/Stow.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using testing::ElementsAre;
using testing::IsEmpty;

namespace stow {
namespace {

class SharingTest : public testing::Test {
protected:
  SharingTest() { context.loadDialect<StowDialect, func::FuncDialect, arith::ArithDialect>(); }

  /// The op of that name in a function with `arguments` and `body`.
  Operation *parse(const std::string &arguments, const std::string &body, StringRef name) {
    const std::string text = "func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    Operation *found = nullptr;
    if (module)
      module->walk([&](Operation *op) {
        if (op->getName().getStringRef() == name)
          found = op;
      });
    return found;
  }

  /// "result<operand" of every sharing of the kind, in order.
  static std::vector<std::string> pairs(Operation *op, SharingKind kind) {
    std::vector<std::string> found;
    for (const Sharing &sharing : sharingsOf(op))
      if (sharing.kind == kind)
        found.push_back(std::to_string(sharing.result) + "<" + std::to_string(sharing.operand));
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

// Tests that a reshape is a view whatever else happens.
TEST_F(SharingTest, ReshapeIsAView) {
  Operation *op =
      parse("%x: tensor<6x4xf32>", "%y = stow.reshape %x : (tensor<6x4xf32>) -> tensor<2x3x4xf32>",
            "stow.reshape");
  ASSERT_TRUE(op);
  EXPECT_THAT(pairs(op, SharingKind::View), ElementsAre("0<0"));
  EXPECT_EQ(viewedOperand(op), 0u);
  ASSERT_TRUE(sharingOf(op->getResult(0)));
  EXPECT_EQ(sharingOf(op->getResult(0))->offsetIn(op), 0);
  EXPECT_THAT(sharingOf(op->getResult(0))->permutation, IsEmpty());
}

// Tests what a view of a part of a larger tensor is: the columns of 6 x 4 in rows of 10 are those of
// 2 x 3 x 4, but no row of 8, which would have a gap in it.
TEST_F(SharingTest, ReshapeSeesPartsAsRunsOfTheSameBytes) {
  Operation *op = parse("%x: tensor<6x4xf32>",
                        "%y = stow.reshape %x : (tensor<6x4xf32>) -> tensor<2x3x4xf32>\n"
                        "%z = stow.reshape %x : (tensor<6x4xf32>) -> tensor<3x8xf32>",
                        "func.func");
  ASSERT_TRUE(op);
  auto part = typeInside(RankedTensorType::get({6, 10}, Float32Type::get(&context)),
                         typeOf(cast<func::FuncOp>(op).getArgument(0)));
  ASSERT_TRUE(part);
  int views = 0;
  for (OpOperand &use : cast<func::FuncOp>(op).getArgument(0).getUses()) {
    auto view = viewOfPart(use, *part);
    EXPECT_EQ(view.has_value(), typeOf(use.getOwner()->getResult(0)).getRank() == 3);
    if (!view)
      continue;
    ++views;
    EXPECT_EQ(view->first, use.getOwner()->getResult(0));
    EXPECT_EQ(withoutPitch(view->second), typeOf(view->first));
    EXPECT_EQ(storedBytesOf(view->second), storedBytesOf(*part));
    auto back = viewedAsPart(view->first, view->second);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->first, use.get());
    EXPECT_EQ(back->second, *part);
  }
  EXPECT_EQ(views, 1);
}

// Tests that a transpose is a view where the layouts say the same of each byte, of parts as well: three
// channels of twelve. The gaps of one channel of twelve are those of no dimension.
TEST_F(SharingTest, TransposeIsAViewWhereStridesAgree) {
  Operation *view = parse(R"(%x: tensor<2x3x4x5xf32, #stow.layout<"0,2,3,1">>)",
                          R"(%y = stow.transpose %x {permutation = array<i64: 0, 2, 3, 1>}
        : (tensor<2x3x4x5xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x4x5x3xf32>)",
                          "stow.transpose");
  ASSERT_TRUE(view);
  EXPECT_THAT(pairs(view, SharingKind::View), ElementsAre("0<0"));
  EXPECT_THAT(sharingsOf(view).front().permutation, ElementsAre(0, 2, 3, 1));
  auto x = typeOf(view->getOperand(0)), y = typeOf(view->getResult(0));
  auto same = viewOfPart(view->getOpOperand(0), x);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->second, y);
  auto inside = [](RankedTensorType type, int64_t dim) {
    Layout layout = layoutOf(type);
    layout.pitch = Layout::Pitch{dim, 12};
    return withLayout(type, layout);
  };
  auto part = viewOfPart(view->getOpOperand(0), inside(x, 1));
  ASSERT_TRUE(part);
  EXPECT_EQ(part->second, inside(y, 3));
  auto back = viewedAsPart(view->getResult(0), inside(y, 3));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->second, inside(x, 1));
  Operation *single = parse(R"(%x: tensor<2x1x4x5xf32, #stow.layout<"0,2,3,1">>)",
                            R"(%y = stow.transpose %x {permutation = array<i64: 0, 2, 3, 1>}
        : (tensor<2x1x4x5xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x4x5x1xf32>)",
                            "stow.transpose");
  ASSERT_TRUE(single);
  EXPECT_FALSE(viewOfPart(single->getOpOperand(0), inside(typeOf(single->getOperand(0)), 1)));
  Operation *copy = parse("%x: tensor<2x3xf32>",
                          "%y = stow.transpose %x {permutation = array<i64: 1, 0>}"
                          " : (tensor<2x3xf32>) -> tensor<3x2xf32>",
                          "stow.transpose");
  ASSERT_TRUE(copy);
  EXPECT_TRUE(sharingsOf(copy).empty());
  EXPECT_EQ(viewedOperand(copy), std::nullopt);
}

// Tests that the inputs of a concat are boxes of its result, in the result only where it is marked.
TEST_F(SharingTest, ConcatHasPartsOfItsResult) {
  Operation *op = parse("%a: tensor<4x2xf32>, %b: tensor<4x3xf32>",
                        "%y = stow.concat %a, %b {axis = 1 : i64}"
                        " : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>",
                        "stow.concat");
  ASSERT_TRUE(op);
  const Sharings parts = partsOf(op);
  EXPECT_THAT(pairs(op, SharingKind::PartOfResult), ElementsAre("0<0", "0<1"));
  EXPECT_THAT(parts[1].starts, ElementsAre(0, 2));
  EXPECT_EQ(parts[1].partIn(op), op->getOperand(1));
  EXPECT_EQ(parts[1].wholeIn(op), op->getResult(0));
  EXPECT_EQ(parts[1].offsetIn(op), 8);
  EXPECT_EQ(partOfResult(op->getOpOperand(1))->operand, 1u);
  EXPECT_FALSE(isTaken(op, parts[1]));
  takePart(op, parts[1]);
  EXPECT_FALSE(isTaken(op, parts[0]));
  EXPECT_TRUE(isTaken(op, parts[1]));
  // The result has storage of its own all the same; the input lies in it.
  EXPECT_FALSE(sharingOf(op->getResult(0)));
}

// Tests that the result of a slice is a box of its operand, and a view of it where it is marked.
TEST_F(SharingTest, SliceIsPartOfItsOperand) {
  Operation *op = parse("%x: tensor<4x5xf32>",
                        "%y = stow.slice %x {starts = array<i64: 1, 2>, sizes = array<i64: 3, 2>}"
                        " : (tensor<4x5xf32>) -> tensor<3x2xf32>",
                        "stow.slice");
  ASSERT_TRUE(op);
  EXPECT_THAT(pairs(op, SharingKind::PartOfOperand), ElementsAre("0<0"));
  const Sharing part = partsOf(op).front();
  EXPECT_THAT(part.starts, ElementsAre(1, 2));
  EXPECT_EQ(part.partIn(op), op->getResult(0));
  EXPECT_EQ(part.offsetIn(op), (1 * 5 + 2) * 4);
  EXPECT_EQ(viewedOperand(op), std::nullopt);
  EXPECT_FALSE(partOfResult(op->getOpOperand(0)));
  takePart(op, part);
  EXPECT_EQ(viewedOperand(op), 0u);
  ASSERT_TRUE(sharingOf(op->getResult(0)));
  EXPECT_EQ(sharingOf(op->getResult(0))->kind, SharingKind::PartOfOperand);
}

// Tests that an elementwise result may overwrite the operands of its type, and does where stow.in_place
// says so.
TEST_F(SharingTest, ElementwiseOpsOverwrite) {
  Operation *op =
      parse("%a: tensor<4x5xf32>, %b: tensor<5xf32>, %c: tensor<4x5xf32>",
            "%y = stow.add %a, %b : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>\n"
            "%z = stow.mul %b, %y : (tensor<5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>",
            "stow.mul");
  ASSERT_TRUE(op);
  EXPECT_THAT(pairs(op, SharingKind::Overwrite), ElementsAre("0<1"));
  EXPECT_FALSE(sharingOf(op->getResult(0)));
  op->setAttr(kInPlaceAttr, DenseI64ArrayAttr::get(&context, {0, 1}));
  ASSERT_TRUE(sharingOf(op->getResult(0)));
  EXPECT_EQ(sharingOf(op->getResult(0))->operand, 1u);
  EXPECT_FALSE(isUpdate(op->getOpOperand(1)));
}

// Tests that an update overwrites state in any case, and that a map does so for the results that it
// names and for no others.
TEST_F(SharingTest, UpdatesOverwriteState) {
  Operation *sgd = parse("%w: tensor<8xf32>, %g: tensor<8xf32>, %r: tensor<f32>, %v: tensor<8xf32>",
                         R"(%w1, %v1 = stow.sgd %w, %g, %r, %v {momentum = 0.9 : f64,
        nesterov = false, weight_decay = 0.0 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>)
        -> (tensor<8xf32>, tensor<8xf32>))",
                         "stow.sgd");
  ASSERT_TRUE(sgd);
  EXPECT_THAT(pairs(sgd, SharingKind::Update), ElementsAre("0<0", "1<3"));
  EXPECT_EQ(sharingOf(sgd->getResult(1))->operand, 3u);
  EXPECT_TRUE(isUpdate(sgd->getOpOperand(3)));
  EXPECT_FALSE(isUpdate(sgd->getOpOperand(1)));
  Operation *map = parse("%w: tensor<8xf32>, %g: tensor<8xf32>",
                         R"(%w1, %d = stow.map %w, %g {updates = array<i64: 0, 0>}
        : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      ^bb0(%a: f32, %b: f32):
        %0 = arith.subf %a, %b : f32
        stow.yield %0, %b : f32, f32
      })",
                         "stow.map");
  ASSERT_TRUE(map);
  EXPECT_THAT(pairs(map, SharingKind::Update), ElementsAre("0<0"));
  EXPECT_THAT(pairs(map, SharingKind::Overwrite), ElementsAre("1<0", "1<1"));
}

// Tests that ops without the interface, and those that list nothing, share nothing.
TEST_F(SharingTest, OthersShareNothing) {
  Operation *op = parse("%x: tensor<4x5xf32>",
                        "%y = stow.cast %x : (tensor<4x5xf32>) -> tensor<4x5xi32>", "stow.cast");
  ASSERT_TRUE(op);
  EXPECT_TRUE(sharingsOf(op).empty());
  EXPECT_TRUE(sharingsOf(op->getParentOp()).empty());
}

} // namespace
} // namespace stow
