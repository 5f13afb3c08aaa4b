#include "runtime/device/CheckedDevice.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/SlowCopies.h"

#include <algorithm>
#include <cstring>

namespace stow {

namespace {

/// Keeps every alignment that a plan can ask for.
constexpr Bytes guardBytes = 1 << 16;

void shift(Command &command) {
  for (Operand &operand : command.operands)
    operand.offset += guardBytes;
  for (Operand &dead : command.dying)
    dead.offset += guardBytes;
  command.workspaceOffset += guardBytes;
  for (Command &part : command.parts)
    shift(part);
}

/// The program for an arena that begins behind a guard.
Program shifted(Program program) {
  for (GraphProgram &graph : program.graphs) {
    for (Command &command : graph.commands)
      shift(command);
    for (GraphInput &input : graph.inputs)
      if (input.nextOffset)
        *input.nextOffset += guardBytes;
  }
  for (GraphPlan &graph : program.plan.graphs)
    for (PlannedBuffer &buffer : graph.buffers)
      buffer.offset += guardBytes;
  return program;
}

std::string rangeText(const Operand &operand) {
  const Bytes begin = operand.offset - guardBytes;
  return concat("[", begin, ", ", begin + storedBytes(operand.layout, operand.shape, operand.dtype),
                ")");
}

/// "operands at [0, 64), [64, 128), workspace at [128, 192)", as the plan counts.
std::string placesOf(const Command &command) {
  std::string text = "operands at ";
  for (size_t i = 0; i < command.operands.size(); ++i)
    text += (i ? ", " : "") + rangeText(command.operands[i]);
  if (command.workspaceBytes > 0)
    text += ", workspace at " +
            rangeText({command.workspaceOffset, DType::U8, {command.workspaceBytes}, {}});
  return text;
}

std::string hex(char byte) {
  constexpr const char *digits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return std::string("0x") + digits[value >> 4] + digits[value & 15];
}

/// What [begin, end) leaves of the segments.
std::vector<Segment> without(const std::vector<Segment> &segments, Bytes begin, Bytes end) {
  std::vector<Segment> rest;
  for (const Segment &segment : segments) {
    if (segment.begin < std::min(segment.end, begin))
      rest.push_back({segment.begin, std::min(segment.end, begin), segment.uses});
    if (std::max(segment.begin, end) < segment.end)
      rest.push_back({std::max(segment.begin, end), segment.end, segment.uses});
  }
  return rest;
}

DeviceOptions guarded(DeviceOptions options) {
  options.arenaBytes += 2 * guardBytes;
  options.slow.pace.time = CopyTime::Early;
  return options;
}

} // namespace

CheckedDevice::CheckedDevice(const DeviceOptions &options, const Open &open)
    : Device(options), inner(open(guarded(options))),
      known(static_cast<size_t>(options.arenaBytes + 2 * guardBytes)) {}

void CheckedDevice::bind(const Program &given, const ProgramImage &image, Poison) {
  program = shifted(given);
  inner->bind(program, image, Poison::Dying);
  for (const GraphProgram &graph : program.graphs) {
    auto &commands = writable.emplace_back();
    for (size_t i = 0; i < graph.commands.size(); ++i) {
      auto &segments = commands.emplace_back();
      for (const Segment &segment : footprintOf(graph, i, program.plan))
        if (segment.uses & (Writes | Scratch))
          segments.push_back(segment);
    }
    for (const SlowCopy &copy : slowCopiesOf(graph, program.slowBytes, slowStateOf(given)))
      for (size_t i = copy.start + 1; i < copy.await; ++i)
        commands[i] = without(commands[i], copy.offset, copy.offset + copy.bytes);
  }
  inner->fill(0, inner->arenaBytes(), poisonByte);
  std::ranges::fill(known, static_cast<char>(poisonByte));
}

/// Where the inner device has a place: behind the guard, and slow memory behind both.
Bytes CheckedDevice::placeOf(Bytes offset) const {
  return isSlow(offset) ? offset - slowBeginOf(arenaBytes()) + slowBeginOf(inner->arenaBytes())
                        : guardBytes + offset;
}

char *CheckedDevice::stage(Bytes offset, Bytes bytes) {
  char *staging = inner->beginUpload(placeOf(offset), bytes);
  staged = staging;
  return staging;
}

void CheckedDevice::commit(Bytes offset, Bytes bytes) {
  if (isSlow(offset))
    return inner->endUpload();
  std::memcpy(known.data() + guardBytes + offset, staged, static_cast<size_t>(bytes));
  inner->endUpload();
}

const char *CheckedDevice::fetch(Bytes offset, Bytes bytes) {
  return inner->download(placeOf(offset), bytes);
}

void CheckedDevice::set(Bytes offset, Bytes bytes, uint8_t value) {
  inner->fill(guardBytes + offset, bytes, value);
  std::memset(known.data() + guardBytes + offset, value, static_cast<size_t>(bytes));
}

void CheckedDevice::run(size_t graph, std::span<CommandTime> times) {
  if (!times.empty())
    throw Error::badInput(
        "--check runs commands one by one, and --profile would time that; ask for one "
        "of them");
  const GraphProgram &commands = program.graphs.at(graph);
  for (size_t i = 0; i < commands.commands.size(); ++i) {
    try {
      inner->runCommand(graph, i);
    } catch (const DeviceLost &error) {
      throw DeviceLost(titleOf(commands, i) + " (" + placesOf(commands.commands[i]) +
                       "): " + error.what());
    } catch (const Error &error) {
      throw Error(error.kind(), titleOf(commands, i) + " (" + placesOf(commands.commands[i]) +
                                    "): " + error.what());
    }
    compare(graph, i);
  }
}

/// Takes over what the command may write, and holds the rest to what it was.
void CheckedDevice::compare(size_t graph, size_t command) {
  for (const Operand &dead : program.graphs[graph].commands[command].dying)
    std::memset(known.data() + dead.offset, poisonByte,
                static_cast<size_t>(storedBytes(dead.layout, dead.shape, dead.dtype)));
  std::vector<Segment> open = writable[graph][command];
  // What died is not the command's any more.
  for (const Operand &dead : program.graphs[graph].commands[command].dying) {
    const Bytes begin = dead.offset, end = begin + storedBytes(dead.layout, dead.shape, dead.dtype);
    open = without(open, begin, end);
  }
  auto next = open.begin();
  for (Bytes from = 0; from < inner->arenaBytes();) {
    const Bytes bytes = std::min(inner->stagingBytes(), inner->arenaBytes() - from);
    const char *found = inner->download(from, bytes);
    auto hold = [&](Bytes begin, Bytes end) {
      const char *a = found + (begin - from), *b = known.data() + begin;
      if (std::memcmp(a, b, static_cast<size_t>(end - begin)) == 0)
        return;
      const auto [changed, was] = std::mismatch(a, a + (end - begin), b);
      report(graph, command, begin + (changed - a), *was, *changed);
    };
    Bytes at = from;
    while (next != open.end() && next->begin < from + bytes) {
      const Bytes begin = std::max(next->begin, at), end = std::min(next->end, from + bytes);
      hold(at, begin);
      std::memcpy(known.data() + begin, found + (begin - from), static_cast<size_t>(end - begin));
      at = end;
      if (next->end > from + bytes)
        break;
      ++next;
    }
    hold(at, from + bytes);
    from += bytes;
  }
}

void CheckedDevice::report(size_t graph, size_t command, Bytes at, char expected,
                           char found) const {
  const GraphProgram &commands = program.graphs[graph];
  const Bytes offset = at - guardBytes;
  std::string place = offset < 0               ? "in the guard before the arena"
                      : offset >= arenaBytes() ? "in the guard behind the arena"
                                               : "where nothing lives";
  if (const GraphPlan *planned = findGraph(program.plan, commands.role, commands.shape))
    for (const PlannedBuffer &buffer : planned->buffers)
      if (buffer.offset <= at && at < buffer.offset + buffer.size &&
          buffer.begin <= static_cast<int64_t>(command) &&
          static_cast<int64_t>(command) < buffer.end)
        place = concat("byte ", at - buffer.offset, " of '", buffer.name, "'");
  throw Error::internal(concat(
      titleOf(commands, command), " (", placesOf(commands.commands[command]), ") changes byte ",
      offset, " of the arena, ", place, ", from ", hex(expected), " to ", hex(found)));
}

} // namespace stow
