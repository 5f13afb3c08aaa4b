// Questions to a plan, answered in words: what is alive at a moment and why, what a buffer is, what
// was recomputed and what it bought, what it would take to need less.
#pragma once

#include "runtime/format/Plan.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stow {

/// A step of the graph with the largest live peak: "peak", the number of a command ("12"), a time
/// into the step ("1.5ms"), or a part of a node's or module's name, of whose commands the one with
/// the most live bytes is taken. Throws Error(BadInput) that says what there is.
int64_t findMoment(const Plan &plan, const std::string &text);

/// What is alive at `step` and why, at most `rows` buffers one by one.
std::string explainMoment(const Plan &plan, int64_t step, size_t rows);

/// Every buffer of that name, or else those whose name, module or node contains it; at most `rows`.
/// Throws Error(BadInput) when there is none.
std::string explainBuffer(const Plan &plan, const std::string &name, size_t rows);

/// What runs again and what travels, what that costs, and what it keeps away from the peak.
std::string explainRecomputation(const Plan &plan, size_t rows);

/// A tensor that travels to slow memory and back.
struct Traveller {
  std::string name;
  Bytes bytes = 0;
  /// Commands between which it is away: around the peak, else the first time. Absent for state, which lies there from step to step
  /// and is in the arena around its uses alone.
  std::optional<std::pair<int64_t, int64_t>> away;
  double copySeconds = 0;   ///< of its copies on their lanes
  double waitedSeconds = 0; ///< of those, that commands wait
  std::optional<double>
      againSeconds; ///< that computing it again would take once; absent: not known, or nothing to compute
  Bytes saved = 0; ///< its bytes, where they are not in the arena at the peak
};

/// All of them, by falling savings, then by falling bytes, then as they leave.
std::vector<Traveller> travellersOf(const GraphPlan &graph);

/// A command that runs again.
struct Repeated {
  int64_t first = 0;
  std::vector<int64_t> again;
  double seconds = 0; ///< of the repetitions
  Bytes saved = 0;    ///< bytes that are not live at the peak because of it
};

/// All of them, by falling savings, then by falling time.
std::vector<Repeated> repeatedSteps(const GraphPlan &graph);

/// Activations that lie over the peak unused and could be computed again after it, cheapest per byte
/// first.
std::vector<const PlannedBuffer *> savingsAtPeak(const GraphPlan &graph);

/// The same in words: enough of them for `below` bytes where that is given and where there are enough,
/// else `rows`. An estimate, as the text says: what is dropped moves the peak.
std::string explainSavings(const Plan &plan, std::optional<Bytes> below, size_t rows);

} // namespace stow
