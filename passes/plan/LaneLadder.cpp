#include "passes/plan/LaneLadder.h"

#include "ir/StowOffloadOps.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Budget.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/LongWork.h"
#include "runtime/format/SlowCopies.h"

#include <algorithm>
#include <utility>

namespace stow {

schedule::Lanes lanesOf(const StepProblem &step, const SlowMemory &slow) {
  Bytes ofState = 0; // every state that travels is sent once, or may be fetched at will
  for (const schedule::Op &op : step.problem.ops)
    if (op.lane == schedule::OpLane::Out)
      ofState += alignUp(step.problem.sizeOf(op.inputs.front()), kSlowAlignment);
    else if (op.lane == schedule::OpLane::In && op.recomputable)
      ofState += alignUp(step.problem.sizeOf(op.outputs.front()), kSlowAlignment);
  return {slow.out, slow.in, std::max<Bytes>(slow.capacity - ofState, 0), stayingStorages(step)};
}

namespace {

/// Of all ops once, copies of state hidden.
schedule::Cost leastTimeOf(const schedule::Problem &problem) {
  schedule::Cost time = problem.leastTime();
  for (const schedule::Op &op : problem.ops)
    if (op.lane != schedule::OpLane::Compute)
      time -= op.alternatives.front().cost;
  return time;
}

} // namespace

LaneLadder::LaneLadder(const StepProblem &step, const SlowMemory &slow,
                       schedule::PlanOptions options, Draw draw, Place place)
    : lanes(lanesOf(step, slow)), capacity(slow.capacity), leastTime(leastTimeOf(step.problem)),
      planner(step.problem, std::move(options)), draw(std::move(draw)), place(std::move(place)) {}

Bytes LaneLadder::budgetOf(int rung) const {
  return schedule::percentOf(planner.inputOrderPeak(), size - rung);
}

const schedule::LanePlanResult &LaneLadder::at(int rung) {
  auto [found, isNew] = known.try_emplace(rung);
  if (isNew) {
    noteTry("a schedule with copies within " + formatBytes(budgetOf(rung)));
    found->second = planner.plan(budgetOf(rung), lanes, schedule::Ways::Travel);
  }
  return found->second;
}

const LaneLadder::Outline &LaneLadder::outlineOf(int rung) {
  if (const Outline *known = findSame(outlines, rung))
    return *known;
  return outlines[rung] = draw(at(rung));
}

const StepChoice &LaneLadder::placed(int rung) {
  if (!lastPlaced || at(lastPlaced->first).solution != at(rung).solution)
    lastPlaced.emplace(rung, place(at(rung)));
  return lastPlaced->second;
}

/// What packing takes; more than any budget where slow memory does not hold what travels.
Bytes LaneLadder::arenaOf(int rung) {
  if (const Bytes *known = findSame(arenas, rung))
    return *known;
  const StepChoice &choice = placed(rung);
  const bool isHeld = !choice.isRefused() && bytesAttr(*choice.placed, kSlowBytesAttr) <= capacity;
  return arenas[rung] = isHeld ? choice.arenaBytes : StepChoice::refusedBytes;
}

std::optional<StepChoice> LaneLadder::fastest(Bytes budget, Bytes liveBytes, schedule::Cost below) {
  int rung = 0;
  while (rung < size && budgetOf(rung) > liveBytes)
    ++rung;
  for (; rung < size; ++rung) {
    const schedule::LanePlanResult &row = at(rung);
    if (!row.solution || row.time >= below)
      break;
    if (row.bytesIn == 0 || outlineOf(rung).liveBytes > budget || outlineOf(rung).time >= below)
      continue;
    if (arenaOf(rung) <= budget && placed(rung).time < below)
      return BudgetPlanner::copyOf(placed(rung));
  }
  return std::nullopt;
}

int LaneLadder::last() {
  if (lastRung)
    return *lastRung;
  int found = -1, missing = size;
  while (found + 1 < missing && budgetOf(missing - 1) < peakBound())
    --missing;
  while (found + 1 < missing) {
    const int middle = found + (missing - found) / 2;
    (at(middle).solution ? found : missing) = middle;
  }
  lastRung = found;
  return found;
}

std::optional<StepChoice> LaneLadder::smallest(Bytes below, Bytes slack) {
  std::optional<StepChoice> best;
  for (int rung = last(); rung >= 0 && at(rung).peakBytes < below + slack; --rung)
    if (at(rung).bytesIn > 0 && outlineOf(rung).liveBytes < below && arenaOf(rung) < below) {
      best = BudgetPlanner::copyOf(placed(rung));
      below = best->arenaBytes;
    }
  return best;
}

schedule::Cost LaneLadder::timeBound(Bytes liveBytes) {
  return planner.timeBound(liveBytes, lanes).value_or(leastTime);
}

} // namespace stow
