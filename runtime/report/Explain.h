// Questions to a plan, answered in words: what is alive at a moment and why, what a buffer is, what
// was recomputed and what it bought, what it would take to need less.
#pragma once

#include "runtime/format/Plan.h"

#include <string>
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

/// What runs again, what that costs, and what it keeps away from the peak.
std::string explainRecomputation(const Plan &plan, size_t rows);

/// Activations that could be computed again instead of kept over the peak, cheapest per byte first:
/// enough of them for `below` bytes where that is given and where there are enough, else `rows`. An
/// estimate, as the text says: what is dropped moves the peak.
std::string explainSavings(const Plan &plan, std::optional<Bytes> below, size_t rows);

} // namespace stow
