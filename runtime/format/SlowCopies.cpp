#include "runtime/format/SlowCopies.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace stow {

namespace {

/// Stands for a copy that was not awaited yet.
constexpr size_t never = std::numeric_limits<size_t>::max();

class CopyReader {
public:
  CopyReader(const GraphProgram &graph, Bytes slowBytes, const std::vector<SlowState> &state)
      : graph(graph), slowBytes(slowBytes), state(state) {}

  std::vector<SlowCopy> read() {
    const auto ofCopy = std::ranges::count_if(graph.commands, isOfCopy);
    copies.resize(static_cast<size_t>(ofCopy + 1) / 2);
    for (size_t i = 0; i < graph.commands.size(); ++i) {
      const Command &command = graph.commands[i];
      if (command.op == CommandOp::AwaitCopy)
        await(i);
      else if (isOfCopy(command))
        start(i);
    }
    std::vector<SlowCopy> whole;
    for (const std::optional<SlowCopy> &copy : copies) {
      if (!copy)
        throw Error::badInput(concat("expected ", copies.size(),
                                     " copies, numbered from 0; number ", whole.size(),
                                     " is missing"));
      if (copy->await == never)
        fail(copy->start, concat("no await_copy waits for copy ", whole.size()));
      whole.push_back(*copy);
    }
    return whole;
  }

private:
  [[noreturn]] void fail(size_t command, const std::string &what) const {
    throw Error::badInput(
        concat("command ", command, ", ", graph.commands[command].title(), ": ", what));
  }

  int64_t valueOf(size_t command, const char *key) const {
    const auto &ints = graph.commands[command].ints;
    const auto found = ints.find(key);
    if (found == ints.end() || found->second.size() != 1 || found->second[0] < 0)
      fail(command, concat("expected one number from 0 on as '", key, "'"));
    return found->second[0];
  }

  /// The entry of the copy that the command names.
  size_t numberOf(size_t command) const {
    const int64_t number = valueOf(command, "copy");
    if (number >= static_cast<int64_t>(copies.size()))
      fail(command, concat("expected a copy below ", copies.size(),
                           ", as many as there are, found ", number));
    return static_cast<size_t>(number);
  }

  /// The place of its only operand.
  std::pair<Bytes, Bytes> bufferOf(size_t command) const {
    const std::vector<Operand> &operands = graph.commands[command].operands;
    if (operands.size() != 1)
      fail(command, concat("expected one operand, found ", operands.size()));
    return {operands[0].offset,
            storedBytes(operands[0].layout, operands[0].shape, operands[0].dtype)};
  }

  void start(size_t command) {
    const size_t number = numberOf(command);
    if (copies[number])
      fail(command, concat("copy ", number, " has started at command ", copies[number]->start));
    SlowCopy copy;
    copy.isOut = graph.commands[command].op == CommandOp::CopyOut;
    copy.start = command;
    copy.await = never;
    std::tie(copy.offset, copy.bytes) = bufferOf(command);
    copy.slowOffset = valueOf(command, "slow_offset");
    if (copy.bytes == 0)
      fail(command, "the buffer has no bytes");
    if (copy.slowOffset % kSlowAlignment != 0)
      fail(command, concat("expected a multiple of ", kSlowAlignment, " as 'slow_offset', found ",
                           copy.slowOffset));
    if (copy.slowOffset > slowBytes || copy.slowEnd() > slowBytes)
      fail(command, concat("its bytes [", copy.slowOffset, ", ", copy.slowEnd(),
                           ") leave the slow memory of ", slowBytes, " bytes"));
    copy.state = stateAt(copy);
    copy.isOut ? checkFree(copy) : findSource(copy);
    copies[number] = copy;
    started.push_back(number);
  }

  /// The state whose place a copy reads or writes: all of it, if any.
  std::optional<size_t> stateAt(const SlowCopy &copy) const {
    for (size_t i = 0; i < state.size(); ++i) {
      const SlowState &known = state[i];
      if (copy.slowOffset >= known.slowEnd() || known.slowOffset >= copy.slowEnd())
        continue;
      if (copy.slowOffset != known.slowOffset || copy.bytes != known.bytes)
        fail(copy.start, concat("copies [", copy.slowOffset, ", ", copy.slowOffset + copy.bytes,
                                ") of slow memory, where state '", known.name, "' lies in [",
                                known.slowOffset, ", ", known.slowOffset + known.bytes, ")"));
      return i;
    }
    return std::nullopt;
  }

  /// What is overwritten in slow memory is not read or written any more.
  void checkFree(const SlowCopy &copy) const {
    for (size_t other : started)
      if (overlap(copy, *copies[other]) && copies[other]->await == never)
        fail(copy.start,
             concat("overwrites slow bytes of copy ", other, ", which is not awaited before it"));
  }

  void findSource(SlowCopy &copy) const {
    for (auto other = started.rbegin(); other != started.rend(); ++other) {
      const SlowCopy &from = *copies[*other];
      if (!from.isOut || !overlap(copy, from))
        continue;
      if (from.slowOffset != copy.slowOffset || from.bytes != copy.bytes)
        fail(copy.start, concat("fetches [", copy.slowOffset, ", ", copy.slowOffset + copy.bytes,
                                ") of slow memory, where copy ", *other, " has put [",
                                from.slowOffset, ", ", from.slowOffset + from.bytes, ")"));
      copy.source = *other;
      return;
    }
    if (!copy.state)
      fail(copy.start, "fetches slow bytes that no copy_out before it has put there");
  }

  static bool overlap(const SlowCopy &a, const SlowCopy &b) {
    return a.slowOffset < b.slowEnd() && b.slowOffset < a.slowEnd();
  }

  void await(size_t command) {
    const size_t number = numberOf(command);
    std::optional<SlowCopy> &copy = copies[number];
    if (!copy)
      fail(command, concat("copy ", number, " has not started"));
    if (copy->await != never)
      fail(command, concat("copy ", number, " was awaited at command ", copy->await));
    if (bufferOf(command) != std::pair(copy->offset, copy->bytes))
      fail(command, concat("expected the buffer of copy ", number, ", [", copy->offset, ", ",
                           copy->offset + copy->bytes, ")"));
    copy->await = command;
  }

  const GraphProgram &graph;
  const Bytes slowBytes;
  const std::vector<SlowState> &state;
  std::vector<std::optional<SlowCopy>> copies; ///< by number
  std::vector<size_t> started;                 ///< numbers, in order
};

} // namespace

bool isOfCopy(const Command &command) {
  return command.op == CommandOp::CopyOut || command.op == CommandOp::CopyIn ||
         command.op == CommandOp::AwaitCopy;
}

std::vector<SlowCopy> slowCopiesOf(const GraphProgram &graph, Bytes slowBytes,
                                   const std::vector<SlowState> &state) {
  return CopyReader(graph, slowBytes, state).read();
}

std::vector<SlowState> slowStateOf(const Program &program) {
  const Bytes begin = slowBeginOf(program.plan.arenaBytes);
  std::vector<SlowState> found;
  for (size_t i = 0; i < program.state.size() && program.slowBytes > 0; ++i) {
    const std::string &name = program.state[i].name;
    const Operand &place = program.state[i].place;
    const Bytes bytes = storedBytes(place.layout, place.shape, place.dtype);
    if (place.offset < begin || bytes == 0)
      continue;
    const bool isScattered = !place.layout.isRowMajor() && bytes > kSlowPieceBytes;
    const SlowState state = {name, i, place.offset - begin, bytes, isScattered ? bytes : 0};
    const std::string title = concat("state '", name, "' in slow memory: ");
    if (state.slowOffset % kSlowAlignment != 0)
      throw Error::badInput(concat(title, "expected a multiple of ", kSlowAlignment,
                                   " from the begin of slow memory, found ", state.slowOffset));
    if (state.slowEnd() > program.slowBytes)
      throw Error::badInput(concat(title, "its bytes [", state.slowOffset, ", ", state.slowEnd(),
                                   ") leave the slow memory of ", program.slowBytes, " bytes"));
    found.push_back(state);
  }
  std::ranges::sort(found, {}, &SlowState::slowOffset);
  for (size_t i = 1; i < found.size(); ++i)
    if (found[i].slowOffset < found[i - 1].slowEnd())
      throw Error::badInput(concat("state '", found[i].name, "' in slow memory: it begins at ",
                                   found[i].slowOffset, ", inside '", found[i - 1].name, "'"));
  return found;
}

} // namespace stow
