// The packing driver: what the compiler and `stowage pack` call.
//
// Minimizing (no capacity): the lowest arena found, with a proven lower bound. Deciding (capacity
// given): any packing within the capacity, a proof that there is none, or "unknown".
//
// Deterministic: work budgets, not clocks, decide where the search stops, so the same problem and
// options give the same bytes on every machine. `timeoutSeconds` and `cancel` only stop it earlier.
// Anytime: nothing above the best of the twelve greedy pairs is returned, up to 200,000 storages,
// whatever the timeout and however early the call is cancelled: the pairs are not cut short, except
// one by one where it reaches as high as what is known. That takes milliseconds up to about 1,000
// storages, 0.1 s at 6,000 and seconds from 20,000 on. They are not needed where the bound is met
// before: from 500 storages on the first to be tried is placing outward from the most crowded
// instant, or, where few of many are live at a time, a straight descent of the search. Beyond
// 200,000 the pairs come last, as far as the work budget goes. One thread.
#pragma once

#include "ir/plan/pack/Storage.h"

#include <atomic>

namespace stow::pack {

enum class PackStatus {
  Optimal,    ///< height equals the lower bound or was proven smallest
  Feasible,   ///< a packing (within the capacity, where one is given), not proven smallest
  Infeasible, ///< proven: no packing within the capacity, or fixed offsets collide
  Unknown,    ///< nothing within the capacity was found, and nothing was proven
};

/// "optimal", "feasible", "infeasible", "unknown".
const char *name(PackStatus status);

struct PackOptions {
  /// Decide whether the buffers fit into this many bytes, instead of minimizing.
  std::optional<Bytes> capacity;
  /// Search effort in elementary steps, about 1e8 to 1e9 a second; the greedy pairs are not
  /// counted. From 15,000 storages on it grows with their number, up to three times this; thousands
  /// of storages that the search leaves above the bound get half as much again.
  int64_t workBudget = 2'000'000'000;
  /// Wall-clock limit of what follows the greedy pairs; results that hit it are valid but may
  /// differ between runs.
  std::optional<double> timeoutSeconds;
  /// Look for a smallest conflict when the answer is Infeasible.
  bool explain = true;
  /// Set by another thread to stop early.
  const std::atomic<bool> *cancel = nullptr;
};

struct PackResult {
  PackStatus status = PackStatus::Unknown;
  /// Present for Optimal and Feasible; for Unknown the best packing found, above the capacity.
  std::optional<Solution> solution;
  /// Proven: no packing is lower.
  Bytes lowerBound = 0;
  /// For Infeasible: buffers that have no packing together, those of a storage at their distances
  /// from each other; without any one of them they have one where `conflictIsMinimal`. Empty when
  /// options.explain is off.
  std::vector<BufferId> conflict;
  bool conflictIsMinimal = false;
  /// The height is known not to be above that of so many of the twelve greedy pairs: all of them up
  /// to 200,000 storages, and wherever the bound or the capacity is reached.
  int greedyPairs = 0;
  /// Elementary steps used.
  int64_t work = 0;
  /// Which method found the solution: "greedy area/best", "search TAW", ...
  std::string method;

  /// (height - lowerBound) / lowerBound; 0 without a solution or load.
  double gap() const;
};

/// Packs `problem`. Throws Error(BadInput) when `check` finds something.
PackResult packBuffers(const Problem &problem, const PackOptions &options = {});

/// Minimizes, and where that ends above the lower bound, decides the bound with as much work again:
/// never above what that decision finds. A time limit is for both; the bound is decided in what is
/// left of it. Throws as packBuffers does.
PackResult packLowest(const Problem &problem, const PackOptions &options = {});

/// How packing the storages of `table` ends, which need not be those that the links of `problem`
/// make.
PackStatus packStorages(const Problem &problem, const StorageTable &table,
                        const PackOptions &options);

} // namespace stow::pack
