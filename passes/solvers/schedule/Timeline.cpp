#include "passes/solvers/schedule/Timeline.h"

#include <algorithm>
#include <utility>

namespace stow::schedule {

// Search spends most of its time in these loops. The baseline of x86-64 has no maximum and no
// comparison of 64-bit integers.
#if defined(__x86_64__)
#define STOWAGE_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define STOWAGE_WIDE
#endif

namespace {

/// Adds to every slot; their maximum before.
STOWAGE_WIDE Bytes addToAll(Bytes *slot, int32_t count, Bytes bytes) {
  Bytes most = slot[0];
  for (int32_t i = 0; i < count; ++i) {
    most = std::max(most, slot[i]);
    slot[i] += bytes;
  }
  return most;
}

STOWAGE_WIDE Bytes maximumOf(const Bytes *slot, int32_t count) {
  Bytes most = slot[0];
  for (int32_t i = 1; i < count; ++i)
    most = std::max(most, slot[i]);
  return most;
}

/// What exceeds the threshold, of each slot at most `most`, summed.
STOWAGE_WIDE Bytes sumAbove(const Bytes *slot, int32_t count, Bytes threshold, Bytes most) {
  Bytes sum = 0;
  for (int32_t i = 0; i < count; ++i)
    sum += std::min(std::max<Bytes>(slot[i] - threshold, 0), most);
  return sum;
}

} // namespace

void SlotBytes::reset(int32_t slotCount) {
  bits = 5;
  while (slotCount >> (2 * bits + 2) > 0)
    ++bits;
  const int32_t count = ((slotCount - 1) >> bits) + 1;
  own.assign(static_cast<size_t>(count) << bits, 0);
  constexpr Bytes border = -(Bytes(1) << 60); // never the maximum
  std::fill(own.begin() + slotCount, own.end(), border);
  added.assign(count, 0);
  top.assign(count, 0);
  above.assign(count, 0);
  weight.assign(count, 1);
  limit = std::numeric_limits<Bytes>::max();
  excessSum = 0;
  peakIsKnown = false;
}

void SlotBytes::sumExcess(int32_t block) {
  Bytes sum = 0;
  if (top[block] > limit)
    sum = sumAbove(&own[static_cast<size_t>(block) << bits], 1 << bits, limit - added[block],
                   std::numeric_limits<Bytes>::max());
  excessSum += weight[block] * static_cast<double>(sum - above[block]);
  above[block] = sum;
}

void SlotBytes::addWithin(int32_t first, int32_t last, Bytes bytes) {
  const int32_t block = first >> bits;
  Bytes highest = added[block];
  if (first == last) // most often, and sooner done than a wide loop is called
    highest += std::exchange(own[first], own[first] + bytes);
  else
    highest += addToAll(&own[first], last - first + 1, bytes);
  if (bytes > 0) {
    top[block] = std::max(top[block], highest + bytes);
  } else if (highest == top[block]) {
    top[block] = maximumOf(&own[static_cast<size_t>(block) << bits], 1 << bits) + added[block];
  }
  if (above[block] > 0 || top[block] > limit)
    sumExcess(block);
}

void SlotBytes::add(int32_t first, int32_t last, Bytes bytes) {
  if (first > last || bytes == 0)
    return;
  peakIsKnown = false;
  const int32_t from = first >> bits, to = last >> bits;
  if (from == to)
    return addWithin(first, last, bytes);
  addWithin(first, ((from + 1) << bits) - 1, bytes);
  addWithin(to << bits, last, bytes);
  Bytes *sums = added.data(), *tops = top.data();
  for (int32_t block = from + 1; block < to; ++block) {
    sums[block] += bytes;
    tops[block] += bytes;
  }
  for (int32_t block = from + 1; block < to; ++block)
    if (above[block] > 0 || tops[block] > limit)
      sumExcess(block);
}

void SlotBytes::findPeak() const {
  highest = maximumOf(top.data(), static_cast<int32_t>(top.size()));
  peakIsKnown = true;
}

int32_t SlotBytes::peakSlot() const {
  const auto block = static_cast<size_t>(std::ranges::find(top, peak()) - top.begin());
  const Bytes wanted = top[block] - added[block];
  const auto begin = own.begin() + static_cast<std::ptrdiff_t>(block << bits);
  return static_cast<int32_t>(std::find(begin, own.end(), wanted) - own.begin());
}

void SlotBytes::setLimit(Bytes bytes) {
  limit = bytes;
  for (size_t block = 0; block < top.size(); ++block)
    sumExcess(static_cast<int32_t>(block));
}

void SlotBytes::reweigh(double factor) {
  constexpr double least = 0.01, most = 100;
  excessSum = 0;
  for (size_t block = 0; block < top.size(); ++block) {
    const double changed = top[block] > limit ? weight[block] * factor : weight[block] / factor;
    weight[block] = std::clamp(changed, least, most);
    excessSum += weight[block] * static_cast<double>(above[block]);
  }
}

int32_t SlotBytes::slotOfExcess(double share) const {
  double left = share * excessSum;
  size_t found = 0; // the last block with an excess, if rounding leaves more than there is
  for (size_t block = 0; block < above.size() && left >= 0; ++block)
    if (above[block] > 0) {
      found = block;
      left -= weight[block] * static_cast<double>(above[block]);
    }
  auto within = static_cast<double>(above[found]) + left / weight[found];
  const Bytes threshold = limit - added[found];
  auto slot = static_cast<int32_t>(found << bits), result = slot;
  for (const int32_t end = slot + (1 << bits); slot < end && within >= 0; ++slot)
    if (own[slot] > threshold) {
      result = slot;
      within -= static_cast<double>(own[slot] - threshold);
    }
  return result;
}

double SlotBytes::reliefOf(int32_t first, int32_t last, Bytes bytes) const {
  double sum = 0;
  for (int32_t block = first >> bits; block <= last >> bits; ++block) {
    if (above[block] == 0)
      continue;
    const int32_t begin = std::max(first, block << bits);
    const int32_t end = std::min(last + 1, (block + 1) << bits);
    const Bytes relief = sumAbove(&own[begin], end - begin, limit - added[block], bytes);
    sum += weight[block] * static_cast<double>(relief);
  }
  return sum;
}

Timeline::Timeline(const Graph &graph, const Sequence &sequence) : graph(graph) {
  known.reserve(graph.values.size());
  for (const GraphValue &value : graph.values)
    known.push_back(
        {value.sizeBytes, value.producer.value_or(none), value.keep, !value.viewed.empty()});
  assign(sequence);
}

void Timeline::assign(const Sequence &sequence) {
  slots = static_cast<int32_t>(4 * sequence.size() + 16);
  slotBytes.reset(slots);
  opAt.assign(slots, none);
  creditAt.assign(slots, 0);
  violationsAt.assign(slots, 0);
  runs.assign(graph.ops.size(), {});
  reads.assign(graph.values.size(), {});
  violated = 0;
  cost = 0;
  // A kept value that exists from the start is live throughout, whoever reads it.
  for (const GraphValue &value : graph.values)
    if (value.keep && !value.producer)
      slotBytes.add(0, slots - 1, value.sizeBytes);
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

bool Timeline::isGone(int32_t value, int32_t from, int32_t slot) const {
  for (int32_t overwriter : graph.values[value].overwriters)
    if (nextRunAfter(overwriter, from) < slot)
      return true;
  return false;
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
  const Known &info = known[value];
  int32_t read = nextReadAfter(value, slot);
  int32_t next = info.producer != none ? nextRunAfter(info.producer, slot) : slots;
  if (next == slots && info.keep)
    return false;
  // A read at `next` itself would be by the producer, which cannot read its own output.
  return read >= next;
}

void Timeline::refresh(int32_t slot) {
  if (slot < 0 || slot >= slots)
    return;
  if (opAt[slot] == none ? creditAt[slot] == 0 && violationsAt[slot] == 0
                         : !graph.hasViews && graph.ops[opAt[slot]].credits.empty())
    return;
  Bytes credit = 0;
  int32_t broken = 0;
  if (opAt[slot] != none) {
    const GraphOp &op = graph.ops[opAt[slot]];
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
    if (graph.hasViews)
      for (int32_t value : op.outputs)
        for (int32_t view : graph.values[value].views)
          broken += !diesAt(view, slot);
  }
  slotBytes.add(slot, slot, creditAt[slot] - credit);
  creditAt[slot] = credit;
  violated += broken - violationsAt[slot];
  violationsAt[slot] = broken;
}

/// Refreshes the runs that write what `op` reads or writes a view of.
void Timeline::refreshViewed(const GraphOp &op) {
  if (!graph.hasViews)
    return;
  int32_t last = none; // most often all views of an op are of one value
  for (const std::vector<int32_t> *values : {&op.inputs, &op.outputs})
    for (int32_t value : *values)
      if (known[value].isView)
        for (int32_t viewed : graph.values[value].viewed)
          if (viewed != std::exchange(last, viewed))
            for (int32_t slot : runs[known[viewed].producer])
              refresh(slot);
}

/// Moves the end of one interval. `none` as an end means that the interval does not exist.
void Timeline::setInterval(int32_t value, int32_t from, int32_t oldEnd, int32_t newEnd) {
  if (oldEnd == newEnd)
    return;
  const Bytes size = known[value].sizeBytes;
  if (oldEnd == none)
    slotBytes.add(from, newEnd, size);
  else if (newEnd == none)
    slotBytes.add(from, oldEnd, -size);
  else if (newEnd > oldEnd)
    slotBytes.add(oldEnd + 1, newEnd, size);
  else
    slotBytes.add(newEnd + 1, oldEnd, -size);
}

void Timeline::add(int32_t index, int32_t slot) {
  const GraphOp &op = graph.ops[index];
  opAt[slot] = index;
  cost += op.cost;
  slotBytes.add(slot, slot, op.workspaceBytes);
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
  if (!op.credits.empty() || graph.hasViews)
    refresh(slot);
  refreshViewed(op);
}

void Timeline::remove(int32_t slot) {
  const int32_t index = opAt[slot];
  const GraphOp &op = graph.ops[index];
  opAt[slot] = none;
  cost -= op.cost;
  slotBytes.add(slot, slot, -op.workspaceBytes);
  if (!op.credits.empty() || graph.hasViews)
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
  refreshViewed(op);
}

void Timeline::move(int32_t slot, int32_t target) {
  const int32_t index = opAt[slot];
  const GraphOp &op = graph.ops[index];
  opAt[slot] = none;
  slotBytes.add(slot, slot, -op.workspaceBytes);
  slotBytes.add(target, target, op.workspaceBytes);
  if (!op.credits.empty() || graph.hasViews)
    refresh(slot);
  for (int32_t value : op.inputs) {
    const int32_t from = servedFrom(value, slot);
    const int32_t oldEnd = liveUntil(value, from);
    std::vector<int32_t> &list = reads[value];
    auto place = std::lower_bound(list.begin(), list.end(), slot);
    for (; place + 1 != list.end() && *(place + 1) < target; ++place)
      *place = *(place + 1);
    for (; place != list.begin() && *(place - 1) > target; --place)
      *place = *(place - 1);
    *place = target;
    const int32_t newEnd = liveUntil(value, from);
    if (oldEnd != newEnd) {
      setInterval(value, from, oldEnd, newEnd);
      refresh(oldEnd);
      refresh(newEnd);
    }
  }
  std::vector<int32_t> &own = runs[index];
  auto run = std::lower_bound(own.begin(), own.end(), slot);
  for (int32_t value : op.outputs) {
    const Bytes size = known[value].sizeBytes;
    *run = slot;
    const bool isRead = liveUntil(value, slot) > slot;
    *run = target;
    if (!isRead) {
      slotBytes.add(slot, slot, -size);
      slotBytes.add(target, liveUntil(value, target), size);
    } else if (target < slot) {
      slotBytes.add(target, slot - 1, size);
    } else {
      slotBytes.add(slot, target - 1, -size);
    }
  }
  *run = target;
  opAt[target] = index;
  if (!op.credits.empty() || graph.hasViews)
    refresh(target);
  refreshViewed(op);
}

std::pair<int32_t, int32_t> Timeline::slack(int32_t slot) const {
  const int32_t index = opAt[slot];
  const GraphOp &op = graph.ops[index];
  int32_t left = none, right = slots;
  for (int32_t input : op.inputs)
    if (known[input].producer != none) {
      left = std::max(left, servedFrom(input, slot));
      right = std::min(right, nextRunAfter(known[input].producer, slot));
    }
  const std::vector<int32_t> &own = runs[index];
  auto it = std::lower_bound(own.begin(), own.end(), slot);
  if (it + 1 != own.end())
    right = std::min(right, *(it + 1));
  if (it != own.begin())
    left = std::max(left, *(it - 1));
  for (int32_t output : op.outputs) {
    right = std::min(right, nextReadAfter(output, slot));
    if (it != own.begin())
      left = std::max(left, lastReadBefore(output, slot));
  }
  return {left, right};
}

bool Timeline::removable(int32_t slot) const {
  const int32_t index = opAt[slot];
  const std::vector<int32_t> &own = runs[index];
  if (own.size() < 2)
    return false;
  if (own.front() != slot)
    return true;
  // The first run may go only if nobody reads its copy.
  for (int32_t value : graph.ops[index].outputs)
    if (nextReadAfter(value, slot) < own[1])
      return false;
  return true;
}

} // namespace stow::schedule
