// Generated kernels against memcpy, one thread: bytes that must move (each operand and result once)
// per second, as a ratio of what memcpy of as many bytes reaches. Then the time to compile kernels.
//
//   build/release/bin/KernelBench
#include "tests/codegen/LoadedKernels.h"

#include <cstdio>
#include <cstring>
#include <ctime>

using namespace stow;

namespace {

/// Processor seconds of this thread: other processes do not count.
double now() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds of the fastest of several runs.
template <typename Body> double fastest(Body body) {
  double best = 1e9, end = now() + 0.4;
  for (int run = 0; run < 3 || now() < end; ++run) {
    double start = now();
    body();
    best = std::min(best, now() - start);
  }
  return best;
}

struct Case {
  const char *name;
  std::string graph;             ///< body of a function, first kernel counts
  std::vector<size_t> bytes;     ///< per operand and result
  std::vector<int> inPlace = {}; ///< per result from the end: operand it overwrites, or -1
};

std::string nhwc(const std::string &shape) {
  return "tensor<" + shape + "xf32, #stow.layout<\"0,2,3,1\">>";
}

std::vector<Case> cases() {
  std::string a = nhwc("16x64x56x56"), b = "tensor<64x1x1xf32>";
  std::string w = "tensor<2359296xf32>", s = "tensor<1024x1000xf32>", t = "tensor<1024x1024xf32>";
  size_t ab = 16 * 64 * 56 * 56 * 4, wb = 2359296 * 4, sb = 1024 * 1000 * 4, tb = 1024 * 1024 * 4;
  auto map = [](const std::string &args, const std::string &types, const std::string &result,
                const std::string &body) {
    return "%y = stow.map " + args + " : (" + types + ") -> " + result + " { " + body + " }";
  };
  return {
      {"bias + relu, channels last",
       "(%x: " + a + ", %b: " + b + ") { " +
           map("%x, %b", a + ", " + b, a,
               "^bb0(%p: f32, %q: f32): %z = arith.constant 0.0 : f32 %0 = arith.addf %p, %q : f32 "
               "%1 = arith.maximumf %0, %z : f32 stow.yield %1 : f32"),
       {ab, 256, ab}},
      {"relu gradient",
       "(%x: " + a + ", %b: " + a + ") { %y = stow.relu_grad %x, %b : (" + a + ", " + a + ") -> " +
           a,
       {ab, ab, ab}},
      {"sigmoid", "(%x: " + a + ") { %y = stow.sigmoid %x : (" + a + ") -> " + a, {ab, ab}},
      {"sgd with momentum, in place",
       "(%p: " + w + ", %g: " + w + ", %lr: tensor<f32>, %m: " + w +
           ") { %y, %n = stow.sgd %p, %g, %lr, %m {momentum = 0.9 : f64, weight_decay = 0.0 : f64, "
           "nesterov = false} : (" +
           w + ", " + w + ", tensor<f32>, " + w + ") -> (" + w + ", " + w + ")",
       {wb, wb, 4, wb, wb, wb},
       {0, 3}},
      {"adamw, in place",
       "(%p: " + w + ", %g: " + w + ", %lr: tensor<f32>, %t: tensor<i64>, %m: " + w + ", %v: " + w +
           ") { %y, %n, %o = stow.adam %p, %g, %lr, %t, %m, %v {beta1 = 0.9 : f64, beta2 = 0.999 : "
           "f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64, decoupled = true} : (" +
           w + ", " + w + ", tensor<f32>, tensor<i64>, " + w + ", " + w + ") -> (" + w + ", " + w +
           ", " + w + ")",
       {wb, wb, 4, 8, wb, wb, wb, wb, wb},
       {0, 4, 5}},
      {"softmax, 1000 classes",
       "(%x: " + s + ") { %y = stow.softmax %x {axis = 1 : i64} : (" + s + ") -> " + s,
       {sb, sb}},
      {"channel mean",
       "(%x: " + a +
           ") { %y = stow.reduce_mean %x {axes = array<i64: 2, 3>, "
           "keepdims = true} : (" +
           a + ") -> tensor<16x64x1x1xf32>",
       {ab, 4096}},
      {"bias gradient",
       "(%x: " + a +
           ") { %y = stow.reduce_sum %x {axes = array<i64: 0, 2, 3>, "
           "keepdims = false} : (" +
           a + ") -> tensor<64xf32>",
       {ab, 256}},
      {"row sums",
       "(%x: " + t +
           ") { %y = stow.reduce_sum %x {axes = array<i64: 1>, keepdims = "
           "false} : (" +
           t + ") -> tensor<1024xf32>",
       {tb, 4096}},
      {"transpose",
       "(%x: " + t + ") { %y = stow.transpose %x {permutation = array<i64: 1, 0>} : (" + t +
           ") -> " + t,
       {tb, tb}},
      {"concat of channels",
       "(%x: " + a + ", %b: " + a +
           ") { %y = stow.concat %x, %b {axis = 1 : "
           "i64} : (" +
           a + ", " + a + ") -> " + nhwc("16x128x56x56"),
       {ab, ab, 2 * ab}},
      {"dropout",
       "(%x: " + a +
           ", %s: tensor<i64>) { %y = stow.dropout_training %x, %s {ratio = 0.5 "
           ": f64, stream = 1 : i64} : (" +
           a + ", tensor<i64>) -> " + a,
       {ab, 8, ab}},
  };
}

double memcpySeconds(size_t bytes) {
  std::vector<char> from(bytes / 2, 1), to(bytes / 2, 2);
  return fastest([&] { std::memcpy(to.data(), from.data(), bytes / 2); });
}

void runCase(const Case &test) {
  LoadedKernels kernels("func.func @g" + test.graph + " return }");
  std::vector<std::vector<float>> memory;
  std::vector<void *> pointers;
  size_t operands = test.bytes.size() - std::max<size_t>(test.inPlace.size(), 1);
  size_t total = 0;
  for (size_t i = 0; i < test.bytes.size(); ++i) {
    total += test.bytes[i];
    if (i >= operands && !test.inPlace.empty()) {
      pointers.push_back(pointers[test.inPlace[i - operands]]);
      continue;
    }
    memory.push_back(someFloats(std::max<size_t>(test.bytes[i] / 4, 2), 0.5f, i + 1));
    if (test.bytes[i] == 8)
      memory.back() = {1.4013e-45f, 0}; // the integer 1
    pointers.push_back(memory.back().data());
  }
  double seconds = fastest([&] { kernels.run(0, pointers); });
  double copy = memcpySeconds(total);
  std::printf("%-30s %8.2f MB %8.3f ms %7.1f GB/s %6.2f x memcpy\n", test.name, total / 1e6,
              seconds * 1e3, total / seconds / 1e9, copy / seconds);
}

/// Kernels of `count` residual additions with different shapes, so that none is shared.
void compileTime(int count) {
  std::string arguments, body;
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i), type = nhwc("8x" + std::to_string(64 + i) + "x14x14");
    arguments += (i ? ", %x" : "%x") + n + ": " + type + ", %s" + n + ": tensor<" +
                 std::to_string(64 + i) + "x1x1xf32>";
    body += "%y" + n + " = stow.map %x" + n + ", %s" + n + " : (" + type + ", tensor<" +
            std::to_string(64 + i) + "x1x1xf32>) -> " + type +
            " { ^bb0(%p: f32, %q: f32): %z = arith.constant 0.0 : f32 %0 = arith.mulf %p, %q : f32 "
            "%1 = arith.addf %0, %p : f32 %2 = arith.maximumf %1, %z : f32 stow.yield %2 : f32 }\n";
  }
  double start = now();
  LoadedKernels kernels("func.func @g(" + arguments + ") {" + body + " return }");
  std::printf("%d kernels compiled in %.2f s\n", count, now() - start);
}

} // namespace

int main() {
  for (const Case &test : cases())
    runCase(test);
  compileTime(20);
  compileTime(200);
}
