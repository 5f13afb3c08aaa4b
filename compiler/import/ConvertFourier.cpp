// Fourier transforms, as products with matrices of sines and cosines, and the windows that go with
// them. Complex numbers are pairs in a last dimension of 2.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <cmath>
#include <numbers>
#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Larger matrices are mistakes: a transform of 2048 complex numbers fits.
constexpr int64_t kMostElements = int64_t(1) << 24;

/// A constant of the data's element type; `number(i)` is element i.
Value constantOf(NodeImport &node, const Shape &shape, Type element,
                 llvm::function_ref<double(int64_t)> number) {
  std::optional<int64_t> count = checkedElementCount(shape);
  if (!count || *count > kMostElements)
    throw Error::badInput(absl::StrCat("needs a matrix of more than ", kMostElements, " elements"));
  auto type = RankedTensorType::get(shape, element);
  auto fill = [&]<typename Number>(std::vector<Number> values) {
    for (int64_t i = 0; i < *count; ++i)
      values[i] = static_cast<Number>(number(i));
    return DenseElementsAttr::get(type, ArrayRef<Number>(values));
  };
  if (!element.isF32() && !element.isF64())
    throw Error::badInput("transforms tensors of float or double only");
  DenseElementsAttr value =
      element.isF32() ? fill(std::vector<float>(*count)) : fill(std::vector<double>(*count));
  return node.emit<ConstantOp>({}, [&](ConstantOp::Properties &p) { p.value = value; }, type);
}

/// 2 pi i j / n, of a whole number of turns less.
double angle(int64_t i, int64_t j, int64_t n) {
  return 2 * std::numbers::pi * static_cast<double>(i * j % n) / static_cast<double>(n);
}

/// Part `to` (0 real, 1 imaginary) of e^(sign i angle) times a number whose part `from` is 1.
double rotated(double angle, double sign, bool from, bool to) {
  if (from == to)
    return std::cos(angle);
  return (from ? -sign : sign) * std::sin(angle);
}

/// The dimension transformed: an attribute in opset 17, an input since opset 20.
int64_t transformedAxis(NodeImport &node, int64_t rank) {
  int64_t axis = node.opset() < 20 ? node.integer("axis", 1) : -2;
  if (node.opset() >= 20 && node.has(2)) {
    const Literal &given = node.constant(2, "axis");
    if (given.isFloat() || given.size() != 1)
      throw Error::badInput("expects one whole number as axis");
    axis = given.ints[0];
  }
  axis = normalizedAxis(axis, rank);
  if (axis == rank - 1)
    throw Error::badInput("transforms the dimension of real and imaginary parts");
  return axis;
}

/// One product: [others, n * parts] times [n * parts, frequencies * 2]. With onesided, the forward
/// transform of real numbers gives the frequencies up to half of n; the inverse one reads those, the
/// others being their conjugates, and gives real numbers.
void convertDft(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  auto rank = static_cast<int64_t>(shape.size());
  if (rank < 2 || shape.back() < 1 || shape.back() > 2)
    throw Error::badInput("expects pairs, or single numbers, in the last dimension");
  int64_t axis = transformedAxis(node, rank);
  bool inverse = node.flag("inverse", false), onesided = node.flag("onesided", false);
  bool halvesInput = inverse && onesided, halvesOutput = onesided && !inverse;
  if (halvesOutput && shape.back() != 1)
    throw Error::badInput("gives one side of the transform of complex numbers");
  if (halvesInput && shape.back() != 2)
    throw Error::badInput("takes one side of a transform that is not complex");
  int64_t length = halvesInput ? 2 * (shape[axis] - 1) : shape[axis];
  if (node.has(1)) {
    const Literal &given = node.constant(1, "dft_length");
    if (given.isFloat() || given.size() != 1)
      throw Error::badInput("expects one whole number as dft_length");
    length = given.ints[0];
  }
  if (length < 1 || length > kMostElements)
    throw Error::badInput(absl::StrCat("transforms ", length, " elements"));
  // Elements beyond the length are cut off, those that are missing are zeros.
  int64_t taken = std::min(shape[axis], halvesInput ? length / 2 + 1 : length);
  int64_t given = halvesOutput ? length / 2 + 1 : length, parts = shape.back();
  int64_t givenParts = halvesInput ? 1 : 2;
  if (taken < shape[axis]) {
    Shape sizes = shape;
    sizes[axis] = taken;
    x = node.slice(x, Shape(rank, 0), sizes);
  }
  std::vector<int64_t> order(rank), back(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end() - 1);
  for (int64_t d = 0; d < rank; ++d)
    back[order[d]] = d;
  auto transposed = [&](Value value, const std::vector<int64_t> &to) -> Value {
    return llvm::is_sorted(to)
               ? value
               : node.emit<TransposeOp>(value, [&](auto &p) { p.permutation = node.array(to); });
  };
  x = transposed(x, order);
  Shape result = shapeOf(x);
  int64_t rows = elementCount(result) / (taken * parts);
  double scale = inverse ? 1 / static_cast<double>(length) : 1, sign = inverse ? 1 : -1;
  Value matrix =
      constantOf(node, {taken * parts, given * givenParts}, elementOf(x), [&](int64_t i) {
        int64_t from = i / (given * givenParts), to = i % (given * givenParts);
        int64_t place = from / parts, frequency = to / givenParts;
        double turn = angle(place, frequency, length), weight = scale;
        if (halvesInput && place != 0 && 2 * place != length)
          weight *= 2; // and its conjugate's
        return weight * rotated(turn, sign, from % parts, to % givenParts);
      });
  Value y = node.emit<MatmulOp>({node.reshape(x, {rows, taken * parts}), matrix}, [&](auto &p) {
    p.transpose_a = node.boolean(false);
    p.transpose_b = node.boolean(false);
  });
  result[rank - 2] = given;
  result[rank - 1] = givenParts;
  node.bind(0, transposed(node.reshape(y, result), back));
}

/// Transforms of frames of a real signal [N, L] or [N, L, 1]: a convolution whose windows are the
/// frames and whose channels are frequencies. Gives [N, frames, frequencies, 2].
void convertStft(NodeImport &node) {
  Value signal = node.value(0);
  Shape shape = shapeOf(signal);
  if (shape.size() < 2 || shape.size() > 3 || (shape.size() == 3 && shape[2] != 1))
    throw Error::badInput("expects real signals [N, L] or [N, L, 1]");
  auto whole = [&](size_t i, const char *name) {
    const Literal &given = node.constant(i, name);
    if (given.isFloat() || given.size() != 1 || given.ints[0] < 1 || given.ints[0] > shape[1])
      throw Error::badInput(
          std::string("expects one whole number of at most the signal's length as ") + name);
    return given.ints[0];
  };
  int64_t step = whole(1, "frame_step");
  Value window = node.has(2) ? node.value(2) : Value();
  if (!window && !node.has(3))
    throw Error::badInput("has neither a window nor the length of a frame");
  int64_t length = node.has(3) ? whole(3, "frame_length") : elementCount(shapeOf(window));
  if (window && shapeOf(window) != Shape{length})
    throw Error::badInput(absl::StrCat("has a window of other than ", length, " elements"));
  int64_t bins = node.flag("onesided", true) ? length / 2 + 1 : length;
  Value kernel = constantOf(node, {2 * bins, 1, 1, length}, elementOf(signal), [&](int64_t i) {
    int64_t channel = i / length;
    return rotated(angle(i % length, channel / 2, length), -1, false, channel % 2);
  });
  if (window)
    kernel = node.emit<MulOp>({kernel, window});
  Value y = node.emit<Conv2dOp>({node.reshape(signal, {shape[0], 1, 1, shape[1]}), kernel},
                                [&](Conv2dOp::Properties &p) {
                                  p.strides = node.array({1, step});
                                  p.pads = node.array({0, 0, 0, 0});
                                  p.dilations = node.array({1, 1});
                                  p.groups = node.i64(1);
                                });
  int64_t frames = shapeOf(y)[3];
  y = node.emit<TransposeOp>(
      node.reshape(y, {shape[0], bins, 2, frames}),
      [&](TransposeOp::Properties &p) { p.permutation = node.array({0, 3, 1, 2}); });
  node.bind(0, y);
}

/// A sum of cosines over `size` elements, known.
void convertCosineWindow(NodeImport &node) {
  const Literal &size = node.constant(0, "size");
  if (size.isFloat() || size.size() != 1 || size.ints[0] < 1 || size.ints[0] > kLiteralLimit)
    throw Error::badInput("expects one whole number as size");
  auto type = static_cast<ElementType>(
      node.integer("output_datatype", static_cast<int64_t>(ElementType::Float)));
  if (!isFloat(type))
    throw Error::badInput("gives whole numbers; only windows of real numbers are supported");
  const std::string &name = node.node().type;
  std::vector<double> terms = name == "HannWindow"      ? std::vector<double>{0.5, -0.5}
                              : name == "HammingWindow" ? std::vector<double>{25.0 / 46, -21.0 / 46}
                                                        : std::vector<double>{0.42, -0.5, 0.08};
  int64_t count = size.ints[0], period = node.flag("periodic", true) ? count : count - 1;
  Literal window{type, {count}, {}, {}};
  for (int64_t i = 0; i < count; ++i) {
    double value = 0;
    for (size_t k = 0; k < terms.size(); ++k)
      value += terms[k] * std::cos(angle(i, static_cast<int64_t>(k), std::max<int64_t>(period, 1)));
    window.floats.push_back(type == ElementType::Float ? static_cast<float>(value) : value);
  }
  node.bindLiteral(0, std::move(window));
}

} // namespace

void addFourierRules(RuleTable &table) {
  table["DFT"] = {convertDft, 1, 3};
  table["STFT"] = {convertStft, 2, 4};
  for (const char *type : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    table[type] = {convertCosineWindow, 1, 1};
  takeWeights(table, {OpWeights::Kind::Altered}, {"DFT", "STFT"});
  takeWeights(table, {OpWeights::Kind::Settings},
              {"HannWindow", "HammingWindow", "BlackmanWindow"});
}

} // namespace stow::onnx
