// What lowers the arena besides recomputation, as far as a plan tells.
#pragma once

#include "runtime/format/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace stow {

/// What a remedy makes of a step's results; of their last bits, where sums are taken in another order.
enum class Changes { Nothing, LastBits, Results };

const char *
nameOf(Changes changes); ///< "no", "in the last bits", "yes": what answers whether results change
Changes parseChanges(const std::string &name); ///< of such a name; throws Error(BadInput)

struct Remedy {
  Bytes gain = 0;
  std::string text; ///< what to do, with the flag to type
  Changes changes = Changes::Nothing;
};

/// Remedies that give up state: an optimizer without any, instead of `optimizer` where that is not
/// empty, and not training the parameter with the most of it. Their gains are bytes of that state,
/// which are gone for sure; the rest is planned anew.
std::vector<Remedy> stateRemedies(const Plan &plan, const std::string &optimizer);

/// The last product and a cross-entropy over its classes in chunks of rows, where the logits or their
/// gradient are at the peak. Its gain is theirs; sums over rows change in their last bits.
std::optional<Remedy> chunkedLoss(const Plan &plan);

/// Activations in 16 bits, where those in f32 at the peak are worth a percent of the arena and nothing is in
/// 16 bits yet. Its gain is half of them.
std::optional<Remedy> sixteenBits(const Plan &plan);

/// The batch in `parts` whose gradients are added: what a smaller batch gains, `gain`, less the sums that are
/// kept for it. Nothing where they take as much, or where a step is in parts already.
std::optional<Remedy> batchInParts(const Plan &plan, int64_t parts, Bytes gain);

/// Samples per step: the leading extent of the first data input; 0 where there is none.
int64_t batchOf(const Plan &plan);

/// Bytes of the live set at the peak that grow with the batch, as far as shapes tell: all but state
/// and scratch that has a whole number of rows for every sample.
Bytes bytesThatGrow(const Plan &plan, int64_t batch);

/// Scratch of library calls in the live set at the peak.
Bytes scratchAtPeak(const Plan &plan);

/// All that `plan` alone tells: state, the loss in chunks, 16 bits, half the batch, the batch in parts.
std::vector<Remedy> remediesOf(const Plan &plan);

/// A list by falling gain, then by text.
void sortRemedies(std::vector<Remedy> &remedies);

/// "  1. text\n     gains 4 KiB (4096 bytes); changes results? yes\n" for each.
std::string renderRemedies(const std::vector<Remedy> &remedies);

} // namespace stow
