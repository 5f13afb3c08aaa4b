#include "runtime/host/SlowMemory.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/host/Outside.h"

#include <algorithm>

namespace stow::host {

namespace {

const std::string &folderOf(const Program &program, const SlowMemoryOptions &options) {
  if (options.folder.empty())
    throw Error::badInput(concat("buffers of this program travel to ",
                                 formatBytesExact(program.slowBytes),
                                 " of slow memory, and no folder is named for it; name one on a "
                                 "disk: --offload=FOLDER"));
  return options.folder;
}

} // namespace

SlowMemory::SlowMemory(const Program &program, const SlowMemoryOptions &options, char *arena)
    : file(folderOf(program, options), program.slowBytes), lanes(file, options.pace),
      state(slowStateOf(program)) {
  static_assert(kSlowPieceBytes == slow::kPieceBytes);
  for (const SlowState &known : state)
    places.push_back(lanes.addPlace({known.slowOffset, known.bytes, known.name}));
  for (const GraphProgram &graph : program.graphs) {
    const std::vector<SlowCopy> copies = slowCopiesOf(graph, program.slowBytes, state);
    std::vector<size_t> &numbers = this->numbers.emplace_back(copies.size());
    for (const bool isOut : {true, false}) // sources first
      for (size_t i = 0; i < copies.size(); ++i) {
        const SlowCopy &copy = copies[i];
        if (copy.isOut != isOut)
          continue;
        slow::LaneCopy lane = {isOut,      arena + copy.offset,
                               copy.bytes, copy.slowOffset,
                               {},         graph.commands[copy.start].name};
        if (copy.source)
          lane.source = numbers[*copy.source];
        if (copy.state)
          lane.place = places[*copy.state];
        numbers[i] = lanes.add(lane);
        bytesOut += isOut && !copy.state ? copy.bytes : 0;
        copiesOut += isOut && !copy.state;
      }
  }
}

CopyStep SlowMemory::stepOf(const Command &command, size_t graph) {
  const auto copy = static_cast<size_t>(command.ints.at("copy").front());
  return {&lanes, numbers.at(graph).at(copy), command.op != CommandOp::AwaitCopy};
}

SlowTraffic SlowMemory::traffic() const {
  const slow::LaneTraffic passed = lanes.traffic();
  return {concat("a file in '", file.folder(), "'"), file.bytes(), passed.bytesOut, passed.bytesIn};
}

Bytes SlowMemory::outsideBytes() const {
  Bytes bytes = 0, scattered = 0;
  for (const SlowState &known : state) {
    bytes += known.bytes;
    scattered = std::max(scattered, known.scatteredBytes);
  }
  return slowMemoryBytes(bytesOut, copiesOut, bytes, static_cast<int64_t>(state.size()), scattered);
}

SlowMemory::Piece SlowMemory::pieceAt(Bytes offset, Bytes bytes) const {
  for (size_t i = 0; i < state.size(); ++i) {
    const Bytes begin = offset - state[i].slowOffset;
    if (begin < 0 || begin >= state[i].bytes)
      continue;
    if (begin % slow::kPieceBytes == 0 &&
        bytes == std::min(slow::kPieceBytes, state[i].bytes - begin))
      return {places[i], begin / slow::kPieceBytes};
  }
  throw Error::internal(concat("a transfer of ", formatBytesExact(bytes), " at ", offset,
                               " of slow memory is no piece of state"));
}

char *SlowMemory::stage(Bytes offset, Bytes bytes) {
  pieceAt(offset, bytes);
  return lanes.pieceMemory();
}

void SlowMemory::commit(Bytes offset, Bytes bytes) {
  const Piece piece = pieceAt(offset, bytes);
  lanes.put(piece.place, piece.number);
}

const char *SlowMemory::fetch(Bytes offset, Bytes bytes) {
  const Piece piece = pieceAt(offset, bytes);
  return lanes.get(piece.place, piece.number);
}

} // namespace stow::host
