// Matrix products as a program runs them, one at a time, timed when standard input says so: the other side of products.py.
//
//   build/release/bin/ProductBench [threads]
//
// A line of input is "product TYPE COUNT ROWS DEPTH COLUMNS LEFT RIGHT", TYPE f32 or bf16, LEFT and RIGHT n (as it lies) or
// t (stored transposed), answered with the name of what runs and its scratch in bytes; or "run TIMES", answered with the seconds
// by the clock and of the processor for that many runs of the last product.
#include "runtime/base/Parallel.h"
#include "runtime/host/Library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <sstream>
#include <vector>

using namespace stow;

namespace {

double seconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A product bound to memory of its own.
class Bound {
public:
  Bound(Command command, int64_t threads) {
    requirements = host::queryLibrary(command, {}, threads);
    Bytes top = 0;
    for (Operand &operand : command.operands) {
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

} // namespace

int main(int argc, char **argv) {
  const int64_t threads = argc > 1 ? std::atoll(argv[1]) : 1;
  const ThreadScope scope(threads);
  std::unique_ptr<Bound> bound;
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string verb;
    line >> verb;
    if (verb == "product") {
      bound = std::make_unique<Bound>(productOf(line), threads);
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
                   "ProductBench: expected \"product ...\" or \"run TIMES\", found \"%s\"\n",
                   text.c_str());
      return 1;
    }
    std::fflush(stdout);
  }
}
