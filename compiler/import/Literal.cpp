#include "compiler/import/Literal.h"

#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace stow::onnx {
namespace {

/// IEEE half and bfloat16 bit patterns to double.
double fromHalf(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                     : exponent == 31 ? (mantissa ? std::nan("") : HUGE_VAL)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

double fromBFloat16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <typename T> std::vector<T> copied(const std::string &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) // memcpy takes no null pointer, whatever the size
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <typename T, typename To> void widen(const std::string &bytes, std::vector<To> &to) {
  for (T value : copied<T>(bytes))
    to.push_back(static_cast<To>(value));
}

} // namespace

Literal Literal::vector(std::vector<int64_t> values) {
  Literal result;
  result.shape = {static_cast<int64_t>(values.size())};
  result.ints = std::move(values);
  return result;
}

double Literal::number(int64_t i) const {
  return isFloat()                     ? floats[i]
         : type == ElementType::UInt64 ? static_cast<double>(static_cast<uint64_t>(ints[i]))
                                       : static_cast<double>(ints[i]);
}

/// Rounded to `bits` of precision, the least exponent of a normal number being `least`.
static double roundedTo(double value, int bits, int least, double largest) {
  if (value == 0 || !std::isfinite(value))
    return value;
  const int place = std::max(std::ilogb(value), least) - (bits - 1);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -place)), place);
  return std::abs(result) > largest ? std::copysign(HUGE_VAL, value) : result;
}

double rounded(double value, ElementType type) {
  switch (type) {
  case ElementType::Float:
    return static_cast<float>(value);
  case ElementType::Float16:
    return roundedTo(value, 11, -14, 65504);
  case ElementType::BFloat16:
    return roundedTo(value, 8, -126, 0x1.FEp127);
  default:
    return value;
  }
}

double rounded(int64_t value, ElementType type) {
  if (type == ElementType::Double)
    return static_cast<double>(value);
  return rounded(static_cast<double>(static_cast<float>(value)), type);
}

int64_t wrapped(uint64_t value, ElementType type) {
  switch (type) {
  case ElementType::Bool:
    return value != 0;
  case ElementType::Int8:
    return static_cast<int8_t>(value);
  case ElementType::UInt8:
    return static_cast<uint8_t>(value);
  case ElementType::Int16:
    return static_cast<int16_t>(value);
  case ElementType::UInt16:
    return static_cast<uint16_t>(value);
  case ElementType::Int32:
    return static_cast<int32_t>(value);
  case ElementType::UInt32:
    return static_cast<uint32_t>(value);
  default:
    return static_cast<int64_t>(value);
  }
}

int64_t truncated(double value, ElementType type) {
  if (type == ElementType::Bool)
    return value != 0;
  if (type == ElementType::UInt64 && value >= 9223372036854775808.0 &&
      value < 18446744073709551616.0)
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  const bool isLong =
      type == ElementType::Int64 || type == ElementType::UInt64 || type == ElementType::UInt32;
  const double limit = isLong ? 9223372036854775808.0 : 2147483648.0;
  const int64_t least =
      isLong ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
  const double whole = std::trunc(value);
  return wrapped(whole >= -limit && whole < limit ? static_cast<int64_t>(whole) : least, type);
}

Literal castLiteral(const Literal &x, ElementType to) {
  Literal y{to, x.shape, {}, {}};
  if (!byteWidthOf(to))
    throw Error::badInput("casts a constant to " + nameOf(to));
  for (int64_t i = 0; i < x.size(); ++i) {
    if (!y.isFloat())
      y.ints.push_back(x.isFloat() ? truncated(x.floats[i], to) : wrapped(x.ints[i], to));
    else if (x.isFloat() || x.type == ElementType::UInt64)
      y.floats.push_back(rounded(x.number(i), to));
    else
      y.floats.push_back(rounded(x.ints[i], to));
  }
  return y;
}

std::optional<Literal> literalOf(const Tensor &tensor) {
  std::optional<int64_t> count = checkedElementCount(tensor.shape);
  std::optional<int64_t> width = byteWidthOf(tensor.type);
  if (!count || !width || *count > kLiteralLimit || !tensor.bytes ||
      static_cast<int64_t>(tensor.bytes->size()) != *count * *width)
    return std::nullopt;
  Literal result;
  result.type = tensor.type;
  result.shape = tensor.shape;
  const std::string &bytes = *tensor.bytes;
  switch (tensor.type) {
  case ElementType::Float:
    widen<float>(bytes, result.floats);
    break;
  case ElementType::Double:
    widen<double>(bytes, result.floats);
    break;
  case ElementType::Float16:
    for (uint16_t bits : copied<uint16_t>(bytes))
      result.floats.push_back(fromHalf(bits));
    break;
  case ElementType::BFloat16:
    for (uint16_t bits : copied<uint16_t>(bytes))
      result.floats.push_back(fromBFloat16(bits));
    break;
  case ElementType::Int64:
  case ElementType::UInt64:
    widen<int64_t>(bytes, result.ints);
    break;
  case ElementType::Int32:
    widen<int32_t>(bytes, result.ints);
    break;
  case ElementType::UInt32:
    widen<uint32_t>(bytes, result.ints);
    break;
  case ElementType::Int16:
    widen<int16_t>(bytes, result.ints);
    break;
  case ElementType::UInt16:
    widen<uint16_t>(bytes, result.ints);
    break;
  case ElementType::Int8:
    widen<int8_t>(bytes, result.ints);
    break;
  default:
    widen<uint8_t>(bytes, result.ints);
    break;
  }
  return result;
}

int64_t normalizedAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    throw Error::badInput(absl::StrCat("axis ", axis, " lies outside rank ", rank));
  return axis < 0 ? axis + rank : axis;
}

std::optional<std::vector<int64_t>> axesOf(const Node &node, const char *attribute,
                                           const Literal *input) {
  if (input) {
    if (input->isFloat())
      throw Error::badInput(std::string("expects integers as ") + attribute);
    return input->ints;
  }
  auto found = node.attributes.find(attribute);
  if (found == node.attributes.end() || found->second.kind != NodeAttribute::Kind::Ints)
    return std::nullopt;
  return found->second.ints;
}

Shape reshapedShape(const Shape &input, const std::vector<int64_t> &target, bool allowZero) {
  Shape result = target;
  std::optional<size_t> inferred;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == -1) {
      if (inferred)
        throw Error::badInput("reshapes to a shape with two inferred dimensions");
      inferred = i;
      result[i] = 1;
    } else if (result[i] == 0 && !allowZero) {
      if (i >= input.size())
        throw Error::badInput(
            absl::StrCat("copies dimension ", i, " of a tensor of rank ", input.size()));
      result[i] = input[i];
    }
  }
  std::optional<int64_t> from = checkedElementCount(input), to = checkedElementCount(result);
  bool fits = from && to;
  if (fits && inferred) {
    fits = *to > 0 && *from % *to == 0;
    if (fits)
      result[*inferred] = *from / *to;
  } else if (fits) {
    fits = *from == *to;
  }
  if (!fits) {
    std::string text = "cannot reshape [";
    for (int64_t dim : input)
      absl::StrAppend(&text, dim, " ");
    text += "] to [";
    for (int64_t dim : target)
      absl::StrAppend(&text, dim, " ");
    throw Error::badInput(text + "]: the element counts differ");
  }
  return result;
}

Shape unsqueezedShape(const Shape &input, const std::vector<int64_t> &axes) {
  int64_t rank = static_cast<int64_t>(input.size() + axes.size());
  std::vector<bool> added(rank, false);
  for (int64_t axis : axes) {
    int64_t at = normalizedAxis(axis, rank);
    if (added[at])
      throw Error::badInput(absl::StrCat("adds dimension ", axis, " twice"));
    added[at] = true;
  }
  Shape result;
  size_t next = 0;
  for (bool isNew : added)
    result.push_back(isNew ? 1 : input[next++]);
  return result;
}

Shape squeezedShape(const Shape &input, const std::optional<std::vector<int64_t>> &axes) {
  int64_t rank = static_cast<int64_t>(input.size());
  std::vector<bool> dropped(rank, false);
  for (int64_t dim = 0; !axes && dim < rank; ++dim)
    dropped[dim] = input[dim] == 1;
  for (int64_t axis : axes.value_or(std::vector<int64_t>{})) {
    int64_t at = normalizedAxis(axis, rank);
    if (input[at] != 1)
      throw Error::badInput(absl::StrCat("drops dimension ", axis, " of extent ", input[at],
                                         "; only extent 1 can be dropped"));
    dropped[at] = true;
  }
  Shape result;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!dropped[dim])
      result.push_back(input[dim]);
  return result;
}

Shape flattenedShape(const Shape &input, int64_t axis) {
  int64_t rank = static_cast<int64_t>(input.size());
  int64_t at = axis == rank ? rank : normalizedAxis(axis, rank);
  return {elementCount(Shape(input.begin(), input.begin() + at)),
          elementCount(Shape(input.begin() + at, input.end()))};
}

void checkPermutation(const std::vector<int64_t> &order, int64_t rank) {
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      throw Error::badInput("transposes by something that is no permutation");
  if (static_cast<int64_t>(order.size()) != rank)
    throw Error::badInput(absl::StrCat("permutes ", order.size(), " dimensions of rank ", rank));
}

SliceRange sliceRange(int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (step == 0 || step == std::numeric_limits<int64_t>::min())
    throw Error::badInput(absl::StrCat("slices with step ", step));
  auto clamp = [&](int64_t position, int64_t low, int64_t high) {
    if (position < 0)
      position += extent;
    return std::clamp(position, low, high);
  };
  SliceRange range{0, 0, step};
  if (step > 0) {
    range.start = clamp(start, 0, extent);
    int64_t span = clamp(end, 0, extent) - range.start;
    range.count = span <= 0 ? 0 : (span - 1) / step + 1;
  } else {
    range.start = clamp(start, -1, extent - 1);
    int64_t span = range.start - clamp(end, -1, extent - 1);
    range.count = span <= 0 ? 0 : (span - 1) / -step + 1;
  }
  return range;
}

} // namespace stow::onnx
