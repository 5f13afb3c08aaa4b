// Weights that arrive as whole numbers with scales: they stay whole numbers of 4 or 8 bits in memory, and become floats where they are
// read.
//
//   DequantizeLinear(codes, scale, zero)  ==>  (cast(codes) - zero) * scale
//
// Numbers of 16 neighbouring values lie two in a byte: byte i of the first half of the rows has row r below and row r + rows/2 above.
#include "compiler/import/GraphImport.h"
#include "ir/StowBitwiseOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/IR/DialectResourceBlobManager.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow::onnx {
namespace {

bool isStored(const Slot &slot) {
  return slot.tensor &&
         (slot.origin == Slot::Origin::Initializer || slot.origin == Slot::Origin::ConstantNode);
}

bool isOfEightBits(ElementType type) {
  return type == ElementType::Int8 || type == ElementType::UInt8;
}

int numberAt(const Tensor &tensor, size_t i) {
  const char byte = (*tensor.bytes)[i];
  return tensor.type == ElementType::UInt8 ? static_cast<uint8_t>(byte) : static_cast<int8_t>(byte);
}

/// One DequantizeLinear of stored numbers.
class Dequantized {
public:
  explicit Dequantized(NodeImport &node) : node(node), x(node.slot(0)) {
    const Slot &scale = node.slot(1);
    if (!isStored(x) || !isStored(scale) || (node.has(2) && !isStored(node.slot(2))))
      throw Error::badInput("dequantizes what the model computes; expected stored numbers with "
                            "stored scales: export the model with quantized weights alone");
    if (!isOfEightBits(x.type) && x.type != ElementType::Int32)
      throw Error::badInput(absl::StrCat("dequantizes element type ", nameOf(x.type),
                                         "; expected int4, uint4, int8, uint8 or int32"));
    shape = x.shape;
    findScaleShape();
  }

  Value build() {
    Value numbers = isOfEightBits(x.type) ? eightBits() : whole(node.value(0));
    return node.reshape(scaled(numbers, 0, 1), x.shape);
  }

private:
  /// The shape with an axis for the blocks of a scale, and that of the scales, which broadcasts to it.
  void findScaleShape() {
    const Shape &given = node.shape(1);
    const auto rank = static_cast<int64_t>(shape.size());
    scaleShape.assign(shape.size(), 1);
    if (elementCount(given) == 1)
      return;
    const int64_t axis = normalizedAxis(node.integer("axis", 1), rank);
    const int64_t block = node.integer("block_size", 0);
    const auto wrong = [&] {
      return Error::badInput(absl::StrCat("has scales of ", textOf(given), " for ", textOf(x.shape),
                                          " along axis ", axis, block ? " in blocks of " : "",
                                          block ? std::to_string(block) : ""));
    };
    if (given.size() == 1 && given[0] == shape[axis] && (block == 0 || shape.size() > 1)) {
      scaleShape[axis] = shape[axis];
      return;
    }
    Shape blocks = shape;
    if (block < 1 || shape[axis] % block != 0)
      throw wrong();
    blocks[axis] /= block;
    if (given != blocks)
      throw wrong();
    shape[axis] = blocks[axis];
    shape.insert(shape.begin() + axis + 1, block);
    scaleShape = blocks;
    scaleShape.insert(scaleShape.begin() + axis + 1, 1);
  }

  Value whole(Value numbers) { return node.cast(numbers, node.builder().getF32Type()); }

  Value eightBits() {
    const size_t count = x.tensor->bytes->size();
    int least = INT_MAX, greatest = INT_MIN;
    for (size_t i = 0; i < count; ++i) {
      least = std::min(least, numberAt(*x.tensor, i));
      greatest = std::max(greatest, numberAt(*x.tensor, i));
    }
    constexpr int mostHalf = 15;
    if (count > 0 && greatest - least <= mostHalf && !shape.empty() && shape[0] % 2 == 0)
      return inHalves(least);
    // stow.cast reads bytes as numbers without a sign.
    offset = x.type == ElementType::UInt8 ? 0 : -128;
    auto bytes = std::make_shared<std::string>(count, '\0');
    for (size_t i = 0; i < count; ++i)
      (*bytes)[i] = static_cast<char>(numberAt(*x.tensor, i) - offset);
    return whole(stored(bytes, shape));
  }

  /// Two numbers in a byte, counted from the least: rows of the first half below, of the second above.
  Value inHalves(int least) {
    const size_t half = x.tensor->bytes->size() / 2;
    auto bytes = std::make_shared<std::string>(half, '\0');
    for (size_t i = 0; i < half; ++i)
      (*bytes)[i] = static_cast<char>((numberAt(*x.tensor, i) - least) |
                                      (numberAt(*x.tensor, i + half) - least) << 4);
    offset = least;
    Shape rows = shape;
    rows[0] /= 2;
    Value packed = node.cast(stored(bytes, rows), node.builder().getI32Type());
    SmallVector<Value> halves;
    for (int64_t part : {0, 1}) {
      Value bits = part == 0 ? packed : bitwise(packed, 4, "shift_right");
      halves.push_back(scaled(whole(bitwise(bits, mostHalfMask, "and")), part, 2));
    }
    isScaled = true;
    return node.emit<ConcatOp>(halves, [&](ConcatOp::Properties &p) { p.axis = node.i64(0); });
  }

  Value bitwise(Value a, int64_t b, const char *kind) {
    return node.emit<BitwiseOp>(
        {a, node.scalar(static_cast<double>(b), a)},
        [&](BitwiseOp::Properties &p) { p.kind = node.builder().getStringAttr(kind); });
  }

  Value stored(const std::shared_ptr<std::string> &bytes, const Shape &of) {
    auto type = RankedTensorType::get(of, node.builder().getI8Type());
    const ArrayRef<char> raw(bytes->data(), bytes->size());
    ElementsAttr elements;
    constexpr size_t shared = 4096; // bytes from which on they are shared instead of being uniqued
    if (raw.size() < shared)
      elements = DenseElementsAttr::getFromRawBuffer(type, raw);
    else
      elements = DenseResourceElementsAttr::get(
          type, x.name,
          AsmResourceBlob(
              raw, 1, [keep = bytes](void *, size_t, size_t) {}, /*dataIsMutable=*/false));
    auto constant = ConstantOp::create(node.builder(), node.place(), elements);
    constant->setAttr(kNameAttr, node.builder().getStringAttr(x.name));
    return constant;
  }

  /// Part `part` of `parts` of the numbers, less their zeros, times their scales.
  Value scaled(Value numbers, int64_t part, int64_t parts) {
    if (isScaled)
      return numbers;
    auto rows = [&](Value values) {
      values = node.reshape(values, scaleShape);
      if (parts == 1 || scaleShape.empty() || scaleShape[0] == 1)
        return values;
      Shape starts(scaleShape.size(), 0), sizes = scaleShape;
      sizes[0] /= parts;
      starts[0] = part * sizes[0];
      return node.slice(values, starts, sizes);
    };
    if (const Literal literal = zeros(); llvm::all_equal(literal.floats)) {
      if (const double zero = literal.floats.empty() ? 0 : literal.floats.front(); zero != 0)
        numbers = node.emit<SubOp>({numbers, node.scalar(zero, numbers)});
    } else {
      numbers =
          node.emit<SubOp>({numbers, rows(node.tensor(literal, node.builder().getF32Type()))});
    }
    const Type to = elementOf(node.value(1));
    Value product =
        node.emit<MulOp>({numbers, rows(node.cast(node.value(1), node.builder().getF32Type()))});
    return node.cast(product, to);
  }

  /// Zeros less what the stored numbers are counted from.
  Literal zeros() {
    Literal literal{ElementType::Float, node.shape(1), {}, {}};
    if (!node.has(2)) {
      literal.floats.assign(static_cast<size_t>(elementCount(literal.shape)), -offset);
    } else {
      const Tensor &tensor = *node.slot(2).tensor;
      const bool isOne = elementCount(tensor.shape) == 1 && elementCount(literal.shape) == 1;
      if (tensor.type != x.type || (!isOne && tensor.shape != literal.shape))
        throw Error::badInput(absl::StrCat("has zeros of ", nameOf(tensor.type), " ",
                                           textOf(tensor.shape), "; expected ", nameOf(x.type), " ",
                                           textOf(literal.shape), " as its scales"));
      if (tensor.type == ElementType::Int32)
        throw Error::badInput("has zeros for numbers of 32 bits, which have none");
      for (size_t i = 0; i < tensor.bytes->size(); ++i)
        literal.floats.push_back(numberAt(tensor, i) - offset);
    }
    return literal;
  }

  static constexpr int64_t mostHalfMask = 15;
  NodeImport &node;
  const Slot &x;
  Shape shape, scaleShape;
  int offset = 0; ///< what a stored 0 stands for
  bool isScaled = false;
};

void convertDequantizeLinear(NodeImport &node) { node.bind(0, Dequantized(node).build()); }

} // namespace

void addQuantizedRules(RuleTable &table) {
  table["DequantizeLinear"] = {convertDequantizeLinear, 2, 3};
  takeWeights(table, {OpWeights::Kind::Settings}, {"DequantizeLinear"});
}

} // namespace stow::onnx
