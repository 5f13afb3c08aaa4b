// The evaluator's rules, one table per op group.
#pragma once

#include "tests/reference/Evaluator.h"

#include "llvm/ADT/StringMap.h"

namespace stow::reference {

using Rules = llvm::StringMap<Rule>;

void addAttentionRules(Rules &rules);
void addElementwiseRules(Rules &rules);
void addEmbeddingRules(Rules &rules);
void addIndexRules(Rules &rules);
void addLinearRules(Rules &rules);
void addLossRules(Rules &rules);
void addNormRules(Rules &rules);
void addOptimizerRules(Rules &rules);
void addPoolRules(Rules &rules);
void addQuantizeRules(Rules &rules);
void addReduceRules(Rules &rules);
void addResampleRules(Rules &rules);
void addShapeRules(Rules &rules);

/// The attribute as a double or integer.
inline double number(const llvm::APFloat &value) { return value.convertToDouble(); }

} // namespace stow::reference
