#include "ir/plan/schedule/Problem.h"

#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <limits>
#include <map>

namespace stow::schedule {

ValueId Problem::addValue(std::string valueName, Bytes sizeBytes) {
  storages.push_back({sizeBytes, false});
  return addValueIn(std::move(valueName), static_cast<StorageId>(storages.size()) - 1);
}

ValueId Problem::addValueIn(std::string valueName, StorageId storage) {
  values.push_back({std::move(valueName), storage, false});
  return static_cast<ValueId>(values.size()) - 1;
}

ValueId Problem::addPinned(std::string valueName, Bytes sizeBytes) {
  ValueId value = addValue(std::move(valueName), sizeBytes);
  storages.back().pinned = true;
  return value;
}

OpId Problem::addOp(std::string opName, Cost cost, std::vector<ValueId> inputs,
                    std::vector<ValueId> outputs, Bytes workspaceBytes) {
  Op op;
  op.name = std::move(opName);
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.alternatives = {{cost, workspaceBytes}};
  ops.push_back(std::move(op));
  return static_cast<OpId>(ops.size()) - 1;
}

bool Problem::hasLaneOps() const {
  return std::any_of(ops.begin(), ops.end(),
                     [](const Op &op) { return op.lane != OpLane::Compute; });
}

const char *wordOf(OpLane lane) {
  switch (lane) {
  case OpLane::Compute:
    return "compute";
  case OpLane::Out:
    return "out";
  case OpLane::In:
    return "in";
  }
  return "";
}

std::vector<std::optional<OpId>> Problem::producers() const {
  std::vector<std::optional<OpId>> result(values.size());
  for (size_t op = 0; op < ops.size(); ++op)
    for (ValueId value : ops[op].outputs)
      result[value] = static_cast<OpId>(op);
  return result;
}

Bytes Problem::pinnedBytes() const {
  Bytes sum = 0;
  for (const Storage &storage : storages)
    if (storage.pinned)
      sum += storage.sizeBytes;
  return sum;
}

Cost Problem::leastTime() const {
  Cost sum = 0;
  for (const Op &op : ops)
    sum += op.alternatives[cheapestAlternative(op)].cost;
  return sum;
}

int32_t cheapestAlternative(const Op &op) {
  int32_t best = 0;
  for (int32_t i = 1; i < static_cast<int32_t>(op.alternatives.size()); ++i) {
    const Alternative &a = op.alternatives[i], &b = op.alternatives[best];
    if (std::pair(a.cost, a.workspaceBytes) < std::pair(b.cost, b.workspaceBytes))
      best = i;
  }
  return best;
}

Solution inputOrder(const Problem &problem) {
  Solution solution;
  solution.runs.reserve(problem.ops.size());
  for (size_t op = 0; op < problem.ops.size(); ++op)
    solution.runs.push_back({static_cast<OpId>(op), cheapestAlternative(problem.ops[op])});
  return solution;
}

namespace {
bool contains(const std::vector<ValueId> &ids, ValueId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

} // namespace

Problem withoutOverwrites(const Problem &problem) {
  Problem result = problem;
  for (Op &op : result.ops) {
    std::map<StorageId, StorageId> copies; // outputs of one storage stay together
    for (ValueId output : op.outputs) {
      const StorageId storage = problem.values[output].storage;
      if (problem.storages[storage].pinned)
        continue;
      bool isOverwritten = false;
      for (ValueId input : op.inputs)
        if (problem.values[input].storage == storage) { // a view follows what it shows
          result.values[output].storage = result.values[input].storage;
          isOverwritten |= contains(op.overwrites, input);
        }
      if (!isOverwritten)
        continue;
      const auto fresh = static_cast<StorageId>(result.storages.size());
      const auto [copy, isNew] = copies.emplace(storage, fresh);
      if (isNew)
        result.storages.push_back(problem.storages[storage]);
      result.values[output].storage = copy->second;
    }
    std::erase_if(op.overwrites, [&](ValueId value) {
      return !problem.storages[problem.values[value].storage].pinned;
    });
  }
  return result;
}

namespace {

/// The sum of all sizes (and of all costs) must leave room for the arithmetic of replays with many
/// recomputations.
constexpr int64_t sumLimit = int64_t(1) << 56;

[[noreturn]] void fail(const Op &op, const std::string &what) {
  throw Error::badInput("op \"" + op.name + "\": " + what);
}

void checkIds(const Problem &problem, const Op &op, const std::vector<ValueId> &ids,
              const char *role) {
  std::vector<ValueId> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] < 0 || sorted[i] >= static_cast<ValueId>(problem.values.size()))
      fail(op, absl::StrCat(role, " value ", sorted[i], " does not exist; the problem has ",
                            problem.values.size(), " values"));
    if (i && sorted[i] == sorted[i - 1])
      fail(op,
           absl::StrCat(role, " value \"", problem.values[sorted[i]].name, "\" is listed twice"));
  }
}

void checkOverwrites(const Problem &problem, const Op &op) {
  for (ValueId value : op.overwrites) {
    const std::string &name = problem.values[value].name;
    if (!contains(op.inputs, value))
      fail(op, "overwrites \"" + name + "\", which is not among its inputs");
    bool shared = false;
    for (ValueId output : op.outputs)
      shared |= problem.values[output].storage == problem.values[value].storage;
    if (!shared)
      fail(op, "overwrites \"" + name + "\", but no output shares its storage");
    if (problem.values[value].keep)
      fail(op, "overwrites \"" + name + "\", which must be live at the end");
  }
  for (const OverwriteOption &option : op.mayOverwrite) {
    if (!contains(op.outputs, option.output) || !contains(op.inputs, option.input))
      fail(op, "an overwrite option must name one of its outputs and one of its inputs");
    if (problem.values[option.output].storage == problem.values[option.input].storage)
      fail(op, "an overwrite option names two values of one storage; list the input under "
               "\"overwrites\" instead");
  }
}

/// A copy of state: one buffer, and nothing else.
void checkLane(const Problem &problem, const Op &op) {
  if (op.lane == OpLane::Compute)
    return;
  const bool isOut = op.lane == OpLane::Out;
  const std::vector<ValueId> &copied = isOut ? op.inputs : op.outputs;
  const std::string words = absl::StrCat("is a copy ", wordOf(op.lane), " and ");
  if (copied.size() != 1)
    fail(op, words + (isOut ? "sends one input; found " + absl::StrCat(op.inputs.size())
                            : "makes one output; found " + absl::StrCat(op.outputs.size())));
  for (ValueId input : op.inputs)
    if (!isOut && problem.sizeOf(input) > 0)
      fail(op, words + "reads no bytes, but \"" + problem.values[input].name + "\" has some");
  if (problem.storages[problem.values[copied.front()].storage].pinned)
    fail(op, words + "its value is in a pinned storage, which stays");
  if (op.alternatives.size() != 1 || op.alternatives.front().workspaceBytes > 0 ||
      !op.overwrites.empty() || !op.mayOverwrite.empty())
    fail(op, words + "has one alternative, without a workspace, and overwrites nothing");
  if (isOut && op.recomputable)
    fail(op, words + "runs once; expected \"recomputable\": false");
  for (ValueId output : op.outputs)
    if (isOut && problem.sizeOf(output) > 0)
      fail(op, words + "writes no bytes, but \"" + problem.values[output].name + "\" has some");
}

void checkOp(const Problem &problem, const Op &op, Cost &costSum) {
  checkIds(problem, op, op.inputs, "input");
  checkIds(problem, op, op.outputs, "output");
  checkIds(problem, op, op.overwrites, "overwritten");
  if (op.alternatives.empty())
    fail(op, "has no alternative; give it at least one cost");
  Cost largest = 0;
  for (const Alternative &alternative : op.alternatives) {
    if (alternative.cost < 0 || alternative.workspaceBytes < 0)
      fail(op, "has a negative cost or workspace");
    if (alternative.workspaceBytes > sumLimit)
      fail(op, "has a workspace above 2^56 bytes");
    largest = std::max(largest, alternative.cost);
  }
  if (largest > sumLimit - costSum)
    fail(op, "raises the sum of all costs above 2^56; use a coarser cost unit");
  costSum += largest;
  checkOverwrites(problem, op);
  checkLane(problem, op);
}

} // namespace

void check(const Problem &problem) {
  constexpr size_t countLimit = size_t(1) << 30;
  if (problem.values.size() > countLimit || problem.ops.size() > countLimit ||
      problem.storages.size() > countLimit)
    throw Error::badInput("the problem has more than 2^30 ops, values or storages");
  if (problem.costDenominator <= 0)
    throw Error::badInput("the cost denominator must be positive");
  Bytes byteSum = 0;
  for (size_t i = 0; i < problem.storages.size(); ++i) {
    Bytes size = problem.storages[i].sizeBytes;
    if (size < 0)
      throw Error::badInput(absl::StrCat("storage ", i, " has a negative size"));
    if (size > sumLimit - byteSum)
      throw Error::badInput(
          absl::StrCat("storage ", i, " raises the sum of all sizes above 2^56 bytes"));
    byteSum += size;
  }
  for (const Value &value : problem.values)
    if (value.storage < 0 || value.storage >= static_cast<StorageId>(problem.storages.size()))
      throw Error::badInput(
          absl::StrCat("value \"", value.name, "\": storage ", value.storage, " does not exist"));

  Cost costSum = 0;
  for (const Op &op : problem.ops)
    checkOp(problem, op, costSum);

  std::vector<char> produced(problem.values.size(), 0), destroyed(problem.values.size(), 0);
  for (const Op &op : problem.ops)
    for (ValueId value : op.outputs) {
      if (produced[value])
        fail(op, "writes \"" + problem.values[value].name + "\", which has another producer");
      produced[value] = 1;
    }
  // Replay of the input order: `produced` now means "not yet available".
  for (const Op &op : problem.ops) {
    for (ValueId value : op.inputs) {
      if (produced[value])
        fail(op, "reads \"" + problem.values[value].name +
                     "\" before it is produced; list ops in an order in which they can run");
      if (destroyed[value])
        fail(op, "reads \"" + problem.values[value].name + "\" after it was overwritten");
    }
    for (ValueId value : op.overwrites)
      destroyed[value] = 1;
    for (ValueId value : op.outputs)
      produced[value] = 0;
  }
}

} // namespace stow::schedule
