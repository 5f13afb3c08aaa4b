// --check=canaries: every write that is not a command's is seen, and told with command, node and place.
#include "runtime/device/CheckedDevice.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/host/HostDevice.h"
#include "tests/runtime/device/AddOne.h"

#include <gmock/gmock.h>

#include <array>

namespace stow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Bytes arenaBytes = 8192, in = 0, out = 256, other = 1024;

/// Where the kernel writes a second byte, counted from its result; 0: nowhere else.
int64_t stray = 0;

/// The kernel, and its second byte.
void addOneAndStray(int64_t begin, int64_t end, char *const *arguments) {
  addOne(begin, end, arguments);
  if (stray)
    arguments[1][stray] = 77;
}

std::string strayPtx() {
  return stray ? "  mov.u16 %h2, 77;\n  st.global.u8 [%rd1 + " + std::to_string(stray) + "], %h2;\n"
               : "";
}

Operand bytesAt(Bytes offset) { return {offset, DType::U8, {64}, {}}; }

PlannedBuffer buffer(const char *name, Bytes offset, int64_t begin, int64_t end) {
  PlannedBuffer made;
  made.name = name;
  made.offset = offset, made.size = 64, made.begin = begin, made.end = end;
  return made;
}

/// One kernel from `in` to `out`, beside a tensor that it has nothing to do with.
Program oneKernel() {
  Program program;
  program.plan.arenaBytes = arenaBytes;
  program.kernels = {"add_one"};
  Command command;
  command.op = CommandOp::Kernel;
  command.name = "the node";
  command.kernel = 0, command.tasks = 1;
  command.operands = {bytesAt(in), bytesAt(out)};
  program.graphs = {{GraphRole::Train, {}, {}, {command}}};
  GraphPlan plan;
  plan.steps = {PlannedStep{}};
  plan.steps[0].reads = {0}, plan.steps[0].writes = {1};
  plan.buffers = {buffer("input", in, 0, 1), buffer("result", out, 0, 1),
                  buffer("the bystander", other, 0, 1)};
  program.plan.graphs = {plan};
  return program;
}

template <typename AnyDevice> class CheckedDeviceTest : public testing::Test {
protected:
  /// Runs the kernel three times, its stray byte at `at`, and returns what is said.
  std::string run(int64_t at, bool dies = false) {
    stray = at;
    static const StowKernelFn kernels[] = {addOneAndStray};
    const std::string code = addOneCode(strayPtx());
    const ProgramImage image = {kernels, {}, code};
    Program program = oneKernel();
    if (dies)
      program.graphs[0].commands[0].dying = {bytesAt(in)};
    CheckedDevice device({arenaBytes, 1000, 2}, makeDevice<AnyDevice>);
    device.bind(program, image, Poison::None);
    const std::vector<char> values(64, 5);
    try {
      for (int round = 0; round < 3; ++round) {
        device.upload(in, values.data(), 64);
        device.upload(other, values.data(), 64);
        device.run(0, {});
      }
    } catch (const Error &error) {
      return error.what();
    }
    char first = 0, input = 0;
    device.request(std::array{Readback{out, 1, &first}, Readback{in, 1, &input}});
    device.await();
    EXPECT_EQ(first, 6);
    EXPECT_EQ(input, dies ? static_cast<char>(poisonByte) : 5);
    return "";
  }
};

#ifdef STOWAGE_SIMULATED_GPU
using Devices = testing::Types<host::HostDevice, cuda::CudaDevice>;
#else
using Devices = testing::Types<host::HostDevice>;
#endif
TYPED_TEST_SUITE(CheckedDeviceTest, Devices);

TYPED_TEST(CheckedDeviceTest, LetsRightCommandsPass) {
  EXPECT_EQ(this->run(0), "");
  EXPECT_EQ(this->run(0, /*dies=*/true), "");
}

TYPED_TEST(CheckedDeviceTest, NamesTheCommandAndTheByte) {
  const std::string who =
      "command 0 of graph 'train', 'kernel' of node 'the node' (operands at [0, "
      "64), [256, 320)) changes byte ";
  auto at = [](Bytes offset) { return static_cast<int64_t>(offset - out); };
  EXPECT_EQ(this->run(at(320)), who + "320 of the arena, where nothing lives, from 0xff to 0x4d");
  EXPECT_EQ(this->run(at(255)), who + "255 of the arena, where nothing lives, from 0xff to 0x4d");
  EXPECT_EQ(this->run(at(other + 63)),
            who + "1087 of the arena, byte 63 of 'the bystander', from 0x05 to 0x4d");
  EXPECT_EQ(this->run(at(in + 3)), who + "3 of the arena, byte 3 of 'input', from 0x05 to 0x4d");
  EXPECT_EQ(this->run(at(arenaBytes - 1)),
            who + "8191 of the arena, where nothing lives, from 0xff to 0x4d");
  EXPECT_EQ(this->run(at(arenaBytes)),
            who + "8192 of the arena, in the guard behind the arena, from 0xff to 0x4d");
  EXPECT_EQ(this->run(at(-1)),
            who + "-1 of the arena, in the guard before the arena, from 0xff to 0x4d");
}

TYPED_TEST(CheckedDeviceTest, TimesNothing) {
  stray = 0;
  CheckedDevice device({arenaBytes, 1000, 1}, makeDevice<TypeParam>);
  std::vector<CommandTime> times(1);
  try {
    device.run(0, times);
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("ask for one of them"));
  }
}

} // namespace
} // namespace stow
