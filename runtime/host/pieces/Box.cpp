#include "runtime/host/pieces/Box.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/Float16.h"

#include <algorithm>
#include <functional>

namespace stow::host {
namespace {

/// Elements that one thread converts before the next one takes part: 2 to 4 microseconds.
constexpr int64_t share = 16384;

/// Calls `body(element of the tensor, element of the packed box, count)` for stretches of runs, on
/// several threads.
template <typename Body> void forStretches(const Box &box, int64_t threads, const Body &body) {
  const int64_t perRun = (box.run + share - 1) / share;
  const int64_t runs = box.elements() / std::max<int64_t>(box.run, 1);
  const int64_t worth = 1 + box.elements() / share;
  parallelFor(runs * perRun, std::min(threads, worth), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t number = task / perRun, first = task % perRun * share;
      int64_t offset = box.offset + first, rest = number;
      for (size_t i = box.loops.size(); i-- > 0; rest /= box.loops[i].count)
        offset += rest % box.loops[i].count * box.loops[i].stride;
      body(offset, number * box.run + first, std::min(share, box.run - first));
    }
  });
}

} // namespace

int64_t Box::elements() const {
  int64_t count = run;
  for (const Loop &loop : loops)
    count *= loop.count;
  return count;
}

bool isSplittable(const Layout &layout, size_t dim) {
  return layout.groups <= 1 && std::ranges::none_of(layout.blocks, [&](const Layout::Block &block) {
           return block.dim == static_cast<int64_t>(dim);
         });
}

bool isOutermost(const Operand &operand, size_t dim) {
  std::vector<int64_t> strides = outerStrides(operand.layout, operand.shape);
  return isSplittable(operand.layout, dim) &&
         std::ranges::none_of(strides, [&](int64_t stride) { return stride > strides[dim]; });
}

Box boxOf(const Operand &operand, const Shape &from, const Shape &sizes) {
  const Layout &layout = operand.layout;
  Box box;
  if (sizes == operand.shape && !layout.pitch) {
    box.run = storedElementCount(layout, operand.shape);
    return box;
  }
  std::vector<int64_t> strides = outerStrides(layout, operand.shape);
  std::vector<int64_t> blockOf(strides.size(), 1);
  for (const Layout::Block &block : layout.blocks) {
    blockOf[block.dim] *= block.size;
    box.run *= block.size;
  }
  for (size_t i = 0; i < strides.size(); ++i) {
    box.offset += from[i] / blockOf[i] * strides[i];
    if (int64_t count = alignUp(sizes[i], blockOf[i]) / blockOf[i]; count != 1)
      box.loops.push_back({count, strides[i]});
  }
  std::ranges::sort(box.loops, std::ranges::greater{}, &Box::Loop::stride);
  for (size_t i = box.loops.size(); i-- > 1;)
    if (Box::Loop inner = box.loops[i]; box.loops[i - 1].stride == inner.count * inner.stride) {
      box.loops[i - 1] = {box.loops[i - 1].count * inner.count, inner.stride};
      box.loops.erase(box.loops.begin() + static_cast<int64_t>(i));
    }
  if (!box.loops.empty() && box.loops.back().stride == box.run) {
    box.run *= box.loops.back().count;
    box.loops.pop_back();
  }
  return box;
}

std::optional<Layout> layoutInPlace(const Operand &operand, const Shape &sizes) {
  const Layout &layout = operand.layout;
  std::vector<int64_t> strides = outerStrides(layout, operand.shape);
  std::vector<int64_t> same = outerStrides(layout, sizes);
  Shape dims = layoutDims(layout, sizes);
  bool isSame = true;
  for (size_t i = 0; i < dims.size(); ++i)
    isSame &= dims[i] == 1 || strides[i] == same[i];
  if (isSame)
    return layout;
  return boxLayout(layout, operand.shape, sizes);
}

Layout packedLayout(const Operand &operand) {
  Layout layout = operand.layout;
  layout.pitch.reset();
  return layout;
}

void widenBox(DType from, const char *tensor, const Box &box, float *packed, int64_t threads) {
  const auto *source = reinterpret_cast<const uint16_t *>(tensor);
  forStretches(box, threads, [&](int64_t stored, int64_t at, int64_t count) {
    widen(from, source + stored, packed + at, count);
  });
}

void narrowBox(DType to, const float *packed, const Box &box, char *tensor, int64_t threads) {
  auto *target = reinterpret_cast<uint16_t *>(tensor);
  forStretches(box, threads, [&](int64_t stored, int64_t at, int64_t count) {
    narrow(to, packed + at, target + stored, count);
  });
}

void addTo(float *target, const float *source, int64_t count, int64_t threads) {
  parallelFor((count + share - 1) / share, threads, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(end * share, count);
    for (int64_t i = begin * share; i < last; ++i)
      target[i] += source[i];
  });
}

} // namespace stow::host
