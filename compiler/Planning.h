// What the planning commands share: frontier and max-batch.
#pragma once

#include "compiler/Budget.h"
#include "compiler/Options.h"
#include "runtime/format/Plan.h"

#include "mlir/IR/MLIRContext.h"

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
  std::string model; ///< for the picture's title; may be empty
};

/// Whether the points of a frontier keep their plans.
enum class KeepPlans { No, Yes };

/// Plans at budgets `stepPercent` of the unconstrained arena apart, from 100 % down to the smallest
/// arena found. Every plan is packed and verified.
Frontier findFrontier(BudgetPlanner &planner, const CostModel &costs, double stepPercent,
                      KeepPlans keep = KeepPlans::No);

/// Time beyond running every op once, in percent of that.
double extraPercent(const Frontier &frontier, schedule::Cost time);

/// A line of a table or picture, as printf makes it; at most 511 characters.
[[gnu::format(printf, 1, 2)]] std::string format(const char *pattern, ...);

/// As a line chart, an SVG file.
std::string drawFrontier(const Frontier &frontier);

/// As a page for a browser, with the points' plans.
std::string drawFrontierPage(const Frontier &frontier);

/// "text", "csv", "svg" or "html". Throws Error(BadInput) on others.
std::string renderFrontier(const Frontier &frontier, const std::string &format);

/// The largest batch that fits, and why not more.
struct BatchAnswer {
  int64_t batch = 0;                  ///< 0: not even one sample
  Bytes arenaBytes = 0;               ///< of `batch`
  double extraTime = 0;               ///< recomputed time over time once
  std::optional<int64_t> provenAbove; ///< this batch and larger ones cannot fit
  Bytes provenBytes = 0;              ///< the lower bound that proves it
  Bytes nextSmallest = 0;             ///< smallest arena found for batch + 1
};

/// Bisects on the real pipeline. Batches above `limit` are not tried.
BatchAnswer findMaxBatch(mlir::MLIRContext &context, const CompileOptions &options, Bytes budget,
                         int64_t limit);

/// A batch near `guess` that fits, by few and quick probes; `batch` is 0 if none of them does.
BatchAnswer findSomeBatch(mlir::MLIRContext &context, const CompileOptions &options, Bytes budget,
                          int64_t guess);

} // namespace stow
