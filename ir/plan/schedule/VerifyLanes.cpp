// The checker of schedules with copies. It walks the steps once: who holds what, and the times. What
// is live when follows from the last touch of every buffer, so bytes are added up afterwards.
#include "ir/plan/schedule/VerifyLanes.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

namespace stow::schedule {
namespace {

constexpr int32_t none = -1;

/// A buffer in fast memory.
struct Buffer {
  StorageId storage = 0;
  int64_t begin = 0, last = -1; ///< steps; `last` is -1 while a buffer from the start is untouched
  bool fromStart = false;
  bool isArriving = false; ///< a copy in has started and is not awaited
  int32_t leaving = 0;     ///< copies out that have started and are not awaited
};

/// A copy in slow memory.
struct AwayCopy {
  int32_t buffer = none; ///< the buffer that it was copied from, or last into
  std::vector<ValueId> values;
  StorageId storage = 0;
  int64_t begin = 0, last = 0; ///< steps
  bool isWhole = false;        ///< awaited
};

/// A copy that is not awaited yet. That of state has a place of its own in slow memory.
struct Flight {
  int32_t away = none, buffer = none;
  Cost end = 0;
  bool isOpen() const { return buffer != none; }
};

class LaneReplayer {
public:
  LaneReplayer(const Problem &problem, const Lanes &lanes, const LaneSolution &solution)
      : problem(problem), lanes(lanes), solution(solution), bufferOf(problem.values.size(), none),
        awayOf(problem.values.size(), none), goingOut(problem.values.size()),
        comingIn(problem.values.size()), fetchedFrom(problem.values.size()),
        pinnedBuffer(problem.storages.size(), none), valuesIn(problem.storages.size()),
        timesRun(problem.ops.size(), 0) {
    for (size_t v = 0; v < problem.values.size(); ++v)
      valuesIn[problem.values[v].storage].push_back(static_cast<ValueId>(v));
    isState.assign(problem.storages.size(), 0);
    for (const Op &op : problem.ops) {
      if (op.lane == OpLane::Out)
        isState[problem.values[op.inputs.front()].storage] = 1;
      if (op.lane != OpLane::In)
        continue;
      isState[problem.values[op.outputs.front()].storage] = 1;
      for (ValueId place : op.inputs)
        fetchedFrom[place].push_back(op.outputs.front());
    }
  }

  LaneReplay replay(Bytes budgetBytes) {
    placeSources();
    result.begins.assign(solution.steps.size(), 0);
    result.ends.assign(solution.steps.size(), 0);
    for (size_t i = 0; i < solution.steps.size() && !result.fault; ++i)
      walk(static_cast<int64_t>(i));
    result.time = now;
    if (!result.fault)
      finish();
    if (!result.fault)
      addUp();
    if (!result.fault)
      compare(budgetBytes);
    return std::move(result);
  }

private:
  // -- buffers

  int32_t newBuffer(StorageId storage, int64_t begin, bool fromStart) {
    if (problem.storages[storage].pinned) {
      if (pinnedBuffer[storage] == none) {
        pinnedBuffer[storage] = static_cast<int32_t>(buffers.size());
        buffers.push_back({storage, 0, -1, true});
      }
      return pinnedBuffer[storage];
    }
    buffers.push_back({storage, begin, fromStart ? int64_t(-1) : begin, fromStart});
    return static_cast<int32_t>(buffers.size()) - 1;
  }

  /// Values without a producer are in fast memory from the start; those of one storage together.
  void placeSources() {
    const std::vector<std::optional<OpId>> producers = problem.producers();
    std::vector<int32_t> fromStart(problem.storages.size(), none);
    for (size_t v = 0; v < problem.values.size(); ++v) {
      if (producers[v])
        continue;
      const StorageId storage = problem.values[v].storage;
      if (fromStart[storage] == none)
        fromStart[storage] = newBuffer(storage, 0, true);
      bufferOf[v] = fromStart[storage];
    }
  }

  // -- steps

  std::string quoted(ValueId value) const {
    return absl::StrCat("\"", problem.values[value].name, "\"");
  }
  void fault(int64_t step, const std::string &what) {
    const Step &at = solution.steps[step];
    const bool isRun = at.kind == Step::Kind::Run;
    const bool exists = at.id >= 0 && at.id < static_cast<int32_t>(isRun ? problem.ops.size()
                                                                         : problem.values.size());
    const std::string name = !exists ? absl::StrCat(at.id)
                             : isRun ? "\"" + problem.ops[at.id].name + "\""
                                     : quoted(at.id);
    result.fault = absl::StrCat("step ", step, ", ", wordOf(at.kind), " ", name, ": ", what);
  }

  void walk(int64_t step) {
    const Step &at = solution.steps[step];
    const size_t count = at.kind == Step::Kind::Run ? problem.ops.size() : problem.values.size();
    if (at.id < 0 || at.id >= static_cast<int32_t>(count))
      return fault(step, "does not exist");
    result.begins[step] = now;
    switch (at.kind) {
    case Step::Kind::Run:
      run(step, problem.ops[at.id], at);
      break;
    case Step::Kind::Out:
      startOut(step, at.id);
      break;
    case Step::Kind::In:
      startIn(step, at.id);
      break;
    case Step::Kind::AwaitOut:
      awaitOut(step, at.id);
      break;
    case Step::Kind::AwaitIn:
      awaitIn(step, at.id);
      break;
    }
    if (at.kind != Step::Kind::Out && at.kind != Step::Kind::In)
      result.ends[step] = std::max(result.ends[step], now); // that of state: its copy's end
    if (!result.fault && std::max({now, outFree, inFree}) > mostLaneTime)
      fault(step, "ends behind 2^60 cost units; expected a coarser unit of cost");
  }

  void run(int64_t step, const Op &op, const Step &at) {
    if (at.alternative < 0 || at.alternative >= static_cast<int32_t>(op.alternatives.size()))
      return fault(step, absl::StrCat("alternative ", at.alternative, " does not exist"));
    if (++timesRun[at.id] > 1 && !op.recomputable)
      return fault(step, "runs again, but is not recomputable");
    if (op.lane == OpLane::Out)
      return sendState(step, op);
    if (op.lane == OpLane::In)
      return fetchState(step, op);
    now += op.alternatives[at.alternative].cost;
    result.computeTime += op.alternatives[at.alternative].cost;
    for (ValueId value : op.inputs) {
      if (bufferOf[value] == none)
        return fault(step, "reads " + quoted(value) + ", which is not available");
      if (buffers[bufferOf[value]].isArriving)
        return fault(step, "reads " + quoted(value) + ", whose copy in is not awaited");
      buffers[bufferOf[value]].last = step;
    }
    write(step, op);
  }

  /// Starts the copy of an op of the lane out.
  void sendState(int64_t step, const Op &op) {
    const ValueId value = op.inputs.front();
    const int32_t from = bufferOf[value];
    if (from == none)
      return fault(step, "sends " + quoted(value) + ", which is not available");
    if (buffers[from].isArriving)
      return fault(step, "sends " + quoted(value) + ", whose copy in is not awaited");
    if (goingOut[value].isOpen())
      return fault(step, "its last copy out is not awaited");
    buffers[from].last = step;
    ++buffers[from].leaving;
    const StorageId storage = problem.values[value].storage;
    goingOut[value] = {none, from, copy(step, lanes.out, storage, outFree)};
    result.bytesOut += problem.storages[storage].sizeBytes;
    write(step, op);
  }

  /// Starts the copy of an op of the lane in.
  void fetchState(int64_t step, const Op &op) {
    const ValueId value = op.outputs.front();
    for (ValueId place : op.inputs)
      if (bufferOf[place] == none)
        return fault(step, "fetches " + quoted(place) + ", which has been replaced");
    if (comingIn[value].isOpen())
      return fault(step, "its last copy in is not awaited");
    const StorageId storage = problem.values[value].storage;
    const int32_t to = newBuffer(storage, step, false);
    buffers[to].isArriving = true;
    bufferOf[value] = to;
    comingIn[value] = {none, to, copy(step, lanes.in, storage, inFree)};
    result.bytesIn += problem.storages[storage].sizeBytes;
  }

  void write(int64_t step, const Op &op) {
    // Views and next versions join the buffer of their input, before anything is destroyed.
    std::vector<int32_t> target(op.outputs.size(), none), overwritable;
    for (size_t o = 0; o < op.outputs.size(); ++o)
      for (ValueId input : op.inputs)
        if (problem.values[input].storage == problem.values[op.outputs[o]].storage)
          target[o] = bufferOf[input];
    for (const OverwriteOption &option : op.mayOverwrite)
      overwritable.push_back(bufferOf[option.input]);
    for (ValueId value : op.overwrites) {
      for (ValueId fetched : fetchedFrom[value])
        if (comingIn[fetched].isOpen())
          return fault(step, "replaces " + quoted(value) + ", which a copy in still reads");
      const int32_t destroyed = bufferOf[value];
      for (ValueId other : valuesIn[problem.values[value].storage])
        if (bufferOf[other] == destroyed)
          bufferOf[other] = none;
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const StorageId storage = problem.values[op.outputs[o]].storage;
      if (target[o] != none && buffers[target[o]].leaving > 0)
        return fault(step,
                     "writes " + quoted(op.outputs[o]) + " beneath a copy out that is not awaited");
      for (size_t p = 0; target[o] == none && p < o; ++p) // fresh outputs of one storage share it
        if (problem.values[op.outputs[p]].storage == storage)
          target[o] = target[p];
      if (target[o] == none)
        target[o] = newBuffer(storage, step, false);
      bufferOf[op.outputs[o]] = target[o];
      buffers[target[o]].last = step;
    }
    for (size_t o = 0; o < op.mayOverwrite.size(); ++o)
      offers.push_back({step, overwritable[o], bufferOf[op.mayOverwrite[o].output]});
  }

  void startOut(int64_t step, ValueId value) {
    const StorageId storage = problem.values[value].storage;
    const int32_t from = bufferOf[value];
    if (problem.storages[storage].pinned || isState[storage] ||
        std::ranges::binary_search(lanes.stay, storage))
      return fault(step, "its storage has to stay");
    if (from == none)
      return fault(step, "is not in fast memory");
    if (buffers[from].isArriving)
      return fault(step, "its copy in is not awaited");
    if (goingOut[value].isOpen())
      return fault(step, "its last copy out is not awaited");
    buffers[from].last = step;
    ++buffers[from].leaving;
    AwayCopy away;
    away.buffer = from;
    away.storage = storage;
    away.begin = away.last = step;
    const auto number = static_cast<int32_t>(aways.size());
    for (ValueId other : valuesIn[storage])
      if (bufferOf[other] == from) {
        away.values.push_back(other);
        awayOf[other] = number;
      }
    aways.push_back(std::move(away));
    goingOut[value] = {number, from, copy(step, lanes.out, storage, outFree)};
    result.bytesOut += problem.storages[storage].sizeBytes;
  }

  void startIn(int64_t step, ValueId value) {
    if (awayOf[value] == none)
      return fault(step, "is not in slow memory");
    AwayCopy &away = aways[awayOf[value]];
    if (!away.isWhole)
      return fault(step, "its copy out is not awaited");
    if (comingIn[value].isOpen())
      return fault(step, "its last copy in is not awaited");
    const int32_t to = newBuffer(away.storage, step, false);
    buffers[to].isArriving = true;
    for (ValueId other : away.values)
      if (other == value || bufferOf[other] == away.buffer)
        bufferOf[other] = to;
    away.buffer = to;
    away.last = step;
    comingIn[value] = {awayOf[value], to, copy(step, lanes.in, away.storage, inFree)};
    result.bytesIn += problem.storages[away.storage].sizeBytes;
  }

  Cost copy(int64_t step, const Link &link, StorageId storage, Cost &laneFree) {
    const Cost duration = link.duration(problem.storages[storage].sizeBytes);
    result.begins[step] = std::max(now, laneFree);
    laneFree = result.ends[step] = result.begins[step] + duration;
    result.copyTime += duration;
    return laneFree;
  }

  void awaitOut(int64_t step, ValueId value) {
    Flight &flight = goingOut[value];
    if (!flight.isOpen())
      return fault(step, "no copy out has started");
    now = std::max(now, flight.end);
    Buffer &from = buffers[flight.buffer];
    from.last = step;
    --from.leaving;
    if (flight.away != none) {
      aways[flight.away].last = std::max(aways[flight.away].last, step);
      aways[flight.away].isWhole = true;
    }
    flight = {};
  }

  void awaitIn(int64_t step, ValueId value) {
    Flight &flight = comingIn[value];
    if (!flight.isOpen())
      return fault(step, "no copy in has started");
    now = std::max(now, flight.end);
    buffers[flight.buffer].last = step;
    buffers[flight.buffer].isArriving = false;
    if (flight.away != none)
      aways[flight.away].last = step;
    flight = {};
  }

  // -- the end, and the bytes

  void finish() {
    for (size_t op = 0; op < problem.ops.size(); ++op)
      if (timesRun[op] == 0) {
        result.fault = "op \"" + problem.ops[op].name + "\" never runs";
        return;
      }
    for (size_t v = 0; v < problem.values.size(); ++v) {
      const auto value = static_cast<ValueId>(v);
      if (goingOut[v].isOpen() || comingIn[v].isOpen()) {
        result.fault = absl::StrCat("value ", quoted(value), ": a copy ",
                                    goingOut[v].isOpen() ? "out" : "in", " is never awaited");
        return;
      }
      if (!problem.values[v].keep)
        continue;
      if (bufferOf[v] == none) {
        result.fault = "value " + quoted(value) + " must be live at the end, but was overwritten";
        return;
      }
      buffers[bufferOf[v]].last = static_cast<int64_t>(solution.steps.size());
    }
  }

  static std::vector<Bytes> prefixSums(std::vector<Bytes> change) {
    for (size_t i = 1; i < change.size(); ++i)
      change[i] += change[i - 1];
    change.pop_back();
    return change;
  }

  void addUp() {
    const auto count = static_cast<int64_t>(solution.steps.size());
    std::vector<Bytes> fast(count + 1, 0), slow(count + 1, 0);
    auto add = [&](std::vector<Bytes> &change, StorageId storage, int64_t begin, int64_t last) {
      change[begin] += problem.storages[storage].sizeBytes;
      change[std::min(last + 1, count)] -= problem.storages[storage].sizeBytes;
    };
    for (const Buffer &buffer : buffers)
      if (!problem.storages[buffer.storage].pinned && (!buffer.fromStart || buffer.last >= 0))
        add(fast, buffer.storage, buffer.begin, buffer.last);
    for (const AwayCopy &away : aways)
      add(slow, away.storage, away.begin, away.last);
    result.bytesAt = prefixSums(std::move(fast));
    result.slowBytesAt = prefixSums(std::move(slow));
    for (int64_t i = 0; i < count; ++i) {
      const Step &at = solution.steps[i];
      result.bytesAt[i] += problem.pinnedBytes();
      if (at.kind == Step::Kind::Run)
        result.bytesAt[i] += problem.ops[at.id].alternatives[at.alternative].workspaceBytes;
    }
    subtractCredits();
    result.peakBytes = problem.pinnedBytes();
    for (int64_t i = 0; i < count; ++i) {
      result.peakBytes = std::max(result.peakBytes, result.bytesAt[i]);
      result.slowPeakBytes = std::max(result.slowPeakBytes, result.slowBytesAt[i]);
    }
  }

  /// An output lies over an input whose last touch this run is; each of both once.
  void subtractCredits() {
    std::vector<int64_t> used(buffers.size(), -1);
    for (const Offer &offer : offers) {
      const Buffer &in = buffers[offer.from], &out = buffers[offer.to];
      const bool dies = !problem.storages[in.storage].pinned && in.last == offer.step;
      const bool isFresh =
          !problem.storages[out.storage].pinned && !out.fromStart && out.begin == offer.step;
      const bool isTaken = used[offer.from] == offer.step || used[offer.to] == offer.step;
      const Bytes bytes = problem.storages[out.storage].sizeBytes;
      if (!dies || !isFresh || isTaken || bytes > problem.storages[in.storage].sizeBytes)
        continue;
      result.bytesAt[offer.step] -= bytes;
      used[offer.from] = used[offer.to] = offer.step;
    }
  }

  void compare(Bytes budgetBytes) {
    for (size_t i = 0; i < result.bytesAt.size() && !result.fault; ++i) {
      const auto step = static_cast<int64_t>(i);
      if (result.bytesAt[i] > budgetBytes)
        fault(step, absl::StrCat(result.bytesAt[i], " bytes of fast memory, but there is room for ",
                                 budgetBytes));
      else if (result.slowBytesAt[i] > lanes.slowBytes)
        fault(step, absl::StrCat(result.slowBytesAt[i],
                                 " bytes of slow memory, but there is room for ", lanes.slowBytes));
    }
  }

  /// Of a run: that its output lies where an input lay.
  struct Offer {
    int64_t step;
    int32_t from, to;
  };

  const Problem &problem;
  const Lanes &lanes;
  const LaneSolution &solution;
  LaneReplay result;
  std::vector<Buffer> buffers;
  std::vector<AwayCopy> aways;
  std::vector<Offer> offers;
  std::vector<int32_t> bufferOf, awayOf;         ///< per value: what holds it now
  std::vector<Flight> goingOut, comingIn;        ///< per value that a step names
  std::vector<std::vector<ValueId>> fetchedFrom; ///< per value that stands for a place
  std::vector<int32_t> pinnedBuffer;             ///< per pinned storage
  std::vector<char> isState;                     ///< per storage: what ops of the copy lanes copy
  std::vector<std::vector<ValueId>> valuesIn;    ///< per storage
  std::vector<int32_t> timesRun;
  Cost now = 0, outFree = 0, inFree = 0; ///< of the lanes
};

} // namespace

LaneReplay verify(const Problem &problem, const Lanes &lanes, const LaneSolution &solution,
                  Bytes budgetBytes) {
  check(problem, lanes);
  return LaneReplayer(problem, lanes, solution).replay(budgetBytes);
}

} // namespace stow::schedule
