#include "runtime/format/SlowCopies.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace stow {
namespace {

constexpr Bytes bufferBytes = 5000; // of two pages in slow memory
constexpr Bytes slowBytes = 3 * 8192;

Command command(CommandOp op, Bytes offset, std::vector<int64_t> copy,
                std::vector<int64_t> slowOffset = {}) {
  Command command;
  command.op = op;
  command.name = "/relu";
  command.operands = {{offset, DType::U8, {bufferBytes}, {}}};
  command.ints["copy"] = std::move(copy);
  if (!slowOffset.empty())
    command.ints["slow_offset"] = std::move(slowOffset);
  return command;
}

/// Out and, at another place of the arena, in again; then the slow bytes are used once more.
GraphProgram makeGraph() {
  GraphProgram graph;
  graph.commands = {
      command(CommandOp::CopyOut, 64, {2}, {8192}), command(CommandOp::Kernel, 0, {}),
      command(CommandOp::AwaitCopy, 64, {2}),       command(CommandOp::CopyIn, 9000, {0}, {8192}),
      command(CommandOp::AwaitCopy, 9000, {0}),     command(CommandOp::CopyOut, 128, {1}, {8192}),
      command(CommandOp::CopyIn, 256, {3}, {8192}), command(CommandOp::AwaitCopy, 128, {1}),
      command(CommandOp::AwaitCopy, 256, {3})};
  return graph;
}

// Tests that copies come by their numbers, each with its commands, places and source.
TEST(SlowCopiesTest, ReadsCopies) {
  const std::vector<SlowCopy> copies = slowCopiesOf(makeGraph(), slowBytes);
  ASSERT_EQ(copies.size(), 4u);
  EXPECT_TRUE(copies[2].isOut);
  EXPECT_EQ(copies[2].start, 0u);
  EXPECT_EQ(copies[2].await, 2u);
  EXPECT_EQ(copies[2].offset, 64);
  EXPECT_EQ(copies[2].bytes, bufferBytes);
  EXPECT_EQ(copies[2].slowOffset, 8192);
  EXPECT_EQ(copies[2].slowEnd(), 16384);
  EXPECT_FALSE(copies[0].isOut);
  EXPECT_EQ(copies[0].source, 2u);
  EXPECT_EQ(copies[0].await, 4u);
  EXPECT_EQ(copies[3].source, 1u) << "of the copies out to these bytes the last";
  EXPECT_TRUE(slowCopiesOf({}, 0).empty());
}

// Tests that each way in which copies are not whole is refused with the command and its node.
TEST(SlowCopiesTest, RefusesWhatIsNotWhole) {
  auto refused = [](const std::function<void(std::vector<Command> &)> &change,
                    Bytes bytes = slowBytes) -> std::string {
    GraphProgram graph = makeGraph();
    change(graph.commands);
    try {
      slowCopiesOf(graph, bytes);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      return error.what();
    }
    return "no error";
  };
  auto erase = [](size_t i) {
    return [i](auto &c) { c.erase(c.begin() + static_cast<std::ptrdiff_t>(i)); };
  };
  EXPECT_EQ(refused(erase(8)),
            "command 6, 'copy_in' of node '/relu': no await_copy waits for copy 3");
  EXPECT_EQ(refused(erase(0)), "command 1, 'await_copy' of node '/relu': copy 2 has not started");
  EXPECT_EQ(refused([](auto &c) { c[8] = c[7]; }),
            "command 8, 'await_copy' of node '/relu': copy 1 was awaited at command 7");
  EXPECT_EQ(refused([](auto &c) { c[3].ints["copy"] = {2}; }),
            "command 3, 'copy_in' of node '/relu': copy 2 has started at command 0");
  EXPECT_EQ(refused([](auto &c) { c[3].ints["copy"] = {4}; }),
            "command 3, 'copy_in' of node '/relu': expected a copy below 4, as many as there are, "
            "found 4");
  EXPECT_EQ(refused([](auto &c) { c[3].ints["copy"] = {-1}; }),
            "command 3, 'copy_in' of node '/relu': expected one number from 0 on as 'copy'");
  EXPECT_EQ(refused([](auto &c) { c[3].ints.erase("slow_offset"); }),
            "command 3, 'copy_in' of node '/relu': expected one number from 0 on as 'slow_offset'");
  EXPECT_EQ(refused([](auto &c) { c[4].operands[0].offset = 9008; }),
            "command 4, 'await_copy' of node '/relu': expected the buffer of copy 0, "
            "[9000, 14000)");
  EXPECT_EQ(refused([](auto &c) { c[0].operands.push_back(c[0].operands[0]); }),
            "command 0, 'copy_out' of node '/relu': expected one operand, found 2");
  EXPECT_EQ(refused([](auto &c) { c[0].operands[0].shape = {0}; }),
            "command 0, 'copy_out' of node '/relu': the buffer has no bytes");
  EXPECT_EQ(refused([](auto &c) { c[0].ints["slow_offset"] = {8200}; }),
            "command 0, 'copy_out' of node '/relu': expected a multiple of 4096 as 'slow_offset', "
            "found 8200");
  EXPECT_EQ(refused([](auto &) {}, 12288),
            "command 0, 'copy_out' of node '/relu': its bytes [8192, 16384) leave the slow memory "
            "of 12288 bytes");
  EXPECT_EQ(refused([](auto &c) { c[3].ints["slow_offset"] = {4096}; }),
            "command 3, 'copy_in' of node '/relu': fetches [4096, 9096) of slow memory, where copy "
            "2 has put [8192, 13192)");
  EXPECT_EQ(refused([](auto &c) { c[3].ints["slow_offset"] = {16384}; }),
            "command 3, 'copy_in' of node '/relu': fetches slow bytes that no copy_out before it "
            "has put there");
  EXPECT_EQ(refused([](auto &c) { std::swap(c[4], c[5]); }),
            "command 4, 'copy_out' of node '/relu': overwrites slow bytes of copy 0, which is not "
            "awaited before it");
}

/// m lies at 4096 of slow memory, and w in the arena.
Program withState() {
  Program program;
  program.plan.arenaBytes = 100;
  program.slowBytes = slowBytes;
  program.state = {{"w", BufferKind::Parameter, {0, DType::F32, {25}, {}}, {}},
                   {"m", BufferKind::Optimizer, {4096 + 4096, DType::U8, {bufferBytes}, {}}, {}}};
  return program;
}

// Tests that state in slow memory is fetched without a copy out before, and replaced by one.
TEST(SlowCopiesTest, ReadsCopiesOfState) {
  const std::vector<SlowState> state = slowStateOf(withState());
  ASSERT_EQ(state.size(), 1u);
  EXPECT_EQ(state[0].name, "m");
  EXPECT_EQ(state[0].number, 1u);
  EXPECT_EQ(state[0].slowOffset, 4096);
  EXPECT_EQ(state[0].bytes, bufferBytes);
  GraphProgram graph;
  graph.commands = {
      command(CommandOp::CopyIn, 64, {0}, {4096}), command(CommandOp::AwaitCopy, 64, {0}),
      command(CommandOp::CopyOut, 64, {1}, {4096}), command(CommandOp::AwaitCopy, 64, {1})};
  const std::vector<SlowCopy> copies = slowCopiesOf(graph, slowBytes, state);
  EXPECT_EQ(copies[0].source, std::nullopt);
  EXPECT_EQ(copies[0].state, 0u);
  EXPECT_EQ(copies[1].state, 0u);
  EXPECT_THROW(slowCopiesOf(graph, slowBytes), Error) << "without state nothing is there";
  std::swap(graph.commands[1], graph.commands[2]);
  auto refused = [&] {
    try {
      slowCopiesOf(graph, slowBytes, state);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(refused(),
            "command 1, 'copy_out' of node '/relu': overwrites slow bytes of copy 0, which "
            "is not awaited before it");
  graph.commands[0].ints["slow_offset"] = {8192};
  EXPECT_EQ(refused(), "command 0, 'copy_in' of node '/relu': copies [8192, 13192) of slow memory, "
                       "where state 'm' lies in [4096, 9096)");
}

TEST(SlowCopiesTest, RefusesStateThatHasNoPlace) {
  auto refused = [](auto change) {
    Program program = withState();
    change(program);
    try {
      slowStateOf(program);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(refused([](Program &p) { p.state[1].place.offset = 4096 + 8; }),
            "state 'm' in slow memory: expected a multiple of 4096 from the begin of slow memory, "
            "found 8");
  EXPECT_EQ(
      refused([](Program &p) { p.slowBytes = 8192; }),
      "state 'm' in slow memory: its bytes [4096, 12288) leave the slow memory of 8192 bytes");
  EXPECT_EQ(refused([](Program &p) { p.state[0].place = {4096 + 8192, DType::F32, {25}, {}}; }),
            "state 'w' in slow memory: it begins at 8192, inside 'm'");
}

} // namespace
} // namespace stow
