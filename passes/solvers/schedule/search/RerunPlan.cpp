#include "passes/solvers/schedule/search/RerunPlan.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace stow::schedule {
namespace {
constexpr int32_t none = Timeline::none;
}

bool RerunPlan::make(int32_t op, int32_t at, int32_t right, double limit) {
  planned.clear();
  beginning.clear();
  inputs.clear();
  peak = at;
  mostCost = limit;
  sum = 0;
  change = 0;
  crowded = false;
  if (!add(op, right, 0))
    return false;
  weigh();
  return true;
}

/// Is `value` in memory at the peak for a reader there or behind it?
bool RerunPlan::isLive(int32_t value, const Touched &planned) const {
  const GraphValue &known = graph.values[value];
  const int32_t reader = std::min(planned.reader, timeline.nextReadAfter(value, peak - 1));
  int32_t writer = planned.writer;
  if (known.producer)
    writer = std::min(writer, timeline.nextRunAfter(*known.producer, peak - 1));
  return reader < writer || (known.keep && writer == timeline.slotCount());
}

/// Sums up what becomes of the values that the planned runs read and write.
void RerunPlan::weigh() {
  const Touched untouched{timeline.slotCount(), timeline.slotCount()};
  touched.clear();
  auto touch = [&](int32_t value) -> Touched & {
    if (std::exchange(seen[value], stamp) != stamp) {
      touched.push_back(value);
      touches[value] = untouched;
    }
    return touches[value];
  };
  ++stamp;
  for (const Run &run : planned) {
    for (int32_t value : graph.ops[run.op].inputs)
      touch(value).reader = std::min(touch(value).reader, run.slot);
    for (int32_t value : graph.ops[run.op].outputs)
      touch(value).writer = std::min(touch(value).writer, run.slot);
  }
  for (int32_t value : touched)
    if (timeline.servedFrom(value, peak) != none)
      change += (isLive(value, touches[value]) - isLive(value, untouched)) *
                graph.values[value].sizeBytes;
}

bool RerunPlan::isPlanned(int32_t op) const {
  return std::ranges::any_of(planned, [&](const Run &run) { return run.op == op; }) ||
         std::ranges::count(beginning, op) > 0;
}

int32_t RerunPlan::freeSlotBefore(int32_t right) const {
  int32_t slot = right;
  do
    slot = timeline.emptyBefore(peak, slot);
  while (slot != none &&
         std::ranges::any_of(planned, [&](const Run &r) { return r.slot == slot; }));
  return slot;
}

/// Pushes the inputs of `op` that nothing keeps alive between the peak and `slot`.
void RerunPlan::findInputs(int32_t op, int32_t slot) {
  for (int32_t value : graph.ops[op].inputs) {
    const std::optional<int32_t> &producer = graph.values[value].producer;
    const int32_t from = timeline.servedFrom(value, slot);
    if (graph.hasOverwrites && producer && timeline.isGone(value, from, slot)) {
      inputs.push_back({value, false, true});
      continue;
    }
    if (graph.values[value].sizeBytes == 0 || from >= peak || (producer && isPlanned(*producer)) ||
        timeline.lastReadBefore(value, slot) >= peak)
      continue;
    inputs.push_back({value, producer && graph.ops[*producer].recomputable, false});
  }
}

/// How likely `value`, an input of a run at `slot`, is computed again and not kept: the likelier
/// the fewer bytes would have to be kept for that instead. `share` is what inputs get that know
/// nothing of each other.
double RerunPlan::oddsOf(int32_t value, int32_t slot, size_t first, double share) const {
  Bytes missing = 0; // what its op reads and nothing keeps until then
  for (int32_t input : graph.ops[*graph.values[value].producer].inputs) {
    const int32_t from = timeline.servedFrom(input, slot);
    const bool isThere =
        from >= peak || timeline.liveUntil(input, from) >= peak ||
        std::any_of(inputs.begin() + static_cast<std::ptrdiff_t>(first), inputs.end(),
                    [&](const Input &other) { return other.value == input; });
    if (!isThere)
      missing += graph.values[input].sizeBytes;
  }
  const auto size = static_cast<double>(graph.values[value].sizeBytes);
  const double saved = size / (size + static_cast<double>(missing));
  constexpr double ofSaved = 0.9, ofShare = 0.3, most = 0.8;
  return std::clamp(ofSaved * saved * saved, ofShare * share, most);
}

/// The first read of a view behind the peak that a new copy of its bytes would leave without it, by
/// the timeline or by a planned run; slotCount() for the end, absent if there is none.
std::optional<int32_t> RerunPlan::lostRead(int32_t view) const {
  const GraphValue &known = graph.values[view];
  if (timeline.servedFrom(view, peak + 1) == none)
    return std::nullopt;
  const int32_t read = timeline.nextReadAfter(view, peak);
  const int32_t run = timeline.nextRunAfter(*known.producer, peak);
  std::optional<int32_t> first;
  if (read < run || (known.keep && run == timeline.slotCount()))
    first = read;
  for (const Run &other : planned)
    if (std::ranges::count(graph.ops[other.op].inputs, view))
      first = std::min(first.value_or(other.slot), other.slot);
  return first;
}

/// Plans runs of what writes into the bytes that `op` writes and is read behind the peak. `right`
/// moves in front of them.
bool RerunPlan::addViews(int32_t op, int32_t &right, int depth) {
  beginning.push_back(op);
  for (int32_t value : graph.ops[op].outputs)
    for (int32_t view : graph.values[value].views | std::views::reverse) { // may read earlier ones
      const int32_t writer = *graph.values[view].producer;
      const std::optional<int32_t> read = isPlanned(writer) ? std::nullopt : lostRead(view);
      if (!read)
        continue;
      if (!graph.ops[writer].recomputable || !add(writer, *read, depth + 1))
        return false;
      for (const Run &run : planned)
        if (run.op == writer)
          right = std::min(right, run.slot);
    }
  beginning.pop_back();
  return true;
}

bool RerunPlan::add(int32_t op, int32_t right, int depth) {
  constexpr int deepest = 24;
  sum += graph.ops[op].cost;
  if (static_cast<double>(sum) > mostCost || depth > deepest)
    return false;
  if (graph.hasViews && !addViews(op, right, depth))
    return false;
  const int32_t slot = freeSlotBefore(right);
  crowded = slot == none;
  if (crowded)
    return false;
  planned.push_back({op, slot});
  for (int32_t value : graph.ops[op].inputs)
    if (timeline.servedFrom(value, slot) == none)
      return false;
  const size_t first = inputs.size();
  findInputs(op, slot);
  // Of inputs that need much themselves about one in all is computed again too, so that chains of
  // reruns grow and trees of them do not explode where ops read many values.
  const auto candidates = static_cast<double>(
      std::count_if(inputs.begin() + static_cast<std::ptrdiff_t>(first), inputs.end(),
                    [](const Input &input) { return input.mayFollow; }));
  constexpr double ofAll = 0.9, most = 0.6;
  const double share = std::min(most, ofAll / std::max(candidates, 1.0));
  for (size_t i = first; i < inputs.size(); ++i) {
    const int32_t value = inputs[i].value;
    if (inputs[i].isGone) {
      const int32_t producer = *graph.values[value].producer;
      if (!isPlanned(producer) &&
          (!graph.ops[producer].recomputable || !add(producer, slot, depth + 1)))
        return false;
    } else if (inputs[i].mayFollow && random.real() < oddsOf(value, slot, first, share) &&
               !add(*graph.values[value].producer, slot, depth + 1)) {
      return false;
    }
  }
  inputs.resize(first);
  return true;
}

} // namespace stow::schedule
