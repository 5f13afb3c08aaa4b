// Library calls as a program runs them, one at a time, timed when standard input says so: the other side of products.py and convolutions.py.
//
//   build/release/bin/CallBench [threads]
//
// A line of input is "product TYPE COUNT ROWS DEPTH COLUMNS LEFT RIGHT", TYPE f32 or bf16, LEFT and RIGHT n (as it lies) or
// t (stored transposed), or "convolution TYPE RESULT IMAGES INPUTS OUTPUTS WINDOW STRIDE SIZE GROUPS [NAME]", RESULT y, dx or dw, of square
// images with channels innermost, padded by half a window, with weights as the library likes them, their gradient in f32, as the implementation
// NAME where the library offers it; answered with the name of what runs and its scratch in bytes; or "run TIMES", answered with the seconds by
// the clock and of the processor for that many runs of the last call.
#include "runtime/base/Parallel.h"
#include "runtime/host/Library.h"
#include "runtime/host/Prices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>
#include <vector>

using namespace stow;

namespace {

double seconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A call bound to memory of its own.
class Bound {
public:
  Bound(Command command, const std::vector<bool> &anyLayout, int64_t threads) {
    requirements = host::queryLibrary(command, anyLayout, threads);
    Bytes top = 0;
    for (size_t i = 0; i < command.operands.size(); ++i) {
      Operand &operand = command.operands[i];
      operand.layout = requirements.layouts[i];
      operand.offset = top;
      top = alignUp(top + storedBytes(operand.layout, operand.shape, operand.dtype), 64);
    }
    command.workspaceOffset = top;
    command.workspaceBytes = requirements.workspaceBytes;
    memory.resize(static_cast<size_t>(top + command.workspaceBytes) + 64);
    char *arena = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    call = host::bindLibraryCall(command, arena, threads);
  }
  void run() { call->run(); }

  host::LibraryRequirements requirements;

private:
  std::vector<char> memory; // of zeros, which take as long as any other numbers
  std::unique_ptr<host::LibraryCall> call;
};

Command productOf(std::istringstream &line) {
  std::string type, left, right;
  int64_t count = 1, rows = 0, depth = 0, columns = 0;
  line >> type >> count >> rows >> depth >> columns >> left >> right;
  const DType dtype = type == "bf16" ? DType::BF16 : DType::F32;
  auto matrix = [&](int64_t height, int64_t width, bool transposed) {
    Shape shape = transposed ? Shape{width, height} : Shape{height, width};
    if (count > 1)
      shape.insert(shape.begin(), count);
    return Operand{0, dtype, shape, Layout{}};
  };
  Command command;
  command.op = CommandOp::DnnlMatmul;
  command.name = "product";
  command.operands = {matrix(rows, depth, left == "t"), matrix(depth, columns, right == "t"),
                      matrix(rows, columns, false)};
  command.ints = {{"transpose_a", {left == "t"}}, {"transpose_b", {right == "t"}}};
  return command;
}

Command convolutionOf(std::istringstream &line) {
  std::string type, result;
  int64_t images = 0, inputs = 0, outputs = 0, window = 0, stride = 0, size = 0, groups = 0;
  line >> type >> result >> images >> inputs >> outputs >> window >> stride >> size >> groups;
  const DType dtype = type == "bf16" ? DType::BF16 : DType::F32;
  const int64_t pad = window / 2, places = (size + 2 * pad - window) / stride + 1;
  const Layout channelsLast{1, {0, 2, 3, 1}, {}};
  const Operand x{0, dtype, {images, inputs, size, size}, channelsLast},
      w{0,
        result == "dw" ? DType::F32 : dtype,
        {outputs, inputs / groups, window, window},
        Layout{}},
      y{0, dtype, {images, outputs, places, places}, channelsLast};
  Command command;
  command.op = result == "y"    ? CommandOp::DnnlConvolution
               : result == "dx" ? CommandOp::DnnlConvolutionGradInput
                                : CommandOp::DnnlConvolutionGradWeight;
  command.name = "convolution";
  command.operands = result == "y"    ? std::vector{x, w, y}
                     : result == "dx" ? std::vector{y, w, x}
                                      : std::vector{x, y, w};
  command.ints = {{"strides", {stride, stride}},
                  {"pads", {pad, pad, pad, pad}},
                  {"dilations", {1, 1}},
                  {"groups", {groups}}};
  return command;
}

} // namespace

int main(int argc, char **argv) {
  const int64_t threads = argc > 1 ? std::atoll(argv[1]) : 1;
  const ThreadScope scope(threads);
  std::unique_ptr<Bound> bound;
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string verb;
    line >> verb;
    if (verb == "product" || verb == "convolution") {
      const Command command = verb == "product" ? productOf(line) : convolutionOf(line);
      const bool isGradWeight = command.op == CommandOp::DnnlConvolutionGradWeight;
      std::vector<bool> anyLayout(command.operands.size(), false);
      if (verb == "convolution")
        anyLayout[isGradWeight ? 2 : 1] = true;
      std::optional<host::ImplementationScope> scope;
      if (std::string name; verb == "convolution" && line >> name)
        scope.emplace(command.op == CommandOp::DnnlConvolution ? host::ConvolutionKind::Forward
                      : isGradWeight                           ? host::ConvolutionKind::GradWeight
                                                               : host::ConvolutionKind::GradInput,
                      name);
      bound = std::make_unique<Bound>(command, anyLayout, threads);
      bound->run();
      std::printf("%s %lld\n", bound->requirements.implementation.c_str(),
                  static_cast<long long>(bound->requirements.workspaceBytes));
    } else if (verb == "run" && bound) {
      int64_t times = 0;
      line >> times;
      const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
      for (int64_t i = 0; i < times; ++i)
        bound->run();
      std::printf("%.9f %.9f\n", seconds(CLOCK_MONOTONIC) - wall,
                  seconds(CLOCK_PROCESS_CPUTIME_ID) - processor);
    } else {
      std::fprintf(stderr,
                   "CallBench: expected \"product ...\", \"convolution ...\" or \"run TIMES\", "
                   "found \"%s\"\n",
                   text.c_str());
      return 1;
    }
    std::fflush(stdout);
  }
}
