#include "ir/plan/schedule/Lanes.h"

#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

namespace stow::schedule {
namespace {

/// As for the costs of a problem: what is left is room for replays with many copies.
constexpr int64_t sumLimit = int64_t(1) << 56;

__int128 exactDuration(const Link &link, Bytes bytes) {
  return link.latency + (static_cast<__int128>(bytes) * link.perCost + link.bandwidthBytes - 1) /
                            link.bandwidthBytes;
}

void checkLink(const Link &link, const char *name, Bytes allBytes, size_t storages) {
  if (link.bandwidthBytes <= 0 || link.perCost <= 0)
    throw Error::badInput(absl::StrCat("lane \"", name, "\": expected a positive bandwidth, found ",
                                       link.bandwidthBytes, " bytes in ", link.perCost,
                                       " cost units"));
  if (link.latency < 0)
    throw Error::badInput(absl::StrCat("lane \"", name, "\": has a negative latency"));
  if (exactDuration(link, allBytes) + static_cast<__int128>(link.latency) * storages > sumLimit)
    throw Error::badInput(absl::StrCat("lane \"", name,
                                       "\": copying every storage once takes more than 2^56 cost "
                                       "units; use a coarser cost unit"));
}

} // namespace

Cost Link::duration(Bytes bytes) const { return static_cast<Cost>(exactDuration(*this, bytes)); }

std::vector<char> Lanes::mayTravel(const Problem &problem) const {
  std::vector<char> result;
  for (const Storage &storage : problem.storages)
    result.push_back(!storage.pinned && storage.sizeBytes > 0);
  for (StorageId storage : stay)
    result[storage] = 0;
  for (const Op &op : problem.ops)
    if (op.lane != OpLane::Compute)
      for (const std::vector<ValueId> *values : {&op.inputs, &op.outputs})
        for (ValueId value : *values)
          result[problem.values[value].storage] = 0;
  return result;
}

void check(const Problem &problem, const Lanes &lanes) {
  Bytes allBytes = 0;
  for (const Storage &storage : problem.storages)
    allBytes += storage.sizeBytes;
  checkLink(lanes.out, "out", allBytes, problem.storages.size());
  checkLink(lanes.in, "in", allBytes, problem.storages.size());
  if (lanes.slowBytes < 0)
    throw Error::badInput(
        absl::StrCat("the slow memory has a negative capacity, ", lanes.slowBytes, " bytes"));
  for (size_t i = 0; i < lanes.stay.size(); ++i) {
    if (lanes.stay[i] < 0 || lanes.stay[i] >= static_cast<StorageId>(problem.storages.size()))
      throw Error::badInput(absl::StrCat("storage ", lanes.stay[i],
                                         " of those that stay does not exist; the problem has ",
                                         problem.storages.size(), " storages"));
    if (i && lanes.stay[i] <= lanes.stay[i - 1])
      throw Error::badInput(absl::StrCat("storages that stay: expected ascending numbers, found ",
                                         lanes.stay[i], " behind ", lanes.stay[i - 1]));
  }
}

const char *wordOf(Step::Kind kind) {
  switch (kind) {
  case Step::Kind::Run:
    return "run";
  case Step::Kind::Out:
    return "out";
  case Step::Kind::AwaitOut:
    return "await-out";
  case Step::Kind::In:
    return "in";
  case Step::Kind::AwaitIn:
    return "await-in";
  }
  return "";
}

LaneSolution withoutCopies(const Problem &problem, const Solution &solution) {
  LaneSolution result;
  result.steps.reserve(solution.runs.size());
  for (const Run &run : solution.runs) {
    result.steps.push_back({Step::Kind::Run, run.op, run.alternative});
    const Op &op = problem.ops[run.op];
    if (op.lane == OpLane::Out)
      result.steps.push_back({Step::Kind::AwaitOut, op.inputs.front(), 0});
    else if (op.lane == OpLane::In)
      result.steps.push_back({Step::Kind::AwaitIn, op.outputs.front(), 0});
  }
  return result;
}

Solution runsOf(const LaneSolution &solution) {
  Solution result;
  for (const Step &step : solution.steps)
    if (step.kind == Step::Kind::Run)
      result.runs.push_back({step.id, step.alternative});
  return result;
}

} // namespace stow::schedule
