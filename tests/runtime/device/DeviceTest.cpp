// What holds for every device behind the door. A new one joins the list of types.
#include "runtime/base/Error.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/host/HostDevice.h"
#include "tests/runtime/device/AddOne.h"
#include "tests/runtime/device/GuardedDevice.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <dlfcn.h>
#include <numeric>
#include <string_view>

namespace stow {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr Bytes arenaBytes = 3 * 4096 + 64, stagingBytes = 1000;

const StowKernelFn kernels[] = {addOne};
const std::string deviceCode = addOneCode();
const ProgramImage image = {kernels, {}, deviceCode};

Operand bytesAt(Bytes offset) { return {offset, DType::U8, {64}, {}}; }

Command step(Bytes from, Bytes to) {
  Command command;
  command.op = CommandOp::Kernel;
  command.name = "node";
  command.kernel = 0;
  command.tasks = 1;
  command.operands = {bytesAt(from), bytesAt(to)};
  return command;
}

/// Two graphs: 0 takes 0 to 64 to 8192, 1 takes it back to 0.
Program twoGraphs() {
  Program program;
  program.plan.arenaBytes = arenaBytes;
  program.kernels = {"add_one"};
  program.graphs = {{GraphRole::Train, {}, {}, {step(0, 64), step(64, 8192)}},
                    {GraphRole::Eval, {}, {}, {step(8192, 0)}}};
  program.graphs[0].commands[1].dying = {bytesAt(64)};
  return program;
}

template <typename AnyDevice> class DeviceTest : public testing::Test {
protected:
  AnyDevice device{DeviceOptions{arenaBytes, stagingBytes, 2}};

  std::vector<char> read(Bytes offset, Bytes bytes) {
    std::vector<char> found(static_cast<size_t>(bytes));
    device.download(found.data(), offset, bytes);
    return found;
  }

  template <typename Action> std::string errorOf(const Action &action) {
    try {
      action();
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  }
};

// The GPU is the simulated one (tests/gpu), wherever that is built.
#ifdef STOWAGE_SIMULATED_GPU
using Devices = testing::Types<host::HostDevice, test::GuardedDevice, cuda::CudaDevice>;
#else
using Devices = testing::Types<host::HostDevice, test::GuardedDevice>;
#endif
TYPED_TEST_SUITE(DeviceTest, Devices);

// Tests transfers of more than the staging memory, which pass in pieces, up to the last byte.
TYPED_TEST(DeviceTest, BringsBytesThereAndBack) {
  std::vector<char> bytes(arenaBytes);
  std::iota(bytes.begin(), bytes.end(), char{1});
  this->device.upload(0, bytes.data(), arenaBytes);
  EXPECT_EQ(this->read(0, arenaBytes), bytes);
  this->device.upload(arenaBytes - 3, "abc", 3);
  std::memcpy(bytes.data() + arenaBytes - 3, "abc", 3);
  EXPECT_EQ(this->read(1, arenaBytes - 1), std::vector<char>(bytes.begin() + 1, bytes.end()));
  this->device.fill(100, 5000, 7);
  std::fill_n(bytes.begin() + 100, 5000, char{7});
  EXPECT_EQ(this->read(0, arenaBytes), bytes);
}

TYPED_TEST(DeviceTest, LendsStagingMemory) {
  Device &device = this->device;
  char *staging = device.beginUpload(128, stagingBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(staging) % 64, 0u);
  std::memset(staging, 9, stagingBytes);
  device.endUpload();
  const char *found = device.download(128, stagingBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(found) % 64, 0u);
  EXPECT_THAT(std::vector<char>(found, found + stagingBytes), Each(9));
  device.beginUpload(4096, 64);
  device.cancelUpload();
  EXPECT_THAT(this->read(128, stagingBytes), Each(9));
}

TYPED_TEST(DeviceTest, RefusesTransfersThatDoNotFit) {
  Device &device = this->device;
  char byte = 0;
  EXPECT_THAT(this->errorOf([&] { device.upload(arenaBytes, &byte, 1); }),
              HasSubstr("leaves the arena of 12.06 KiB (12352 bytes)"));
  EXPECT_THAT(this->errorOf([&] { device.download(&byte, -1, 1); }), HasSubstr("leaves the arena"));
  EXPECT_THAT(this->errorOf([&] { device.fill(0, arenaBytes + 1, 0); }),
              HasSubstr("leaves the arena"));
  EXPECT_THAT(this->errorOf([&] { device.beginUpload(0, stagingBytes + 1); }),
              HasSubstr("is larger than the staging memory of 1000 B"));
  EXPECT_THAT(this->errorOf([&] { device.endUpload(); }), HasSubstr("ends that was not begun"));
  device.beginUpload(0, 64);
  EXPECT_THAT(this->errorOf([&] { device.beginUpload(64, 64); }),
              HasSubstr("inside the upload at offset 0"));
  EXPECT_THAT(this->errorOf([&] { TypeParam(DeviceOptions{arenaBytes, 0, 1}); }),
              HasSubstr("no staging memory"));
}

// Tests that graphs run by number, in any order and any number of times, each on what lies there.
TYPED_TEST(DeviceTest, RunsGraphs) {
  Program program = twoGraphs();
  Device &device = this->device;
  device.bind(program, image, Poison::None);
  device.fill(0, 64, 0);
  for (int round = 0; round < 3; ++round) {
    device.run(0, {});
    device.run(1, {});
  }
  EXPECT_THAT(this->read(0, 64), Each(9));
  device.run(0, {});
  EXPECT_THAT(this->read(8192, 64), Each(11));
}

// Tests that what was asked for is what lay there when it was asked for, whatever is uploaded behind it.
TYPED_TEST(DeviceTest, ReadsBackWithoutWaiting) {
  Program program = twoGraphs();
  Device &device = this->device;
  device.bind(program, image, Poison::None);
  device.fill(0, 64, 0);
  std::vector<char> next(stagingBytes, 40);
  for (char round = 0; round < 5; ++round) {
    device.run(0, {});
    char first = -1, last = -1;
    device.request(std::array{Readback{8192, 1, &first}, Readback{8192 + 63, 1, &last}});
    device.upload(0, next.data(), stagingBytes);
    device.upload(8192, next.data(), 64);
    device.await();
    EXPECT_EQ(first, round == 0 ? 2 : 42);
    EXPECT_EQ(last, first);
  }
  char byte = 0;
  EXPECT_THAT(this->errorOf([&] { device.await(); }), HasSubstr("nothing was requested"));
  EXPECT_THAT(this->errorOf([&] { device.request(std::array{Readback{0, 257, &byte}}); }),
              HasSubstr("more than 256 B"));
  device.request(std::array{Readback{0, 1, &byte}});
  EXPECT_THAT(this->errorOf([&] { device.request({}); }), HasSubstr("before the one before it"));
  device.await();
}

TYPED_TEST(DeviceTest, TimesEveryCommand) {
  Program program = twoGraphs();
  Device &device = this->device;
  device.bind(program, image, Poison::None);
  device.fill(0, 64, 0);
  std::vector<CommandTime> times(2, {-1, 0});
  device.run(0, times);
  for (const CommandTime &time : times)
    EXPECT_TRUE(time.seconds >= 0 && time.seconds < 60) << time.seconds;
  EXPECT_THAT(this->read(8192, 64), Each(2));
}

// Tests that poison fills what dies with its last reader, and nothing else.
TYPED_TEST(DeviceTest, PoisonsWhatDies) {
  Program program = twoGraphs();
  Device &device = this->device;
  device.bind(program, image, Poison::Dying);
  device.fill(0, arenaBytes, 5);
  device.run(0, {});
  std::vector<char> expected(arenaBytes, 5);
  std::fill_n(expected.begin() + 64, 64, static_cast<char>(poisonByte));
  std::fill_n(expected.begin() + 8192, 64, char{7});
  EXPECT_EQ(this->read(0, arenaBytes), expected);
}

TYPED_TEST(DeviceTest, NamesTheCommandThatItCannotRun) {
  Program program = twoGraphs();
  program.graphs[1].commands[0].kernel = 3;
  EXPECT_THAT(this->errorOf([&] { this->device.bind(program, image, Poison::None); }),
              HasSubstr("of node 'node' runs kernel 3, the executable has 1"));
}

#ifdef STOWAGE_SIMULATED_GPU
/// The `nth` next call of a function of the driver fails.
void failNext(const char *function, unsigned nth, int result) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_TRUE(driver);
  const auto fail =
      reinterpret_cast<void (*)(const char *, unsigned, int)>(dlsym(driver, "standinFail"));
  ASSERT_TRUE(fail);
  fail(function, nth, result);
}

Program twoGraphsIn(Bytes bytes) {
  Program program = twoGraphs();
  program.plan.arenaBytes = bytes;
  return program;
}

// Tests that an arena of several pieces of the rehearsal is one when it is taken: its ends keep what is written, and
// commands run where they were captured.
TEST(CudaDeviceTest, TakesALargeArenaLast) {
  const Bytes bytes = (Bytes{130} << 20) + 64;
  cuda::CudaDevice device(DeviceOptions{bytes, stagingBytes, 1});
  const Program program = twoGraphsIn(bytes);
  device.bind(program, image, Poison::None);
  EXPECT_THAT(device.notes(), testing::IsEmpty());
  device.fill(0, bytes, 3);
  device.run(0, {});
  std::vector<char> found(64);
  device.download(found.data(), 8192, 64);
  EXPECT_THAT(found, Each(5));
  device.download(found.data(), bytes - 64, 64);
  EXPECT_THAT(found, Each(3));
  EXPECT_EQ(device.driverMemory()->inUse, alignUp(bytes, 512));
}

// Tests that a GPU whose memory and addresses do not come apart has the arena at once, and says so.
TEST(CudaDeviceTest, TakesTheArenaAtOnceWhereItCannotBeLast) {
  for (const char *function : {"cuMemAddressReserve", "cuMemCreate", "cuMemSetAccess"}) {
    failNext(function, 1, 801);
    cuda::CudaDevice device(DeviceOptions{arenaBytes, stagingBytes, 1});
    const Program program = twoGraphs();
    device.bind(program, image, Poison::None);
    ASSERT_EQ(device.notes().size(), 1) << function;
    EXPECT_THAT(device.notes()[0], HasSubstr("the arena was taken before code, libraries and "
                                             "graphs, not after them: "));
    EXPECT_THAT(device.notes()[0], HasSubstr("CUDA_ERROR_NOT_SUPPORTED"));
    device.fill(0, arenaBytes, 3);
    device.run(0, {});
    EXPECT_THAT(std::vector<char>(device.download(8192, 64), device.download(8192, 64) + 64),
                Each(5));
  }
}

// Tests that memory which is gone when all is loaded is an error, and that nothing stays behind.
TEST(CudaDeviceTest, SaysThatTheArenaDoesNotFitBesideWhatIsLoaded) {
  {
    cuda::CudaDevice device(DeviceOptions{arenaBytes, stagingBytes, 1});
    const Program program = twoGraphs();
    failNext("cuMemCreate", 2, 2);
    try {
      device.bind(program, image, Poison::None);
      FAIL();
    } catch (const Error &error) {
      EXPECT_THAT(error.what(), HasSubstr("the arena takes 12.06 KiB (12352 bytes), and NVIDIA "));
      EXPECT_THAT(error.what(), HasSubstr("end other processes on it, or compile with"));
    }
  }
  cuda::CudaDevice next(DeviceOptions{arenaBytes, stagingBytes, 1});
  EXPECT_EQ(next.driverMemory()->inUse, 0);
}
#endif

// Tests that a target opens the device of its kind, which is the word before the colon.
TEST(OpenDevice, GoesByTheTarget) {
  constexpr DeviceKind kinds[] = {{"host", makeDevice<host::HostDevice>},
                                  {"guarded", makeDevice<test::GuardedDevice>}};
  const DeviceOptions options = {arenaBytes, stagingBytes, 1};
  for (const char *target : {"guarded", "guarded:2"}) {
    const auto device = openDevice(kinds, target, options);
    EXPECT_TRUE(dynamic_cast<test::GuardedDevice *>(device.get())) << target;
  }
  EXPECT_TRUE(dynamic_cast<host::HostDevice *>(openDevice(kinds, "host", options).get()));
  for (const char *target : {"guard", "", ":host", "hosts:1"})
    EXPECT_THROW(openDevice(kinds, target, options), Error) << target;
}

/// What a device says that is to run on GPU `gpu`.
template <typename AnyDevice> std::string refusalOfGpu(int64_t gpu) {
  DeviceOptions options = {arenaBytes, stagingBytes, 1};
  options.gpu = gpu;
  try {
    AnyDevice device(options);
  } catch (const Error &error) {
    return error.what();
  }
  return "none";
}

// Tests that the host refuses any GPU, and a driver one that it does not have.
TEST(OpenDevice, RefusesGpusThatAreNotThere) {
  EXPECT_THAT(refusalOfGpu<host::HostDevice>(0),
              HasSubstr("GPU 0 is asked for, and this program was compiled for the processor"));
#ifdef STOWAGE_SIMULATED_GPU
  EXPECT_EQ(refusalOfGpu<cuda::CudaDevice>(0), "none");
  for (int64_t gpu : {1, -1})
    EXPECT_THAT(refusalOfGpu<cuda::CudaDevice>(gpu),
                HasSubstr("is asked for, and the CUDA driver has GPU 0 alone"));
#endif
}

// Tests that the host copies nothing on the way: staging is the place itself.
TEST(HostDevice, LendsThePlaceItself) {
  host::HostDevice device({arenaBytes, stagingBytes, 1});
  char *staging = device.beginUpload(192, 64);
  device.endUpload();
  EXPECT_EQ(device.download(192, 64), staging);
  EXPECT_EQ(device.download(64, 64), staging - 128);
}

} // namespace
} // namespace stow
