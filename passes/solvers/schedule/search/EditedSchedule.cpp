#include "passes/solvers/schedule/search/EditedSchedule.h"

#include <algorithm>
#include <tuple>

namespace stow::schedule {

static constexpr int32_t none = Timeline::none;

EditedSchedule::EditedSchedule(const Graph &graph, const Sequence &start, Bytes budget)
    : timeline(graph, start), budget(budget), sequence(start), best(measure(graph, start)),
      placeInMany(graph.ops.size(), none) {
  for (size_t op = 0; op < graph.ops.size(); ++op)
    track(static_cast<int32_t>(op));
  snapshot();
}

void EditedSchedule::add(int32_t op, int32_t slot) {
  timeline.add(op, slot);
  log.push_back({Change::Added, op, slot});
}

void EditedSchedule::remove(int32_t slot) {
  log.push_back({Change::Removed, timeline.runAt(slot), slot});
  timeline.remove(slot);
}

void EditedSchedule::move(int32_t slot, int32_t target) {
  log.push_back({Change::Moved, timeline.runAt(slot), slot, target});
  timeline.move(slot, target);
}

void EditedSchedule::undo() {
  for (; !log.empty(); log.pop_back()) {
    const Change &change = log.back();
    if (change.kind == Change::Added)
      timeline.remove(change.slot);
    else if (change.kind == Change::Removed)
      timeline.add(change.op, change.slot);
    else
      timeline.move(change.target, change.slot);
  }
}

void EditedSchedule::keep() {
  for (const Change &change : log) {
    track(change.op);
    journal.push_back(change);
  }
  remember();
}

void EditedSchedule::track(int32_t op) {
  bool should = timeline.runsOf(op).size() > 1;
  if (should && placeInMany[op] == none) {
    placeInMany[op] = static_cast<int32_t>(many.size());
    many.push_back(op);
  } else if (!should && placeInMany[op] != none) {
    int32_t place = placeInMany[op];
    many[place] = many.back();
    placeInMany[many[place]] = place;
    many.pop_back();
    placeInMany[op] = none;
  }
}

void EditedSchedule::remember() {
  Measure now{timeline.time(), timeline.peak(), 0, true};
  auto key = [&](const Measure &m) {
    Bytes over = std::max<Bytes>(0, m.peakBytes - budget);
    return std::tuple(over, m.time, m.peakBytes);
  };
  if (key(now) < key(best)) {
    best = now;
    bestLength = journal.size();
  }
  if (journal.size() > slotsThen.size())
    settle();
}

void EditedSchedule::snapshot() {
  slotsThen.resize(timeline.slotCount());
  for (int32_t slot = 0; slot < timeline.slotCount(); ++slot)
    slotsThen[slot] = timeline.runAt(slot);
  journal.clear();
  bestLength = 0;
}

void EditedSchedule::settle() {
  for (size_t i = 0; i < bestLength; ++i) {
    const Change &change = journal[i];
    slotsThen[change.slot] = change.kind == Change::Added ? change.op : none;
    if (change.kind == Change::Moved)
      slotsThen[change.target] = change.op;
  }
  if (bestLength > 0) {
    sequence.clear();
    for (int32_t op : slotsThen)
      if (op != none)
        sequence.push_back(op);
  }
  snapshot();
}

void EditedSchedule::respread() {
  settle();
  timeline.assign(timeline.sequence());
  snapshot();
}

const Sequence &EditedSchedule::bestSequence() {
  settle();
  return sequence;
}

} // namespace stow::schedule
