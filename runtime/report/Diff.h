// Two plans beside each other: what each takes, and which buffers make the difference at the peak.
#pragma once

#include "runtime/format/Plan.h"

#include <string>
#include <vector>

namespace stow {

/// One name of both plans. Buffers are matched by name and kind; what a plan stores several times
/// under one name, a value and its recomputation for example, is added up.
struct BufferDifference {
  std::string name;
  BufferKind kind = BufferKind::Activation;
  Bytes before = 0; ///< live at the first plan's peak
  Bytes after = 0;  ///< live at the second plan's peak
  std::string what; ///< "only in the second plan", "no longer live at the peak", ...

  Bytes difference() const { return after - before; }
};

struct PlanDifference {
  /// Those that differ at the peak, by falling size of the difference, then by name and kind. Their
  /// differences add up to that of the live peaks.
  std::vector<BufferDifference> buffers;
  bool grew = false; ///< the second arena is larger
};

/// Compares the graphs with the largest live peak of each. O(n log n) in the buffers.
PlanDifference comparePlans(const Plan &before, const Plan &after);

/// As text: totals first, then at most `rows` buffers and the rest in one line. The names head the
/// columns: file names, for example.
std::string renderDifference(const Plan &before, const Plan &after, const std::string &beforeName,
                             const std::string &afterName, size_t rows);

/// The same in full as JSON; docs/inspect.md has the keys.
std::string differenceToJson(const Plan &before, const Plan &after);

} // namespace stow
