// Programs whose buffers travel, on the host and on the guarded device: what comes back, and what happens where it
// cannot.
#include "runtime/device/CheckedDevice.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/host/HostDevice.h"
#include "runtime/host/Outside.h"
#include "tests/runtime/device/GuardedDevice.h"
#include "tests/runtime/slow/DiskFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>
#include <functional>
#include <unistd.h>

namespace stow::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// More than a piece and no multiple of anything.
constexpr Bytes bufferBytes = slow::kPieceBytes + 12345;
constexpr Bytes slotBytes = alignUp(bufferBytes, kSlowAlignment);
constexpr Bytes first = 64, second = first + alignUp(bufferBytes, 64),
                third = second + alignUp(bufferBytes, 64), arenaBytes = third + slotBytes;

/// What the kernel between the copies does.
std::function<void(char *a, char *b)> between;

/// Fills its buffer with bytes that depend on the place and on its task count.
void fill(int64_t, int64_t end, char *const *arguments) {
  auto word = static_cast<uint32_t>(end);
  for (Bytes i = 0; i < bufferBytes; ++i)
    arguments[0][i] = static_cast<char>((word = word * 1664525 + 1013904223) >> 24);
}

void callBetween(int64_t, int64_t, char *const *arguments) {
  if (between)
    between(arguments[0], arguments[1]);
}

const StowKernelFn kernels[] = {fill, callBetween};

Operand at(Bytes offset) { return {offset, DType::U8, {bufferBytes}, {}}; }

Command kernel(int64_t index, std::vector<Operand> operands, int64_t tasks = 1) {
  Command command;
  command.op = CommandOp::Kernel;
  command.name = "the kernel";
  command.kernel = index;
  command.tasks = tasks;
  command.operands = std::move(operands);
  return command;
}

Command copy(CommandOp op, Bytes offset, int64_t number, Bytes slowOffset = 0) {
  Command command;
  command.op = op;
  command.name = "/relu" + std::to_string(number);
  command.operands = {at(offset)};
  command.ints["copy"] = {number};
  if (op != CommandOp::AwaitCopy)
    command.ints["slow_offset"] = {slowOffset};
  return command;
}

PlannedBuffer planned(Bytes offset) {
  PlannedBuffer buffer;
  buffer.name = "at " + std::to_string(offset);
  buffer.offset = offset;
  buffer.size = bufferBytes;
  return buffer;
}

/// What the plan says of the commands, each of which has one buffer or none.
GraphPlan planOf(const GraphProgram &graph) {
  GraphPlan plan;
  plan.buffers = {planned(first), planned(second), planned(third)};
  for (const Command &command : graph.commands) {
    PlannedStep &step = plan.steps.emplace_back();
    const bool writes = command.op == CommandOp::Kernel || command.op == CommandOp::CopyIn;
    for (const Operand &operand : command.operands)
      (writes ? step.writes : step.reads).push_back(operand.offset / bufferBytes);
  }
  return plan;
}

/// The buffers `first` and `second` are written and leave, both at once; `first` comes back at `third`, leaves again to
/// the same slow bytes and comes back where it was; `second` comes back where it was.
Program makeProgram() {
  Program program;
  program.slowBytes = 2 * slotBytes;
  program.plan.arenaBytes = arenaBytes;
  GraphProgram graph;
  graph.commands = {kernel(0, {at(first)}, 1),
                    copy(CommandOp::CopyOut, first, 0, 0),
                    kernel(0, {at(second)}, 1),
                    copy(CommandOp::CopyOut, second, 1, slotBytes),
                    copy(CommandOp::AwaitCopy, first, 0),
                    copy(CommandOp::AwaitCopy, second, 1),
                    kernel(1, {at(first), at(second)}),
                    copy(CommandOp::CopyIn, third, 2, 0),
                    copy(CommandOp::CopyIn, second, 3, slotBytes),
                    copy(CommandOp::AwaitCopy, third, 2),
                    copy(CommandOp::CopyOut, third, 4, 0),
                    copy(CommandOp::AwaitCopy, third, 4),
                    copy(CommandOp::CopyIn, first, 5, 0),
                    copy(CommandOp::AwaitCopy, first, 5),
                    copy(CommandOp::AwaitCopy, second, 3)};
  graph.commands[4].dying = {at(first)};
  graph.commands[5].dying = {at(second)};
  graph.commands[11].dying = {at(third)};
  GraphPlan plan = planOf(graph);
  plan.steps[6].reads = plan.steps[6].writes;
  program.graphs = {graph};
  program.plan.graphs = {plan};
  return program;
}

std::vector<char> filled() {
  std::vector<char> bytes(static_cast<size_t>(bufferBytes));
  char *argument = bytes.data();
  fill(0, 1, &argument);
  return bytes;
}

/// A file of this process in `folder` that has no name.
int openNameless(const std::string &folder) {
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code unknown;
    const std::string target = std::filesystem::read_symlink(entry.path(), unknown).string();
    if (target.starts_with(folder + "/"))
      return ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
  }
  return -1;
}

class SlowMemoryTest : public testing::Test {
protected:
  void SetUp() override { between = nullptr; }
  void TearDown() override { between = nullptr; }

  DeviceOptions options(CopyPace pace = {}) const {
    return {arenaBytes, arenaBytes, 2, {folder.path(), pace}};
  }
  void bind(Device &device, Poison poison = Poison::Dying) {
    device.bind(program, {kernels, {}}, poison);
    device.fill(0, arenaBytes, poisonByte);
  }
  static std::vector<char> read(Device &device, Bytes offset) {
    const char *found = device.download(offset, bufferBytes);
    return {found, found + bufferBytes};
  }
  template <typename Action> static std::string lossOf(const Action &action) {
    try {
      action();
    } catch (const DeviceLost &error) {
      return error.what();
    }
    return "nothing lost";
  }

  test::DiskFolder folder;
  Program program = makeProgram();
};

// Tests that buffers come back bit for bit though they were poisoned behind their copies, whenever bytes move, and
// run after run.
TEST_F(SlowMemoryTest, BuffersComeBack) {
  int poisoned = 0;
  between = [&](char *a, char *b) {
    auto isPoison = [](char byte) { return byte == static_cast<char>(poisonByte); };
    poisoned +=
        std::all_of(a, a + bufferBytes, isPoison) && std::all_of(b, b + bufferBytes, isPoison);
  };
  for (CopyTime time : {CopyTime::Background, CopyTime::Early, CopyTime::Late}) {
    HostDevice device(options({time, 0, 0}));
    bind(device);
    for (int step = 0; step < 3; ++step) {
      device.run(0, {});
      EXPECT_EQ(read(device, first), filled());
      EXPECT_EQ(read(device, second), filled());
      EXPECT_EQ(device.download(third, 1)[0], static_cast<char>(poisonByte));
    }
    EXPECT_EQ(device.slowTraffic()->bytesOut, 9 * bufferBytes);
    EXPECT_EQ(device.slowTraffic()->bytesIn, 9 * bufferBytes);
    EXPECT_GT(device.copySeconds(0, 5), 0);
  }
  EXPECT_EQ(poisoned, 9);
  EXPECT_TRUE(folder.isEmpty());
}

// Tests that state in slow memory is read and written between runs, fetched and replaced by them, and that its damage is named.
TEST_F(SlowMemoryTest, StateLiesThere) {
  const Bytes slowOffset = 2 * slotBytes, place = slowBeginOf(arenaBytes) + slowOffset;
  program.slowBytes = 3 * slotBytes;
  program.state = {{"m", BufferKind::Optimizer, at(place), {}}};
  program.graphs[0].commands = {copy(CommandOp::CopyIn, first, 0, slowOffset),
                                copy(CommandOp::AwaitCopy, first, 0), kernel(0, {at(second)}, 1),
                                copy(CommandOp::CopyOut, second, 1, slowOffset),
                                copy(CommandOp::AwaitCopy, second, 1)};
  program.plan.graphs = {planOf(program.graphs[0])};
  for (CopyTime time : {CopyTime::Background, CopyTime::Early, CopyTime::Late}) {
    DeviceOptions given = options({time, 0, 0});
    given.slowBytes = program.slowBytes;
    HostDevice device(given);
    bind(device);
    std::vector<char> found(bufferBytes);
    auto stateOf = [&] {
      device.download(found.data(), place, bufferBytes);
      return found;
    };
    EXPECT_EQ(stateOf(), std::vector<char>(bufferBytes, 0));
    const std::vector<char> wanted(bufferBytes, 'x');
    device.upload(place, wanted.data(), bufferBytes);
    EXPECT_EQ(stateOf(), wanted);
    device.run(0, {});
    EXPECT_EQ(read(device, first), wanted) << "fetched";
    EXPECT_EQ(stateOf(), filled()) << "replaced";
    device.run(0, {});
    EXPECT_EQ(read(device, first), filled());
    EXPECT_EQ(device.outsideMemory().fixed, kProcessBytes + slowMemoryBytes(0, 0, bufferBytes, 1));
    EXPECT_THROW(device.download(place + 1, 8), Error) << "no piece";
    const int raw = openNameless(folder.path());
    ASSERT_GE(raw, 0);
    ASSERT_EQ(::pwrite(raw, "?", 1, slowOffset + 100), 1);
    ::close(raw);
    try {
      stateOf();
      FAIL() << "nobody noticed";
    } catch (const Error &error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("state 'm': slow memory in '" + folder.path()),
                                      HasSubstr("are not those that were written")));
    }
  }
  EXPECT_TRUE(folder.isEmpty());
  test::GuardedDevice guarded({arenaBytes, arenaBytes, 1, {}, {}, program.slowBytes});
  guarded.bind(program, {kernels, {}}, Poison::Dying);
  const std::vector<char> wanted(bufferBytes, 'y');
  guarded.upload(place, wanted.data(), bufferBytes);
  guarded.run(0, {});
  EXPECT_EQ(read(guarded, first), wanted);
  std::vector<char> found(bufferBytes);
  guarded.download(found.data(), place, bufferBytes);
  EXPECT_EQ(found, filled());
}

// Tests that what the lanes take beside the arena is stated, with a checksum for each of the six pieces that leave.
TEST_F(SlowMemoryTest, StatesItsMemory) {
  HostDevice device(options());
  bind(device);
  EXPECT_EQ(device.outsideMemory().fixed, kProcessBytes + slow::kLaneBytes + 8 * 6);
}

// Tests that commands that are run one by one, and checked, give the same.
TEST_F(SlowMemoryTest, ChecksFindNothing) {
  CheckedDevice device(
      options(), [](const DeviceOptions &wanted) { return std::make_unique<HostDevice>(wanted); });
  bind(device);
  device.run(0, {});
  EXPECT_EQ(read(device, first), filled());
}

/// A command whose result lies, as the plan has it, where copy 0 is reading.
Program writesBeneathACopyOut() {
  Program program = makeProgram();
  program.graphs[0].commands[2] = kernel(0, {at(first)}, 2);
  program.plan.graphs[0].steps[2].writes = {0};
  return program;
}

// Tests that --check names a command that writes what a copy reads, or what one has brought and nobody has awaited,
// though its own result lies there.
TEST_F(SlowMemoryTest, ChecksFindAWriteBeneathACopy) {
  auto failureOf = [&] {
    CheckedDevice device(
        {arenaBytes, arenaBytes, 1, {folder.path(), {}}},
        [](const DeviceOptions &wanted) { return std::make_unique<HostDevice>(wanted); });
    bind(device);
    try {
      device.run(0, {});
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  between = [](char *, char *b) { b[5] = static_cast<char>(b[5] ^ 1); };
  program.graphs[0].commands.insert(program.graphs[0].commands.begin() + 9,
                                    kernel(1, {at(first), at(third)}));
  PlannedStep step;
  step.reads = step.writes = {0, 2};
  program.plan.graphs[0].steps.insert(program.plan.graphs[0].steps.begin() + 9, step);
  EXPECT_THAT(failureOf(),
              AllOf(HasSubstr("command 9 of graph 'train', 'kernel' of node 'the kernel'"),
                    HasSubstr("changes byte " + std::to_string(third + 5) + " of the arena")));
  program = writesBeneathACopyOut();
  EXPECT_THAT(failureOf(),
              AllOf(HasSubstr("command 2 of graph 'train', 'kernel' of node 'the kernel'"),
                    HasSubstr("changes byte " + std::to_string(first + 1) + " of the arena")));
}

// Tests that the guarded device runs copies, too, and sees writes beneath them and reads before them.
TEST_F(SlowMemoryTest, GuardsCopies) {
  test::GuardedDevice device({arenaBytes, arenaBytes, 1, {}});
  device.bind(program, {kernels, {}}, Poison::Dying);
  device.run(0, {});
  EXPECT_EQ(read(device, first), filled());
  EXPECT_EQ(read(device, second), filled());
  auto failureOf = [](const Program &program) -> std::string {
    test::GuardedDevice device({arenaBytes, arenaBytes, 1, {}});
    device.bind(program, {kernels, {}}, Poison::None);
    try {
      device.run(0, {});
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(failureOf(writesBeneathACopyOut()), HasSubstr("was written while the copy read it"));
  Program early = makeProgram();
  std::swap(early.graphs[0].commands[6], early.graphs[0].commands[8]);
  std::swap(early.plan.graphs[0].steps[6], early.plan.graphs[0].steps[8]);
  between = [](char *a, char *b) { a[0] = b[0]; };
  EXPECT_THAT(failureOf(early), HasSubstr("depends on bytes that it must not read"));
}

// Tests that damage on the disk is one error that names folder and node, that nothing can be had of the arena
// afterwards, and that a copy beside it is not on its way any more when the device is gone.
TEST_F(SlowMemoryTest, DamageLosesTheDevice) {
  between = [&](char *, char *) {
    const int file = openNameless(folder.path());
    ASSERT_GE(file, 0);
    char byte = 0;
    ASSERT_EQ(::pread(file, &byte, 1, 4242), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(file, &byte, 1, 4242), 1);
    ::close(file);
  };
  HostDevice device(options({CopyTime::Background, 0, 2e7}));
  bind(device);
  const std::string loss = lossOf([&] { device.run(0, {}); });
  EXPECT_THAT(loss, AllOf(HasSubstr("copy_in of node '/relu2': slow memory in '" + folder.path()),
                          HasSubstr("': the 1048576 bytes at 0 are not those that were written")));
  const Bytes passed = device.slowTraffic()->bytesIn;
  EXPECT_EQ(lossOf([&] { read(device, first); }), loss);
  EXPECT_EQ(lossOf([&] { device.run(0, {}); }), loss);
  EXPECT_EQ(lossOf([&] { device.beginUpload(0, 64); }), loss);
  EXPECT_EQ(device.slowTraffic()->bytesIn, passed) << "nothing was on its way";
}

// Tests that a file that was cut off is an error with what was expected and found.
TEST_F(SlowMemoryTest, NoticesAShortFile) {
  between = [&](char *, char *) {
    const int file = openNameless(folder.path());
    // In the last piece: of several that fail, the one that is read first is named.
    ASSERT_EQ(::ftruncate(file, slotBytes + slow::kPieceBytes + 8192), 0);
    ::close(file);
  };
  HostDevice device(options());
  bind(device);
  EXPECT_THAT(lossOf([&] { device.run(0, {}); }),
              AllOf(HasSubstr("copy_in of node '/relu3'"),
                    HasSubstr("found 8192: the file is shorter than what was reserved")));
}

// Tests that a program is refused where there is no folder, and where its copies are not whole.
TEST_F(SlowMemoryTest, RefusesPrograms) {
  auto refusalOf = [&](const DeviceOptions &options) -> std::string {
    try {
      HostDevice device(options);
      bind(device);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusalOf({arenaBytes, arenaBytes, 1, {}}), HasSubstr("no folder is named for it"));
  EXPECT_THAT(refusalOf({arenaBytes, arenaBytes, 1, {folder.path("missing"), {}}}),
              HasSubstr("No such file or directory"));
  program.graphs[0].commands.pop_back();
  EXPECT_THAT(refusalOf(options()), HasSubstr("no await_copy waits for copy 3"));
}

} // namespace
} // namespace stow::host
