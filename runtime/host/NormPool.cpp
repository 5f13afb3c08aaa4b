// Batch normalization and the max pooling that reads it, in one call, and the gradients of both in
// one: loops of this room (NormPoolLoops.h) on channels-last tensors.
#include "runtime/base/Concat.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/Float16.h"
#include "runtime/host/Pool.h"
#include "runtime/host/loops/NormPoolLoops.h"

namespace stow::host {
namespace {

float *floats(char *address) { return reinterpret_cast<float *>(address); }
uint8_t *bytes(char *address) { return reinterpret_cast<uint8_t *>(address); }

const char *loopsName() {
  static const std::string name = std::string("stow_norm_pool:") + batchNormInstructions();
  return name.c_str();
}

/// The points of operand `index`, whose channels lie side by side.
ChannelSpace pointsOf(const Call &call, size_t index) {
  const Operand &operand = call.operand(index);
  std::optional<ChannelSpace> space;
  if (!call.isAny(index) && (operand.dtype == DType::F32 || is16Bit(operand.dtype)))
    space = ChannelSpace::of(operand.shape, operand.layout);
  if (!space || !space->hasOneRow())
    call.fail(call.describe(index) +
              " must be f32 or 16 bits, channels-last, of more than one channel");
  return *space;
}

/// The windows over operand `input`, whose results are operand `output`.
PoolWindows windowsOf(const Call &call, size_t input, size_t output) {
  const PoolGeometry geometry = poolGeometry(call, input, output);
  const Shape &in = call.shape(input), &out = call.shape(output);
  const size_t rank = geometry.kernel.size();
  int64_t elements = 1;
  for (int64_t extent : geometry.kernel)
    elements *= extent;
  if (rank > 3 || elements > 255)
    call.fail(concat("windows have up to 3 dimensions and 255 elements, found ", rank,
                     " dimensions and ", elements, " elements"));
  pointsOf(call, output);
  PoolWindows windows;
  windows.images = in[0], windows.channels = in[1];
  for (size_t i = 0; i < rank; ++i)
    windows.axes[3 - rank + i] =
        PoolAxis(in[2 + i], out[2 + i], geometry.kernel[i], geometry.strides[i],
                 geometry.dilates[i] + 1, geometry.padBegin[i]);
  return windows;
}

/// Operands as they lie; `vectors` have an element per channel, and `positions` is opaque.
std::vector<Argument> argumentsOf(const Call &call, size_t count, const PoolWindows &windows,
                                  std::initializer_list<size_t> vectors, size_t positions) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < count; ++i) {
    const Operand &operand = call.operand(i);
    const Bytes size = storedBytes(operand.layout, operand.shape, operand.dtype);
    arguments.push_back({i, 0, descOf(DType::U8, {size}, {}), operand.layout});
  }
  for (size_t i : vectors)
    arguments[i] = call.vector(i, 0, windows.channels);
  arguments[positions] =
      call.opaque(positions, 0, descOf(DType::U8, {windows.positionBytes()}, {}));
  return arguments;
}

} // namespace

Preparation prepareNormMaxPool(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "scale", "shift", "dst", "indices", "mean", "variance"});
  const ChannelSpace space = pointsOf(call, 0);
  const PoolWindows windows = windowsOf(call, 0, 3);
  auto run = [space, windows, epsilon = call.number("epsilon"), x = call.operand(0).dtype,
              y = call.operand(3).dtype](const std::vector<char *> &at, char *scratch,
                                         int64_t threads) {
    const ChannelLines lines =
        batchStatistics({space, epsilon, scratch, threads}, {x, at[0]}, floats(at[1]),
                        floats(at[2]), floats(at[5]), floats(at[6]));
    poolNormalized(windows, lines, {x, at[0]}, {y, at[3]}, bytes(at[4]), threads);
  };
  return {{},
          argumentsOf(call, 7, windows, {1, 2, 5, 6}, 4),
          Loops{loopsName(), space.scratchBytes(), run}};
}

Preparation prepareNormMaxPoolGrad(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout,
            {"src", "mean", "variance", "scale", "diff_dst", "indices", "diff_src", "diff_scale",
             "diff_shift"});
  const ChannelSpace space = pointsOf(call, 0);
  pointsOf(call, 6);
  if (call.shape(0) != call.shape(6))
    call.fail("shapes differ: " + call.describe(0) + ", " + call.describe(6));
  const PoolWindows windows = windowsOf(call, 0, 4);
  auto run = [space, windows, epsilon = call.number("epsilon"), x = call.operand(0).dtype,
              dy = call.operand(4).dtype, dx = call.operand(6).dtype](
                 const std::vector<char *> &at, char *scratch, int64_t threads) {
    // Captures no more than an std::function holds without the heap.
    const struct {
      const PoolWindows &windows;
      StoredFloats dy;
      const uint8_t *positions;
    } gathered{windows, {dy, at[4]}, bytes(at[5])};
    const MakePoints make = [&gathered](int64_t begin, int64_t end, float *to) {
      gatherPooled(gathered.windows, gathered.dy, gathered.positions, begin, end, to);
    };
    normalizeBatchGradMaking({space, epsilon, scratch, threads}, {x, at[0]},
                             {floats(at[1]), floats(at[2]), floats(at[3])}, make, {dx, at[6]},
                             floats(at[7]), floats(at[8]));
  };
  return {{},
          argumentsOf(call, 9, windows, {1, 2, 3, 7, 8}, 5),
          Loops{loopsName(), space.scratchBytes() + space.makingBytes(currentThreads()), run}};
}

} // namespace stow::host
