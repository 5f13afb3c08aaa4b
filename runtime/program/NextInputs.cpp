#include "runtime/program/NextInputs.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>

namespace stow {

namespace {

struct Used {
  Bytes offset, bytes;
  std::string by;
};

Bytes bytesOf(const Operand &place) { return storedBytes(place.layout, place.shape, place.dtype); }

/// What is not free from command graph.nextFrom on.
std::vector<Used> usedBeside(const Program &program, const GraphProgram &graph) {
  std::vector<Used> used;
  auto add = [&](const Operand &place, const std::string &by) {
    used.push_back({place.offset, bytesOf(place), by});
  };
  for (const StateTensor &state : program.state)
    add(state.place, "state '" + state.name + "'");
  for (const GraphProgram &other : program.graphs)
    for (const GraphInput &input : other.inputs)
      add(input.whole(), concat("input '", input.name, "' of graph '", other.name(), "'"));
  for (const GraphOutput &output : graph.outputs)
    add(output.place, "output '" + output.name + "'");
  for (size_t i = *graph.nextFrom; i < graph.commands.size(); ++i) {
    const Command &command = graph.commands[i];
    const std::string by = concat("command ", i, ", ", command.title());
    for (const Operand &operand : command.operands)
      add(operand, by);
    for (const Operand &operand : command.dying)
      add(operand, "a dying operand of " + by);
    for (const Command &part : command.parts)
      for (const Operand &operand : part.operands)
        add(operand, by);
    used.push_back({command.workspaceOffset, command.workspaceBytes, "scratch of " + by});
  }
  return used;
}

} // namespace

void checkNextInputs(const Program &program, const GraphProgram &graph) {
  const bool isPlaced =
      std::ranges::any_of(graph.inputs, [](auto &input) { return input.nextOffset.has_value(); });
  const std::string where = "graph '" + graph.name() + "'";
  if (isPlaced != graph.nextFrom.has_value())
    throw Error::badInput(
        where +
        (isPlaced ? " has places for next inputs, but no command from which they are free"
                  : " says from where on next inputs may come, but has no places for them") +
        "; compile the model again");
  if (!isPlaced)
    return;
  if (*graph.nextFrom >= graph.commands.size())
    throw Error::badInput(concat(where, " lets next inputs come from command ", *graph.nextFrom,
                                 " on, expected one of its ", graph.commands.size(),
                                 "; compile the model again"));
  std::vector<Used> used = usedBeside(program, graph);
  for (const GraphInput &input : graph.inputs) {
    if (!input.nextOffset)
      continue;
    const Bytes begin = *input.nextOffset, bytes = bytesOf(input.place);
    auto refuse = [&](const std::string &why) {
      throw Error::badInput(concat("the next '", input.name, "' of ", where, " comes to [", begin,
                                   ", ", begin + bytes, ") from command ", *graph.nextFrom, " on, ",
                                   why, "; compile the model again"));
    };
    if (begin < 0 || bytes > program.plan.arenaBytes || begin > program.plan.arenaBytes - bytes)
      refuse("outside the arena of " + formatBytesExact(program.plan.arenaBytes));
    for (const Used &other : used)
      if (begin < other.offset + other.bytes && other.offset < begin + bytes)
        refuse(concat("where ", other.by, " has [", other.offset, ", ", other.offset + other.bytes,
                      ")"));
    used.push_back({begin, bytes, "the next '" + input.name + "'"});
  }
}

} // namespace stow
