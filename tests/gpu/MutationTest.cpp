// What a program could get wrong about a generated kernel is caught: every operand and result shifted by
// an element either way or exchanged for another one, fewer threads, fewer tasks.
#include "runtime/base/Concat.h"
#include "tests/gpu/DeviceRunner.h"
#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/LoadedModule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

using namespace stow;

namespace {

const char *kGraph = R"(
  func.func @g(%x: tensor<40x300xf32>, %s: tensor<300xf32>, %q: tensor<2x70x16xf32>) {
    %0 = stow.softmax %x {axis = 1 : i64} : (tensor<40x300xf32>) -> tensor<40x300xf32>
    %1, %2, %3 = stow.layer_norm %x, %s {epsilon = 1.0e-5 : f64}
        : (tensor<40x300xf32>, tensor<300xf32>) -> (tensor<40x300xf32>, tensor<40xf32>, tensor<40xf32>)
    %4 = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (tensor<40x300xf32>) -> tensor<300xf32>
    %5, %6 = stow.attention %q, %q, %q {scale = 0.25 : f64, diagonal = 0 : i64, zero_rows = false,
        ratio = 0.0 : f64, stream = 0 : i64}
        : (tensor<2x70x16xf32>, tensor<2x70x16xf32>, tensor<2x70x16xf32>)
        -> (tensor<2x70x16xf32>, tensor<2x70x2xf32>)
    return
  })";

/// An op's operands and results, one behind the other with room between, all values 1.
class Mutation : public testing::Test {
protected:
  Mutation() : memory(1 << 24) {
    context.loadDialect<StowDialect, mlir::func::FuncDialect>();
    graph = mlir::parseSourceString<mlir::ModuleOp>(kGraph, &context);
    KernelModule kernels(&context, KernelTarget::Device);
    graph->walk([&](mlir::Operation *op) {
      if (hasGeneratedKernel(op)) {
        infos.push_back(*kernels.add(op));
        ops.push_back(op);
      }
    });
    module.emplace(compileToPtx(kernels, "sm_80"), memory);
  }

  struct Call {
    sim::Launch launch;
    std::vector<uint64_t> params; ///< begin, end, addresses
    size_t results = 0;           ///< number of the first result's parameter
  };

  Call callOf(size_t number) {
    Call call;
    mlir::Operation *op = ops[number];
    call.launch.kernel = module->kernel(infos[number].symbol);
    call.launch.block = {static_cast<uint32_t>(call.launch.kernel->maxThreads), 1, 1};
    call.launch.grid = {3, 1, 1};
    call.launch.checks.planned = true;
    call.params = {0, static_cast<uint64_t>(infos[number].tasks)};
    call.results = 2 + op->getNumOperands();
    uint64_t arena = memory.allocate(1 << 18), at = arena + 1024;
    auto add = [&](mlir::Type type, std::vector<sim::Range> &ranges) {
      uint64_t bytes = storedBytes(type);
      call.params.push_back(at);
      ranges.push_back({at, at + bytes, concat("argument ", call.params.size() - 3)});
      auto *values = reinterpret_cast<float *>(memory.host(at, bytes));
      for (uint64_t i = 0; i < bytes / 4; ++i)
        values[i] = static_cast<float>(i % 7);
      at += (bytes + 255) / 256 * 256 + 1024;
    };
    for (mlir::Type type : op->getOperandTypes())
      add(type, call.launch.checks.reads);
    for (mlir::Type type : op->getResultTypes())
      add(type, call.launch.checks.writes);
    return call;
  }

  void run(Call call) {
    call.launch.params.resize(8 * call.params.size());
    memcpy(call.launch.params.data(), call.params.data(), call.launch.params.size());
    sim::execute(call.launch, memory);
  }

  /// The kind of the fault; fails where there is none.
  int faultOf(const Call &call, const std::string &what) {
    try {
      run(call);
    } catch (const sim::Fault &fault) {
      return static_cast<int>(fault.kind);
    }
    ADD_FAILURE() << call.launch.kernel->name << ": not caught: " << what;
    return -1;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> graph;
  std::vector<KernelInfo> infos;
  std::vector<mlir::Operation *> ops;
  sim::DeviceMemory memory;
  std::optional<sim::LoadedModule> module;
};

constexpr int kUnplanned = static_cast<int>(sim::Fault::Kind::Unplanned);
constexpr int kMisaligned = static_cast<int>(sim::Fault::Kind::Misaligned);

TEST_F(Mutation, OffsetsOfEveryArgument) {
  ASSERT_EQ(ops.size(), 4u);
  for (size_t number = 0; number < ops.size(); ++number) {
    Call right = callOf(number);
    ASSERT_NO_THROW(run(right));
    for (size_t argument = 2; argument < right.params.size(); ++argument)
      for (int64_t shift : {-256, -4, 4, 256}) {
        Call wrong = right;
        wrong.params[argument] += static_cast<uint64_t>(shift);
        // Vectors do not begin where an element does: that shows first.
        EXPECT_THAT(faultOf(wrong, concat("argument ", argument - 2, " shifted by ", shift)),
                    testing::AnyOf(kUnplanned, kMisaligned));
      }
  }
}

TEST_F(Mutation, ResultsWhereOperandsLie) {
  for (size_t number = 0; number < ops.size(); ++number) {
    Call wrong = callOf(number);
    wrong.params[wrong.results] = wrong.params[2];
    EXPECT_EQ(faultOf(wrong, "the result written over the operand"), kUnplanned);
  }
}

// Tests that a block of half the threads is caught: warps that are not there wrote nothing to fold.
TEST_F(Mutation, FewerThreads) {
  for (size_t number : {0u, 1u, 3u}) {
    Call wrong = callOf(number);
    const uint32_t threads = wrong.launch.block[0];
    wrong.launch.block = {threads / 2, 1, 1};
    EXPECT_EQ(faultOf(wrong, "a block of half the threads"),
              static_cast<int>(sim::Fault::Kind::Uninitialized));
    wrong.launch.block = {2 * threads, 1, 1};
    EXPECT_EQ(faultOf(wrong, "a block of twice the threads"),
              static_cast<int>(sim::Fault::Kind::BadLaunch));
  }
}

// Tests that tasks that were left out show: what nobody writes stays the NaN that fresh memory is.
TEST_F(Mutation, FewerTasks) {
  Call call = callOf(0);
  ASSERT_GT(call.params[1], 1u);
  const sim::Range result = call.launch.checks.writes[0];
  auto unwritten = [&] {
    uint8_t *bytes = memory.host(result.begin, result.end - result.begin);
    const auto *values = reinterpret_cast<const float *>(bytes);
    size_t count = (result.end - result.begin) / 4;
    return std::count_if(values, values + count, [](float value) { return std::isnan(value); });
  };
  memset(memory.host(result.begin, result.end - result.begin), 0xFF, result.end - result.begin);
  run(call);
  EXPECT_EQ(unwritten(), 0);
  memset(memory.host(result.begin, result.end - result.begin), 0xFF, result.end - result.begin);
  call.params[1]--;
  run(call);
  EXPECT_GT(unwritten(), 0);
}

} // namespace
