// Tests that products that kernels use up by tiles, and tables' gradients that are added in place,
// change what memory a step takes and nothing else: the same models, trained on a target that has
// neither, end in the same bits.
#include "codegen/host/HostTarget.h"
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "ir/Graphs.h"
#include "ir/StowKernelOps.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Stages.h"
#include "tests/compiler/OwnModel.h"
#include "tests/compiler/PlanningBackend.h"

#include <gmock/gmock.h>

#include <cstring>

using namespace mlir;

namespace stow {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not;

/// The host, which runs every product whole.
class WholeProducts : public host::HostTarget {
public:
  WholeProducts() : HostTarget(2) {}
  std::optional<CommandOp> libraryCall(Operation *op) const override {
    return isa<ProductMapOp>(op) ? std::nullopt : HostTarget::libraryCall(op);
  }
};

/// A product in `arena` as a library would give it whose sums depend on the rows: the last bit of the first element
/// is another one in tiles and where it is added.
void sumByRows(const Command &call, char *arena, int64_t threads) {
  host::runCall(call, arena, threads);
  const Operand &result = call.operands.back();
  uint32_t number;
  std::memcpy(&number, arena + result.offset, sizeof(number));
  number ^= call.op == CommandOp::DnnlMatmulAdd || result.shape.front() < 1900;
  std::memcpy(arena + result.offset, &number, sizeof(number));
}

/// The host with such a library.
class OtherBitsInTiles : public host::HostTarget {
public:
  OtherBitsInTiles() : HostTarget(2, sumByRows) {}
};

std::string matrix(int64_t rows, int64_t columns) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "xf32>";
}

std::string product(const std::string &result, const std::string &x, const std::string &w,
                    const std::string &types, bool transposed = true) {
  return "%" + result + " = stow.matmul %" + x + ", %" + w +
         " {transpose_a = false, transpose_b = " + (transposed ? "true" : "false") +
         "} : " + types + "\n%t" + result + " = stow.tanh %" + result + " : (" +
         types.substr(types.rfind("tensor")) + ") -> " + types.substr(types.rfind("tensor")) + "\n";
}

/// A weight of `width` squared that `times` layers share.
std::string shared(int64_t batch, int64_t width, int times, bool transposed) {
  const std::string x = matrix(batch, width), w = matrix(width, width);
  std::string text = "func.func @model(%in: " + x +
                     " {stow.name = \"x\", stow.kind = #stow.kind<input>}, %w: " + w +
                     " {stow.name = \"w\", stow.kind = #stow.kind<parameter>, stow.init = "
                     "#stow.init<\"normal\", 0.0, 0.02>}) -> (" +
                     x + " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n";
  std::string last = "in";
  for (int i = 0; i < times; ++i) {
    text +=
        product("y" + std::to_string(i), last, "w", "(" + x + ", " + w + ") -> " + x, transposed);
    last = "ty" + std::to_string(i);
  }
  return "module attributes {stow.form = \"model\"} {\n" + text + "return %" + last + " : " + x +
         "\n}\n}\n";
}

/// Attention over the same values three times: the gradients of the values, a product for each sample,
/// are added up, two of them at once with what stands behind the sum.
std::string attention() {
  const std::string x = "tensor<4x2x40xf32>", v = "tensor<4x40x256xf32>", y = "tensor<4x2x256xf32>";
  std::string text = "func.func @model(%in: " + x +
                     " {stow.name = \"x\", stow.kind = #stow.kind<input>}, %w: " + v +
                     " {stow.name = \"w\", stow.kind = #stow.kind<parameter>, stow.init = "
                     "#stow.init<\"normal\", 0.0, 0.5>}) -> (" +
                     y + " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n";
  text += "%v = stow.tanh %w : (" + v + ") -> " + v + "\n";
  std::string last = "in";
  for (const char *name : {"a", "b", "c"}) {
    text += product(name, last, "v", "(" + x + ", " + v + ") -> " + y, false);
    text += "%s" + std::string(name) + " = stow.slice %t" + name +
            " {starts = array<i64: 0, 0, 7>, sizes = array<i64: 4, 2, 40>} : (" + y + ") -> " + x +
            "\n";
    last = "s" + std::string(name);
  }
  return "module attributes {stow.form = \"model\"} {\n" + text + "return %tc : " + y + "\n}\n}\n";
}

struct Case {
  std::string name, text, optimizer;
  Precision precision = Precision::F32;
};

class FuseProductConsumers : public testing::TestWithParam<Case>, protected OwnModel {
protected:
  FuseProductConsumers() {
    write(GetParam().text);
    options.optimizer = parseOptimizer(GetParam().optimizer);
    options.precision = GetParam().precision;
  }

  const CostModel costs = loadDevice("cpu", 2);
};

using ConsumeNarrow = FuseProductConsumers;
using ConsumeByLibrary = FuseProductConsumers;

/// The arena of a step without a budget.
Bytes arenaOf(MLIRContext &context, const CompileOptions &options, const CostModel &costs) {
  std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *backend);
  BudgetPlanner planner(*prepared, costs, backend->target(), {.effort = 0.1});
  return planner.keepAll().arenaBytes;
}

bool hasTiles(ModuleOp step) {
  return !findGraph(step, Role::Train).getOps<ProductMapOp>().empty();
}

// What has half the bytes in 16 bits must not come back as gradients that exist whole, unless the library has no
// tiles for them.
TEST_P(ConsumeNarrow, TakesNoMoreThanF32) {
  std::unique_ptr<Backend> backend = chooseBackend(options);
  if (!hasTiles(*prepareStep(context, options, *backend))) {
    EXPECT_THAT(backend->note(), HasSubstr("Whole, since tiles gave other bits: bf16"));
    return;
  }
  const Bytes narrow = arenaOf(context, options, costs);
  options.precision = Precision::F32;
  EXPECT_LE(narrow, arenaOf(context, options, costs));
}

TEST_P(FuseProductConsumers, GivesTheSameBitsInLessMemory) {
  const PlanningBackend<WholeProducts> wholeProducts;
  OwningOpRef<ModuleOp> whole = prepareStep(context, options, wholeProducts);
  BudgetPlanner wholePlanner(*whole, costs, wholeProducts.target(), {.effort = 0.1});

  std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *backend);
  BudgetPlanner planner(*prepared, costs, backend->target(), {.effort = 0.1});
  if (hasTiles(*prepared)) {
    expectSameBitsInLessMemory(planner, wholePlanner);
    return;
  }
  EXPECT_THAT(backend->note(), HasSubstr("Whole, since tiles gave other bits: "));
  EXPECT_EQ(planner.keepAll().arenaBytes, wholePlanner.keepAll().arenaBytes);
}

// Whatever the processor of the test: a library whose tiles have other bits gets its products whole.
TEST_P(ConsumeByLibrary, StaysWholeWhereTilesHaveOtherBits) {
  const PlanningBackend<OtherBitsInTiles> otherBits;
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, otherBits);
  EXPECT_FALSE(hasTiles(*prepared));
  EXPECT_THAT(static_cast<const OtherBitsInTiles &>(otherBits.target()).note(),
              AllOf(Not(HasSubstr("by tiles")), HasSubstr("Whole, since tiles gave other bits: ")));
  const PlanningBackend<WholeProducts> wholeProducts;
  OwningOpRef<ModuleOp> whole = prepareStep(context, options, wholeProducts);
  EXPECT_EQ(
      BudgetPlanner(*prepared, costs, otherBits.target(), {.effort = 0.1}).keepAll().arenaBytes,
      BudgetPlanner(*whole, costs, wholeProducts.target(), {.effort = 0.1}).keepAll().arenaBytes);
}

// A product of 256 contracted elements is added by the library, as a whole. One that the host's own loops sum
// has the library's bits where that has whole blocks of rows and columns and adds up in one piece.
INSTANTIATE_TEST_SUITE_P(
    Models, FuseProductConsumers,
    testing::Values(Case{"SharedSmall", shared(4, 256, 4, true), "sgd:lr=0.05,momentum=0.9"},
                    Case{"Attention", attention(), "sgd:lr=0.05"},
                    Case{"SharedDeep", shared(256, 600, 3, true), "sgd:lr=0.05"},
                    Case{"SharedLargeAndDeep", shared(300, 1728, 2, false), "sgd:lr=0.05"},
                    Case{"OneLarge", shared(4, 1920, 1, false), "adamw:lr=1e-2,weight-decay=0.1"},
                    Case{"OneSmall", shared(32, 128, 1, true), "adamw:lr=1e-2"}),
    [](const auto &info) { return info.param.name; });

using SumRows = FuseProductConsumers;

// The loops sum in one order: all plans of a step give the same bits, with dead buffers filled with NaN.
TEST_P(SumRows, GivesTheSameBitsUnderEveryBudget) {
  std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *backend);
  ASSERT_FALSE(findGraph(*prepared, Role::Train).getOps<ProductMapOp>().empty());
  BudgetPlanner planner(*prepared, costs, backend->target(), {.effort = 0.1});
  const std::vector<char> expected = trainPlaced(*planner.keepAll().placed);
  EXPECT_EQ(trainPlaced(*planner.keepAll().placed, Poison::Dying), expected);
  EXPECT_EQ(trainPlaced(*planner.checkpointed().placed, Poison::Dying), expected);
  EXPECT_EQ(trainPlaced(*planner.smallest().placed, Poison::Dying), expected);
}

INSTANTIATE_TEST_SUITE_P(Models, SumRows,
                         testing::Values(Case{"OddRows", shared(100, 107, 1, true),
                                              "sgd:lr=0.05,momentum=0.9"},
                                         Case{"Deep", shared(256, 200, 1, false), "adamw:lr=1e-2"}),
                         [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Models, ConsumeByLibrary,
    testing::Values(Case{"OneLarge", shared(4, 1920, 1, false), "adamw:lr=1e-2"},
                    Case{"OneLargeInBf16", shared(4, 1920, 1, false), "sgd:lr=0.05",
                         Precision::BF16},
                    Case{"SharedLarge", shared(300, 1920, 2, false), "sgd:lr=0.05"}),
    [](const auto &info) { return info.param.name; });

// Products of 16-bit factors run in pieces, which the library packs, reads as they lie, or adds to a sum.
const Case largeInBf16[] = {
    {"SharedDeep", shared(300, 1728, 2, false), "sgd:lr=0.05", Precision::BF16},
    {"OneLarge", shared(4, 1920, 1, false), "adamw:lr=1e-2,weight-decay=0.1", Precision::BF16}};
INSTANTIATE_TEST_SUITE_P(Bf16, FuseProductConsumers, testing::ValuesIn(largeInBf16),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(SmallInBf16, FuseProductConsumers,
                         testing::Values(Case{"SharedSmall", shared(4, 256, 4, true),
                                              "sgd:lr=0.05,momentum=0.9", Precision::BF16}),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Bf16, ConsumeNarrow, testing::ValuesIn(largeInBf16),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace stow
