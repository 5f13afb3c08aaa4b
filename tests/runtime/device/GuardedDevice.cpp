#include "tests/runtime/device/GuardedDevice.h"

#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/Instructions.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

namespace stow::test {

namespace {

using Access = GuardedMemory::Access;

/// Of all devices: how many there were, then by Record::Kind.
std::atomic<int64_t> devices;
std::array<std::atomic<int64_t>, 5> totals;

/// The two runs of a command.
constexpr uint64_t firstRun = 1, secondRun = 2;

/// A byte that depends on the place, the command and, in every bit pattern, on the run. Words of
/// four are ordinary floats, between 0.5 and 8: an operation that reads one gives a number and not
/// a NaN, which would hide which of the two it was.
char garbage(Bytes at, uint64_t salt, uint64_t run) {
  uint64_t word = static_cast<uint64_t>(at) / 4 + (salt << 32);
  word = (word ^ (word >> 29)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 32)) * 0x94D049BB133111EB;
  auto bits = static_cast<uint32_t>(word >> 32);
  bits = (bits & 0x80ffffff) | 0x3f000000;
  if (run == secondRun)
    bits ^= 0x7f5a5a5a; // 0x3f becomes 0x40
  return static_cast<char>(bits >> at % 4 * 8);
}

/// Ranges of whole pages that the segments touch.
std::vector<Segment> pagesOf(const std::vector<Segment> &segments) {
  constexpr Bytes page = GuardedMemory::pageBytes;
  std::vector<Segment> pages;
  for (const Segment &segment : segments) {
    Bytes begin = segment.begin / page * page, end = alignUp(segment.end, page);
    if (!pages.empty() && begin <= pages.back().end)
      pages.back().end = end;
    else
      pages.push_back({begin, end, 0});
  }
  return pages;
}

/// What `pages` has beside `segments`, which lie in it.
std::vector<Segment> gapsOf(const std::vector<Segment> &pages,
                            const std::vector<Segment> &segments) {
  std::vector<Segment> gaps;
  auto next = segments.begin();
  for (const Segment &range : pages) {
    Bytes done = range.begin;
    for (; next != segments.end() && next->begin < range.end; done = (next++)->end)
      if (done < next->begin)
        gaps.push_back({done, next->begin, 0});
    if (done < range.end)
      gaps.push_back({done, range.end, 0});
  }
  return gaps;
}

} // namespace

GuardedDevice::GuardedDevice(const DeviceOptions &options)
    : Device(options), arena("the arena", options.arenaBytes),
      staging("staging memory", options.stagingBytes),
      defined(static_cast<size_t>(options.arenaBytes)) {
  ++devices;
  for (Bytes at = 0; at < arena.pages(); ++at)
    arena.own()[at] = garbage(at, 0, firstRun);
}

GuardedDevice::~GuardedDevice() = default;

std::string GuardedDevice::report() {
  std::string text = "{\"devices\": " + std::to_string(devices);
  constexpr const char *names[] = {"uploads", "downloads", "fills", "runs", "commands"};
  for (size_t kind = 0; kind < totals.size(); ++kind)
    text += std::string(", \"") + names[kind] + "\": " + std::to_string(totals[kind]);
  return text + "}";
}

void GuardedDevice::record(const Record &record) {
  ++totals[static_cast<size_t>(record.kind)];
  recorded.push_back(record);
}

// Transfers. --------------------------------------------------------------------------------------

/// Opens the last `bytes` bytes of the staging memory, so that the closed page lies right behind
/// them, but for the alignment. Returns where they are.
Bytes GuardedDevice::lend(Bytes bytes, Access access) {
  staging.allow(0, staging.pages(), Access::None);
  Bytes begin = (staging.pages() - bytes) / 64 * 64;
  staging.allow(begin, begin + bytes, access);
  return begin;
}

char *GuardedDevice::stage(Bytes, Bytes bytes) {
  Bytes begin = lend(bytes, Access::ReadWrite);
  for (Bytes at = begin; at < staging.pages(); ++at)
    staging.own()[at] = garbage(at, recorded.size(), firstRun);
  return staging.view() + begin;
}

void GuardedDevice::commit(Bytes offset, Bytes bytes) {
  Bytes begin = lend(bytes, Access::None);
  if (isSlow(offset)) {
    const Bytes place = offset - slowBeginOf(arenaBytes());
    std::memcpy(slow.data() + place, staging.own() + begin, static_cast<size_t>(bytes));
    std::fill_n(slowDefined.begin() + place, bytes, uint8_t{1});
    return record({Record::Kind::Upload, offset, bytes});
  }
  std::memcpy(arena.own() + offset, staging.own() + begin, static_cast<size_t>(bytes));
  std::fill_n(defined.begin() + offset, bytes, uint8_t{1});
  record({Record::Kind::Upload, offset, bytes});
}

const char *GuardedDevice::fetch(Bytes offset, Bytes bytes) {
  const Bytes at = isSlow(offset) ? offset - slowBeginOf(arenaBytes()) : offset;
  auto begin = (isSlow(offset) ? slowDefined : defined).begin() + at;
  const char *from = (isSlow(offset) ? slow.data() : arena.own()) + at;
  if (bytes > 0 && std::find(begin, begin + bytes, 1) == begin + bytes)
    throw Error::internal("guarded device: a download of " + formatBytesExact(bytes) +
                          " at offset " + std::to_string(offset) +
                          ", where nothing has been written or all has died");
  Bytes place = lend(bytes, Access::Read);
  for (Bytes i = 0; i < bytes; ++i)
    staging.own()[place + i] = begin[i] ? from[i] : garbage(i, recorded.size(), firstRun);
  record({Record::Kind::Download, offset, bytes});
  return staging.view() + place;
}

void GuardedDevice::set(Bytes offset, Bytes bytes, uint8_t value) {
  staging.allow(0, staging.pages(), Access::None);
  std::memset(arena.own() + offset, value, static_cast<size_t>(bytes));
  std::fill_n(defined.begin() + offset, bytes, uint8_t{1});
  record({Record::Kind::Fill, offset, bytes});
}

// Commands. ---------------------------------------------------------------------------------------

void GuardedDevice::bind(const Program &program, const ProgramImage &image, Poison asked) {
  host::useInstructionsOf(program.target);
  poison = asked;
  ThreadScope scope(options.threads);
  arena.allow(0, arena.pages(), Access::ReadWrite); // the library writes padding when it binds
  slow.resize(static_cast<size_t>(program.slowBytes));
  slowDefined.resize(slow.size());
  for (const GraphProgram &graph : program.graphs) {
    std::vector<Guarded> &bound = graphs.emplace_back();
    copies.push_back(slowCopiesOf(graph, program.slowBytes, slowStateOf(program)));
    for (size_t i = 0; i < graph.commands.size(); ++i) {
      const Command &command = graph.commands[i];
      std::vector<Segment> dying;
      for (const Operand &dead : command.dying)
        std::ranges::move(bytesOf(dead, 0), std::back_inserter(dying));
      const bool isCopy = isOfCopy(command);
      bound.push_back(
          {isCopy ? host::BoundCommand(command, arena.view(), Poison::None, host::CopyStep())
                  : host::BoundCommand(command, image, arena.view(), options.threads, Poison::None),
           footprintOf(graph, i, program.plan),
           {},
           {},
           std::move(dying),
           titleOf(graph, i)});
      Guarded &guarded = bound.back();
      if (isCopy) {
        guarded.copy = static_cast<size_t>(command.ints.at("copy").front());
        guarded.isStart = command.op != CommandOp::AwaitCopy;
      }
      guarded.pages = pagesOf(guarded.allowed);
      guarded.gaps = gapsOf(guarded.pages, guarded.allowed);
    }
  }
  arena.allow(0, arena.pages(), Access::None);
}

void GuardedDevice::run(size_t graph, std::span<CommandTime> times) {
  staging.allow(0, staging.pages(), Access::None);
  ThreadScope scope(options.threads);
  record({Record::Kind::Run, 0, 0, graph});
  std::vector<Guarded> &commands = graphs.at(graph);
  for (size_t i = 0; i < commands.size(); ++i) {
    auto begin = std::chrono::steady_clock::now();
    record({Record::Kind::Command, 0, 0, graph, i});
    if (commands[i].copy)
      runCopy(commands[i], copies[graph][*commands[i].copy]);
    else
      runGuarded(commands[i]);
    if (!times.empty())
      times[i].seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
}

std::vector<char> GuardedDevice::copyOf(const std::vector<Segment> &segments) const {
  std::vector<char> bytes;
  for (const Segment &segment : segments)
    bytes.insert(bytes.end(), arena.own() + segment.begin, arena.own() + segment.end);
  return bytes;
}

void GuardedDevice::putBack(const std::vector<Segment> &segments, const std::vector<char> &bytes) {
  auto from = bytes.begin();
  for (const Segment &segment : segments) {
    std::copy_n(from, segment.end - segment.begin, arena.own() + segment.begin);
    from += segment.end - segment.begin;
  }
}

/// Runs the command with garbage of `run` wherever it may not look. `before` are the bytes of its
/// guarded.
void GuardedDevice::runOnce(const Guarded &guarded, const std::vector<char> &before, uint64_t run) {
  putBack(guarded.allowed, before);
  for (const Segment &segment : guarded.allowed)
    for (Bytes at = segment.begin; at < segment.end; ++at)
      if (!isGiven(at, segment.uses))
        arena.own()[at] = garbage(at, recorded.size(), run);
  for (const Segment &gap : guarded.gaps)
    for (Bytes at = gap.begin; at < gap.end; ++at)
      arena.own()[at] = garbage(at, recorded.size(), run);

  GuardedMemory::setActivity("by " + guarded.title + ", which has nothing there");
  for (const Segment &range : guarded.pages)
    arena.allow(range.begin, range.end, Access::ReadWrite);
  guarded.command.run();
  for (const Segment &range : guarded.pages)
    arena.allow(range.begin, range.end, Access::None);
  GuardedMemory::setActivity("");

  for (const Segment &gap : guarded.gaps)
    for (Bytes at = gap.begin; at < gap.end; ++at)
      if (arena.own()[at] != garbage(at, recorded.size(), run))
        throw Error::internal("guarded device: " + guarded.title + " writes byte " +
                              std::to_string(at) + " of the arena, which is none of its operands'");
}

void GuardedDevice::runGuarded(const Guarded &guarded) {
  const std::vector<char> others = copyOf(guarded.gaps), before = copyOf(guarded.allowed);
  runOnce(guarded, before, firstRun);
  const std::vector<char> first = copyOf(guarded.allowed);
  runOnce(guarded, before, secondRun);
  putBack(guarded.gaps, others);
  compareRuns(guarded, before, first);
  dieWith(guarded);
}

/// A copy out is made at its start and must find the same bytes when it is awaited; a copy in is made when it is
/// awaited, and from its start to there nothing is defined where it writes.
void GuardedDevice::runCopy(const Guarded &guarded, const SlowCopy &copy) {
  auto fail = [&](Bytes at, const std::string &what) {
    throw Error::internal("guarded device: " + guarded.title + ": byte " + std::to_string(at) +
                          " of the arena was written while the copy " + what + " it");
  };
  for (Bytes i = 0; i < copy.bytes; ++i) {
    char &byte = arena.own()[copy.offset + i], &away = slow[copy.slowOffset + i];
    uint8_t &isDefined = defined[copy.offset + i],
            &isDefinedAway = slowDefined[copy.slowOffset + i];
    if (copy.isOut && guarded.isStart) {
      away = byte;
      isDefinedAway = isDefined;
    } else if (copy.isOut) {
      if (isDefined != isDefinedAway || (isDefined && byte != away))
        fail(copy.offset + i, "read");
    } else if (guarded.isStart) {
      byte = garbage(copy.offset + i, recorded.size(), firstRun);
      isDefined = 0;
    } else {
      if (isDefined)
        fail(copy.offset + i, "wrote");
      byte = away;
      isDefined = isDefinedAway;
    }
  }
  dieWith(guarded);
}

void GuardedDevice::dieWith(const Guarded &guarded) {
  for (const Segment &dead : guarded.dying)
    for (Bytes at = dead.begin; at < dead.end; ++at) {
      arena.own()[at] = poison == Poison::Dying ? static_cast<char>(poisonByte)
                                                : garbage(at, recorded.size(), firstRun);
      defined[static_cast<size_t>(at)] = poison == Poison::Dying;
    }
}

/// Holds what the runs left to the command's uses of its bytes, and notes which are defined now.
void GuardedDevice::compareRuns(const Guarded &guarded, const std::vector<char> &before,
                                const std::vector<char> &first) {
  size_t i = 0;
  for (const Segment &segment : guarded.allowed)
    for (Bytes at = segment.begin; at < segment.end; ++at, ++i) {
      auto fail = [&](const std::string &what) {
        throw Error::internal("guarded device: " + guarded.title + " " + what + " byte " +
                              std::to_string(at) + " of the arena");
      };
      const char second = arena.own()[at];
      uint8_t &isDefined = defined[static_cast<size_t>(at)];
      const bool isGarbage = !isGiven(at, segment.uses);
      const bool isUntouched = isGarbage && first[i] == garbage(at, recorded.size(), firstRun) &&
                               second == garbage(at, recorded.size(), secondRun);
      if (!(segment.uses & (Writes | Scratch))) {
        if (!isUntouched && (isGarbage || first[i] != before[i] || second != before[i]))
          fail("writes into its input, at");
        if (isGarbage)
          arena.own()[at] = before[i];
        continue;
      }
      if (segment.uses & Scratch) {
        isDefined = 0;
        continue;
      }
      if (!isUntouched && first[i] != second)
        fail("gives a result that depends on bytes that it must not read, at");
      isDefined = !isUntouched;
    }
}

} // namespace stow::test
