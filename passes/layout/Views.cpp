#include "passes/layout/Views.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
namespace {

using Strides = SmallVector<int64_t>;

Strides stridesOf(RankedTensorType type) {
  auto strides =
      outerStrides(layoutOf(type), Shape(type.getShape().begin(), type.getShape().end()));
  return Strides(strides.begin(), strides.end());
}

/// Consecutive elements in logical order that lie a fixed distance apart.
struct Run {
  int64_t extent, stride;
};

/// The logical elements of a plain tensor as nested runs, outermost first, each as long as can be:
/// two tensors hold their elements in the same order when their runs are equal.
SmallVector<Run> runsOf(RankedTensorType type) {
  SmallVector<Run> runs;
  for (auto [extent, stride] : llvm::zip_equal(type.getShape(), stridesOf(type))) {
    if (extent == 1)
      continue;
    if (!runs.empty() && runs.back().stride == extent * stride)
      runs.back() = {runs.back().extent * extent, stride};
    else
      runs.push_back({extent, stride});
  }
  return runs;
}

/// Strides of a tensor of `shape` over `runs`, 0 for dimensions of one element.
std::optional<Strides> stridesOver(SmallVector<Run> runs, ArrayRef<int64_t> shape) {
  Strides strides(shape.size(), 0);
  for (size_t dim = shape.size(); dim-- > 0;) {
    if (shape[dim] == 1)
      continue;
    if (runs.empty() || runs.back().extent % shape[dim] != 0)
      return std::nullopt;
    Run &run = runs.back();
    strides[dim] = run.stride;
    run = {run.extent / shape[dim], run.stride * shape[dim]};
    if (run.extent == 1)
      runs.pop_back();
  }
  return strides;
}

bool hasStrides(RankedTensorType type, ArrayRef<int64_t> wanted) {
  for (auto [extent, stride, found] : llvm::zip_equal(type.getShape(), wanted, stridesOf(type)))
    if (extent > 1 && stride != found)
      return false;
  return true;
}

} // namespace

bool isPlain(Type type) {
  Layout layout = layoutOf(type);
  return layout.blocks.empty() && layout.groups <= 1 && !layout.pitch;
}

Order rowMajorOrder(int64_t rank) { return llvm::to_vector<4>(llvm::seq<int64_t>(0, rank)); }

Order channelsLastOrder(int64_t rank) {
  Order order = rowMajorOrder(rank);
  if (rank > 2)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

Order orderOf(RankedTensorType type) {
  Layout layout = layoutOf(type);
  return layout.order.empty() ? rowMajorOrder(type.getRank())
                              : Order(layout.order.begin(), layout.order.end());
}

RankedTensorType withOrder(RankedTensorType type, ArrayRef<int64_t> order) {
  if (llvm::is_sorted(order))
    return withoutLayout(type);
  return withLayout(type, Layout{1, {order.begin(), order.end()}, {}, {}});
}

bool sameBytes(RankedTensorType a, RankedTensorType b) {
  return a == b || (isPlain(a) && isPlain(b) && hasStrides(a, stridesOf(b)));
}

std::optional<Order> reshapedOrder(RankedTensorType type, ArrayRef<int64_t> shape) {
  if (!isPlain(type))
    return std::nullopt;
  auto strides = stridesOver(runsOf(type), shape);
  if (!strides)
    return std::nullopt;
  // Dimensions of one element may stand anywhere: the usual orders come first.
  auto plain = RankedTensorType::get(shape, type.getElementType());
  int64_t rank = shape.size();
  for (const Order &order : {rowMajorOrder(rank), channelsLastOrder(rank)})
    if (hasStrides(withOrder(plain, order), *strides))
      return order;
  // Elsewhere they stand just outside the next dimension that has more.
  int64_t stride = 0;
  for (int64_t dim = rank; dim-- > 0;)
    stride = (*strides)[dim] = (*strides)[dim] == 0 ? stride : (*strides)[dim];
  Order order = rowMajorOrder(rank);
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return std::pair(-(*strides)[a], a) < std::pair(-(*strides)[b], b);
  });
  return order;
}

Order transposedOrder(ArrayRef<int64_t> order, ArrayRef<int64_t> permutation) {
  Order result;
  for (int64_t dim : order)
    result.push_back(llvm::find(permutation, dim) - permutation.begin());
  return result;
}

Order untransposedOrder(ArrayRef<int64_t> order, ArrayRef<int64_t> permutation) {
  Order result;
  for (int64_t dim : order)
    result.push_back(permutation[dim]);
  return result;
}

} // namespace stow
