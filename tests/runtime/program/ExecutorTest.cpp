// The executor on hand-written programs: kernels and library calls, poison, allocation, errors.
#include "runtime/program/Executor.h"

#include "runtime/base/Error.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/host/Library.h"
#include "runtime/host/Outside.h"
#include "tests/runtime/base/CountAllocations.h"
#include "tests/runtime/slow/DiskFolder.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numeric>

namespace stow {
namespace {

using testing::HasSubstr;

// Kernels on f32 vectors; one task is 64 elements.
constexpr int64_t taskElements = 64;

/// out = max(in, 0); may run in place.
void reluKernel(int64_t begin, int64_t end, char *const *arguments) {
  const float *in = reinterpret_cast<const float *>(arguments[0]);
  float *out = reinterpret_cast<float *>(arguments[1]);
  for (int64_t i = begin * taskElements; i < end * taskElements; ++i)
    out[i] = in[i] > 0 ? in[i] : 0;
}

/// out = a + 2 b.
void addTwiceKernel(int64_t begin, int64_t end, char *const *arguments) {
  const float *a = reinterpret_cast<const float *>(arguments[0]);
  const float *b = reinterpret_cast<const float *>(arguments[1]);
  float *out = reinterpret_cast<float *>(arguments[2]);
  for (int64_t i = begin * taskElements; i < end * taskElements; ++i)
    out[i] = a[i] + 2 * b[i];
}

const StowKernelFn kernels[] = {reluKernel, addTwiceKernel};

Operand f32(Bytes offset, Shape shape, Layout layout = {}) {
  return {offset, DType::F32, std::move(shape), std::move(layout)};
}

Command kernel(int64_t index, std::vector<Operand> operands) {
  Command command;
  command.op = CommandOp::Kernel;
  command.name = "kernel" + std::to_string(index);
  command.kernel = index;
  command.tasks = elementCount(operands.front().shape) / taskElements;
  command.operands = std::move(operands);
  return command;
}

/// x [32, 64] times w [64, 64], relu in place, then y = relu + 2 x. Offsets in units of 16 KiB:
///   0 w   1 x (8 KiB)   2 product and relu (8 KiB)   3 y (8 KiB)   4 workspace
struct TinyProgram {
  static constexpr Bytes unit = 16384;
  Operand w = f32(0, {64, 64}), x = f32(unit, {32, 64}), h = f32(2 * unit, {32, 64}),
          y = f32(3 * unit, {32, 64});
  Program program;

  explicit TinyProgram(int64_t threads = 2) {
    Command product;
    product.op = CommandOp::DnnlMatmul;
    product.name = "fc";
    product.operands = {x, w, h};
    product.workspaceOffset = 4 * unit;
    product.workspaceBytes = host::queryLibrary(product, {}, threads).workspaceBytes;
    Command relu = kernel(0, {h, h});
    Command sum = kernel(1, {h, x, y});
    sum.dying = {h, x};
    program.threads = threads;
    program.plan.arenaBytes = 4 * unit + std::max<Bytes>(product.workspaceBytes, 64);
    program.state = {{"w", BufferKind::Parameter, w, {Init::Kind::Normal, 0, 0.125, 0}, true}};
    program.graphs = {
        {GraphRole::Train, {{"x", InputRole::Data, x}}, {{"y", y}}, {product, relu, sum}}};
  }

  std::vector<float> input() const {
    std::vector<float> values(32 * 64);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    return values;
  }
  std::vector<float> runOnce(Executor &executor) const {
    std::vector<float> in = input(), out(32 * 64);
    executor.writeTensor(x, in.data());
    executor.run(0);
    executor.readTensor(y, out.data());
    return out;
  }
};

/// A copy of the whole arena.
std::vector<char> bytesOf(Executor &executor) {
  std::vector<char> bytes(static_cast<size_t>(executor.device().arenaBytes()));
  executor.device().download(bytes.data(), 0, static_cast<Bytes>(bytes.size()));
  return bytes;
}

ProgramImage image() { return {kernels, {}}; }

template <typename Action> std::string errorOf(const Action &action) {
  try {
    action();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    return error.what();
  }
  return "no error";
}

TEST(Executor, RunsKernelsAndLibraryCalls) {
  TinyProgram tiny;
  Executor executor(tiny.program, image(), {});
  executor.initializeState(1);
  std::vector<float> w(64 * 64), x = tiny.input(), y = tiny.runOnce(executor);
  executor.readTensor(tiny.w, w.data());
  for (int64_t i = 0; i < 32; ++i)
    for (int64_t j = 0; j < 64; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 64; ++k)
        sum += double{x[i * 64 + k]} * w[k * 64 + j];
      EXPECT_NEAR(y[i * 64 + j], std::max(sum, 0.0) + 2 * x[i * 64 + j], 1e-5);
    }
}

TEST(Executor, RepeatsBitForBit) {
  TinyProgram tiny;
  Executor a(tiny.program, image(), {}), b(tiny.program, image(), {});
  a.initializeState(5);
  b.initializeState(5);
  std::vector<float> first = tiny.runOnce(a);
  EXPECT_EQ(tiny.runOnce(a), first);
  EXPECT_EQ(tiny.runOnce(b), first);
  b.initializeState(6);
  EXPECT_NE(tiny.runOnce(b), first);
}

// Tests that a program for another device is refused before anything of it is looked at.
TEST(Executor, NamesTheDeviceThatItDoesNotHave) {
  TinyProgram tiny;
  tiny.program.target = "npu:x1";
  tiny.program.graphs[0].commands[0].op = CommandOp::CudaConvolution;
  EXPECT_EQ(errorOf([&] { Executor(tiny.program, image(), {}); }),
            "the program was compiled for target \"npu:x1\", and this runtime has no such "
            "device; it runs programs for host, cuda: compile the model again with --target=host");
}

// Tests that poison changes no result, overwrites what died and leaves what lives.
TEST(Executor, PoisonFillsTheDead) {
  TinyProgram tiny;
  Executor plain(tiny.program, image(), {}), poisoned(tiny.program, image(), {.poison = true});
  for (char byte : bytesOf(poisoned))
    ASSERT_EQ(byte, static_cast<char>(0xff));
  plain.initializeState(5);
  poisoned.initializeState(5);
  for (int run = 0; run < 2; ++run)
    EXPECT_EQ(tiny.runOnce(plain), tiny.runOnce(poisoned));
  std::vector<float> values(32 * 64);
  for (const Operand &dead : {tiny.h, tiny.x}) {
    poisoned.readTensor(dead, values.data());
    for (float value : values)
      ASSERT_TRUE(std::isnan(value));
  }
}

// Tests that poison catches a plan that frees too early: the product dies before its last reader.
TEST(Executor, PoisonExposesAnEarlyDeath) {
  TinyProgram tiny;
  tiny.program.graphs[0].commands[1].dying = {tiny.h};
  Executor executor(tiny.program, image(), {.poison = true});
  executor.initializeState(5);
  for (float value : tiny.runOnce(executor))
    ASSERT_TRUE(std::isnan(value));
}

/// A program of one convolution, max-pool and batch-norm on [8, C, S,
/// S], to count what the library allocates.
Program libraryProgram(int64_t size) {
  Layout nhwc{1, {0, 2, 3, 1}, {}};
  Shape data = {8, 16, size, size}, pooled = {8, 16, size / 2, size / 2};
  Command conv, pool, norm;
  conv.op = CommandOp::DnnlConvolution;
  conv.operands = {f32(0, data, nhwc), f32(0, {16, 16, 3, 3}), f32(0, data, nhwc)};
  conv.ints = {{"strides", {1, 1}}, {"pads", {1, 1, 1, 1}}, {"dilations", {1, 1}}, {"groups", {1}}};
  pool.op = CommandOp::DnnlMaxPool;
  pool.operands = {f32(0, data, nhwc), f32(0, pooled, nhwc), {0, DType::U8, {1}, {}}};
  pool.ints = {
      {"kernel", {2, 2}}, {"strides", {2, 2}}, {"pads", {0, 0, 0, 0}}, {"dilations", {1, 1}}};
  norm.op = CommandOp::DnnlBatchNorm;
  norm.operands = {f32(0, pooled, nhwc), f32(0, {16}), f32(0, {16}),
                   f32(0, pooled, nhwc), f32(0, {16}), f32(0, {16})};
  norm.floats = {{"epsilon", 1e-5}};
  Program program;
  program.threads = 2;
  Bytes top = 0;
  for (Command *command : {&conv, &pool, &norm}) {
    command->name = nameOf(command->op);
    // The convolution's weights are free: row-major ones would run on reference code.
    auto needs = host::queryLibrary(*command, {false, command == &conv}, 2);
    for (size_t i = 0; i < command->operands.size(); ++i) {
      Operand &place = command->operands[i];
      place.layout = needs.layouts[i];
      if (needs.opaqueBytes[i] > 0)
        place.shape = {needs.opaqueBytes[i]};
      place.offset = top;
      top = alignUp(top + storedBytes(place.layout, place.shape, place.dtype), 64);
    }
    command->workspaceOffset = top;
    command->workspaceBytes = needs.workspaceBytes;
    top = alignUp(top + needs.workspaceBytes, 64);
  }
  program.plan.arenaBytes = top;
  program.graphs = {{GraphRole::Train, {}, {}, {conv, pool, norm}}};
  return program;
}

// Tests that running kernels allocates nothing at all, and that library calls allocate for their
// bookkeeping only: under 1 KiB a call, however large the tensors are.
TEST(Executor, AllocatesNothingForTensors) {
  if (!test::allocationsAreCounted())
    GTEST_SKIP() << "the allocator is the sanitizer's";
  auto allocatedBy = [](const auto &action) {
    action(); // the pool starts its threads, libraries fill their caches
    test::Allocations before = test::allocationsSoFar();
    for (int i = 0; i < 10; ++i)
      action();
    test::Allocations after = test::allocationsSoFar();
    return test::Allocations{after.calls - before.calls, after.bytes - before.bytes};
  };
  TinyProgram tiny;
  tiny.program.graphs[0].commands.erase(tiny.program.graphs[0].commands.begin());
  Executor kernelsOnly(tiny.program, image(), {.poison = true});
  std::vector<float> x = tiny.input(), y(x);
  test::Allocations none = allocatedBy([&] {
    kernelsOnly.run(0);
    kernelsOnly.writeTensor(tiny.x, x.data());
    kernelsOnly.readTensor(tiny.y, y.data());
  });
  EXPECT_EQ(none.calls, 0);
  EXPECT_EQ(none.bytes, 0);

  int64_t most = 0;
  for (int64_t size : {8, 64}) { // of images: 32 KiB and 2 MiB
    Executor executor(libraryProgram(size), image(), {});
    most = std::max(most, allocatedBy([&] { executor.run(0); }).bytes / 10);
  }
  EXPECT_LT(most, 3 * 1024) << "three calls";
  RecordProperty("libraryBytesPerCall", static_cast<int>(most / 3));
}

// Tests that a state tensor's values depend on seed and name alone, not on its layout, and that the
// padding of a blocked layout is zero.
TEST(Executor, InitialStateIgnoresLayouts) {
  Shape shape = {20, 19, 3, 3};
  Layout blocked{1, {0, 1, 2, 3}, {{1, 16}, {0, 8}}};
  Bytes half = storedBytes(blocked, shape, DType::F32);
  Program program;
  program.plan.arenaBytes = 2 * half;
  Init init{Init::Kind::Uniform, 0.5, 1, 0};
  program.state = {{"w", BufferKind::Parameter, f32(0, shape), init, true},
                   {"w", BufferKind::Parameter, f32(half, shape, blocked), init, true}};
  Executor executor(program, image(), {.poison = true});
  executor.initializeState(3);
  std::vector<float> a(20 * 19 * 9), b(a);
  executor.readTensor(program.state[0].place, a.data());
  executor.readTensor(program.state[1].place, b.data());
  EXPECT_EQ(a, b);
  double stored = 0, logical = std::accumulate(b.begin(), b.end(), 0.0);
  std::vector<float> raw(static_cast<size_t>(half / 4));
  executor.device().download(raw.data(), half, half);
  for (float value : raw)
    stored += value;
  EXPECT_NEAR(stored, logical, 1e-6 * logical) << "padding is not zero";
  program.state[1].name = "v";
  Executor renamed(program, image(), {});
  renamed.initializeState(3);
  renamed.readTensor(program.state[1].place, b.data());
  EXPECT_NE(a, b);
}

// Tests that state in slow memory whose rows are scattered over several of its pieces is initialized, written and read as in the arena.
TEST(Executor, StateInSlowMemoryHasAnyLayout) {
  const test::DiskFolder folder;
  const Shape shape = {96, 80, 7, 7};
  const Layout blocked{1, {0, 1, 2, 3}, {{1, 8}, {0, 8}}};
  const Bytes bytes = storedBytes(blocked, shape, DType::F32);
  ASSERT_GT(bytes, kSlowPieceBytes);
  const Init init{Init::Kind::Uniform, 0.5, 1, 0};
  Program arena, away;
  arena.plan.arenaBytes = bytes;
  arena.state = {{"w", BufferKind::Parameter, f32(0, shape, blocked), init, true}};
  away = arena;
  away.plan.arenaBytes = 64;
  away.slowBytes = alignUp(bytes, kSlowAlignment);
  away.slowFolder = folder.path();
  away.state[0].place.offset = slowBeginOf(away.plan.arenaBytes);
  Executor kept(arena, image(), {}), travels(away, image(), {});
  std::vector<float> expected(static_cast<size_t>(elementCount(shape))), found(expected.size());
  auto check = [&] {
    kept.readTensor(arena.state[0].place, expected.data());
    travels.readTensor(away.state[0].place, found.data());
    EXPECT_EQ(found, expected);
    std::vector<char> stored(static_cast<size_t>(bytes)), storedAway(stored.size());
    kept.device().download(stored.data(), 0, bytes);
    travels.device().download(storedAway.data(), away.state[0].place.offset, bytes);
    EXPECT_EQ(storedAway, stored);
  };
  kept.initializeState(3);
  travels.initializeState(3);
  check();
  std::ranges::reverse(expected);
  const std::vector<float> given = expected;
  kept.writeTensor(arena.state[0].place, given.data());
  travels.writeTensor(away.state[0].place, given.data());
  check();
  EXPECT_EQ(found, given);
  EXPECT_EQ(travels.device().outsideMemory().fixed,
            host::kProcessBytes + host::slowMemoryBytes(0, 0, bytes, 1, bytes));
}

TEST(Executor, InitialStateFromData) {
  std::vector<float> constants = {9, 1, 2, 3, 4, 5, 6};
  const char *raw = reinterpret_cast<const char *>(constants.data());
  Program program;
  program.plan.arenaBytes = 64;
  Operand place = f32(0, {2, 3}, {1, {1, 0}, {}});
  program.state = {{"w", BufferKind::Parameter, place, {Init::Kind::Data, 0, 0, 4}, true}};
  Executor executor(program, {kernels, {raw, 28}}, {});
  executor.initializeState(0);
  std::vector<float> stored(6);
  executor.device().download(stored.data(), 0, 24);
  EXPECT_THAT(stored, testing::ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(errorOf([&] { Executor(program, {kernels, {raw, 24}}, {}); }),
              HasSubstr("outside the constants of 24 bytes"));
}

// Tests an upload in rows of a tensor whose layout pads, and one that is given up.
TEST(Executor, UploadsPieceByPiece) {
  Program program;
  program.plan.arenaBytes = 4096;
  Operand place = f32(64, {3, 5, 2, 2}, {1, {0, 1, 2, 3}, {{1, 4}}});
  Executor executor(program, image(), {.poison = true});
  std::vector<float> values(60), found(60), stored(96);
  std::iota(values.begin(), values.end(), 1.0f);
  {
    TensorUpload upload(executor.device(), place);
    for (int64_t row : {2, 0, 1})
      upload.store(row * 20, (row + 1) * 20, values.data() + row * 20);
    upload.finish();
  }
  executor.readTensor(place, found.data());
  EXPECT_EQ(found, values);
  executor.device().download(stored.data(), 64, 96 * 4);
  EXPECT_EQ(std::accumulate(stored.begin(), stored.end(), 0.0f), 60 * 61 / 2) << "padding";
  {
    TensorUpload upload(executor.device(), place);
  }
  executor.writeTensor(place, values.data());
  executor.readTensor(place, found.data());
  EXPECT_EQ(found, values);
}

TEST(Executor, FewerThreadsGiveTheSameKernels) {
  TinyProgram tiny;
  Executor two(tiny.program, image(), {}), one(tiny.program, image(), {.threads = 1});
  two.initializeState(5);
  one.initializeState(5);
  std::vector<float> a = tiny.runOnce(two), b = tiny.runOnce(one);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 1e-5);
}

TEST(ExecutorErrors, Threads) {
  TinyProgram tiny;
  EXPECT_THAT(errorOf([&] { Executor(tiny.program, image(), {.threads = 3}); }),
              HasSubstr("planned for 2 threads, 3 are asked for; recompile with --threads=3"));
  EXPECT_THAT(errorOf([&] { Executor(tiny.program, image(), {.threads = -1}); }),
              HasSubstr("--threads=-1 is not a thread count"));
}

TEST(ExecutorErrors, PlacesOutsideTheArena) {
  TinyProgram tiny;
  tiny.program.plan.arenaBytes = 3 * TinyProgram::unit;
  EXPECT_THAT(errorOf([&] { Executor(tiny.program, image(), {}); }),
              testing::AllOf(HasSubstr("'y'"), HasSubstr("outside the arena")));
  TinyProgram dying;
  dying.program.graphs[0].commands[2].dying[0].offset = -64;
  EXPECT_THAT(errorOf([&] { Executor(dying.program, image(), {}); }),
              HasSubstr("a dying operand of command 'kernel' of node 'kernel1'"));
}

TEST(ExecutorErrors, KernelIndex) {
  TinyProgram tiny;
  tiny.program.graphs[0].commands[1].kernel = 2;
  EXPECT_THAT(errorOf([&] { Executor(tiny.program, image(), {}); }),
              HasSubstr("runs kernel 2, the executable has 2"));
}

TEST(ExecutorErrors, UnknownCall) {
  TinyProgram tiny;
  tiny.program.graphs[0].commands[0].op = CommandOp::CudaConvolution;
  EXPECT_THAT(errorOf([&] { Executor(tiny.program, image(), {}); }),
              testing::AllOf(HasSubstr("'fc'"), HasSubstr("'cuda.convolution'"),
                             HasSubstr("dnnl.max_pool_grad")));
}

TEST(ExecutorErrors, NoSuchGraph) {
  TinyProgram tiny;
  Executor executor(tiny.program, image(), {});
  EXPECT_THAT(errorOf([&] { executor.run(1); }), HasSubstr("has 1 graphs, graph 1 is asked for"));
}

// Tests an arena that no machine has: 2^60 bytes.
TEST(ExecutorErrors, TooMuchMemory) {
  Program program;
  program.plan.arenaBytes = Bytes{1} << 60;
  EXPECT_THAT(errorOf([&] { Executor(program, image(), {}); }),
              testing::AllOf(HasSubstr("the arena needs"), HasSubstr("available"),
                             HasSubstr("--memory-budget")));
}

} // namespace
} // namespace stow
