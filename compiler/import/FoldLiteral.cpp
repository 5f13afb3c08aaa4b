// Folding of ops on small known tensors: arithmetic, logic and shapes.
#include "compiler/import/Fold.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace stow::onnx {

int64_t limitedCount(const Shape &shape) {
  std::optional<int64_t> count = checkedElementCount(shape);
  if (!count || *count > kLiteralLimit)
    throw TooManyElements(
        ErrorKind::BadInput,
        absl::StrCat("a constant that the file computes has ", textOf(shape),
                     " elements; expected at most ", kLiteralLimit,
                     ": give a smaller batch with --batch=N, or store it as an initializer"));
  return *count;
}

Literal gathered(const Literal &x, Shape shape, const std::function<int64_t(int64_t)> &source) {
  Literal y{x.type, std::move(shape), {}, {}};
  int64_t count = limitedCount(y.shape);
  x.isFloat() ? y.floats.reserve(count) : y.ints.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = source(i);
    if (x.isFloat())
      y.floats.push_back(from < 0 ? 0 : x.floats[from]);
    else
      y.ints.push_back(from < 0 ? 0 : x.ints[from]);
  }
  return y;
}

Shape broadcast(const Shape &a, const Shape &b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t m = i < a.size() ? a[a.size() - 1 - i] : 1, n = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (m != n && m != 1 && n != 1)
      throw Error::badInput("constant shapes do not broadcast");
    shape[shape.size() - 1 - i] = m == 1 ? n : m;
  }
  return shape;
}

namespace {

/// From one element of `x`, broadcast to `shape`, to the next of each dimension: 0 where it is repeated.
Shape stridesIn(const Literal &x, const Shape &shape) {
  Shape strides(shape.size(), 0);
  for (size_t d = x.shape.size(), stride = 1, lead = shape.size() - d; d-- > 0;
       stride *= x.shape[d])
    strides[lead + d] = x.shape[d] == 1 ? 0 : stride;
  return strides;
}

/// The elements of a tensor of `shape`, of which `strides` are 0 where it is broadcast, from dimension `d` on.
template <typename T>
void expand(const T *from, const Shape &shape, const Shape &strides, size_t d, std::vector<T> &to) {
  if (d == shape.size()) {
    to.push_back(*from);
  } else if (d + 1 == shape.size() && strides[d] == 1) {
    to.insert(to.end(), from, from + shape[d]);
  } else if (d + 1 == shape.size()) {
    to.insert(to.end(), shape[d], *from);
  } else {
    for (int64_t i = 0; i < shape[d]; ++i)
      expand(from + i * strides[d], shape, strides, d + 1, to);
  }
}

} // namespace

Literal expanded(const Literal &x, const Shape &shape) {
  if (x.shape == shape)
    return x;
  Literal y{x.type, shape, {}, {}};
  const int64_t count = limitedCount(shape);
  if (count == 0)
    return y;
  const Shape strides = stridesIn(x, shape);
  if (x.isFloat()) {
    y.floats.reserve(count);
    expand(x.floats.data(), shape, strides, 0, y.floats);
  } else {
    y.ints.reserve(count);
    expand(x.ints.data(), shape, strides, 0, y.ints);
  }
  return y;
}

namespace {

using Inputs = std::vector<const Literal *>;
using Site = FoldSite;

int64_t rankOf(const Literal &x) { return static_cast<int64_t>(x.shape.size()); }

/// a to the power b, modulo 2^64; of a negative b the quotient 1 / a^-b, without its fraction.
uint64_t integerPower(int64_t a, int64_t b) {
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, power = static_cast<uint64_t>(a);
  for (; b; b >>= 1, power *= power)
    if (b & 1)
      result *= power;
  return result;
}

/// The remainder of the divisor's sign, or, as fmod in C, of the dividend's.
int64_t remainder(int64_t a, int64_t b, bool ofDividend) {
  const int64_t rest = a % b;
  return ofDividend || rest == 0 || (rest < 0) == (b < 0) ? rest : rest + b;
}

/// Of signed integers; of unsigned ones where `T` is.
template <typename T> T quotient(const std::string &op, T a, T b, bool ofDividend) {
  if (b == 0)
    throw Error::badInput("divides by zero");
  if constexpr (std::is_signed_v<T>) {
    if (b == -1)
      return op == "Div" ? static_cast<T>(-static_cast<uint64_t>(a)) : 0;
    return op == "Div" ? a / b : remainder(a, b, ofDividend);
  }
  return op == "Div" ? a / b : a % b;
}

uint64_t integerArithmetic(const Site &site, ElementType type, int64_t a, int64_t b) {
  const std::string &op = site.node.type;
  const auto p = static_cast<uint64_t>(a), q = static_cast<uint64_t>(b);
  if (op == "Add")
    return p + q;
  if (op == "Sub")
    return p - q;
  if (op == "Mul")
    return p * q;
  if (op == "Pow")
    return integerPower(a, b);
  const bool ofDividend = site.integer("fmod", 0) != 0;
  if (op == "Div" || op == "Mod")
    return type == ElementType::UInt64 ? quotient(op, p, q, ofDividend)
                                       : static_cast<uint64_t>(quotient(op, a, b, ofDividend));
  const bool isFirst = op == "Min" ? lessThan(type, a, b) : lessThan(type, b, a);
  return isFirst ? p : q;
}

Literal binary(const Site &site, const Literal &left, const Literal &right) {
  Shape shape = broadcast(left.shape, right.shape);
  limitedCount(shape);
  Literal a = expanded(left, shape), b = expanded(right, shape);
  Literal y{left.type, shape, {}, {}};
  for (int64_t i = 0; i < a.size(); ++i) {
    if (b.isFloat() && site.node.type == "Pow")
      y.ints.push_back(truncated(std::pow(a.number(i), b.floats[i]), y.type));
    else if (a.isFloat() || b.isFloat())
      throw Error::badInput("mixes integer and float constants");
    else
      y.ints.push_back(wrapped(integerArithmetic(site, y.type, a.ints[i], b.ints[i]), y.type));
  }
  return y;
}

Literal arithmetic(const Site &site) {
  Literal y = site.in(0);
  for (size_t i = 1; i < site.inputs.size(); ++i)
    y = binary(site, y, site.in(i));
  return y;
}

/// Two literals broadcast to one shape, which neither of them is copied for: masks of positions have millions of elements.
class Pairs {
public:
  Pairs(const Literal &a, const Literal &b, Shape common)
      : shape(std::move(common)), ofA(stridesIn(a, shape)), ofB(stridesIn(b, shape)) {}

  /// Calls take(i, j) with the places of a's and b's element for each element in order.
  template <typename Take>
  void forEach(Take take, size_t d = 0, int64_t i = 0, int64_t j = 0) const {
    if (d == shape.size())
      return take(i, j);
    for (int64_t n = 0; n < shape[d]; ++n, i += ofA[d], j += ofB[d])
      d + 1 == shape.size() ? take(i, j) : forEach(take, d + 1, i, j);
  }

private:
  const Shape shape, ofA, ofB;
};

/// Compares element by element: with the order of doubles where one side is of floats, else with that of the integers' type.
template <typename Holds> Literal compared(const Literal &a, const Literal &b, Holds holds) {
  Literal y{ElementType::Bool, broadcast(a.shape, b.shape), {}, {}};
  y.ints.reserve(limitedCount(y.shape));
  const Pairs pairs(a, b, y.shape);
  if (a.isFloat() || b.isFloat())
    pairs.forEach([&](int64_t i, int64_t j) {
      y.ints.push_back(holds(a.number(i), b.number(j), std::less<double>()));
    });
  else
    pairs.forEach([&](int64_t i, int64_t j) {
      y.ints.push_back(holds(a.ints[i], b.ints[j],
                             [&](int64_t p, int64_t q) { return lessThan(a.type, p, q); }));
    });
  return y;
}

Literal compare(const Site &site) {
  const Literal &a = site.in(0), &b = site.in(1);
  const std::string &op = site.node.type;
  if (op == "Equal")
    return compared(a, b, [](auto p, auto q, auto) { return p == q; });
  if (op == "Less")
    return compared(a, b, [](auto p, auto q, auto less) { return less(p, q); });
  if (op == "LessOrEqual")
    return compared(a, b, [](auto p, auto q, auto less) { return less(p, q) || p == q; });
  if (op == "Greater")
    return compared(a, b, [](auto p, auto q, auto less) { return less(q, p); });
  if (op == "GreaterOrEqual")
    return compared(a, b, [](auto p, auto q, auto less) { return less(q, p) || p == q; });
  if (op == "Or")
    return compared(a, b, [](auto p, auto q, auto) { return p != 0 || q != 0; });
  if (op == "Xor")
    return compared(a, b, [](auto p, auto q, auto) { return (p != 0) != (q != 0); });
  return compared(a, b, [](auto p, auto q, auto) { return p != 0 && q != 0; });
}

/// Neg, Abs, Sign and Not of integers and booleans.
Literal unary(const Site &site) {
  Literal y = site.in(0);
  const std::string &op = site.node.type;
  if (y.isFloat())
    throw Error::badInput("expects booleans or whole numbers");
  for (int64_t &v : y.ints) {
    const bool isNegative = lessThan(y.type, v, 0);
    if (op == "Not")
      v = !v;
    else if (op == "Sign")
      v = isNegative ? -1 : v != 0;
    else if (op == "Neg" || isNegative)
      v = wrapped(-static_cast<uint64_t>(v), y.type);
  }
  return y;
}

/// Which elements are NaN, or infinite.
Literal classify(const Site &site) {
  const Literal &x = site.in(0);
  Literal y{ElementType::Bool, x.shape, {}, {}};
  bool isNan = site.node.type == "IsNaN";
  bool positive = site.integer("detect_positive", 1), negative = site.integer("detect_negative", 1);
  for (int64_t i = 0; i < x.size(); ++i) {
    double v = x.number(i);
    y.ints.push_back(isNan ? std::isnan(v) : std::isinf(v) && (v > 0 ? positive : negative));
  }
  return y;
}

Literal cast(const Site &site) {
  return castLiteral(site.in(0), static_cast<ElementType>(site.integer("to", 0)));
}

Literal castLike(const Site &site) { return castLiteral(site.in(0), site.in(1).type); }

Literal gather(const Site &site) {
  const Literal &x = site.in(0), &index = site.in(1);
  int64_t axis = normalizedAxis(site.integer("axis", 0), rankOf(x));
  if (index.isFloat())
    throw Error::badInput("gathers with float indices");
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  Shape tail(x.shape.begin() + axis + 1, x.shape.end());
  int64_t inner = elementCount(tail), extent = x.shape[axis], picks = index.size();
  for (int64_t i : index.ints)
    if (i < -extent || i >= extent)
      throw Error::badInput(absl::StrCat("gathers element ", i, " of ", extent));
  return gathered(x, shape, [&](int64_t i) {
    int64_t pick = index.ints[i / inner % picks], outer = i / inner / picks;
    return (outer * extent + (pick < 0 ? pick + extent : pick)) * inner + i % inner;
  });
}

Literal concat(const Site &site) {
  const Literal &first = site.in(0);
  int64_t axis = normalizedAxis(site.integer("axis", 0), rankOf(first));
  Literal y{first.type, first.shape, {}, {}};
  y.shape[axis] = 0;
  for (const Literal *x : site.inputs) {
    bool fits = x && x->isFloat() == first.isFloat() && x->shape.size() == first.shape.size();
    for (size_t d = 0; fits && d < first.shape.size(); ++d)
      fits = static_cast<int64_t>(d) == axis || x->shape[d] == first.shape[d];
    if (!fits)
      throw Error::badInput("joins constants whose shapes disagree");
    y.shape[axis] += x->shape[axis];
  }
  limitedCount(y.shape);
  int64_t outer = elementCount(Shape(first.shape.begin(), first.shape.begin() + axis));
  for (int64_t row = 0; row < outer; ++row)
    for (const Literal *x : site.inputs) {
      int64_t run = x->size() / std::max<int64_t>(outer, 1);
      if (x->isFloat())
        y.floats.insert(y.floats.end(), x->floats.begin() + row * run,
                        x->floats.begin() + (row + 1) * run);
      else
        y.ints.insert(y.ints.end(), x->ints.begin() + row * run, x->ints.begin() + (row + 1) * run);
    }
  return y;
}

Literal slice(const Site &site) {
  const Literal &x = site.in(0);
  auto list = [&](const char *name, size_t input) {
    return axesOf(site.node, name, site.has(input) ? site.inputs[input] : nullptr);
  };
  auto starts = list("starts", 1), ends = list("ends", 2), axes = list("axes", 3);
  auto steps = list("steps", 4);
  if (!starts || !ends || starts->size() != ends->size() ||
      (axes && axes->size() != starts->size()) || (steps && steps->size() != starts->size()))
    throw Error::badInput("slices with starts, ends, axes or steps that disagree");
  Literal y = x;
  for (size_t k = 0; k < starts->size(); ++k) {
    int64_t axis = normalizedAxis(axes ? (*axes)[k] : k, rankOf(x));
    SliceRange range = sliceRange((*starts)[k], (*ends)[k], steps ? (*steps)[k] : 1, y.shape[axis]);
    Shape shape = y.shape;
    shape[axis] = range.count;
    int64_t inner = elementCount(Shape(y.shape.begin() + axis + 1, y.shape.end()));
    int64_t extent = y.shape[axis];
    y = gathered(Literal(y), shape, [&](int64_t i) {
      int64_t at = range.start + i / inner % range.count * range.step;
      return (i / inner / range.count * extent + at) * inner + i % inner;
    });
  }
  return y;
}

/// Squeeze, Unsqueeze, Reshape, Flatten, Identity: another shape, the same elements.
Literal reshape(const Site &site) {
  Literal y = site.in(0);
  const std::string &op = site.node.type;
  auto axes = axesOf(site.node, "axes", site.has(1) && op != "Reshape" ? site.inputs[1] : nullptr);
  if (op == "Reshape") {
    if (site.in(1).isFloat())
      throw Error::badInput("reshapes to a float shape");
    y.shape = reshapedShape(y.shape, site.in(1).ints, site.integer("allowzero", 0) != 0);
  } else if (op == "Unsqueeze") {
    y.shape = unsqueezedShape(y.shape, axes.value_or(std::vector<int64_t>{}));
  } else if (op == "Squeeze") {
    y.shape = squeezedShape(y.shape, axes);
  } else if (op == "Flatten") {
    y.shape = flattenedShape(y.shape, site.integer("axis", 1));
  }
  return y;
}

Literal transpose(const Site &site) {
  const Literal &x = site.in(0);
  auto order = axesOf(site.node, "perm", nullptr);
  if (!order) {
    order.emplace(x.shape.size());
    for (size_t i = 0; i < order->size(); ++i)
      (*order)[i] = x.shape.size() - 1 - i;
  }
  checkPermutation(*order, rankOf(x));
  Shape shape;
  std::vector<int64_t> strides(x.shape.size(), 1);
  for (size_t d = x.shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * x.shape[d];
  for (int64_t d : *order)
    shape.push_back(x.shape[d]);
  return gathered(x, shape, [&](int64_t i) {
    int64_t from = 0;
    for (size_t d = shape.size(); d-- > 0; i /= shape[d])
      from += i % shape[d] * strides[(*order)[d]];
    return from;
  });
}

Literal where(const Site &site) {
  Shape shape = broadcast(site.in(0).shape, broadcast(site.in(1).shape, site.in(2).shape));
  limitedCount(shape);
  Literal c = expanded(site.in(0), shape), a = expanded(site.in(1), shape),
          b = expanded(site.in(2), shape);
  if (a.isFloat() != b.isFloat() || c.isFloat())
    throw Error::badInput("selects between constants of different types");
  Literal y = b;
  for (int64_t i = 0; i < c.size(); ++i) {
    if (c.ints[i] && y.isFloat())
      y.floats[i] = a.floats[i];
    else if (c.ints[i])
      y.ints[i] = a.ints[i];
  }
  return y;
}

/// The upper or lower triangle of the last two dimensions; zeros elsewhere.
Literal trilu(const Site &site) {
  Literal y = site.in(0);
  if (rankOf(y) < 2)
    throw Error::badInput(absl::StrCat("takes a triangle of a tensor of rank ", rankOf(y)));
  int64_t diagonal =
      site.has(1) && site.in(1).size() == 1 && !site.in(1).isFloat() ? site.in(1).ints[0] : 0;
  bool upper = site.integer("upper", 1) != 0;
  int64_t columns = y.shape.back(), rows = y.shape[y.shape.size() - 2];
  for (int64_t i = 0; i < y.size(); ++i) {
    int64_t row = i / columns % rows, column = i % columns;
    if (upper ? column - row >= diagonal : column - row <= diagonal)
      continue;
    if (y.isFloat())
      y.floats[i] = 0;
    else
      y.ints[i] = 0;
  }
  return y;
}

Literal range(const Site &site) {
  const Literal &start = site.in(0), &limit = site.in(1), &delta = site.in(2);
  if (start.size() != 1 || limit.size() != 1 || delta.size() != 1 || delta.number(0) == 0)
    throw Error::badInput("counts from, to or by something that is no number");
  double span = std::ceil((limit.number(0) - start.number(0)) / delta.number(0));
  if (!(span <= double(kLiteralLimit)))
    throw Error::badInput(absl::StrCat("counts more than ", kLiteralLimit, " elements"));
  int64_t count = std::max<int64_t>(0, static_cast<int64_t>(span));
  Literal y{start.type, {count}, {}, {}};
  const int64_t step = delta.isFloat() ? truncated(delta.floats[0], y.type) : delta.ints[0];
  for (int64_t i = 0; i < count; ++i) {
    if (y.isFloat())
      y.floats.push_back(rounded(start.floats[0] + i * delta.number(0), y.type));
    else
      y.ints.push_back(wrapped(start.ints[0] + static_cast<uint64_t>(i) * step, y.type));
  }
  return y;
}

Literal constantOfShape(const Site &site) {
  const Literal &shape = site.in(0);
  Literal value{ElementType::Float, {1}, {}, {0.0}};
  auto found = site.node.attributes.find("value");
  if (found != site.node.attributes.end() && found->second.tensor)
    value = literalOf(*found->second.tensor).value_or(Literal{});
  if (shape.isFloat() || value.size() != 1)
    throw Error::badInput("expects an integer shape and a value of one element");
  return gathered(value, shape.ints, [](int64_t) { return 0; });
}

Literal expand(const Site &site) {
  if (site.in(1).isFloat())
    throw Error::badInput("expands to a float shape");
  Shape target = site.in(1).ints;
  limitedCount(target);
  Shape shape = broadcast(site.in(0).shape, target);
  limitedCount(shape);
  return expanded(site.in(0), shape);
}

/// A fold with one output.
template <Literal (*One)(const Site &)> std::vector<Literal> single(const Site &site) {
  return {One(site)};
}

FoldTable makeFolds() {
  FoldTable table = {
      {"Add", single<arithmetic>},
      {"Sub", single<arithmetic>},
      {"Mul", single<arithmetic>},
      {"Div", single<arithmetic>},
      {"Mod", single<arithmetic>},
      {"Pow", single<arithmetic>},
      {"Min", single<arithmetic>},
      {"Max", single<arithmetic>},
      {"Equal", single<compare>},
      {"Less", single<compare>},
      {"LessOrEqual", single<compare>},
      {"Greater", single<compare>},
      {"GreaterOrEqual", single<compare>},
      {"And", single<compare>},
      {"Or", single<compare>},
      {"Xor", single<compare>},
      {"Neg", single<unary>},
      {"Sign", single<unary>},
      {"IsNaN", single<classify>},
      {"IsInf", single<classify>},
      {"Abs", single<unary>},
      {"Not", single<unary>},
      {"Cast", single<cast>},
      {"CastLike", single<castLike>},
      {"Gather", single<gather>},
      {"Concat", single<concat>},
      {"Slice", single<slice>},
      {"Squeeze", single<reshape>},
      {"Unsqueeze", single<reshape>},
      {"Reshape", single<reshape>},
      {"Flatten", single<reshape>},
      {"Identity", single<reshape>},
      {"Transpose", single<transpose>},
      {"Trilu", single<trilu>},
      {"Where", single<where>},
      {"Range", single<range>},
      {"Expand", single<expand>},
      {"ConstantOfShape", single<constantOfShape>},
  };
  addBitFolds(table);
  addIndexFolds(table);
  return table;
}

} // namespace

std::optional<std::vector<Literal>> fold(const Node &node, const Inputs &inputs) {
  static const FoldTable folds = makeFolds();
  auto found = folds.find(node.type);
  if (found == folds.end() || inputs.empty())
    return std::nullopt;
  for (const Literal *input : inputs)
    if (input && input->size() != checkedElementCount(input->shape).value_or(-1))
      throw Error::badInput("a constant's shape does not fit its elements");
  return found->second({node, inputs});
}

} // namespace stow::onnx
