// Whether a step fits a card, and what would make it fit.
//
//   card   |<-------------------------- bytes -------------------------->|
//          |  desktop  |  process  |  arena                    |  spare  |
#pragma once

#include "runtime/base/Json.h"
#include "runtime/format/Card.h"
#include "runtime/format/PlanReport.h"
#include "runtime/report/Remedies.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// A card of which only the memory is known, as its maker states it.
Card cardOfSize(Bytes stated);

struct Verdict {
  Card card;
  Bytes arenaBytes = 0;   ///< what the step takes
  Bytes processBytes = 0; ///< what the process takes beside it: as the plan says, else the card
  std::optional<Bytes>
      eagerBytes;         ///< what PyTorch eager takes for the same step, where that is known
  std::string eagerTypes; ///< which, where it is of other types than the step: "float32", ...
  std::string eagerNote;  ///< what that figure leaves out
  Bytes usableBytes = 0;  ///< what the card has for the arena
  /// Where the step does not fit: what would help, the plan that they are about, and why another is missing.
  std::vector<Remedy> remedies;
  std::string remediesOf, remedyMissing;

  Bytes spareBytes() const { return usableBytes - arenaBytes; } ///< negative: what is missing
  bool fits() const { return spareBytes() >= 0; }
};

/// The verdict without remedies.
Verdict judge(const Plan &plan, const Card &card);

/// The verdict with the remedies that the plan alone tells of.
Verdict judgeAlone(const Plan &plan, const Card &card);

/// "PyTorch eager: 31.20 GiB; Stowage: 20.04 GiB; rtx4090: 23.65 GiB (22.65 GiB usable): fits, 2.61 GiB to spare".
std::string verdictLine(const Verdict &verdict);

/// The line, the remedies, and what the card's memory goes to.
std::string renderVerdict(const Verdict &verdict);

/// As docs/plan-format.md has it.
Json toJsonValue(const Verdict &verdict);

/// What toJsonValue wrote. Throws Error(BadInput) with the key that is wrong.
Verdict verdictFrom(const JsonNode &node);

/// The plan as text or JSON with the verdict in it; nothing for other formats, which have no place for one.
std::optional<std::string> renderJudged(const Plan &plan, const Verdict &verdict,
                                        std::string_view format, const ReportOptions &options);

/// Warns of a step that does not fit its card; with `fit` throws Error(Infeasible) STOW1002 instead.
void requireFit(const Verdict &verdict, bool fit);

} // namespace stow
