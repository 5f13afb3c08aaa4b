// Library calls on bf16 operands against the same calls in f32, in turns on the same values.
//
//   build/release/bin/LibraryBench [threads]
//
// The ratio is the median of those of neighbouring runs, by the clock and by processor time, which
// other load disturbs less. Beside it what the workspace takes of the 16-bit operands' size in f32.
#include "runtime/base/Parallel.h"
#include "runtime/host/Float16.h"
#include "runtime/host/Library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

using namespace stow;

namespace {

/// By the clock, and of the processor over all threads.
struct Seconds {
  double wall = 0, processor = 0;

  static Seconds now() { return {read(CLOCK_MONOTONIC), read(CLOCK_PROCESS_CPUTIME_ID)}; }
  static double read(clockid_t clock) {
    timespec time = {};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  Seconds operator+(const Seconds &b) const { return {wall + b.wall, processor + b.processor}; }
  Seconds operator-(const Seconds &b) const { return {wall - b.wall, processor - b.processor}; }
};

/// A call bound to memory of its own, every operand filled with ones.
struct Bound {
  Bound(Command command, const std::vector<bool> &any, int64_t threads) {
    requirements = host::queryLibrary(command, any, threads);
    Bytes top = 0;
    for (size_t i = 0; i < command.operands.size(); ++i) {
      Operand &place = command.operands[i];
      if (requirements.opaqueBytes[i] > 0)
        place.shape = {requirements.opaqueBytes[i]};
      else
        place.layout = requirements.layouts[i];
      place.offset = top;
      top = alignUp(top + storedBytes(place.layout, place.shape, place.dtype), 64);
    }
    command.workspaceOffset = top;
    command.workspaceBytes = requirements.workspaceBytes;
    memory = static_cast<char *>(std::aligned_alloc(64, alignUp(top + command.workspaceBytes, 64)));
    std::memset(memory, 0, static_cast<size_t>(top + command.workspaceBytes));
    for (const Operand &place : command.operands)
      for (int64_t i = 0; i < storedElementCount(place.layout, place.shape); ++i)
        if (place.dtype == DType::F32)
          reinterpret_cast<float *>(memory + place.offset)[i] = 1;
        else if (is16Bit(place.dtype))
          reinterpret_cast<uint16_t *>(memory + place.offset)[i] = host::narrowBf16(1);
    call = host::bindLibraryCall(command, memory, threads);
  }
  ~Bound() { std::free(memory); }
  Bound(const Bound &) = delete;
  Bound &operator=(const Bound &) = delete;

  Seconds run() {
    const Seconds begin = Seconds::now();
    call->run();
    return Seconds::now() - begin;
  }

  host::LibraryRequirements requirements;
  char *memory;
  std::unique_ptr<host::LibraryCall> call;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(const std::string &name, const Command &low, const std::vector<bool> &any,
             int64_t threads) {
  Command full = low;
  Bytes inF32 = 0;
  for (Operand &operand : full.operands)
    if (is16Bit(operand.dtype)) {
      operand.dtype = DType::F32;
      inF32 += storedBytes(operand.layout, operand.shape, DType::F32);
    }
  Bound a(full, any, threads), b(low, any, threads);
  a.run(), b.run();
  std::vector<double> wall, processor, times;
  for (double end = Seconds::now().wall + 1; wall.size() < 7 || Seconds::now().wall < end;) {
    const Seconds first = a.run(), second = b.run(), third = b.run(), last = a.run();
    const Seconds inFull = first + last, inLow = second + third;
    wall.push_back(inLow.wall / inFull.wall);
    processor.push_back(inLow.processor / inFull.processor);
    times.push_back(inFull.processor / 2);
  }
  std::printf(
      "%-34s %9.3f ms in f32, in bf16 %5.2f x by the clock %5.2f x processor  workspace "
      "%5.1f %% (f32: %5.1f %%)  %s\n",
      name.c_str(), median(times) * 1e3, median(wall), median(processor),
      100.0 * static_cast<double>(b.requirements.workspaceBytes) / static_cast<double>(inF32),
      100.0 * static_cast<double>(a.requirements.workspaceBytes) / static_cast<double>(inF32),
      b.requirements.implementation.c_str());
  std::fflush(stdout);
}

using Ints = std::map<std::string, std::vector<int64_t>>;

Operand tensor(DType type, const Shape &shape) {
  return {0, type, shape, shape.size() == 4 ? Layout{1, {0, 2, 3, 1}, {}} : Layout{}};
}

Command call(CommandOp op, const std::vector<Operand> &operands, const Ints &ints) {
  Command command;
  command.op = op;
  command.name = "bench";
  command.operands = operands;
  command.ints = ints;
  command.floats = {{"epsilon", 1e-5}};
  return command;
}

constexpr DType low = DType::BF16, full = DType::F32;

/// The three calls of a convolution, with weights that the library lays out; their gradient is f32.
void convolution(int64_t batch, int64_t in, int64_t out, int64_t extent, int64_t kernel,
                 int64_t stride, int64_t threads, DType weights = full) {
  const Operand x = tensor(low, {batch, in, extent, extent}),
                w = {0, weights, {out, in, kernel, kernel}, {}},
                dw = {0, full, {out, in, kernel, kernel}, {}},
                y = tensor(low, {batch, out, extent / stride, extent / stride});
  const int64_t pad = kernel / 2,
                end = stride == 1 ? pad : std::max<int64_t>(0, kernel - stride - pad);
  const Ints ints = {{"strides", {stride, stride}},
                     {"pads", {pad, pad, end, end}},
                     {"dilations", {1, 1}},
                     {"groups", {1}}};
  const std::string name = std::to_string(in) + "->" + std::to_string(out) + " " +
                           std::to_string(kernel) + "x" + std::to_string(kernel) + " at " +
                           std::to_string(extent) + "/" + std::to_string(stride) +
                           (weights == low ? " weights bf16" : "");
  compare("convolution " + name, call(CommandOp::DnnlConvolution, {x, w, y}, ints),
          {false, true, false}, threads);
  compare("  grad of input", call(CommandOp::DnnlConvolutionGradInput, {y, w, x}, ints),
          {false, true, false}, threads);
  if (weights != low)
    compare("  grad of weight", call(CommandOp::DnnlConvolutionGradWeight, {x, y, dw}, ints),
            {false, false, true}, threads);
}

/// y = x w with w stored [columns, depth], and its two gradients.
void product(int64_t rows, int64_t depth, int64_t columns, DType weights, int64_t threads) {
  const Operand x = tensor(low, {rows, depth}), w = tensor(weights, {columns, depth}),
                y = tensor(low, {rows, columns}), dw = tensor(full, {columns, depth});
  const std::string name = std::to_string(rows) + "x" + std::to_string(depth) + "x" +
                           std::to_string(columns) + (weights == low ? " weights bf16" : "");
  compare("product " + name, call(CommandOp::DnnlMatmul, {x, w, y}, {{"transpose_b", {1}}}), {},
          threads);
  compare("  grad of input", call(CommandOp::DnnlMatmul, {y, w, x}, {}), {}, threads);
  if (weights != low)
    compare("  grad of weight", call(CommandOp::DnnlMatmul, {y, x, dw}, {{"transpose_a", {1}}}), {},
            threads);
}

/// Batch normalization, a pool behind it and a reorder, each in bf16.
void surroundings(int64_t batch, int64_t channels, int64_t extent, int64_t threads) {
  const Operand x = tensor(low, {batch, channels, extent, extent}), v = tensor(full, {channels}),
                half = tensor(low, {batch, channels, extent / 2, extent / 2}),
                indices = {0, DType::U8, {1}, {}};
  Operand rows = x;
  rows.layout = {};
  compare("batch norm " + std::to_string(channels) + " at " + std::to_string(extent),
          call(CommandOp::DnnlBatchNorm, {x, v, v, x, v, v}, {}), {}, threads);
  compare("  grad", call(CommandOp::DnnlBatchNormGrad, {x, v, v, v, x, x, v, v}, {}), {}, threads);
  compare("  inference", call(CommandOp::DnnlBatchNormInference, {x, v, v, v, v, x}, {}), {},
          threads);
  const Ints ints = {
      {"kernel", {3, 3}}, {"strides", {2, 2}}, {"pads", {1, 1, 0, 0}}, {"dilations", {1, 1}}};
  compare("max pool 3x3/2", call(CommandOp::DnnlMaxPool, {x, half, indices}, ints), {}, threads);
  compare("  grad", call(CommandOp::DnnlMaxPoolGrad, {half, indices, x}, ints), {}, threads);
  compare("reorder to row-major", call(CommandOp::DnnlReorder, {x, rows}, {}), {}, threads);
}

} // namespace

int main(int argc, char **argv) {
  const int64_t threads = argc > 1 ? std::atoll(argv[1]) : 1;
  ThreadScope scope(threads);
  std::printf("%lld threads\n", static_cast<long long>(threads));
  for (int64_t batch : {8, 32})
    convolution(batch, 64, 64, 56, 3, 1, threads);
  convolution(8, 3, 64, 224, 7, 2, threads);
  convolution(8, 128, 128, 28, 3, 1, threads);
  convolution(8, 256, 256, 14, 3, 1, threads);
  convolution(8, 512, 512, 7, 3, 1, threads);
  convolution(8, 256, 64, 56, 1, 1, threads);
  convolution(1, 64, 64, 56, 3, 1, threads);
  convolution(8, 64, 64, 56, 3, 1, threads, low);
  convolution(8, 3, 64, 224, 7, 2, threads, low);
  convolution(8, 256, 256, 14, 3, 1, threads, low);
  convolution(8, 256, 64, 56, 1, 1, threads, low);
  for (int64_t size : {512, 1024, 2048})
    product(size, size, size, full, threads);
  product(1024, 1024, 1024, low, threads);
  product(2048, 768, 3072, full, threads);
  product(2048, 768, 3072, low, threads);
  const Operand heads = tensor(low, {12, 512, 64}), scores = tensor(low, {12, 512, 512});
  compare("attention scores 12x512x512x64",
          call(CommandOp::DnnlMatmul, {heads, heads, scores}, {{"transpose_b", {1}}}), {}, threads);
  surroundings(8, 64, 112, threads);
  return 0;
}
