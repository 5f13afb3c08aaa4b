#include "passes/solvers/schedule/Timeline.h"

#include <algorithm>

namespace stow::schedule {

void PeakTree::reset(int32_t slotCount) {
  leaves = slotCount;
  best.assign(2 * static_cast<size_t>(leaves), 0);
  pending.assign(2 * static_cast<size_t>(leaves), 0);
}

void PeakTree::add(int32_t first, int32_t last, Bytes bytes) {
  if (first > last || bytes == 0)
    return;
  int32_t left = first + leaves, right = last + leaves + 1;
  const int32_t leftLeaf = left, rightLeaf = right - 1;
  for (; left < right; left >>= 1, right >>= 1) {
    if (left & 1) {
      best[left] += bytes;
      pending[left] += bytes;
      ++left;
    }
    if (right & 1) {
      --right;
      best[right] += bytes;
      pending[right] += bytes;
    }
  }
  // Both paths to the root change; they soon meet.
  int32_t a = leftLeaf >> 1, b = rightLeaf >> 1;
  for (; a != b; a >>= 1, b >>= 1) {
    pull(a);
    pull(b);
  }
  for (; a > 0; a >>= 1)
    pull(a);
}

int32_t PeakTree::peakSlot() const {
  int32_t node = 1;
  while (node < leaves)
    node = best[2 * node] >= best[2 * node + 1] ? 2 * node : 2 * node + 1;
  return node - leaves;
}

Timeline::Timeline(const Core &core, const Sequence &sequence) : core(core) { assign(sequence); }

void Timeline::assign(const Sequence &sequence) {
  slots = 16;
  while (slots < 4 * static_cast<int64_t>(sequence.size()) + 4)
    slots *= 2;
  tree.reset(slots);
  opAt.assign(slots, none);
  creditAt.assign(slots, 0);
  violationsAt.assign(slots, 0);
  runs.assign(core.ops.size(), {});
  reads.assign(core.values.size(), {});
  total = violated = 0;
  cost = 0;
  // A kept value that exists from the start is live throughout, whoever reads it.
  for (const CoreValue &value : core.values)
    if (value.keep && !value.producer)
      tree.add(0, slots - 1, value.sizeBytes);
  const int64_t count = static_cast<int64_t>(sequence.size());
  for (int64_t i = 0; i < count; ++i)
    add(sequence[i], static_cast<int32_t>((2 * i + 1) * slots / (2 * count)));
}

Sequence Timeline::sequence() const {
  Sequence result;
  for (int32_t op : opAt)
    if (op != none)
      result.push_back(op);
  return result;
}

int32_t Timeline::servedFrom(int32_t value, int32_t slot) const {
  const std::optional<int32_t> &producer = core.values[value].producer;
  if (!producer)
    return 0;
  const std::vector<int32_t> &list = runs[*producer];
  auto it = std::lower_bound(list.begin(), list.end(), slot);
  return it == list.begin() ? none : *std::prev(it);
}

int32_t Timeline::nextRunAfter(int32_t op, int32_t slot) const {
  const std::vector<int32_t> &list = runs[op];
  auto it = std::upper_bound(list.begin(), list.end(), slot);
  return it == list.end() ? slots : *it;
}

int32_t Timeline::nextReadAfter(int32_t value, int32_t slot) const {
  const std::vector<int32_t> &list = reads[value];
  auto it = std::upper_bound(list.begin(), list.end(), slot);
  return it == list.end() ? slots : *it;
}

int32_t Timeline::lastReadBefore(int32_t value, int32_t slot) const {
  const std::vector<int32_t> &list = reads[value];
  auto it = std::lower_bound(list.begin(), list.end(), slot);
  return it == list.begin() ? none : *std::prev(it);
}

int32_t Timeline::liveUntil(int32_t value, int32_t from) const {
  const CoreValue &info = core.values[value];
  int32_t next = info.producer ? nextRunAfter(*info.producer, from) : slots;
  if (next == slots && info.keep)
    return slots - 1;
  int32_t last = lastReadBefore(value, next);
  if (!info.producer)
    return last; // `none` if never read
  return std::max(last, from);
}

int32_t Timeline::emptyBefore(int32_t left, int32_t right) const {
  for (int32_t slot = right - 1; slot > left; --slot)
    if (opAt[slot] == none)
      return slot;
  return none;
}

int32_t Timeline::emptyNear(int32_t left, int32_t middle, int32_t right) const {
  for (int32_t distance = 0;; ++distance) {
    int32_t a = middle - distance, b = middle + distance;
    if (a <= left && b >= right)
      return none;
    if (a > left && a < right && opAt[a] == none)
      return a;
    if (b > left && b < right && opAt[b] == none)
      return b;
  }
}

bool Timeline::diesAt(int32_t value, int32_t slot) const {
  const CoreValue &info = core.values[value];
  int32_t read = nextReadAfter(value, slot);
  int32_t next = info.producer ? nextRunAfter(*info.producer, slot) : slots;
  if (next == slots && info.keep)
    return false;
  // A read at `next` itself would be by the producer, which cannot read its own output.
  return read >= next;
}

void Timeline::refresh(int32_t slot) {
  if (slot < 0 || slot >= slots)
    return;
  Bytes credit = 0;
  int32_t broken = 0;
  if (opAt[slot] != none) {
    const CoreOp &op = core.ops[opAt[slot]];
    for (size_t c = 0; c < op.credits.size(); ++c) {
      const Credit &offer = op.credits[c];
      bool dies = diesAt(offer.input, slot);
      broken += offer.required && !dies;
      bool taken = false;
      if (!offer.required)
        for (size_t d = 0; d < c && !taken; ++d) {
          const Credit &other = op.credits[d];
          taken = (other.output == offer.output || other.input == offer.input) &&
                  (other.required || diesAt(other.input, slot));
        }
      if (dies && !taken)
        credit += offer.bytes;
    }
  }
  tree.add(slot, slot, creditAt[slot] - credit);
  creditAt[slot] = credit;
  violated += broken - violationsAt[slot];
  violationsAt[slot] = broken;
}

/// Moves the end of one interval. `none` as an end means that the interval does not exist.
void Timeline::setInterval(int32_t value, int32_t from, int32_t oldEnd, int32_t newEnd) {
  if (oldEnd == newEnd)
    return;
  const Bytes size = core.values[value].sizeBytes;
  if (oldEnd == none)
    tree.add(from, newEnd, size);
  else if (newEnd == none)
    tree.add(from, oldEnd, -size);
  else if (newEnd > oldEnd)
    tree.add(oldEnd + 1, newEnd, size);
  else
    tree.add(newEnd + 1, oldEnd, -size);
}

void Timeline::add(int32_t index, int32_t slot) {
  const CoreOp &op = core.ops[index];
  opAt[slot] = index;
  ++total;
  cost += op.cost;
  tree.add(slot, slot, op.workspaceBytes);
  std::vector<int32_t> &own = runs[index];
  auto place = std::lower_bound(own.begin(), own.end(), slot);
  const int32_t previous = place == own.begin() ? none : *std::prev(place);
  // Outputs: the copy of the previous run ends where its last read before `slot` is.
  for (int32_t value : op.outputs) {
    if (previous == none)
      continue;
    int32_t newEnd = std::max(previous, lastReadBefore(value, slot));
    setInterval(value, previous, liveUntil(value, previous), newEnd);
  }
  own.insert(place, slot);
  for (int32_t value : op.outputs) {
    int32_t end = liveUntil(value, slot);
    setInterval(value, slot, none, end);
    refresh(end);
    if (previous != none)
      refresh(liveUntil(value, previous));
  }
  for (int32_t value : op.inputs) {
    int32_t from = servedFrom(value, slot);
    std::vector<int32_t> &list = reads[value];
    if (from == none) { // not served yet: `assign` and undo put producers back before readers
      list.insert(std::lower_bound(list.begin(), list.end(), slot), slot);
      continue;
    }
    int32_t oldEnd = liveUntil(value, from);
    list.insert(std::lower_bound(list.begin(), list.end(), slot), slot);
    int32_t newEnd = liveUntil(value, from);
    if (oldEnd != newEnd) {
      setInterval(value, from, oldEnd, newEnd);
      refresh(oldEnd);
    }
  }
  if (!op.credits.empty())
    refresh(slot);
}

void Timeline::remove(int32_t slot) {
  const int32_t index = opAt[slot];
  const CoreOp &op = core.ops[index];
  opAt[slot] = none;
  --total;
  cost -= op.cost;
  tree.add(slot, slot, -op.workspaceBytes);
  if (!op.credits.empty())
    refresh(slot);
  for (int32_t value : op.inputs) {
    int32_t from = servedFrom(value, slot);
    std::vector<int32_t> &list = reads[value];
    const int32_t oldEnd = from == none ? none : liveUntil(value, from);
    list.erase(std::lower_bound(list.begin(), list.end(), slot));
    if (from == none)
      continue;
    int32_t newEnd = liveUntil(value, from);
    if (oldEnd != newEnd) {
      setInterval(value, from, oldEnd, newEnd);
      refresh(newEnd);
    }
  }
  std::vector<int32_t> &own = runs[index];
  auto place = std::lower_bound(own.begin(), own.end(), slot);
  const int32_t previous = place == own.begin() ? none : *std::prev(place);
  for (int32_t value : op.outputs)
    setInterval(value, slot, liveUntil(value, slot), none);
  std::vector<int32_t> oldEnds;
  if (previous != none)
    for (int32_t value : op.outputs)
      oldEnds.push_back(liveUntil(value, previous));
  own.erase(place);
  if (previous != none)
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      int32_t value = op.outputs[o];
      int32_t newEnd = liveUntil(value, previous);
      setInterval(value, previous, oldEnds[o], newEnd);
      refresh(oldEnds[o]);
      refresh(newEnd);
    }
}

bool Timeline::removable(int32_t slot) const {
  const int32_t index = opAt[slot];
  const std::vector<int32_t> &own = runs[index];
  if (own.size() < 2)
    return false;
  if (own.front() != slot)
    return true;
  // The first run may go only if nobody reads its copy.
  for (int32_t value : core.ops[index].outputs)
    if (nextReadAfter(value, slot) < own[1])
      return false;
  return true;
}

} // namespace stow::schedule
