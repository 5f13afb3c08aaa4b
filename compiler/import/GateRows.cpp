#include "compiler/import/GateRows.h"

#include "ir/StowShapeOps.h"
#include "runtime/base/Layout.h"

#include <utility>

using namespace mlir;

namespace stow::onnx {
namespace {

Shape shapeOf(Value value) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  return Shape(shape.begin(), shape.end());
}

Shape withoutOnes(const Shape &shape) {
  Shape result;
  llvm::copy_if(shape, std::back_inserter(result), [](int64_t extent) { return extent != 1; });
  return result;
}

/// A box of a tensor.
struct Box {
  Value value;
  Shape starts, sizes;
};

/// The same box in what a reshape reads, where it adds or drops dimensions of extent 1 alone.
bool passReshape(Box &box, ReshapeOp reshape) {
  Shape from = shapeOf(box.value), to = shapeOf(reshape.getX());
  if (withoutOnes(from) != withoutOnes(to))
    return false;
  Shape starts(to.size(), 0), sizes(to.size(), 1);
  size_t at = 0;
  for (size_t dim = 0; dim < to.size(); ++dim) {
    if (to[dim] == 1)
      continue;
    while (from[at] == 1)
      ++at;
    starts[dim] = box.starts[at];
    sizes[dim] = box.sizes[at++];
  }
  box = {reshape.getX(), starts, sizes};
  return true;
}

/// The same box in the input of a concat that holds all of it.
bool passConcat(Box &box, ConcatOp concat) {
  auto axis = static_cast<size_t>(concat.getAxis());
  int64_t begin = 0;
  for (Value input : concat.getInputs()) {
    int64_t end = begin + shapeOf(input)[axis];
    if (box.starts[axis] >= begin && box.starts[axis] + box.sizes[axis] <= end) {
      box.starts[axis] -= begin;
      box.value = input;
      return true;
    }
    begin = end;
  }
  return false;
}

void passSlice(Box &box, SliceOp slice) {
  for (auto [dim, start] : llvm::enumerate(slice.getStarts()))
    box.starts[dim] += start;
  box.value = slice.getX();
}

/// The box in the tensor that its elements were first stored in.
Box traced(Box box) {
  while (Operation *op = box.value.getDefiningOp()) {
    if (auto slice = dyn_cast<SliceOp>(op))
      passSlice(box, slice);
    else if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && passReshape(box, reshape))
      continue;
    else if (auto concat = dyn_cast<ConcatOp>(op); !concat || !passConcat(box, concat))
      break;
  }
  return box;
}

} // namespace

std::optional<GateRows> findGateRows(Value weights, int64_t direction, int64_t first, int64_t gates,
                                     int64_t hidden) {
  GateRows result;
  SmallVector<bool> taken(gates, false);
  for (int64_t gate = 0; gate < gates; ++gate) {
    Box box = {weights, Shape(shapeOf(weights).size(), 0), shapeOf(weights)};
    box.starts[0] = direction;
    box.sizes[0] = 1;
    box.starts[1] = first + gate * hidden;
    box.sizes[1] = hidden;
    box = traced(box);
    Shape shape = shapeOf(box.value);
    // The rows are the first dimension that is more than one long.
    size_t dim = 0;
    while (dim < shape.size() && shape[dim] == 1)
      ++dim;
    if (dim == shape.size() || shape[dim] != gates * hidden || box.starts[dim] % hidden != 0 ||
        (result.source && result.source != box.value))
      return std::nullopt;
    for (size_t other = dim + 1; other < shape.size(); ++other)
      if (box.sizes[other] != shape[other])
        return std::nullopt;
    int64_t place = box.starts[dim] / hidden;
    if (std::exchange(taken[place], true))
      return std::nullopt;
    result.source = box.value;
    result.order.push_back(place);
  }
  return result;
}

} // namespace stow::onnx
