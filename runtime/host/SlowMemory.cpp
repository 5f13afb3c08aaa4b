#include "runtime/host/SlowMemory.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/host/Outside.h"

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
    : file(folderOf(program, options), program.slowBytes), lanes(file, options.pace) {
  for (const GraphProgram &graph : program.graphs) {
    const std::vector<SlowCopy> copies = slowCopiesOf(graph, program.slowBytes);
    std::vector<size_t> &numbers = this->numbers.emplace_back(copies.size());
    for (const bool isOut : {true, false}) // sources first
      for (size_t i = 0; i < copies.size(); ++i) {
        const SlowCopy &copy = copies[i];
        if (copy.isOut != isOut)
          continue;
        numbers[i] = lanes.add({isOut, arena + copy.offset, copy.bytes, copy.slowOffset,
                                isOut ? 0 : numbers[copy.source], graph.commands[copy.start].name});
        bytesOut += isOut ? copy.bytes : 0;
        copiesOut += isOut;
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

Bytes SlowMemory::outsideBytes() const { return slowMemoryBytes(bytesOut, copiesOut); }

} // namespace stow::host
