#include "passes/solvers/schedule/lanes/Residency.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace stow::schedule {
namespace {

constexpr int32_t none = -1;

/// One buffer while the schedule is walked.
struct Holder {
  StorageId storage = 0;
  int32_t begin = 0, last = -1, lastWrite = -1;
  int32_t group = none; ///< of its spells since the last write
  bool fromStart = false;
  int32_t fetched = none; ///< the spell of its copy in, as long as nothing has touched it
  int32_t sent = none;    ///< the spell of its copy out, as long as nothing has written to it since
};

class Walk {
public:
  Walk(const Problem &problem, const Lanes &lanes, Residency &result)
      : problem(problem), result(result), holderOf(problem.values.size(), none),
        mayTravel(lanes.mayTravel(problem)), pinnedHolder(problem.storages.size(), none),
        valuesIn(problem.storages.size()) {
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
      const bool isCopy = op.lane != OpLane::Compute;
      result.isCopy.push_back(isCopy);
      if (op.lane == OpLane::In)
        fetch(i, solution.runs[i].op);
      else if (op.lane == OpLane::Out)
        send(i, count, solution.runs[i].op);
      else
        run(i, op);
      result.startOf.push_back(result.startOf.back() +
                               (isCopy ? 0 : op.alternatives[solution.runs[i].alternative].cost));
    }
    for (size_t v = 0; v < problem.values.size(); ++v)
      if (problem.values[v].keep)
        touch(static_cast<ValueId>(v), count);
    for (size_t i = 0; i < holders.size(); ++i)
      if (holders[i].fetched != none) // for nobody
        arrive(holders[i], result.spells[holders[i].fetched].to);
    addUp(solution);
    std::sort(result.spells.begin(), result.spells.end(), [](const Spell &a, const Spell &b) {
      return std::tie(a.to, a.from, a.value, a.kind) < std::tie(b.to, b.from, b.value, b.kind);
    });
    for (size_t i = 0; i < result.spells.size(); ++i)
      if (result.spells[i].kind != Spell::Kind::Idle)
        result.copied.push_back(static_cast<int32_t>(i));
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
    if (holder.fetched != none)
      return arrive(holder, position);
    const int32_t from = std::max(holder.last, 0);
    if (position > from + 1 && mayTravel[holder.storage]) {
      if (holder.group == none)
        holder.group = result.groupCount++;
      result.spells.push_back({holder.group, from, position, holder.lastWrite + 1,
                               problem.storages[holder.storage].sizeBytes, value});
    }
    holder.last = std::max(holder.last, position);
  }

  /// The first touch of what is fetched.
  void arrive(Holder &holder, int32_t position) {
    result.spells[holder.fetched].to = position;
    holder.fetched = none;
    holder.begin = holder.last = position;
  }

  int32_t newCopy(Spell::Kind kind, OpId op, ValueId value, int32_t from, int32_t to) {
    Spell spell;
    spell.group = result.groupCount++;
    spell.from = from;
    spell.to = to;
    spell.ready = from + 1;
    spell.bytes = problem.sizeOf(value);
    spell.value = value;
    spell.kind = kind;
    spell.op = op;
    result.spells.push_back(spell);
    return static_cast<int32_t>(result.spells.size()) - 1;
  }

  void fetch(int32_t position, OpId op) {
    const ValueId value = problem.ops[op].outputs.front();
    int32_t before = -1;
    if (holderOf[value] != none) {
      if (holders[holderOf[value]].fetched != none) // for nobody, at its own run
        touch(value, result.spells[holders[holderOf[value]].fetched].to);
      before = holders[holderOf[value]].last;
    }
    holderOf[value] = newHolder(problem.values[value].storage, position, false);
    holders[holderOf[value]].fetched = newCopy(Spell::Kind::Fetch, op, value, before, position);
  }

  void send(int32_t position, int32_t count, OpId op) {
    const ValueId value = problem.ops[op].inputs.front();
    if (holders[holderOf[value]].fetched != none)
      touch(value, position);
    Holder &holder = holders[holderOf[value]];
    holder.sent =
        newCopy(Spell::Kind::Send, op, value, std::max(holder.lastWrite, holder.begin), count + 1);
    for (ValueId output : problem.ops[op].outputs) // of no bytes
      holderOf[output] = newHolder(problem.values[output].storage, position, false);
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
      if (holder.sent != none)
        result.spells[std::exchange(holder.sent, none)].to = position;
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
  Residency &result;
  std::vector<Holder> holders;
  std::vector<Offer> offers;
  std::vector<int32_t> holderOf;
  const std::vector<char> mayTravel; ///< per storage
  std::vector<int32_t> pinnedHolder;
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
