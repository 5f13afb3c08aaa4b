#include "runtime/base/Quantization.h"
#include "tests/reference/Rules.h"

using namespace mlir;

namespace stow::reference {
namespace {

std::vector<Tensor> dequantizeBytes(Operation *op, std::span<const Tensor> operands) {
  std::vector<char> stored;
  for (double byte : operands[0].values)
    stored.push_back(static_cast<char>(static_cast<int64_t>(byte)));
  Tensor y(shapeOf(op->getResult(0)));
  std::vector<float> values(y.size());
  dequantize(*quantizationNamed(op->getAttrOfType<StringAttr>("scheme").getValue()), stored.data(),
             values);
  y.values.assign(values.begin(), values.end());
  return {y};
}

} // namespace

void addQuantizeRules(Rules &rules) { rules["stow.dequantize"] = dequantizeBytes; }

} // namespace stow::reference
