// Time against memory: the plans between everything kept and the smallest arena.
#pragma once

#include "passes/plan/Budget.h"
#include "runtime/format/Plan.h"

#include <string>
#include <vector>

namespace stow {

/// One row of the time/memory frontier.
struct FrontierPoint {
  Bytes budgetBytes = 0;    ///< what was asked for
  Bytes arenaBytes = 0;     ///< what the plan takes
  Bytes livePeakBytes = 0;  ///< its sum of live bytes
  schedule::Cost time = 0;  ///< nanoseconds by the cost model
  schedule::Cost bound = 0; ///< no schedule within the budget takes less
  std::string method;
  Plan plan; ///< empty unless findFrontier was asked for plans
};

struct Frontier {
  std::vector<FrontierPoint> points; ///< by falling arena, rising time
  Bytes lowerBound = 0;              ///< no plan has a smaller arena
  std::string device;
  std::string model;      ///< for the picture's title; may be empty
  bool isPartial = false; ///< Ctrl-C has ended it: smaller budgets were not planned
};

/// Whether the points of a frontier keep their plans.
enum class KeepPlans { No, Yes };

/// The step that is asked about.
struct FrontierStep {
  BudgetPlanner &planner;
  const CostModel &costs;
  std::string note = {}; ///< of its plans; may be empty
  /// Of the same step with launches apart that this one joins, which takes over where this one does not fit any more; null: none.
  BudgetPlanner *apart = nullptr;
};

/// Plans at budgets `stepPercent` of the unconstrained arena apart, from 100 % down to the smallest arena
/// found. Every plan is packed and verified.
Frontier findFrontier(const FrontierStep &step, double stepPercent, KeepPlans keep = KeepPlans::No);

/// Time beyond running every op once, in percent of that.
double extraPercent(const Frontier &frontier, schedule::Cost time);

} // namespace stow
