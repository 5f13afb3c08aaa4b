#include "runtime/device/Footprint.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <array>
#include <map>

namespace stow {

namespace {

/// The plan of a graph if it speaks of these commands; null otherwise.
const GraphPlan *planOf(const GraphProgram &graph, const Plan &plan) {
  const GraphPlan *found = findGraph(plan, graph.role, graph.shape);
  if (!found || found->steps.size() != graph.commands.size())
    return nullptr;
  bool speaks = std::ranges::any_of(found->steps, [](const PlannedStep &step) {
    return !step.reads.empty() || !step.writes.empty();
  });
  return speaks ? found : nullptr;
}

uint8_t usesOf(const Operand &operand, const GraphPlan &plan, size_t index) {
  const Bytes begin = operand.offset;
  const Bytes end = begin + storedBytes(operand.layout, operand.shape, operand.dtype);
  auto holds = [&](int64_t buffer) {
    const PlannedBuffer &place = plan.buffers.at(static_cast<size_t>(buffer));
    return place.offset <= begin && end <= place.offset + place.size;
  };
  const PlannedStep &step = plan.steps[index];
  return static_cast<uint8_t>((std::ranges::any_of(step.reads, holds) ? Reads : 0) |
                              (std::ranges::any_of(step.writes, holds) ? Writes : 0));
}

/// Disjoint segments with the uses of all that cover them.
std::vector<Segment> joined(const std::vector<Segment> &parts) {
  std::map<Bytes, std::array<int, 3>> changes;
  for (const Segment &part : parts)
    if (part.begin < part.end)
      for (int bit = 0; bit < 3; ++bit) {
        int by = part.uses >> bit & 1;
        changes[part.begin][bit] += by;
        changes[part.end][bit] -= by;
      }
  std::vector<Segment> result;
  std::array<int, 3> open = {};
  Bytes last = 0;
  for (const auto &[at, change] : changes) {
    auto uses = static_cast<uint8_t>((open[0] > 0) | (open[1] > 0) << 1 | (open[2] > 0) << 2);
    if (uses && !result.empty() && result.back().end == last && result.back().uses == uses)
      result.back().end = at;
    else if (uses)
      result.push_back({last, at, uses});
    for (int bit = 0; bit < 3; ++bit)
      open[bit] += change[bit];
    last = at;
  }
  return result;
}

} // namespace

std::vector<Segment> bytesOf(const Operand &operand, uint8_t uses) {
  const Bytes stored = storedBytes(operand.layout, operand.shape, operand.dtype);
  if (!operand.layout.pitch)
    return {{operand.offset, operand.offset + stored, uses}};
  const Bytes size = sizeOf(operand.dtype);
  const int64_t count = elementCount(operand.shape);
  LayoutIndex index(operand.layout, operand.shape);
  std::vector<int64_t> positions(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    positions[static_cast<size_t>(i)] = index(i);
  std::ranges::sort(positions);
  std::vector<Segment> parts;
  for (int64_t position : positions) {
    Bytes begin = operand.offset + position * size;
    if (!parts.empty() && parts.back().end == begin)
      parts.back().end += size;
    else
      parts.push_back({begin, begin + size, uses});
  }
  return parts;
}

std::vector<Segment> footprintOf(const GraphProgram &graph, size_t index, const Plan &plan) {
  const Command &command = graph.commands[index];
  const GraphPlan *planned = planOf(graph, plan);
  std::vector<Segment> parts;
  for (size_t i = 0; i < command.operands.size(); ++i) {
    const Operand &operand = command.operands[i];
    uint8_t uses = planned ? usesOf(operand, *planned, index) : uint8_t{Reads | Writes};
    if (!uses && elementCount(operand.shape) > 0)
      throw Error::internal(concat("operand ", i, " of command ", command.title(), " at offset ",
                                   operand.offset,
                                   " lies in no buffer that its step of the plan reads or writes"));
    std::ranges::move(bytesOf(operand, uses), std::back_inserter(parts));
  }
  parts.push_back(
      {command.workspaceOffset, command.workspaceOffset + command.workspaceBytes, Scratch});
  return joined(parts);
}

std::string titleOf(const GraphProgram &graph, size_t index) {
  const Command &command = graph.commands[index];
  return concat("command ", index, " of graph '", graph.name(), "', ", command.title());
}

} // namespace stow
