// The guarded device catches what it is there to catch: commands that write or read outside their
// operands, transfers outside the arena, and code of the host with an address in the arena. Each
// test is a program that a device without guards runs without complaint.
#include "tests/runtime/device/GuardedDevice.h"

#include "runtime/base/Error.h"
#include "runtime/program/Executor.h"
#include "runtime/program/Instance.h"
#include "tests/runtime/program/TinyModel.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

namespace stow::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What the kernel under test does to its operands, two vectors of 16 floats: in and out.
void (*behaviour)(const char *in, char *out);

void theKernel(int64_t, int64_t, char *const *arguments) { behaviour(arguments[0], arguments[1]); }

/// out = in + 1, as it should be.
void addOne(const char *in, char *out) {
  for (int i = 0; i < 16; ++i)
    reinterpret_cast<float *>(out)[i] = reinterpret_cast<const float *>(in)[i] + 1;
}

const StowKernelFn kernels[] = {theKernel};
const ProgramImage image = {kernels, {}};

Operand vectorAt(Bytes offset) { return {offset, DType::F32, {16}, {}}; }

Command kernelCommand(Operand in, Operand out) {
  Command command;
  command.op = CommandOp::Kernel;
  command.name = "the node";
  command.kernel = 0;
  command.tasks = 1;
  command.operands = {std::move(in), std::move(out)};
  return command;
}

/// The arena: in at 64, out at 192, and a page further another vector at 8192; one command.
class GuardedDeviceTest : public testing::Test {
protected:
  static constexpr Bytes in = 64, out = 192, far = 8192;

  GuardedDeviceTest() {
    behaviour = addOne;
    program.plan.arenaBytes = 3 * 4096;
    program.graphs = {{GraphRole::Train, {}, {}, {kernelCommand(vectorAt(in), vectorAt(out))}}};
    GraphPlan &plan = program.plan.graphs.emplace_back();
    plan.role = GraphRole::Train;
    for (Bytes offset : {in, out, far}) {
      PlannedBuffer &buffer = plan.buffers.emplace_back();
      buffer.offset = offset;
      buffer.size = 64;
    }
    plan.steps.resize(1);
    plan.steps[0].reads = {0};
    plan.steps[0].writes = {1};
  }

  /// Runs the program once, 0 to 15 coming in, and returns what comes out.
  std::vector<float> runOnce() {
    Executor executor(program, image, {});
    std::vector<float> values(16);
    std::iota(values.begin(), values.end(), 0.0f);
    executor.writeTensor(vectorAt(in), values.data());
    executor.run(0);
    executor.readTensor(vectorAt(out), values.data());
    return values;
  }

  template <typename Action> static std::string errorOf(const Action &action) {
    try {
      action();
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::Internal);
      return error.what();
    }
    return "no error";
  }

  std::string errorOfKernel(void (*wrong)(const char *in, char *out)) {
    behaviour = wrong;
    return errorOf([&] { runOnce(); });
  }

  Program program;
};
using GuardedDeviceDeathTest = GuardedDeviceTest;

TEST_F(GuardedDeviceTest, RunsWhatIsRight) {
  std::vector<float> values = runOnce();
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(values[i], i + 1);
}

// One byte right behind the output, in the same page.
TEST_F(GuardedDeviceTest, StrayWriteOfOneByte) {
  EXPECT_THAT(errorOfKernel([](const char *in, char *out) {
                addOne(in, out);
                out[64] = 0;
              }),
              AllOf(HasSubstr("command 0 of graph 'train', 'kernel' of node 'the node'"),
                    HasSubstr("writes byte 256 of the arena, which is none of its operands'")));
}

TEST_F(GuardedDeviceDeathTest, StrayWriteFarAway) {
  behaviour = [](const char *, char *to) { to[far - out] = 0; };
  EXPECT_DEATH(runOnce(), "byte 8192 of the arena is touched by command 0 of graph 'train'");
}

// The vector far away holds a value: only that it is no operand makes the read wrong.
TEST_F(GuardedDeviceDeathTest, UndeclaredReadFarAway) {
  behaviour = [](const char *in, char *out) { std::memcpy(out, in + (far - 64), 64); };
  EXPECT_DEATH(
      {
        Executor executor(program, image, {});
        std::vector<float> values(16);
        executor.writeTensor(vectorAt(in), values.data());
        executor.writeTensor(vectorAt(far), values.data());
        executor.run(0);
      },
      "byte 8192 of the arena is touched by command 0 of graph 'train'");
}

TEST_F(GuardedDeviceDeathTest, WriteBehindTheArena) {
  behaviour = [](const char *in, char *) { const_cast<char *>(in)[3 * 4096 - 64] = 0; };
  EXPECT_DEATH(runOnce(), "byte 12288 of the arena is touched by command 0");
}

// Four bytes right before the input, in the same page.
TEST_F(GuardedDeviceTest, UndeclaredReadNearby) {
  EXPECT_THAT(errorOfKernel([](const char *in, char *out) { addOne(in - 4, out); }),
              HasSubstr("gives a result that depends on bytes that it must not read, at byte 19"));
}

// What lies in the output before it is written is none of the command's business.
TEST_F(GuardedDeviceTest, ReadOfItsOwnOutput) {
  EXPECT_THAT(errorOfKernel([](const char *, char *out) { addOne(out, out); }),
              HasSubstr("depends on bytes that it must not read"));
}

// In place it is: the plan says that the step reads the buffer, too.
TEST_F(GuardedDeviceTest, OverwritesInPlace) {
  program.graphs[0].commands[0].operands[1] = vectorAt(in);
  program.plan.graphs[0].steps[0].writes = {0};
  Executor executor(program, image, {});
  std::vector<float> values(16);
  executor.writeTensor(vectorAt(in), values.data());
  for (int run = 0; run < 3; ++run)
    executor.run(0);
  executor.readTensor(vectorAt(in), values.data());
  EXPECT_THAT(values, testing::Each(3));
}

TEST_F(GuardedDeviceTest, WriteIntoAnInput) {
  EXPECT_THAT(errorOfKernel([](const char *in, char *out) {
                addOne(in, out);
                const_cast<char *>(in)[5] ^= 1;
              }),
              HasSubstr("writes into its input, at byte 69 of the arena"));
}

TEST_F(GuardedDeviceTest, ReadOfADeadValue) {
  program.graphs[0].commands[0].dying = {vectorAt(in)};
  Executor executor(program, image, {});
  std::vector<float> values(16);
  executor.writeTensor(vectorAt(in), values.data());
  executor.run(0);
  EXPECT_THAT(errorOf([&] { executor.run(0); }), HasSubstr("depends on bytes"));
}

TEST_F(GuardedDeviceTest, ReadOfWhatNobodyWrote) {
  Executor executor(program, image, {});
  EXPECT_THAT(errorOf([&] { executor.run(0); }), HasSubstr("depends on bytes"));
}

// A workspace may be used, and holds nothing between two commands.
TEST_F(GuardedDeviceTest, MemoryInAWorkspace) {
  Command &command = program.graphs[0].commands[0];
  command.workspaceOffset = 1024;
  command.workspaceBytes = 64;
  behaviour = [](const char *in, char *out) {
    char *workspace = out + 1024 - 192;
    addOne(in, workspace);
    std::memcpy(out, workspace, 64);
  };
  EXPECT_EQ(runOnce()[3], 4);
  EXPECT_THAT(errorOfKernel([](const char *in, char *out) {
                addOne(in, out);
                out[0] ^= out[1024 - 192]++;
              }),
              HasSubstr("depends on bytes"));
}

// The gaps of an operand that lies inside a larger tensor are another's.
TEST_F(GuardedDeviceTest, WriteIntoAGap) {
  // Two rows of 4 floats in rows of 8: bytes 192 to 208 and 224 to 240.
  Operand inside{out, DType::F32, {2, 4}, {}};
  inside.layout.order = {0, 1};
  inside.layout.pitch = {1, 8};
  program.graphs[0].commands[0].operands[1] = inside;
  behaviour = [](const char *in, char *out) {
    std::memcpy(out, in, 16);
    std::memcpy(out + 32, in + 16, 16);
  };
  Executor executor(program, image, {});
  std::vector<float> values(16, 2.5f);
  executor.writeTensor(vectorAt(in), values.data());
  executor.run(0);
  behaviour = [](const char *in, char *out) { std::memcpy(out, in, 20); };
  EXPECT_THAT(errorOf([&] { executor.run(0); }), HasSubstr("writes byte 208 of the arena"));
}

// The program's operands are checked against the plan's step, not only against the kernel.
TEST_F(GuardedDeviceTest, OperandThatThePlanDoesNotHave) {
  program.plan.graphs[0].steps[0].writes = {2};
  EXPECT_THAT(errorOf([&] { Executor(program, image, {}); }),
              HasSubstr("operand 1 of command 'kernel' of node 'the node' at offset 192 lies in no "
                        "buffer that its step of the plan reads or writes"));
}

TEST_F(GuardedDeviceTest, TransfersOutsideTheArena) {
  Executor executor(program, image, {});
  Device &device = executor.device();
  std::vector<char> bytes(128);
  EXPECT_THAT(errorOf([&] { device.upload(3 * 4096 - 64, bytes.data(), 128); }),
              HasSubstr("an upload of 128 B (128 bytes) at offset 12224 leaves the arena"));
  EXPECT_THAT(errorOf([&] { device.download(bytes.data(), -1, 128); }),
              HasSubstr("a download of 128 B (128 bytes) at offset -1 leaves the arena"));
  EXPECT_THAT(errorOf([&] { device.fill(0, 3 * 4096 + 1, 0); }), HasSubstr("a fill of"));
  EXPECT_THAT(errorOf([&] { device.endUpload(); }), HasSubstr("ends that was not begun"));
  device.beginUpload(0, 64);
  EXPECT_THAT(errorOf([&] { device.download(64, 64); }),
              HasSubstr("a download inside the upload at offset 0"));
  device.endUpload();
  EXPECT_THAT(errorOf([&] { device.download(far, 64); }),
              HasSubstr("where nothing has been written or all has died"));
}

// Addresses that the door has lent are worth nothing after the call that takes them back.
TEST_F(GuardedDeviceDeathTest, HostCodeWithAnAddress) {
  Executor executor(program, image, {});
  Device &device = executor.device();
  char *staging = device.beginUpload(in, 64);
  std::memset(staging, 0, 64);
  device.endUpload();
  EXPECT_DEATH(staging[0] = 1, "byte [0-9]+ of staging memory is touched outside every call");
  const char *bytes = device.download(in, 64);
  EXPECT_EQ(bytes[0], 0);
  device.fill(in, 64, 3);
  EXPECT_DEATH(std::printf("%d", bytes[0]), "of staging memory is touched outside every call");
}

// The only address in the arena that exists is a command's; kept until after it, it kills.
TEST_F(GuardedDeviceDeathTest, HostCodeWithAnAddressInTheArena) {
  static char *kept = nullptr;
  behaviour = [](const char *in, char *out) {
    addOne(in, out);
    kept = out;
  };
  Executor executor(program, image, {});
  std::vector<float> values(16);
  executor.writeTensor(vectorAt(in), values.data());
  executor.run(0);
  EXPECT_DEATH(kept[0] = 1, "byte 192 of the arena is touched outside every call of the device");
}

// Tests that a training step is its inputs up, its commands, its loss down, and nothing else.
TEST(GuardedDeviceRecords, ATrainingStep) {
  using Kind = GuardedDevice::Record::Kind;
  TinyOptions options{/*batch=*/4, /*features=*/8, /*classes=*/3};
  Program program = makeTinyModel(options);
  Executor executor(program, tinyImage(), {});
  auto &device = dynamic_cast<GuardedDevice &>(executor.device());
  executor.initializeState(1);
  EXPECT_EQ(device.records().size(), program.state.size()) << "one upload each";
  size_t before = device.records().size();
  std::vector<float> x(32, 0.25f);
  std::vector<int64_t> y = {0, 1, 2, 0};
  for (const GraphInput *input : sampleInputs(program.graphs[0]))
    executor.writeTensor(input->place, input->role == InputRole::Data
                                           ? static_cast<const void *>(x.data())
                                           : y.data());
  TrainingStep training(executor);
  training.start({0, 1, 0.5});
  training.finish();
  std::vector<Kind> kinds;
  for (size_t i = before; i < device.records().size(); ++i)
    kinds.push_back(device.records()[i].kind);
  EXPECT_THAT(kinds, testing::ElementsAre(Kind::Upload, Kind::Upload, Kind::Upload, Kind::Upload,
                                          Kind::Upload, Kind::Run, Kind::Command, Kind::Command,
                                          Kind::Command, Kind::Download));
  EXPECT_EQ(device.records().back().bytes, 4) << "the loss alone";
}

} // namespace
} // namespace stow::test
