#include "ir/StowResampleOps.h"
#include "tests/reference/Rules.h"

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// One dimension after the other, straight from the attributes.
std::vector<Tensor> resample(Operation *op, Operands operands) {
  auto typed = cast<ResampleOp>(op);
  Tensor y = operands[0];
  size_t first = 0; // of the axis' starts
  for (size_t k = 0; k < typed.getAxes().size(); ++k) {
    int64_t axis = typed.getAxes()[k], extent = typed.getExtents()[k];
    Tensor x = y;
    std::vector<int64_t> shape = x.shape;
    shape[axis] = extent;
    y = Tensor(shape);
    forEachIndex(shape, [&](const Index &at) {
      int64_t begin = typed.getStarts()[first + at[axis]];
      int64_t end = typed.getStarts()[first + at[axis] + 1];
      for (int64_t term = begin; term < end; ++term) {
        Index from = at;
        from[axis] = typed.getSources()[term];
        y(at) += typed.getWeights()[term] * x(from);
      }
    });
    first += extent + 1;
  }
  return {y};
}

std::vector<Tensor> rearrange(Operation *op, Operands operands) {
  auto typed = cast<RearrangeOp>(op);
  Tensor split(typed.getFactors().vec(), operands[0].values);
  std::vector<int64_t> permuted;
  for (int64_t from : typed.getPermutation())
    permuted.push_back(split.shape[from]);
  Tensor joined(permuted);
  forEachIndex(permuted, [&](const Index &at) {
    Index from(at.size());
    for (size_t dim = 0; dim < at.size(); ++dim)
      from[typed.getPermutation()[dim]] = at[dim];
    joined(at) = split(from);
  });
  return {Tensor(shapeOf(op->getResult(0)), joined.values)};
}

/// Where a place lies along one dimension, in elements, and how that moves with the coordinate.
struct Position {
  double at, slope;
};

Position positionOf(double coordinate, int64_t extent, StringRef padding, bool alignsCorners) {
  const double first = alignsCorners ? 0 : -0.5,
               last = first + (alignsCorners ? extent - 1 : extent);
  Position p = {first + (coordinate + 1) / 2 * (last - first), (last - first) / 2};
  if (padding == "reflection" && first == last)
    return {0, 0};
  while (padding == "reflection" && (p.at < first || p.at > last))
    p = {p.at < first ? 2 * first - p.at : 2 * last - p.at, -p.slope};
  if (padding != "zeros" && (p.at <= 0 || p.at >= extent - 1))
    p = {std::clamp<double>(p.at, 0, extent - 1), 0};
  return p;
}

/// Calls with each element that the place `at` of the grid reads: its index in the image, its
/// weight, and the derivatives of that by the coordinates in the grid's order.
void forEachCorner(const Tensor &grid, const Index &at, ArrayRef<int64_t> extents, StringRef mode,
                   StringRef padding, bool alignsCorners,
                   llvm::function_ref<void(const Index &, double, ArrayRef<double>)> visit) {
  const size_t dims = extents.size();
  std::vector<Position> positions(dims);
  for (size_t dim = 0; dim < dims; ++dim) {
    Index coordinate = at;
    coordinate.push_back(static_cast<int64_t>(dims - 1 - dim));
    positions[dim] = positionOf(grid(coordinate), extents[dim], padding, alignsCorners);
  }
  for (unsigned corner = 0; corner < (mode == "nearest" ? 1u : 1u << dims); ++corner) {
    Index place(dims);
    std::vector<double> weights(dims), slopes(dims);
    bool isInside = true;
    for (size_t dim = 0; dim < dims; ++dim) {
      const auto [position, slope] = positions[dim];
      if (mode == "nearest") {
        place[dim] = static_cast<int64_t>(std::nearbyint(position));
        weights[dim] = 1;
      } else {
        const bool upper = corner >> dim & 1;
        place[dim] = static_cast<int64_t>(std::floor(position)) + upper;
        weights[dim] = 1 - std::abs(position - static_cast<double>(place[dim]));
        slopes[dim] = upper ? slope : -slope;
      }
      isInside &= place[dim] >= 0 && place[dim] < extents[dim];
    }
    double weight = 1;
    std::vector<double> derivatives(dims, 1);
    for (size_t dim = 0; dim < dims; ++dim) {
      weight *= weights[dim];
      for (size_t by = 0; by < dims; ++by)
        derivatives[dims - 1 - by] *= dim == by ? slopes[dim] : weights[dim];
    }
    if (isInside)
      visit(place, weight, derivatives);
  }
}

Index indexOf(int64_t image, int64_t channel, const Index &place) {
  Index index = {image, channel};
  index.insert(index.end(), place.begin(), place.end());
  return index;
}

/// Calls with each place of the grid and every channel: the index in y.
template <typename Visit> void forEachSample(const Tensor &grid, int64_t channels, Visit visit) {
  forEachIndex({grid.shape.begin(), grid.shape.end() - 1}, [&](const Index &at) {
    for (int64_t channel = 0; channel < channels; ++channel)
      visit(at, channel, indexOf(at[0], channel, Index(at.begin() + 1, at.end())));
  });
}

std::vector<Tensor> gridSample(Operation *op, Operands operands) {
  auto typed = cast<GridSampleOp>(op);
  const Tensor &x = operands[0], &grid = operands[1];
  Tensor y(shapeOf(op->getResult(0)));
  forEachSample(grid, x.shape[1], [&](const Index &at, int64_t channel, const Index &to) {
    forEachCorner(grid, at, ArrayRef(x.shape).drop_front(2), typed.getMode(), typed.getPadding(),
                  typed.getAlignCorners(), [&](const Index &place, double weight, auto) {
                    y(to) += weight * x(indexOf(at[0], channel, place));
                  });
  });
  return {y};
}

std::vector<Tensor> gridSampleGradInput(Operation *op, Operands operands) {
  auto typed = cast<GridSampleGradInputOp>(op);
  const Tensor &dy = operands[0], &grid = operands[1];
  Tensor dx(shapeOf(op->getResult(0)));
  forEachSample(grid, dx.shape[1], [&](const Index &at, int64_t channel, const Index &from) {
    forEachCorner(grid, at, typed.getExtents(), typed.getMode(), typed.getPadding(),
                  typed.getAlignCorners(), [&](const Index &place, double weight, auto) {
                    dx(indexOf(at[0], channel, place)) += weight * dy(from);
                  });
  });
  return {dx};
}

std::vector<Tensor> gridSampleGradGrid(Operation *op, Operands operands) {
  auto typed = cast<GridSampleGradGridOp>(op);
  const Tensor &dy = operands[0], &x = operands[1], &grid = operands[2];
  Tensor dgrid(grid.shape);
  forEachSample(grid, x.shape[1], [&](const Index &at, int64_t channel, const Index &from) {
    forEachCorner(grid, at, ArrayRef(x.shape).drop_front(2), "linear", typed.getPadding(),
                  typed.getAlignCorners(),
                  [&](const Index &place, double, ArrayRef<double> derivatives) {
                    for (auto [k, derivative] : llvm::enumerate(derivatives)) {
                      Index to = at;
                      to.push_back(static_cast<int64_t>(k));
                      dgrid(to) += derivative * dy(from) * x(indexOf(at[0], channel, place));
                    }
                  });
  });
  return {dgrid};
}

} // namespace

void addResampleRules(Rules &rules) {
  rules["stow.grid_sample"] = gridSample;
  rules["stow.grid_sample_grad_input"] = gridSampleGradInput;
  rules["stow.grid_sample_grad_grid"] = gridSampleGradGrid;
  rules["stow.resample"] = resample;
  rules["stow.rearrange"] = rearrange;
}

} // namespace stow::reference
