#include "passes/solvers/schedule/lanes/Residency.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace stow::schedule {
namespace {

constexpr int32_t none = -1;

/// One buffer while the schedule is walked.
struct Holder {
  StorageId storage = 0;
  int32_t begin = 0, last = -1, lastWrite = -1;
  int32_t group = none; ///< of its spells since the last write
  bool fromStart = false;
};

class Walk {
public:
  Walk(const Problem &problem, const Lanes &lanes, Residency &result)
      : problem(problem), lanes(lanes), result(result), holderOf(problem.values.size(), none),
        pinnedHolder(problem.storages.size(), none), valuesIn(problem.storages.size()) {
    for (size_t v = 0; v < problem.values.size(); ++v)
      valuesIn[problem.values[v].storage].push_back(static_cast<ValueId>(v));
  }

  void walk(const Solution &solution) {
    placeSources();
    const auto count = static_cast<int32_t>(solution.runs.size());
    result.startOf.reserve(count + 1);
    result.startOf.push_back(0);
    for (int32_t i = 0; i < count; ++i) {
      const Op &op = problem.ops[solution.runs[i].op];
      run(i, op);
      result.startOf.push_back(result.startOf.back() +
                               op.alternatives[solution.runs[i].alternative].cost);
    }
    for (size_t v = 0; v < problem.values.size(); ++v)
      if (problem.values[v].keep)
        touch(static_cast<ValueId>(v), count);
    addUp(solution);
    std::sort(result.spells.begin(), result.spells.end(), [](const Spell &a, const Spell &b) {
      return std::tie(a.to, a.from, a.value) < std::tie(b.to, b.from, b.value);
    });
  }

private:
  int32_t newHolder(StorageId storage, int32_t begin, bool fromStart) {
    const bool pinned = problem.storages[storage].pinned;
    if (pinned && pinnedHolder[storage] != none)
      return pinnedHolder[storage];
    holders.push_back({storage, begin, fromStart ? -1 : begin, fromStart ? -1 : begin, none,
                       fromStart || pinned});
    const auto number = static_cast<int32_t>(holders.size()) - 1;
    if (pinned)
      pinnedHolder[storage] = number;
    return number;
  }

  void placeSources() {
    const std::vector<std::optional<OpId>> producers = problem.producers();
    std::vector<int32_t> fromStart(problem.storages.size(), none);
    for (size_t v = 0; v < problem.values.size(); ++v) {
      if (producers[v])
        continue;
      int32_t &holder = fromStart[problem.values[v].storage];
      if (holder == none)
        holder = newHolder(problem.values[v].storage, 0, true);
      holderOf[v] = holder;
    }
  }

  /// A read: what lay idle until here may have been away. What exists from the start is there when
  /// the first run begins, whatever happens later.
  void touch(ValueId value, int32_t position) {
    Holder &holder = holders[holderOf[value]];
    const int32_t from = std::max(holder.last, 0);
    if (position > from + 1 && lanes.mayTravel(problem, holder.storage)) {
      if (holder.group == none)
        holder.group = result.groupCount++;
      result.spells.push_back({holder.group, from, position, holder.lastWrite + 1,
                               problem.storages[holder.storage].sizeBytes, value});
    }
    holder.last = std::max(holder.last, position);
  }

  void run(int32_t position, const Op &op) {
    for (ValueId value : op.inputs)
      touch(value, position);
    std::vector<int32_t> target(op.outputs.size(), none);
    for (size_t o = 0; o < op.outputs.size(); ++o)
      for (ValueId input : op.inputs)
        if (problem.values[input].storage == problem.values[op.outputs[o]].storage)
          target[o] = holderOf[input];
    std::vector<int32_t> offered;
    for (const OverwriteOption &option : op.mayOverwrite)
      offered.push_back(holderOf[option.input]);
    for (ValueId value : op.overwrites) {
      const int32_t gone = holderOf[value];
      for (ValueId other : valuesIn[problem.values[value].storage])
        if (holderOf[other] == gone)
          holderOf[other] = none;
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const StorageId storage = problem.values[op.outputs[o]].storage;
      for (size_t p = 0; target[o] == none && p < o; ++p)
        if (problem.values[op.outputs[p]].storage == storage)
          target[o] = target[p];
      if (target[o] == none)
        target[o] = newHolder(storage, position, false);
      Holder &holder = holders[target[o]];
      holder.last = holder.lastWrite = position;
      holder.group = none; // what has been copied out before is not the whole buffer any more
      holderOf[op.outputs[o]] = target[o];
    }
    for (size_t o = 0; o < offered.size(); ++o)
      offers.push_back({position, offered[o], holderOf[op.mayOverwrite[o].output]});
  }

  void addUp(const Solution &solution) {
    const auto count = static_cast<int32_t>(solution.runs.size());
    std::vector<Bytes> change(count + 2, 0);
    for (const Holder &holder : holders) {
      if (problem.storages[holder.storage].pinned || (holder.fromStart && holder.last < 0))
        continue;
      change[holder.begin] += problem.storages[holder.storage].sizeBytes;
      change[holder.last + 1] -= problem.storages[holder.storage].sizeBytes;
    }
    Bytes live = problem.pinnedBytes();
    for (int32_t i = 0; i <= count; ++i) {
      live += change[i];
      result.bytesAt.push_back(live);
      if (i < count) {
        const Run &run = solution.runs[i];
        result.bytesAt[i] += problem.ops[run.op].alternatives[run.alternative].workspaceBytes;
      }
    }
    std::vector<int32_t> used(holders.size(), none);
    for (const Offer &offer : offers) {
      const Holder &in = holders[offer.from], &out = holders[offer.to];
      const Bytes bytes = problem.storages[out.storage].sizeBytes;
      const bool pinned =
          problem.storages[in.storage].pinned || problem.storages[out.storage].pinned;
      if (pinned || in.last != offer.position || out.fromStart || out.begin != offer.position ||
          used[offer.from] == offer.position || used[offer.to] == offer.position ||
          bytes > problem.storages[in.storage].sizeBytes)
        continue;
      result.bytesAt[offer.position] -= bytes;
      used[offer.from] = used[offer.to] = offer.position;
    }
  }

  struct Offer {
    int32_t position, from, to;
  };

  const Problem &problem;
  const Lanes &lanes;
  Residency &result;
  std::vector<Holder> holders;
  std::vector<Offer> offers;
  std::vector<int32_t> holderOf, pinnedHolder;
  std::vector<std::vector<ValueId>> valuesIn;
};

} // namespace

Residency::Residency(const Problem &problem, const Lanes &lanes, const Solution &solution) {
  Walk(problem, lanes, *this).walk(solution);
}

Bytes Residency::peak() const { return *std::max_element(bytesAt.begin(), bytesAt.end()); }

RangePeak::RangePeak(const std::vector<Bytes> &bytes) {
  while (leaves < static_cast<int32_t>(bytes.size()))
    leaves *= 2;
  top.assign(2 * leaves, std::numeric_limits<Bytes>::min() / 2);
  added.assign(2 * leaves, 0);
  std::copy(bytes.begin(), bytes.end(), top.begin() + leaves);
  for (int32_t node = leaves; node-- > 1;)
    top[node] = std::max(top[2 * node], top[2 * node + 1]);
}

void RangePeak::add(int32_t first, int32_t last, Bytes bytes) {
  if (first > last)
    return;
  int32_t left = first + leaves, right = last + leaves + 1;
  for (; left < right; left /= 2, right /= 2) {
    for (int32_t node : {left % 2 ? left++ : 0, right % 2 ? --right : 0})
      if (node > 0) {
        top[node] += bytes;
        added[node] += bytes;
      }
  }
  for (int32_t node : {(first + leaves) / 2, (last + leaves) / 2})
    for (; node >= 1; node /= 2)
      top[node] = std::max(top[2 * node], top[2 * node + 1]) + added[node];
}

Bytes RangePeak::peak(int32_t first, int32_t last) const {
  // Up from both ends: what each side has seen so far, with the additions of the nodes above it.
  Bytes left = std::numeric_limits<Bytes>::min() / 2, right = left;
  int32_t l = first + leaves, r = last + leaves;
  left = top[l];
  right = top[r];
  while (l / 2 != r / 2) {
    if (l % 2 == 0)
      left = std::max(left, top[l + 1]);
    if (r % 2 == 1)
      right = std::max(right, top[r - 1]);
    l /= 2;
    r /= 2;
    left += added[l];
    right += added[r];
  }
  Bytes both = std::max(left, right);
  for (l /= 2; l >= 1; l /= 2)
    both += added[l];
  return both;
}

} // namespace stow::schedule
