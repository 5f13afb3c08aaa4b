// Copies between an arena of the stand-in for libcuda and pinned memory of the host, as a program's commands ask for them.
#include "runtime/cuda/SlowMemory.h"

#include "runtime/base/Error.h"
#include "tests/gpu/StandInArena.h"
#include "tests/gpu/driver/StandIn.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

namespace stow::cuda {
namespace {

using testing::HasSubstr;

constexpr Bytes kBuffer = 5000, kSlow = 8192; // two blocks
constexpr Bytes kFrom = 64, kTo = 9024, kOther = 20032;
constexpr unsigned char kValue = 7, kOverwritten = 9;

template <typename Function> Function *standin(const char *name) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function *>(dlsym(library, name));
}

Command command(CommandOp op, Bytes offset, int64_t copy) {
  Command command;
  command.op = op;
  command.name = "/relu";
  command.operands = {{offset, DType::U8, {kBuffer}, {}}};
  command.ints["copy"] = {copy};
  if (op != CommandOp::AwaitCopy)
    command.ints["slow_offset"] = {0};
  return command;
}

/// Out, in again to another place before the copy out is awaited, and both awaited.
Program makeProgram() {
  Program program;
  program.plan.arenaBytes = 1 << 16;
  program.slowBytes = kSlow;
  GraphProgram graph;
  graph.commands = {command(CommandOp::CopyOut, kFrom, 0), command(CommandOp::CopyIn, kTo, 1),
                    command(CommandOp::AwaitCopy, kTo, 1), command(CommandOp::AwaitCopy, kFrom, 0)};
  program.graphs = {graph};
  return program;
}

class CudaSlowMemoryTest : public StandInArena {
protected:
  void fill(Bytes offset, unsigned char value) {
    driver.require(driver.memsetD8Async(arena + static_cast<Address>(offset), value,
                                        static_cast<size_t>(kBuffer), stream),
                   "fill");
  }

  /// The last of a buffer's bytes, once the stream has come so far.
  unsigned char last(Bytes offset) {
    unsigned char byte = 0;
    driver.require(driver.memcpyDtoHAsync(&byte, arena + static_cast<Address>(offset + kBuffer - 1),
                                          1, stream),
                   "download");
    driver.require(driver.streamSynchronize(stream), "waiting");
    return byte;
  }

  std::string refusal(const Program &program, const SlowMemoryOptions &options = {}) {
    try {
      SlowMemory slow(driver, program, options, arena);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }

  const Program program = makeProgram();
};

/// When copies are made, and in which order the stand-in runs what nothing orders: as late as waits allow, as early, drawn.
class CudaSlowMemoryTimes : public CudaSlowMemoryTest,
                            public testing::WithParamInterface<std::tuple<CopyTime, uint64_t>> {};
INSTANTIATE_TEST_SUITE_P(Orders, CudaSlowMemoryTimes,
                         testing::Combine(testing::Values(CopyTime::Background, CopyTime::Early,
                                                          CopyTime::Late),
                                          testing::Values(0, 1, 5)));

// Tests that what leaves comes back, also in runs again, and that the place it left may be written behind the await.
TEST_P(CudaSlowMemoryTimes, ComesBack) {
  const auto [time, order] = GetParam();
  standin<decltype(standinSetOrder)>("standinSetOrder")(order);
  SlowMemoryOptions options;
  options.pace.time = time;
  SlowMemory slow(driver, program, options, arena);
  EXPECT_EQ(slow.bytes(), kSlow);
  for (unsigned char run = 0; run < 3; ++run) {
    fill(kFrom, kValue + run);
    fill(kTo, kOverwritten);
    slow.start(0, 0, stream, run == 2);
    fill(kOther, kOverwritten); // beside it
    slow.start(0, 1, stream, run == 2);
    slow.await(0, 1, stream, run == 2);
    slow.await(0, 0, stream, run == 2);
    fill(kFrom, kOverwritten);
    slow.addTraffic(0);
    EXPECT_EQ(last(kTo), kValue + run);
    EXPECT_EQ(last(kFrom), kOverwritten);
    EXPECT_EQ(slow.at(0)[kBuffer - 1], kValue + run) << "the host sees what lies there";
    for (size_t copy : {0, 1})
      EXPECT_EQ(slow.seconds(0, copy) > 0, run == 2) << "of runs that are timed alone";
  }
  EXPECT_EQ(slow.traffic().bytesOut, 3 * kBuffer);
  EXPECT_EQ(slow.traffic().bytesIn, 3 * kBuffer);
}

// Tests that a start and an await that are captured are nodes of the graph, beside what stands between them.
TEST_P(CudaSlowMemoryTimes, InsideOfAGraph) {
  const auto [time, order] = GetParam();
  standin<decltype(standinSetOrder)>("standinSetOrder")(order);
  SlowMemoryOptions options;
  options.pace.time = time;
  SlowMemory slow(driver, program, options, arena);
  driver.require(driver.streamBeginCapture(stream, kCaptureThreadLocal), "capturing");
  slow.start(0, 0, stream, false);
  fill(kOther, kOverwritten);
  slow.start(0, 1, stream, false);
  slow.await(0, 1, stream, false);
  slow.await(0, 0, stream, false);
  fill(kFrom, kOverwritten);
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  driver.require(driver.streamEndCapture(stream, &graph), "capturing");
  driver.require(driver.graphInstantiateWithFlags(&exec, graph, 0), "making a graph");
  driver.require(driver.graphDestroy(graph), "leaving it");
  for (unsigned char run = 0; run < 3; ++run) {
    fill(kFrom, kValue + run);
    fill(kTo, kOverwritten);
    driver.require(driver.graphLaunch(exec, stream), "launching");
    EXPECT_EQ(last(kTo), kValue + run);
    EXPECT_EQ(last(kFrom), kOverwritten);
  }
  driver.require(driver.graphExecDestroy(exec), "leaving it");
}

// Tests that a copy that takes longer than the plan says is named, with the link that would say so, and others are not.
TEST_F(CudaSlowMemoryTest, SlowerThanPlanned) {
  SlowMemory slow(driver, program, {}, arena);
  EXPECT_THAT(slow.slowerThanPlanned(program), testing::IsEmpty()) << "a plan without times";
  Program planned = program;
  GraphPlan plan;
  plan.copies = PlannedCopies{};
  plan.copies->each = {{"out", true, 0, kBuffer, 0, 3, 0, 1e-9},
                       {"in", false, 0, kBuffer, 1, 2, 0, 1}};
  planned.plan.graphs = {plan};
  const std::vector<std::string> notes = slow.slowerThanPlanned(planned);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("a copy of 4.88 KiB (5000 bytes) to the host's memory passes "));
  EXPECT_THAT(notes[0], HasSubstr("and 5e+03 as planned"));
  EXPECT_THAT(notes[0], HasSubstr("--link="));
}

// Tests that memory that the host does not have is named with its size and the next step, and that nothing stays behind.
TEST_F(CudaSlowMemoryTest, TheHostHasNoRoom) {
  standin<decltype(standinFail)>("standinFail")("cuMemHostAlloc", 1, kOutOfMemory);
  EXPECT_THAT(refusal(program),
              HasSubstr("slow memory takes 8.00 KiB (8192 bytes) of the host's memory"));
  EXPECT_EQ(refusal(program), "");
}

// Tests that what belongs to a file is refused.
TEST_F(CudaSlowMemoryTest, NoFolder) {
  SlowMemoryOptions folder, paced;
  folder.folder = "/scratch";
  paced.pace.outBytesPerSecond = 1e9;
  EXPECT_THAT(refusal(program, folder), HasSubstr("--offload=/scratch names a folder"));
  EXPECT_THAT(refusal(program, paced),
              HasSubstr("--offload-bandwidth holds copies to a file back"));
}

} // namespace
} // namespace stow::cuda
