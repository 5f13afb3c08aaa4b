// Products of few rows, in f32, bf16 and f16, with a matrix in nf4 and int8, whose codes they read, beside the library's products of the same
// shape in f32 and bf16, in turns on one thread.
//
//   build/release/bin/CodedBench [ROWS]
//
// With ROWS only products of as many rows. Each of a run's calls reads another matrix, so that none lies in a cache: 96 Mi elements in
// all. Times are medians of processor time, which other load disturbs less than the clock's.
#include "runtime/base/Parallel.h"
#include "runtime/base/Quantization.h"
#include "runtime/host/Library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

using namespace stow;

namespace {

constexpr int64_t elementsInAll = int64_t{96} << 20;
constexpr int runs = 15;

struct Shapes {
  int64_t rows, columns, depth;
  bool isTransposed;
};

double processorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The call on matrices of its own, one after the other.
class Calls {
public:
  Calls(Command command, int64_t copies) {
    Bytes top = 0;
    for (Operand &place : command.operands) {
      place.offset = top;
      top = alignUp(top + storedBytes(place.layout, place.shape, place.dtype), 64);
    }
    command.workspaceOffset = top;
    command.workspaceBytes = host::queryLibrary(command, {}, 1).workspaceBytes;
    const Bytes bytes = alignUp(top + command.workspaceBytes, 64);
    memory = static_cast<char *>(std::aligned_alloc(64, bytes * copies));
    std::memset(memory, 0x3c, static_cast<size_t>(bytes * copies)); // 0.01 in f32 and bf16
    for (int64_t i = 0; i < copies; ++i)
      calls.push_back(host::bindLibraryCall(command, memory + i * bytes, 1));
  }
  ~Calls() { std::free(memory); }
  Calls(const Calls &) = delete;
  Calls &operator=(const Calls &) = delete;

  /// Of one call.
  double milliseconds() {
    const double begin = processorSeconds();
    for (const auto &call : calls)
      call->run();
    return (processorSeconds() - begin) / static_cast<double>(calls.size()) * 1e3;
  }

private:
  char *memory = nullptr;
  std::vector<std::unique_ptr<host::LibraryCall>> calls;
};

Command named(CommandOp op, std::vector<Operand> operands,
              std::map<std::string, std::vector<int64_t>> ints) {
  Command command;
  command.op = op;
  command.name = "bench";
  command.operands = std::move(operands);
  command.ints = std::move(ints);
  return command;
}

Command inFloats(const Shapes &s, DType type) {
  const Shape w = s.isTransposed ? Shape{s.columns, s.depth} : Shape{s.depth, s.columns};
  return named(
      CommandOp::DnnlMatmul,
      {{0, type, {s.rows, s.depth}, {}}, {0, type, w, {}}, {0, type, {s.rows, s.columns}, {}}},
      {{"transpose_b", {s.isTransposed}}});
}

Command inCodes(const Shapes &s, Quantization scheme, DType type) {
  const Bytes bytes = partsOf(scheme, s.columns * s.depth).size;
  return named(CommandOp::DnnlCodedMatmul,
               {{0, type, {s.rows, s.depth}, {}},
                {0, DType::U8, {bytes}, {}},
                {0, type, {s.rows, s.columns}, {}}},
               {{"scheme", {static_cast<int64_t>(scheme)}}, {"transpose_b", {s.isTransposed}}});
}

void compare(const Shapes &s) {
  const int64_t copies = std::max<int64_t>(1, elementsInAll / (s.columns * s.depth));
  Calls full(inFloats(s, DType::F32), copies), low(inFloats(s, DType::BF16), copies),
      nf4(inCodes(s, Quantization::Nf4, DType::F32), copies),
      int8(inCodes(s, Quantization::Int8, DType::F32), copies),
      lowNf4(inCodes(s, Quantization::Nf4, DType::BF16), copies),
      lowInt8(inCodes(s, Quantization::Int8, DType::BF16), copies),
      halfNf4(inCodes(s, Quantization::Nf4, DType::F16), copies),
      halfInt8(inCodes(s, Quantization::Int8, DType::F16), copies);
  constexpr size_t kinds = 8;
  std::vector<double> times[kinds];
  for (int run = 0; run < runs; ++run)
    for (size_t i = 0;
         Calls *calls : {&full, &low, &nf4, &int8, &lowNf4, &lowInt8, &halfNf4, &halfInt8})
      times[i++].push_back(calls->milliseconds());
  double medians[kinds];
  for (size_t i = 0; i < kinds; ++i) {
    std::ranges::sort(times[i]);
    medians[i] = times[i][runs / 2];
  }
  std::printf("| %lld x %lld x %lld%s | %.3f | %.3f | %.3f | %.3f | %.2f | %.2f | %.3f | %.3f | "
              "%.2f | %.2f | %.3f | %.3f | %.2f | %.2f |\n",
              static_cast<long long>(s.rows), static_cast<long long>(s.columns),
              static_cast<long long>(s.depth), s.isTransposed ? ", transposed" : "", medians[0],
              medians[1], medians[2], medians[3], medians[2] / std::min(medians[0], medians[1]),
              medians[3] / std::min(medians[0], medians[1]), medians[4], medians[5],
              medians[4] / medians[1], medians[5] / medians[1], medians[6], medians[7],
              medians[6] / medians[4], medians[7] / medians[5]);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  const int64_t only = argc > 1 ? std::atoll(argv[1]) : 0;
  setThreads(1);
  std::printf("| rows x columns x contracted | f32, ms | bf16 | nf4 | int8 | nf4 by the faster of "
              "both | int8 | nf4 times bf16, ms | int8 times bf16 | by bf16 | by bf16 | "
              "nf4 times f16, ms | int8 times f16 | by that times bf16 | by that times bf16 |\n"
              "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (bool isTransposed : {true, false})
    for (auto [columns, depth] :
         {std::pair<int64_t, int64_t>{1024, 1024}, {4096, 4096}, {8192, 2048}, {2048, 8192}})
      for (int64_t rows : {1, 2, 4, 8})
        if (!only || rows == only)
          compare({rows, columns, depth, isTransposed});
  return 0;
}
