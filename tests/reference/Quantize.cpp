#include "runtime/base/Quantization.h"
#include "tests/reference/Rules.h"

using namespace mlir;

namespace stow::reference {
namespace {

std::vector<uint8_t> bytesOf(const Tensor &tensor) {
  std::vector<uint8_t> bytes;
  for (double byte : tensor.values)
    bytes.push_back(static_cast<uint8_t>(static_cast<int64_t>(byte)));
  return bytes;
}

std::vector<Tensor> dequantizeBytes(Operation *op, std::span<const Tensor> operands) {
  const std::vector<uint8_t> stored = bytesOf(operands[0]);
  Tensor y(shapeOf(op->getResult(0)));
  std::vector<float> values(y.size());
  dequantize(*quantizationNamed(op->getAttrOfType<StringAttr>("scheme").getValue()),
             reinterpret_cast<const char *>(stored.data()), values);
  y.values.assign(values.begin(), values.end());
  return {y};
}

std::vector<Tensor> multiplyCodes(Operation *op, std::span<const Tensor> operands) {
  const std::vector<uint8_t> stored = bytesOf(operands[1]);
  Tensor y(shapeOf(op->getResult(0)));
  const int64_t depth = shapeOf(op->getOperand(0)).back(),
                columns = shapeOf(op->getResult(0)).back();
  std::vector<float> numbers(static_cast<size_t>(depth * columns));
  dequantize(*quantizationNamed(op->getAttrOfType<StringAttr>("scheme").getValue()),
             reinterpret_cast<const char *>(stored.data()), numbers);
  const bool isTransposed = op->getAttrOfType<BoolAttr>("transpose_b").getValue();
  for (size_t i = 0; i < y.values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / columns,
                  column = static_cast<int64_t>(i) % columns;
    for (int64_t k = 0; k < depth; ++k)
      y.values[i] += operands[0].values[row * depth + k] *
                     numbers[isTransposed ? column * depth + k : k * columns + column];
  }
  return {y};
}

const StateLevels &levelsOf(Operation *op) { return StateLevels::of(op->hasAttr("nonnegative")); }

std::vector<Tensor> dequantizeCodes(Operation *op, std::span<const Tensor> operands) {
  const std::vector<uint8_t> codes = bytesOf(operands[0]);
  const std::vector<float> scales(operands[1].values.begin(), operands[1].values.end());
  std::vector<float> values(codes.size());
  dequantizeState(levelsOf(op), codes.data(), scales.data(), values);
  Tensor y(shapeOf(op->getResult(0)));
  y.values.assign(values.begin(), values.end());
  return {y};
}

std::vector<Tensor> quantizeNumbers(Operation *op, std::span<const Tensor> operands) {
  const std::vector<float> values(operands[0].values.begin(), operands[0].values.end());
  std::vector<uint8_t> bytes(values.size());
  std::vector<float> sizes(values.size() / kStateBlock);
  quantizeState(levelsOf(op), values, bytes.data(), sizes.data());
  Tensor codes(shapeOf(op->getResult(0))), scales(shapeOf(op->getResult(1)));
  codes.values.assign(bytes.begin(), bytes.end());
  scales.values.assign(sizes.begin(), sizes.end());
  return {codes, scales};
}

} // namespace

void addQuantizeRules(Rules &rules) {
  rules["stow.dequantize"] = dequantizeBytes;
  rules["stow.coded_matmul"] = multiplyCodes;
  rules["stow.dequantize_state"] = dequantizeCodes;
  rules["stow.quantize_state"] = quantizeNumbers;
}

} // namespace stow::reference
