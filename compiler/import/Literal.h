// Small tensors known at import, and the arithmetic models do on them: Shape -> Gather -> Concat ->
// Reshape chains, axes, exponents, clip bounds.
#pragma once

#include "compiler/import/OnnxModel.h"

#include <optional>
#include <vector>

namespace stow::onnx {

/// At most this many elements are folded; larger tensors are data. A causal mask of 2048 positions
/// fits.
inline constexpr int64_t kLiteralLimit = 1 << 22;

/// A row-major tensor of integers (and booleans) or of floats: one of the two vectors is filled. Floats
/// of every type are held as the doubles of their values, integers with their sign; those of uint64
/// as the bits of an int64.
struct Literal {
  ElementType type = ElementType::Int64;
  Shape shape;
  std::vector<int64_t> ints;
  std::vector<double> floats;

  bool isFloat() const { return onnx::isFloat(type); }
  int64_t size() const { return isFloat() ? floats.size() : ints.size(); }
  double number(int64_t i) const;

  static Literal vector(std::vector<int64_t> values);
};

/// The tensor's elements; absent for strings, too many elements, or bytes of another size.
std::optional<Literal> literalOf(const Tensor &tensor);

/// `value` as a number of the float type `type`, rounded to nearest even.
double rounded(double value, ElementType type);

/// The whole number `value` in the float type `type`; 16-bit floats go through float.
double rounded(int64_t value, ElementType type);

/// The low bits of `value` that the integer type `type` has, with its sign; a boolean is 0 or 1.
int64_t wrapped(uint64_t value, ElementType type);

/// `value` without its fraction in the integer type `type`. What a type of 32 or 64 bits does not hold
/// becomes its least number, as on x86; shorter ones take the low bits of 32.
int64_t truncated(double value, ElementType type);

/// The literal in another element type: rounded, wrapped or truncated. Throws Error(BadInput) for a
/// type without numbers.
Literal castLiteral(const Literal &x, ElementType to);

/// Folds `node` (of ai.onnx) on known inputs; an entry is null where the input is absent. Absent
/// when the op is not one that is folded. Throws Error(BadInput) with the reason when the inputs do
/// not fit the op.
std::optional<std::vector<Literal>> fold(const Node &node,
                                         const std::vector<const Literal *> &inputs);

/// Shape a Reshape gives to `input`: 0 copies a dimension (unless `allowZero`), one -1 is inferred.
/// Throws Error(BadInput) when the element counts differ.
Shape reshapedShape(const Shape &input, const std::vector<int64_t> &target, bool allowZero);

/// Shapes of Unsqueeze, Squeeze (absent axes: every dimension of extent 1) and Flatten. They throw
/// Error(BadInput) for axes outside the rank, repeated, or of another extent than 1.
Shape unsqueezedShape(const Shape &input, const std::vector<int64_t> &axes);
Shape squeezedShape(const Shape &input, const std::optional<std::vector<int64_t>> &axes);
Shape flattenedShape(const Shape &input, int64_t axis);

/// Throws Error(BadInput) unless `order` is a permutation of `rank` dimensions.
void checkPermutation(const std::vector<int64_t> &order, int64_t rank);

/// `axis` counted from the front; throws Error(BadInput) unless it lies in [-rank, rank).
int64_t normalizedAxis(int64_t axis, int64_t rank);

/// Values of an attribute, or of the input that replaced it in a later opset.
std::optional<std::vector<int64_t>> axesOf(const Node &node, const char *attribute,
                                           const Literal *input);

/// One dimension of a Slice over `extent` elements: `count` elements from `start` in `step`s.
struct SliceRange {
  int64_t start, count, step;
};
SliceRange sliceRange(int64_t start, int64_t end, int64_t step, int64_t extent);

} // namespace stow::onnx
