#include "runtime/program/QuantizedState.h"

namespace stow {

std::vector<char> quantizedBytes(const QuantizedTensor &tensor, const ElementType &type,
                                 const char *elements) {
  const int64_t count = elementCount(tensor.shape);
  std::vector<float> values(static_cast<size_t>(count));
  convertElements(type, elements, DType::F32, reinterpret_cast<char *>(values.data()), count);
  std::vector<char> stored(static_cast<size_t>(partsOf(tensor.scheme, count).size));
  quantize(tensor.scheme, values, stored.data());
  return stored;
}

bool isNumbersOf(const StateTensor &tensor, const ElementType &type, const Shape &shape) {
  return tensor.quantized && shape == tensor.quantized->shape && isConvertible(type, DType::F32);
}

} // namespace stow
