// Exhaustive search over tiny schedule problems with slow memory, for tests only.
#pragma once

#include "ir/plan/schedule/Lanes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <vector>

namespace stow::schedule {

/// Small and plain enough for LaneOracle: every value in a storage of its own that is not pinned,
/// one alternative, nothing overwritten, all recomputable but copies of state and what reads them.
inline bool isPlainAndTiny(const Problem &problem) {
  if (problem.ops.empty() || problem.ops.size() > 9 || problem.values.size() > 9 ||
      problem.storages.size() != problem.values.size())
    return false;
  for (size_t v = 0; v < problem.values.size(); ++v)
    if (problem.values[v].storage != static_cast<StorageId>(v) || problem.storages[v].pinned)
      return false;
  for (const Op &op : problem.ops)
    if (op.alternatives.size() != 1 || !op.overwrites.empty() || !op.mayOverwrite.empty() ||
        (!op.recomputable && !problem.hasLaneOps()))
      return false;
  return true;
}

/// Dijkstra over who holds what and when lanes are free. A step of the search is a step of a
/// schedule, or a buffer that is given up.
class LaneOracle {
public:
  LaneOracle(const Problem &problem, const Lanes &lanes, Bytes budget)
      : problem(problem), lanes(lanes), budget(budget), mayTravel(lanes.mayTravel(problem)) {}

  /// The least time of any schedule; absent if there is none. `most` states are looked at; where
  /// that is not enough, `isComplete` is false and the result means nothing.
  std::optional<Cost> leastTime(size_t most) {
    State first;
    first.fast.assign(problem.values.size(), Gone);
    first.slow.assign(problem.values.size(), Gone);
    first.outEnd.assign(problem.values.size(), 0);
    first.inEnd.assign(problem.values.size(), 0);
    for (size_t v = 0; v < problem.values.size(); ++v)
      if (!problem.producers()[v])
        first.fast[v] = Here;
    reach(first, 0);
    while (!queue.empty()) {
      const auto [now, number] = queue.top();
      queue.pop();
      if (best.at(states[number]) != now)
        continue;
      const State state = states[number];
      if (isDone(state))
        return now;
      if (states.size() > most) {
        isComplete = false;
        return std::nullopt;
      }
      expand(state, now);
    }
    return std::nullopt;
  }
  bool isComplete = true;

private:
  enum Place : int8_t { Gone, Moving, Here };
  /// Times count from now on.
  struct State {
    uint32_t done = 0;
    std::vector<int8_t> fast, slow; ///< Moving: a copy to there is not awaited yet
    std::vector<Cost> outEnd, inEnd;
    Cost outFree = 0, inFree = 0;
    auto operator<=>(const State &) const = default;
  };

  void reach(State state, Cost now) {
    for (size_t v = 0; v < state.fast.size(); ++v) { // to await what has ended costs nothing
      if (state.slow[v] == Moving && state.outEnd[v] == 0)
        state.slow[v] = arrivedIn(v);
      if (state.fast[v] == Moving && state.inEnd[v] == 0)
        state.fast[v] = Here;
    }
    auto [known, isNew] = best.emplace(state, now);
    if (!isNew && known->second <= now)
      return;
    known->second = now;
    states.push_back(std::move(state));
    queue.push({now, states.size() - 1});
  }

  /// State that was sent is where it belongs, and no copy to fetch.
  Place arrivedIn(size_t v) const { return mayTravel[v] ? Here : Gone; }

  static void pass(State &state, Cost time) {
    for (std::vector<Cost> *ends : {&state.outEnd, &state.inEnd})
      for (Cost &end : *ends)
        end = std::max<Cost>(end - time, 0);
    state.outFree = std::max<Cost>(state.outFree - time, 0);
    state.inFree = std::max<Cost>(state.inFree - time, 0);
  }

  Bytes bytesIn(const std::vector<int8_t> &memory) const {
    Bytes sum = 0;
    for (size_t v = 0; v < memory.size(); ++v)
      sum += memory[v] != Gone ? problem.storages[v].sizeBytes : 0;
    return sum;
  }

  Bytes slowBytesIn(const std::vector<int8_t> &memory) const {
    Bytes sum = 0;
    for (size_t v = 0; v < memory.size(); ++v)
      sum += memory[v] != Gone && mayTravel[v] ? problem.storages[v].sizeBytes : 0;
    return sum;
  }

  bool isDone(const State &state) const {
    for (size_t v = 0; v < state.fast.size(); ++v)
      if (state.slow[v] == Moving || state.fast[v] == Moving ||
          (problem.values[v].keep && state.fast[v] != Here))
        return false;
    return state.done + 1 == 1u << problem.ops.size();
  }

  void expand(const State &state, Cost now) {
    lacksFast = lacksSlow = false;
    for (size_t i = 0; i < problem.ops.size(); ++i)
      runOp(state, now, i);
    for (size_t v = 0; v < state.fast.size(); ++v)
      copy(state, now, v);
    for (size_t v = 0; v < state.fast.size(); ++v) {
      // Buffers are given up only where something else wants their room.
      if (lacksFast && state.fast[v] == Here && state.slow[v] != Moving) {
        State next = state;
        next.fast[v] = Gone;
        reach(next, now);
      }
      if (lacksSlow && state.slow[v] == Here && state.fast[v] != Moving) {
        State next = state;
        next.slow[v] = Gone;
        reach(next, now);
      }
    }
  }

  void runOp(const State &state, Cost now, size_t number) {
    const Op &op = problem.ops[number];
    const bool isAgain = state.done >> number & 1;
    for (ValueId input : op.inputs)
      if (state.fast[input] != Here)
        return;
    if (isAgain && !op.recomputable)
      return;
    State next = state;
    if (op.lane == OpLane::Out) {
      const ValueId sent = op.inputs.front();
      next.slow[sent] = Moving;
      next.outEnd[sent] = next.outFree = state.outFree + lanes.out.duration(problem.sizeOf(sent));
      next.done |= 1u << number;
      return reach(next, now);
    }
    if (op.lane == OpLane::In)
      return fetchState(state, now, number);
    for (ValueId output : op.outputs) {
      if (state.fast[output] != Gone)
        return; // a second run serves nobody
      next.fast[output] = Here;
    }
    if (op.outputs.empty() && isAgain)
      return;
    if (bytesIn(next.fast) + op.alternatives[0].workspaceBytes > budget) {
      lacksFast = true;
      return;
    }
    next.done |= 1u << number;
    pass(next, op.alternatives[0].cost);
    reach(next, now + op.alternatives[0].cost);
  }

  void fetchState(const State &state, Cost now, size_t number) {
    const ValueId value = problem.ops[number].outputs.front();
    if (state.fast[value] != Gone)
      return;
    State next = state;
    next.fast[value] = Moving;
    next.inEnd[value] = next.inFree = state.inFree + lanes.in.duration(problem.sizeOf(value));
    next.done |= 1u << number;
    if (bytesIn(next.fast) <= budget)
      reach(next, now);
    else
      lacksFast = true;
  }

  void copy(const State &state, Cost now, size_t v) {
    const Bytes bytes = problem.storages[v].sizeBytes;
    State next = state;
    if (mayTravel[v] && state.fast[v] == Here && state.slow[v] == Gone) {
      next.slow[v] = Moving;
      next.outEnd[v] = next.outFree = state.outFree + lanes.out.duration(bytes);
      if (slowBytesIn(next.slow) <= lanes.slowBytes)
        reach(next, now);
      else
        lacksSlow = true;
    } else if (state.slow[v] == Moving) {
      pass(next, state.outEnd[v]);
      next.slow[v] = arrivedIn(v);
      reach(next, now + state.outEnd[v]);
    } else if (state.fast[v] == Moving) {
      pass(next, state.inEnd[v]);
      next.fast[v] = Here;
      reach(next, now + state.inEnd[v]);
    } else if (state.fast[v] == Gone && state.slow[v] == Here) {
      next.fast[v] = Moving;
      next.inEnd[v] = next.inFree = state.inFree + lanes.in.duration(bytes);
      if (bytesIn(next.fast) <= budget)
        reach(next, now);
      else
        lacksFast = true;
    }
  }

  const Problem &problem;
  const Lanes &lanes;
  const Bytes budget;
  const std::vector<char> mayTravel;         ///< per value
  bool lacksFast = false, lacksSlow = false; ///< room for something, in the state at hand
  std::map<State, Cost> best;
  std::vector<State> states;
  std::priority_queue<std::pair<Cost, size_t>, std::vector<std::pair<Cost, size_t>>, std::greater<>>
      queue;
};

} // namespace stow::schedule
