// The stand-in for libcuda as a program sees it: opened at run time, every function found by name.
#include "tests/gpu/driver/StandIn.h"

#include <cuda.h>

#include <cstring>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

namespace {

void *library() {
  static void *handle = dlopen(STANDIN_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error(dlerror());
  return handle;
}

void *symbol(const char *name) {
  void *found = dlsym(library(), name);
  if (!found)
    throw std::runtime_error(std::string("the stand-in has no ") + name);
  return found;
}

// The function that cuda.h declares under this name, version included.
#define TEXT2(name) #name
#define TEXT(name) TEXT2(name)
#define CU(name) reinterpret_cast<decltype(&name)>(symbol(TEXT(name)))
#define STANDIN(name) reinterpret_cast<decltype(&name)>(symbol(#name))
#define OK(call) ASSERT_EQ(call, CUDA_SUCCESS) << STANDIN(standinLastError)()

const char *kPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 scale = 3;
.visible .entry add(.param .u64 a, .param .u64 y, .param .u32 by)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [y];
  ld.param.u32 %r1, [by];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r2, %r3, %r4, %r2;
  mul.wide.u32 %d3, %r2, 4;
  add.s64 %d1, %d1, %d3;
  add.s64 %d2, %d2, %d3;
  ld.global.u32 %r5, [%d1];
  add.u32 %r5, %r5, %r1;
  st.global.u32 [%d2], %r5;
  ret;
}
)";

constexpr size_t kCount = 64;

class StandIn : public testing::Test {
protected:
  void SetUp() override {
    for (const char *name : {"STANDIN_CHIP", "STANDIN_MEMORY", "STANDIN_FAIL",
                             "STANDIN_DRIVER_VERSION", "STANDIN_GRANULARITY"})
      unsetenv(name);
    STANDIN(standinReset)();
  }

  /// A context with the kernel, two arrays in one arena and two streams.
  void start() {
    OK(CU(cuInit)(0));
    CUcontext context;
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuModuleLoadData)(&module, kPtx));
    OK(CU(cuModuleGetFunction)(&add, module, "add"));
    OK(CU(cuMemAlloc)(&arena, 4 * kCount * sizeof(uint32_t)));
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    OK(CU(cuMemHostAlloc)(reinterpret_cast<void **>(&pinned), kCount * sizeof(uint32_t), 0));
    OK(CU(cuMemsetD32)(arena, 0, 4 * kCount));
    OK(CU(cuCtxSynchronize)());
  }

  CUdeviceptr array(size_t number) const { return arena + number * kCount * sizeof(uint32_t); }

  CUresult launch(CUstream where, size_t from, size_t to, uint32_t by, unsigned blocks = 2) {
    CUdeviceptr a = array(from), y = array(to);
    void *params[] = {&a, &y, &by};
    return CU(cuLaunchKernel)(add, blocks, 1, 1, kCount / 2, 1, 1, 0, where, params, nullptr);
  }

  uint32_t value(size_t number) {
    std::vector<uint32_t> host(kCount);
    EXPECT_EQ(CU(cuMemcpyDtoH)(host.data(), array(number), kCount * sizeof(uint32_t)),
              CUDA_SUCCESS);
    for (uint32_t each : host)
      EXPECT_EQ(each, host[0]);
    return host[0];
  }

  StandInCounters counters() {
    StandInCounters found;
    STANDIN(standinCounters)(&found);
    return found;
  }
  std::string lastError() { return STANDIN(standinLastError)(); }

  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CUdeviceptr arena = 0;
  CUstream stream = nullptr, other = nullptr;
  uint32_t *pinned = nullptr;
};

TEST_F(StandIn, DevicesAndVersions) {
  int version = 0, count = 0, value = 0;
  size_t bytes = 0;
  char name[64];
  EXPECT_EQ(CU(cuDeviceGetCount)(&count), CUDA_ERROR_NOT_INITIALIZED);
  setenv("STANDIN_CHIP", "a100", 1);
  setenv("STANDIN_DRIVER_VERSION", "12040", 1);
  STANDIN(standinReset)();
  OK(CU(cuInit)(0));
  OK(CU(cuDriverGetVersion)(&version));
  OK(CU(cuDeviceGetCount)(&count));
  OK(CU(cuDeviceGetName)(name, sizeof name, 0));
  OK(CU(cuDeviceTotalMem)(&bytes, 0));
  OK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EXPECT_EQ(version, 12040);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(value, 108);
  EXPECT_THAT(name, HasSubstr("A100"));
  EXPECT_GT(bytes, size_t{70} << 30);
  EXPECT_EQ(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1),
            CUDA_ERROR_INVALID_DEVICE);
  OK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(value, 8);
  const char *text;
  OK(CU(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(StandIn, FunctionsAreFoundByName) {
  void *function = nullptr;
  CUdriverProcAddressQueryResult status;
  OK(CU(cuGetProcAddress)("cuMemAlloc", &function, 12000, 0, &status));
  EXPECT_EQ(function, symbol("cuMemAlloc_v2"));
  EXPECT_EQ(CU(cuGetProcAddress)("cuTexObjectCreate", &function, 12000, 0, &status),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_F(StandIn, RunsKernels) {
  start();
  OK(launch(stream, 0, 1, 5));
  OK(launch(stream, 1, 2, 6));
  EXPECT_EQ(counters().launches, 2u);
  EXPECT_EQ(counters().kernels, 0u); // nobody waited yet
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(counters().kernels, 2u);
  EXPECT_EQ(value(2), 11u);
  CUdeviceptr scale;
  size_t bytes;
  OK(CU(cuModuleGetGlobal)(&scale, &bytes, module, "scale"));
  uint32_t three = 0;
  OK(CU(cuMemcpyDtoH)(&three, scale, bytes));
  EXPECT_EQ(three, 3u);
  int blocks = 0, threads = 0;
  OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, add, 256, 0));
  EXPECT_EQ(blocks, 8);
  OK(CU(cuFuncGetAttribute)(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
  EXPECT_EQ(threads, 1024);
}

// Tests that a wait that is missing is seen: the reader runs before the writer, or long after it.
TEST_F(StandIn, WorkThatNothingOrders) {
  start();
  OK(launch(stream, 0, 1, 5));
  OK(launch(other, 1, 2, 1));
  OK(CU(cuStreamSynchronize)(other));
  EXPECT_EQ(value(2), 1u); // the sum of what was there before
  CUevent event;
  OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  OK(launch(stream, 0, 1, 7));
  OK(CU(cuEventRecord)(event, stream));
  OK(CU(cuStreamWaitEvent)(other, event, 0));
  OK(launch(other, 1, 2, 1));
  OK(CU(cuStreamSynchronize)(other));
  EXPECT_EQ(value(2), 8u);
  // Overwritten before it is read.
  OK(launch(other, 1, 2, 1));
  OK(launch(stream, 0, 1, 50));
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuStreamSynchronize)(other));
  EXPECT_EQ(value(2), 51u);
}

TEST_F(StandIn, AsynchronousCopiesReadWhenTheyRun) {
  start();
  std::fill(pinned, pinned + kCount, 1u);
  OK(CU(cuMemcpyHtoDAsync)(array(0), pinned, kCount * sizeof(uint32_t), stream));
  std::fill(pinned, pinned + kCount, 2u); // too early
  uint64_t before = counters().synchronizations;
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(value(0), 2u);
  EXPECT_EQ(counters().synchronizations, before + 2);
  // Pageable memory is copied before the call returns, which is a synchronization.
  std::vector<uint32_t> pageable(kCount, 3);
  before = counters().synchronizations;
  OK(CU(cuMemcpyHtoDAsync)(array(0), pageable.data(), kCount * sizeof(uint32_t), stream));
  EXPECT_EQ(counters().synchronizations, before + 1);
  std::fill(pageable.begin(), pageable.end(), 4u);
  EXPECT_EQ(value(0), 3u);
}

TEST_F(StandIn, PollingComesToAnEnd) {
  start();
  CUevent event;
  OK(CU(cuEventCreate)(&event, 0));
  OK(launch(stream, 0, 1, 5));
  OK(launch(stream, 1, 1, 5));
  OK(CU(cuEventRecord)(event, stream));
  EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
  int polls = 0;
  while (CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY)
    ASSERT_LT(++polls, 10);
  EXPECT_EQ(value(1), 10u);
}

TEST_F(StandIn, TheHostCannotTouchDeviceMemory) {
  start();
  EXPECT_DEATH(*reinterpret_cast<volatile uint32_t *>(arena) = 1, "");
}

//===-- graphs --------------------------------------------------------------------------------===//

TEST_F(StandIn, CapturedWorkIsReplayed) {
  start();
  CUevent fork, join;
  OK(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
  OK(CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(launch(stream, 0, 0, 1)); // counts the replays
  OK(CU(cuEventRecord)(fork, stream));
  OK(CU(cuStreamWaitEvent)(other, fork, 0));
  OK(launch(other, 0, 1, 100));
  OK(launch(stream, 0, 2, 200));
  OK(CU(cuEventRecord)(join, other));
  OK(CU(cuStreamWaitEvent)(stream, join, 0));
  OK(launch(stream, 1, 3, 0));
  CUgraph graph;
  OK(CU(cuStreamEndCapture)(stream, &graph));
  size_t nodes = 0;
  OK(CU(cuGraphGetNodes)(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 4u);
  CUgraphExec exec;
  OK(CU(cuGraphInstantiate)(&exec, graph, 0));
  OK(CU(cuGraphDestroy)(graph));
  EXPECT_EQ(value(0), 0u); // capturing runs nothing
  for (int i = 0; i < 3; ++i)
    OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(value(0), 3u);
  EXPECT_EQ(value(2), 203u);
  EXPECT_EQ(value(3), 103u);
  EXPECT_EQ(counters().launches, 0u);
  EXPECT_EQ(counters().kernels, 12u);
  OK(CU(cuGraphExecDestroy)(exec));
}

/// A graph that reads array 0 into array 1, records an event, and counts in array 2; a copy to one of these that
/// comes on another stream behind the event, or at any time. Returns what waiting for both says.
class StandInCopies : public StandIn, public testing::WithParamInterface<uint64_t> {
protected:
  enum class Waits { ForTheEvent, ForNothing };

  void capture() {
    start();
    STANDIN(standinSetOrder)(GetParam());
    OK(CU(cuEventCreate)(&inside, CU_EVENT_DISABLE_TIMING));
    OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(launch(stream, 0, 1, 1));
    OK(CU(cuEventRecordWithFlags)(inside, stream, CU_EVENT_RECORD_EXTERNAL));
    OK(launch(stream, 2, 2, 1));
    CUgraph graph;
    OK(CU(cuStreamEndCapture)(stream, &graph));
    size_t nodes = 0;
    OK(CU(cuGraphGetNodes)(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 3u);
    OK(CU(cuGraphInstantiate)(&exec, graph, 0));
    std::fill(pinned, pinned + kCount, 50u);
  }

  CUresult copyBeside(size_t to, Waits waits) {
    if (CU(cuGraphLaunch)(exec, stream) ||
        (waits == Waits::ForTheEvent && CU(cuStreamWaitEvent)(other, inside, 0)) ||
        CU(cuMemcpyHtoDAsync)(array(to), pinned, kCount * sizeof(uint32_t), other))
      return CUDA_ERROR_UNKNOWN;
    const CUresult first = CU(cuStreamSynchronize)(GetParam() % 2 ? stream : other);
    return first ? first : CU(cuStreamSynchronize)(GetParam() % 2 ? other : stream);
  }

  CUevent inside = nullptr;
  CUgraphExec exec = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Orders, StandInCopies, testing::Values(0, 1, 2, 3));

TEST_P(StandInCopies, BehindAnEventInsideOfAGraph) {
  capture();
  for (uint32_t launches = 1; launches <= 3; ++launches) {
    OK(copyBeside(0, Waits::ForTheEvent));
    EXPECT_EQ(value(1), launches == 1 ? 1u : 51u); // what was there before the copy
    EXPECT_EQ(value(0), 50u);
    EXPECT_EQ(value(2), launches);
  }
}

TEST_P(StandInCopies, RacesWithKernelsAreErrors) {
  capture();
  EXPECT_EQ(copyBeside(0, Waits::ForNothing), CUDA_ERROR_LAUNCH_FAILED); // read before the event
  EXPECT_THAT(lastError(), AllOf(HasSubstr("race: read of 4 bytes"), HasSubstr("which copy 1 of")));
  SetUp();
  capture();
  EXPECT_EQ(copyBeside(2, Waits::ForTheEvent), CUDA_ERROR_LAUNCH_FAILED); // read behind it
  EXPECT_THAT(lastError(), HasSubstr("race: read of 4 bytes"));
  SetUp();
  capture();
  EXPECT_EQ(copyBeside(1, Waits::ForNothing), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(lastError(), HasSubstr("race: write of 4 bytes"));
}

TEST_P(StandInCopies, RacesOfCopiesAreErrors) {
  capture();
  constexpr size_t kBytes = kCount * sizeof(uint32_t);
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamWaitEvent)(other, inside, 0));
  OK(CU(cuMemcpyHtoDAsync)(array(3), pinned, kBytes, other));
  CUevent came;
  OK(CU(cuEventCreate)(&came, CU_EVENT_DISABLE_TIMING));
  OK(CU(cuEventRecord)(came, other));
  OK(CU(cuStreamWaitEvent)(stream, came, 0));
  OK(CU(cuMemcpyDtoDAsync)(array(0), array(3), kBytes, stream));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(value(0), 50u);
  OK(CU(cuMemcpyHtoDAsync)(array(3), pinned, kBytes, other));
  OK(CU(cuMemcpyDtoDAsync)(array(0), array(3), kBytes, stream)); // may come first
  const CUresult first = CU(cuStreamSynchronize)(stream);
  EXPECT_EQ(first ? first : CU(cuStreamSynchronize)(other), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(lastError(), HasSubstr("touch the same bytes, and nothing orders the two"));
}

/// A graph that copies array 0 to the host on a second stream while it counts in `target`, and writes array 0 behind the
/// copy, or whenever.
class StandInForkedCopies : public StandInCopies {
protected:
  CUresult run(size_t target, Waits waits) {
    CUevent fork, join;
    CUgraph graph;
    for (CUevent *event : {&fork, &join})
      if (CU(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_UNKNOWN;
    if (CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ||
        launch(stream, 0, 0, 1) || CU(cuEventRecord)(fork, stream) ||
        CU(cuStreamWaitEvent)(other, fork, 0) ||
        CU(cuMemcpyDtoHAsync)(pinned, array(0), kCount * sizeof(uint32_t), other) ||
        CU(cuEventRecord)(join, other) || launch(stream, target, target, 1) ||
        (waits == Waits::ForTheEvent && CU(cuStreamWaitEvent)(stream, join, 0)) ||
        launch(stream, 0, 0, 10) || CU(cuStreamWaitEvent)(stream, join, 0) ||
        launch(stream, 1, 1, 1) || CU(cuStreamEndCapture)(stream, &graph) ||
        CU(cuGraphInstantiate)(&exec, graph, 0) || CU(cuGraphLaunch)(exec, stream))
      return CUDA_ERROR_UNKNOWN;
    return CU(cuStreamSynchronize)(stream);
  }
};
INSTANTIATE_TEST_SUITE_P(Orders, StandInForkedCopies, testing::Values(0, 1, 2, 3));

TEST_P(StandInForkedCopies, InsideOfAGraph) {
  start();
  STANDIN(standinSetOrder)(GetParam());
  for (uint32_t runs = 1; runs <= 3; ++runs) {
    OK(run(2, Waits::ForTheEvent));
    EXPECT_EQ(pinned[0], 11 * (runs - 1) + 1) << "before what is written behind the copy";
    EXPECT_EQ(value(0), 11 * runs);
    EXPECT_EQ(value(2), runs);
  }
}

TEST_P(StandInForkedCopies, WritesOfWhatACopyReadsAreRaces) {
  start();
  STANDIN(standinSetOrder)(GetParam());
  EXPECT_EQ(run(2, Waits::ForNothing), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(lastError(), AllOf(HasSubstr("race: write of 4 bytes"),
                                 HasSubstr("reads, and nothing orders the two")));
  SetUp();
  start();
  EXPECT_EQ(run(0, Waits::ForTheEvent), CUDA_ERROR_LAUNCH_FAILED) << "beside the copy";
  EXPECT_THAT(lastError(), HasSubstr("race: write of 4 bytes"));
}

TEST_F(StandIn, EventsAreExternalInsideOfCapturesOnly) {
  start();
  CUevent event;
  OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(CU(cuEventRecordWithFlags)(event, stream, CU_EVENT_RECORD_EXTERNAL),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StandIn, WhatACaptureForbids) {
  start();
  CUgraph graph;
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUdeviceptr more;
  EXPECT_EQ(CU(cuMemAlloc)(&more, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  // A capture of its own forbids the thread what a global one forbids all threads, unless one of the two is relaxed; and the thread ends it.
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::thread([&] {
    CUcontext context;
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    CUdeviceptr ofOther;
    OK(CU(cuMemAlloc)(&ofOther, 64));
    EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  OK(CU(cuMemAlloc)(&more, 64));
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  EXPECT_EQ(CU(cuMemAlloc)(&more, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_THAT(lastError(), HasSubstr("cuMemAlloc while a stream is being captured"));
  EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  // A fork that is not joined.
  CUevent fork;
  OK(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(CU(cuEventRecord)(fork, stream));
  OK(CU(cuStreamWaitEvent)(other, fork, 0));
  OK(launch(other, 0, 1, 1));
  EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  OK(launch(other, 0, 1, 1)); // no longer captured
  OK(CU(cuStreamSynchronize)(other));
  EXPECT_EQ(value(1), 1u);
}

//===-- failures ------------------------------------------------------------------------------===//

TEST_F(StandIn, PlannedAccess) {
  start();
  StandInRange read = {array(0), 128, "a"}, write = {array(1), 256, "y"};
  STANDIN(standinExpectAccess)(&read, 1, &write, 1);
  OK(launch(stream, 0, 1, 1));
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(lastError(),
              AllOf(HasSubstr("outside the command's operands"), HasSubstr("'a'"),
                    HasSubstr("block (1,0,0)"), HasSubstr("ld.global.u32 %r5, [%d1];")));
  // The device does not survive it.
  EXPECT_EQ(launch(stream, 0, 1, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Tests that every launch asks the test for what it may touch, a captured one too.
TEST_F(StandIn, LaunchesAskTheTest) {
  start();
  auto ask = [](void *user, const char *kernel, const unsigned *grid, const unsigned *,
                void **params) {
    EXPECT_STREQ(kernel, "add");
    EXPECT_EQ(grid[0], 2u);
    StandInRange range = {*static_cast<CUdeviceptr *>(params[0]), 256, "a"};
    ++*static_cast<int *>(user);
    STANDIN(standinExpectAccess)(&range, 1, nullptr, 0);
  };
  int asked = 0;
  STANDIN(standinOnLaunch)(ask, &asked);
  CUgraph graph;
  CUgraphExec exec;
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(launch(stream, 0, 1, 1));
  OK(CU(cuStreamEndCapture)(stream, &graph));
  OK(CU(cuGraphInstantiate)(&exec, graph, 0));
  OK(CU(cuGraphLaunch)(exec, stream));
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(lastError(), HasSubstr("write of 4 bytes"));
  EXPECT_EQ(asked, 1);
}

TEST_F(StandIn, MemoryIsLimited) {
  setenv("STANDIN_MEMORY", "4096", 1);
  STANDIN(standinReset)();
  start();
  size_t free, total;
  OK(CU(cuMemGetInfo)(&free, &total));
  EXPECT_EQ(total, 4096u);
  EXPECT_EQ(free, 3072u);
  CUdeviceptr more = 0;
  EXPECT_EQ(CU(cuMemAlloc)(&more, 3073), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(lastError(), HasSubstr("cuMemAlloc of 3073 bytes: 3072 of 4096 are free"));
  OK(CU(cuMemAlloc)(&more, 3072));
  OK(CU(cuMemFree)(more));
  EXPECT_EQ(counters().allocations, 2u);
  EXPECT_EQ(counters().peakBytes, 4096u);
  EXPECT_EQ(counters().allocatedBytes, 1024u);
}

TEST_F(StandIn, MemoryApartFromItsAddresses) {
  setenv("STANDIN_MEMORY", "12288", 1);
  setenv("STANDIN_GRANULARITY", "1024", 1);
  STANDIN(standinReset)();
  start();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t unit = 0;
  OK(CU(cuMemGetAllocationGranularity)(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(unit, 1024u);
  const uint64_t before = counters().allocatedBytes;
  CUdeviceptr at = 0;
  OK(CU(cuMemAddressReserve)(&at, 4096, 0, 0, 0));
  EXPECT_EQ(counters().allocatedBytes, before); // addresses are no memory
  EXPECT_EQ(CU(cuMemsetD8Async)(at, 1, 4, stream), CUDA_ERROR_INVALID_VALUE);
  CUmemGenericAllocationHandle piece = 0, whole = 0, more = 0;
  EXPECT_EQ(CU(cuMemCreate)(&piece, 1000, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemCreate)(&piece, 2048, &properties, 0));
  EXPECT_EQ(counters().allocatedBytes, before + 2048);
  // One piece of memory at all addresses, which nobody reads back.
  OK(CU(cuMemMap)(at, 2048, 0, piece, 0));
  EXPECT_EQ(CU(cuMemMap)(at, 2048, 0, piece, 0), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemMap)(at + 2048, 2048, 0, piece, 0));
  EXPECT_EQ(CU(cuMemsetD8Async)(at, 1, 4, stream), CUDA_ERROR_INVALID_VALUE); // no access yet
  OK(CU(cuMemSetAccess)(at, 4096, &access, 1));
  OK(CU(cuMemsetD8Async)(at + 2000, 1, 100, stream));
  char found[4] = {};
  EXPECT_EQ(CU(cuMemcpyDtoH)(found, at, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(lastError(), HasSubstr("memory that is at several addresses"));
  OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(CU(cuMemFree)(at), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemUnmap)(at, 2048));
  EXPECT_EQ(CU(cuMemAddressFree)(at, 4096), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemUnmap)(at + 2048, 2048));
  EXPECT_EQ(counters().allocatedBytes, before + 2048);
  OK(CU(cuMemRelease)(piece));
  EXPECT_EQ(counters().allocatedBytes, before);
  // Then memory of its own.
  OK(CU(cuMemCreate)(&whole, 4096, &properties, 0));
  EXPECT_EQ(CU(cuMemCreate)(&more, 8192, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemMap)(at, 4096, 0, whole, 0));
  OK(CU(cuMemSetAccess)(at, 4096, &access, 1));
  OK(CU(cuMemsetD8)(at + 2000, 7, 100));
  OK(CU(cuMemcpyDtoH)(found, at + 2046, 4));
  EXPECT_THAT(found, testing::Each(7));
  OK(CU(cuMemRelease)(whole)); // goes with its mapping
  EXPECT_EQ(counters().allocatedBytes, before + 4096);
  OK(CU(cuMemUnmap)(at, 4096));
  OK(CU(cuMemAddressFree)(at, 4096));
  EXPECT_EQ(counters().allocatedBytes, before);
}

/// Memory is taken away from the work that touches it, done or not, and from no other.
TEST_F(StandIn, UnmappedUnderWork) {
  setenv("STANDIN_GRANULARITY", "1024", 1);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  enum class Work { None, Set, Copy, Kernel };
  for (const Work work : {Work::None, Work::Set, Work::Copy, Work::Kernel}) {
    STANDIN(standinReset)();
    start();
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle memory = 0;
    OK(CU(cuMemAddressReserve)(&at, 1024, 0, 0, 0));
    OK(CU(cuMemCreate)(&memory, 1024, &properties, 0));
    OK(CU(cuMemMap)(at, 1024, 0, memory, 0));
    OK(CU(cuMemSetAccess)(at, 1024, &access, 1));
    OK(CU(cuMemsetD32Async)(array(0), 4, kCount, other)); // another model's
    OK(launch(other, 0, 1, 1));
    if (work == Work::Set)
      OK(CU(cuMemsetD8Async)(at, 1, 4, stream));
    if (work == Work::Copy)
      OK(CU(cuMemcpyDtoDAsync)(at + 512, array(2), 256, stream));
    if (work == Work::Kernel) {
      CUdeviceptr a = array(2), y = at;
      uint32_t by = 1;
      void *params[] = {&a, &y, &by};
      OK(CU(cuLaunchKernel)(add, 1, 1, 1, kCount, 1, 1, 0, stream, params, nullptr));
    }
    const CUresult result = CU(cuMemUnmap)(at, 1024);
    if (work != Work::None) {
      EXPECT_EQ(result, CUDA_ERROR_ILLEGAL_ADDRESS);
      EXPECT_THAT(lastError(),
                  AllOf(HasSubstr("cuMemUnmap while work is not done, which fails then: "),
                        AnyOf(HasSubstr("is not inside one allocation any more"),
                              HasSubstr("behind the end of allocation"))));
      EXPECT_EQ(CU(cuStreamSynchronize)(other), CUDA_ERROR_ILLEGAL_ADDRESS);
      continue;
    }
    OK(result);
    OK(CU(cuStreamSynchronize)(other));
    EXPECT_EQ(value(1), 5u);
  }
}

TEST_F(StandIn, FailuresOnDemand) {
  start();
  STANDIN(standinFail)("cuGraphInstantiate", 1, CUDA_ERROR_OUT_OF_MEMORY);
  STANDIN(standinFail)("kernel", 2, CUDA_ERROR_LAUNCH_FAILED);
  CUgraph graph;
  CUgraphExec exec;
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(CU(cuStreamEndCapture)(stream, &graph));
  EXPECT_EQ(CU(cuGraphInstantiate)(&exec, graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuGraphInstantiate)(&exec, graph, 0)); // only once
  OK(launch(stream, 0, 1, 1));
  OK(launch(stream, 0, 1, 1));
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_LAUNCH_FAILED);
  setenv("STANDIN_FAIL", "cuInit:1:100", 1);
  STANDIN(standinReset)();
  EXPECT_EQ(CU(cuInit)(0), CUDA_ERROR_NO_DEVICE);
}

TEST_F(StandIn, ModulesThatDoNotLoad) {
  start();
  CUmodule bad;
  std::string newer = kPtx;
  newer.replace(newer.find("8.0"), 3, "9.9");
  EXPECT_EQ(CU(cuModuleLoadData)(&bad, newer.c_str()), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  std::string chip = kPtx;
  chip.replace(chip.find("sm_80"), 5, "sm_100");
  EXPECT_EQ(CU(cuModuleLoadData)(&bad, chip.c_str()), CUDA_ERROR_NO_BINARY_FOR_GPU);
  std::string unknown = kPtx;
  unknown.replace(unknown.find("  ret;"), 6, "  frobnicate;");
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  EXPECT_EQ(CU(cuModuleLoadDataEx)(&bad, unknown.c_str(), 2, options, values),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(log, HasSubstr("the instruction frobnicate is not known"));
  // 4,096 bytes of parameters up to PTX 8.0, 32,764 later.
  auto withParameters = [](const char *version, size_t count) {
    std::string ptx = std::string(".version ") + version +
                      "\n.target sm_80\n.address_size 64\n.visible .entry many(";
    for (size_t i = 0; i < count; ++i)
      ptx += (i ? ", " : "") + std::string(".param .u64 p") + std::to_string(i);
    return ptx + ")\n{\n  ret;\n}\n";
  };
  OK(CU(cuModuleLoadData)(&bad, withParameters("8.0", 512).c_str()));
  EXPECT_EQ(CU(cuModuleLoadData)(&bad, withParameters("8.0", 513).c_str()), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(lastError(), HasSubstr("4104 bytes of parameters, PTX of version 80 takes 4096"));
  OK(CU(cuModuleLoadData)(&bad, withParameters("8.1", 4095).c_str()));
  EXPECT_EQ(CU(cuModuleLoadData)(&bad, withParameters("8.1", 4096).c_str()),
            CUDA_ERROR_INVALID_PTX);
  CUfunction none;
  EXPECT_EQ(CU(cuModuleGetFunction)(&none, module, "subtract"), CUDA_ERROR_NOT_FOUND);
}

// Tests that a cubin is refused as by a newer chip, unless its PTX was given.
TEST_F(StandIn, Cubins) {
  start();
  std::vector<char> cubin(312);
  memcpy(cubin.data(), "\177ELF", 4);
  cubin[40] = 64, cubin[58] = 64, cubin[60] = 3; // three section headers behind the file's,
  cubin[33] = 1, cubin[54] = 56, cubin[56] = 1;  // then one program header
  CUmodule made;
  EXPECT_EQ(CU(cuModuleLoadData)(&made, cubin.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
  STANDIN(standinProvidePtx)(cubin.data(), cubin.size(), kPtx);
  OK(CU(cuModuleLoadData)(&made, cubin.data()));
  OK(CU(cuModuleGetFunction)(&add, made, "add"));
  OK(launch(stream, 0, 1, 9));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(value(1), 9u);
}

// Tests that of a fat binary the PTX is taken; the entry before it is a cubin.
TEST_F(StandIn, FatBinaries) {
  start();
  std::string ptx = kPtx, image(16, '\0');
  auto put = [](std::string &bytes, size_t at, uint64_t value, size_t count) {
    memcpy(&bytes[at], &value, count);
  };
  auto append = [&](unsigned kind, const std::string &content) {
    std::string entry(64, '\0');
    put(entry, 0, kind, 2), put(entry, 4, 64, 4), put(entry, 8, content.size(), 8);
    image += entry + content;
  };
  append(2, "a cubin");
  append(1, ptx + '\0');
  put(image, 0, 0xBA55ED50, 4), put(image, 4, 1, 2), put(image, 6, 16, 2);
  put(image, 8, image.size() - 16, 8);
  CUmodule made;
  OK(CU(cuModuleLoadData)(&made, image.data()));
  OK(CU(cuModuleGetFunction)(&add, made, "add"));
  put(image, 16 + 64 + 7 + 16, 100, 4); // compressed
  EXPECT_EQ(CU(cuModuleLoadData)(&made, image.data()), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_THAT(lastError(), HasSubstr("-Xfatbin=-compress=false"));
}

TEST_F(StandIn, LaunchesThatAreRefused) {
  start();
  CUdeviceptr a = array(0);
  uint32_t by = 1;
  void *params[] = {&a, &a, &by};
  auto shaped = [&](unsigned blocks, unsigned threads, unsigned shared) {
    return CU(cuLaunchKernel)(add, blocks, 1, 1, threads, 1, 1, shared, stream, params, nullptr);
  };
  EXPECT_EQ(shaped(0, 32, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shaped(1, 1025, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(shaped(1, 32, 65536), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuFuncSetAttribute)(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
  OK(shaped(1, 32, 65536));
  EXPECT_EQ(CU(cuFuncSetAttribute)(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
            CUDA_ERROR_INVALID_VALUE);
}

// Flags and places that the driver's documentation does not have (tests/gpu/PRECONDITIONS.md).
TEST_F(StandIn, ArgumentsThatAreNone) {
  start();
  void *memory = nullptr;
  CUstream made = nullptr;
  CUevent event = nullptr;
  EXPECT_EQ(CU(cuMemHostAlloc)(&memory, 64, 0x80), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemHostAlloc)(&memory, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuStreamCreate)(&made, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuEventCreate)(&event, 0x40), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(CU(cuEventRecordWithFlags)(event, stream, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuStreamWaitEvent)(stream, event, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemcpyHtoDAsync)(arena, nullptr, 4, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemcpyDtoHAsync)(nullptr, arena, 4, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemsetD8Async)(arena + 4 * kCount * sizeof(uint32_t) - 4, 0, 8, stream),
            CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(launch(stream, 0, 1, 1));
  OK(CU(cuStreamEndCapture)(stream, &graph));
  EXPECT_EQ(CU(cuGraphInstantiate)(&exec, graph, 1 << 20), CUDA_ERROR_INVALID_VALUE);
  const std::string shared = std::string(kPtx).replace(std::string(kPtx).find(".reg .pred"), 0,
                                                       ".shared .align 4 .b8 much[49156];\n  ");
  CUmodule refused = nullptr;
  EXPECT_EQ(CU(cuModuleLoadData)(&refused, shared.c_str()), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(lastError(), HasSubstr("bytes in shared memory, a block takes 49152"));
}

TEST_F(StandIn, HostFunctionsMayNotCallTheDriver) {
  start();
  static CUresult inside;
  inside = CUDA_SUCCESS;
  static auto synchronize = CU(cuCtxSynchronize);
  OK(CU(cuLaunchHostFunc)(stream, [](void *) { inside = synchronize(); }, nullptr));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(inside, CUDA_ERROR_NOT_PERMITTED);
}

} // namespace
