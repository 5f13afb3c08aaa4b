// The checker. It knows nothing of how schedules are found: it walks the sequence once to learn
// which copy of which storage every read touches, and once more to add up the bytes.
#include "ir/plan/schedule/Verify.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <numeric>

namespace stow::schedule {
namespace {

/// One copy of a storage: created by a run (or present from the start), shared by the views and
/// versions attached to it.
struct Copy {
  StorageId storage = 0;
  int64_t begin = 0; ///< position of the run that created it; 0 if present from the start
  int64_t last = -1; ///< last position at which a value attached to it is read or written
  bool fromStart = false;
};

class Replayer {
public:
  Replayer(const Problem &problem, const Solution &solution)
      : problem(problem), solution(solution), copyOf(problem.values.size(), none),
        pinnedCopy(problem.storages.size(), none), firstIn(problem.storages.size() + 1, 0),
        valuesIn(problem.values.size()), timesRun(problem.ops.size(), 0) {
    for (const Value &value : problem.values)
      ++firstIn[value.storage + 1];
    std::partial_sum(firstIn.begin(), firstIn.end(), firstIn.begin());
    std::vector<int32_t> next(firstIn.begin(), firstIn.end() - 1);
    for (size_t v = 0; v < problem.values.size(); ++v)
      valuesIn[next[problem.values[v].storage]++] = static_cast<ValueId>(v);
  }

  Replay replay() {
    placeSources();
    for (size_t i = 0; i < solution.runs.size() && !result.fault; ++i)
      runOp(static_cast<int64_t>(i));
    if (!result.fault)
      finish();
    if (!result.fault)
      addUp();
    return std::move(result);
  }

private:
  static constexpr int32_t none = -1;

  int32_t newCopy(StorageId storage, int64_t begin, bool fromStart) {
    if (problem.storages[storage].pinned) {
      if (pinnedCopy[storage] == none) {
        pinnedCopy[storage] = static_cast<int32_t>(copies.size());
        copies.push_back({storage, 0, -1, true});
      }
      return pinnedCopy[storage];
    }
    copies.push_back({storage, begin, fromStart ? int64_t(-1) : begin, fromStart});
    return static_cast<int32_t>(copies.size()) - 1;
  }

  /// Values without a producer exist from the start; those of one storage share one copy.
  void placeSources() {
    std::vector<std::optional<OpId>> producers = problem.producers();
    std::vector<int32_t> startCopy(problem.storages.size(), none);
    for (size_t v = 0; v < problem.values.size(); ++v) {
      if (producers[v])
        continue;
      StorageId storage = problem.values[v].storage;
      if (startCopy[storage] == none)
        startCopy[storage] = newCopy(storage, 0, true);
      copyOf[v] = startCopy[storage];
    }
  }

  void fault(int64_t position, const Op &op, const std::string &what) {
    result.fault = absl::StrCat("position ", position, ", op \"", op.name, "\": ", what);
  }

  void runOp(int64_t position) {
    const Run &run = solution.runs[position];
    if (run.op < 0 || run.op >= static_cast<OpId>(problem.ops.size())) {
      result.fault = absl::StrCat("position ", position, ": op ", run.op, " does not exist");
      return;
    }
    const Op &op = problem.ops[run.op];
    if (run.alternative < 0 || run.alternative >= static_cast<int32_t>(op.alternatives.size()))
      return fault(position, op, absl::StrCat("alternative ", run.alternative, " does not exist"));
    if (++timesRun[run.op] > 1 && !op.recomputable)
      return fault(position, op, "runs again, but is not recomputable");
    result.time += op.alternatives[run.alternative].cost;

    for (ValueId value : op.inputs) {
      if (copyOf[value] == none)
        return fault(position, op,
                     "reads \"" + problem.values[value].name + "\", which is not available");
      copies[copyOf[value]].last = position;
    }
    writeOutputs(position, op);
  }

  void writeOutputs(int64_t position, const Op &op) {
    // Views and next versions attach to the copy their input has now, before anything is destroyed.
    target.assign(op.outputs.size(), none);
    for (size_t o = 0; o < op.outputs.size(); ++o)
      for (ValueId input : op.inputs)
        if (problem.values[input].storage == problem.values[op.outputs[o]].storage)
          target[o] = copyOf[input];
    for (ValueId value : op.overwrites) {
      int32_t destroyed = copyOf[value];
      const StorageId storage = problem.values[value].storage;
      for (int32_t in = firstIn[storage]; in < firstIn[storage + 1]; ++in)
        if (copyOf[valuesIn[in]] == destroyed)
          copyOf[valuesIn[in]] = none;
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      StorageId storage = problem.values[op.outputs[o]].storage;
      if (target[o] == none) // two fresh outputs of one storage share one copy
        for (size_t p = 0; p < o; ++p)
          if (problem.values[op.outputs[p]].storage == storage)
            target[o] = target[p];
      if (target[o] == none)
        target[o] = newCopy(storage, position, false);
      copyOf[op.outputs[o]] = target[o];
      copies[target[o]].last = position;
    }
  }

  void finish() {
    for (size_t op = 0; op < problem.ops.size(); ++op)
      if (timesRun[op] == 0) {
        result.fault = "op \"" + problem.ops[op].name + "\" never runs";
        return;
      }
    for (size_t v = 0; v < problem.values.size(); ++v) {
      if (!problem.values[v].keep)
        continue;
      if (copyOf[v] == none) {
        result.fault =
            "value \"" + problem.values[v].name + "\" must be live at the end, but was overwritten";
        return;
      }
      copies[copyOf[v]].last = static_cast<int64_t>(solution.runs.size());
    }
  }

  /// The copies an op touches are not stored by the first walk, so that the second one repeats it
  /// for in-place credits with the final `last` of each copy known.
  void addUp() {
    const int64_t count = static_cast<int64_t>(solution.runs.size());
    std::vector<Bytes> change(count + 1, 0);
    for (const Copy &copy : copies) {
      if (problem.storages[copy.storage].pinned)
        continue;
      if (copy.fromStart && copy.last < 0)
        continue; // never read and not kept: the buffer need not exist
      change[copy.begin] += problem.storages[copy.storage].sizeBytes;
      change[std::min(copy.last + 1, count)] -= problem.storages[copy.storage].sizeBytes;
    }
    result.bytesAt.assign(count, 0);
    Bytes live = problem.pinnedBytes();
    for (int64_t i = 0; i < count; ++i) {
      live += change[i];
      const Run &run = solution.runs[i];
      result.bytesAt[i] = live + problem.ops[run.op].alternatives[run.alternative].workspaceBytes;
    }
    subtractCredits();
    result.peakBytes = problem.pinnedBytes();
    for (int64_t i = 0; i < count; ++i)
      if (i == 0 || result.bytesAt[i] > result.peakBytes) {
        result.peakBytes = std::max(result.peakBytes, result.bytesAt[i]);
        result.peakPosition = static_cast<size_t>(i);
      }
  }

  void subtractCredits() {
    std::vector<Copy> finalCopies = copies;
    std::fill(copyOf.begin(), copyOf.end(), none);
    std::fill(pinnedCopy.begin(), pinnedCopy.end(), none);
    copies.clear();
    placeSources();
    std::vector<int32_t> inputCopies, used;
    for (size_t i = 0; i < solution.runs.size(); ++i) {
      const int64_t position = static_cast<int64_t>(i);
      const Op &op = problem.ops[solution.runs[i].op];
      inputCopies.clear();
      used.clear();
      for (const OverwriteOption &option : op.mayOverwrite)
        inputCopies.push_back(copyOf[option.input]);
      writeOutputs(position, op);
      for (size_t o = 0; o < op.mayOverwrite.size(); ++o) {
        int32_t from = inputCopies[o], to = copyOf[op.mayOverwrite[o].output];
        const Copy &in = finalCopies[from], &out = finalCopies[to];
        bool dies = !problem.storages[in.storage].pinned && in.last == position;
        bool fresh =
            !problem.storages[out.storage].pinned && !out.fromStart && out.begin == position;
        bool taken = std::find(used.begin(), used.end(), from) != used.end() ||
                     std::find(used.begin(), used.end(), to) != used.end();
        Bytes outBytes = problem.storages[out.storage].sizeBytes;
        if (dies && fresh && !taken && outBytes <= problem.storages[in.storage].sizeBytes) {
          result.bytesAt[i] -= outBytes;
          used.insert(used.end(), {from, to});
        }
      }
    }
  }

  const Problem &problem;
  const Solution &solution;
  Replay result;
  std::vector<Copy> copies;
  std::vector<int32_t> copyOf;     ///< per value: the copy that holds it now
  std::vector<int32_t> pinnedCopy; ///< per pinned storage
  /// Per storage: its versions and views, [firstIn[storage], firstIn[storage + 1]) of valuesIn.
  std::vector<int32_t> firstIn;
  std::vector<ValueId> valuesIn;
  std::vector<int32_t> timesRun;
  std::vector<int32_t> target; ///< per output of the op at hand: the copy that it goes to
};

} // namespace

Replay verify(const Problem &problem, const Solution &solution) {
  return Replayer(problem, solution).replay();
}

Replay verify(const Problem &problem, const Solution &solution, const Capacity &capacity) {
  check(problem, capacity);
  Replay replay = verify(problem, solution);
  if (replay.fault)
    return replay;
  auto firstRunOf = [&](OpId op) {
    return static_cast<size_t>(std::find_if(solution.runs.begin(), solution.runs.end(),
                                            [&](const Run &run) { return run.op == op; }) -
                               solution.runs.begin());
  };
  std::vector<Bytes> room(solution.runs.size(), capacity.budgetBytes);
  for (const Window &window : capacity.windows) {
    const auto [from, to] = std::minmax({firstRunOf(window.first), firstRunOf(window.last)});
    for (size_t i = from; i <= to; ++i)
      room[i] -= window.withheldBytes;
  }
  for (size_t i = 0; i < room.size() && !replay.fault; ++i)
    if (replay.bytesAt[i] > room[i])
      replay.fault =
          absl::StrCat("position ", i, ", op \"", problem.ops[solution.runs[i].op].name,
                       "\": ", replay.bytesAt[i], " bytes, but there is room for ", room[i]);
  return replay;
}

} // namespace stow::schedule
