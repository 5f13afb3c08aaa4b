// Small maps of one body in one launch: the same bytes as one by one, every access inside the operands and
// results of the maps, whatever their lengths and alignments.
#include "codegen/kernels/device/MapsTogether.h"
#include "ir/StowKernelOps.h"
#include "runtime/base/Concat.h"
#include "tests/codegen/LoadedKernels.h"
#include "tests/gpu/DeviceRunner.h"
#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/LoadedModule.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace stow;

namespace {

/// w -= rate * g and a mean of g's squares in bf16, over tensors of these lengths.
std::string updates(const std::vector<int64_t> &lengths) {
  std::string arguments = "%rate: tensor<f32>", body;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const std::string of = concat("tensor<", lengths[i], "xf32>"),
                      low = concat("tensor<", lengths[i], "xbf16>");
    arguments += concat(", %w", i, ": ", of, ", %g", i, ": ", of, ", %m", i, ": ", low);
    body += concat("  %u", i, ", %v", i, " = stow.map %w", i, ", %g", i, ", %rate, %m", i,
                   " {updates = array<i64: 0, 0, 1, 3>} : (", of, ", ", of, ", tensor<f32>, ", low,
                   ") -> (", of, ", ", low, ")", R"( {
    ^bb0(%w: f32, %g: f32, %r: f32, %m: bf16):
      %0 = arith.mulf %r, %g : f32
      %1 = arith.subf %w, %0 : f32
      %2 = arith.mulf %g, %g : f32
      %3 = arith.extf %m : bf16 to f32
      %4 = arith.addf %2, %3 : f32
      %5 = arith.truncf %4 : f32 to bf16
      stow.yield %1, %5 : f32, bf16
    }
)");
  }
  return "func.func @g(" + arguments + ") {\n" + body + "  return }";
}

class Together : public testing::TestWithParam<std::pair<int64_t, std::vector<int64_t>>> {
protected:
  Together() : memory(uint64_t{1} << 26) {
    context.loadDialect<StowDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>();
    graph = mlir::parseSourceString<mlir::ModuleOp>(updates(GetParam().second), &context);
    graph->walk([&](MapOp map) { maps.push_back(map); });
  }

  /// Bytes of all operands and results, in the order of the kernel's arguments, results over operands.
  struct Place {
    uint64_t address, bytes;
    bool isResult;
  };

  /// Places of all maps, each beginning at a multiple of the alignment and of nothing larger; values
  /// follow from the place's number alone.
  std::vector<Place> place() {
    const int64_t alignment = GetParam().first;
    std::vector<Place> places;
    const uint64_t rate = memory.allocate(64);
    const float value = 0.5f;
    memcpy(memory.host(rate, 4), &value, 4);
    for (MapOp map : maps) {
      std::vector<Place> own;
      for (mlir::Value operand : map->getOperands()) {
        const uint64_t bytes = storedBytes(operand.getType());
        if (mlir::cast<mlir::RankedTensorType>(operand.getType()).getRank() == 0) {
          own.push_back({rate, 4, false});
          continue;
        }
        const uint64_t address = memory.allocate(bytes + 64) + (alignment < 16 ? alignment : 0);
        auto *to = memory.host(address, bytes);
        const bool isWide = mlir::getElementTypeOrSelf(operand.getType()).isF32();
        auto values = someFloats(bytes / (isWide ? 4 : 2), 1, places.size() + own.size() + 1);
        for (size_t i = 0; i < values.size(); ++i)
          memcpy(to + i * (isWide ? 4 : 2), reinterpret_cast<char *>(&values[i]) + (isWide ? 0 : 2),
                 isWide ? 4 : 2);
        own.push_back({address, bytes, false});
      }
      own.push_back({own[0].address, own[0].bytes, true});
      own.push_back({own[3].address, own[3].bytes, true});
      places.insert(places.end(), own.begin(), own.end());
    }
    return places;
  }

  void run(const sim::LoadedModule &module, const KernelInfo &info, llvm::ArrayRef<Place> places,
           unsigned blocks) {
    sim::Launch launch;
    launch.kernel = module.kernel(info.symbol);
    launch.block = {static_cast<uint32_t>(launch.kernel->maxThreads), 1, 1};
    launch.grid = {blocks, 1, 1};
    launch.checks.planned = launch.checks.races = true;
    std::vector<uint64_t> params = {0, static_cast<uint64_t>(info.tasks)};
    for (const Place &place : places) {
      params.push_back(place.address);
      (place.isResult ? launch.checks.writes : launch.checks.reads)
          .push_back({place.address, place.address + place.bytes, "place"});
    }
    launch.params.resize(params.size() * 8);
    memcpy(launch.params.data(), params.data(), launch.params.size());
    sim::execute(launch, memory);
  }

  std::vector<std::vector<uint8_t>> contents(llvm::ArrayRef<Place> places) {
    std::vector<std::vector<uint8_t>> all;
    for (const Place &place : places) {
      auto *bytes = memory.host(place.address, place.bytes);
      all.emplace_back(bytes, bytes + place.bytes);
    }
    return all;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> graph;
  llvm::SmallVector<MapOp> maps;
  sim::DeviceMemory memory;
};

// Tests that the one launch leaves the bytes of as many, with fewer blocks than tasks and with one each.
TEST_P(Together, SameBytesAsOneByOne) {
  KernelModule kernels(&context, KernelTarget::Device);
  std::vector<KernelInfo> each;
  llvm::SmallVector<int64_t> alignments(6 * maps.size(), GetParam().first);
  for (MapOp map : maps)
    each.push_back(*kernels.add(map, llvm::ArrayRef(alignments).take_front(6)));
  auto together = addMapsTogether(kernels, maps, alignments);
  ASSERT_TRUE(succeeded(together));
  sim::LoadedModule module(compileToPtx(kernels, "sm_90"), memory);
  const auto single = place();
  for (size_t i = 0; i < maps.size(); ++i)
    run(module, each[i], llvm::ArrayRef(single).slice(6 * i, 6), 1);
  for (unsigned blocks : {2u, static_cast<unsigned>(together->tasks)}) {
    const auto joined = place();
    const auto before = contents(joined);
    run(module, *together, joined, blocks);
    EXPECT_EQ(contents(joined), contents(single));
    EXPECT_NE(contents(joined), before);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Maps, Together,
    testing::Values(std::pair(int64_t{16}, std::vector<int64_t>{64, 1003, 7, 4096, 2, 1024}),
                    std::pair(int64_t{16}, std::vector<int64_t>{3000, 5}),
                    std::pair(int64_t{4}, std::vector<int64_t>{64, 1003, 2})));

// Tests that maps of another body, or that read another number, are refused.
TEST(MapsTogether, OthersAreRefused) {
  mlir::MLIRContext context;
  context.loadDialect<StowDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>();
  std::string text = updates({8, 16});
  const std::string rate = "%rate, %m1";
  text.replace(text.find(rate), rate.size(), "%other, %m1");
  text.replace(text.find("%rate: "), 0, "%other: tensor<f32>, ");
  auto graph = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  llvm::SmallVector<MapOp> maps;
  graph->walk([&](MapOp map) { maps.push_back(map); });
  std::string said;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) { said = diagnostic.str(); });
  KernelModule kernels(&context, KernelTarget::Device);
  EXPECT_TRUE(failed(addMapsTogether(kernels, maps, {})));
  EXPECT_THAT(said, testing::HasSubstr("maps that are not like it"));
}

} // namespace
