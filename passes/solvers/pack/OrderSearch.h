// Exact search over which of two items lies below the other, with learned clauses.
//
// Two items that are live together lie one above the other. Those choices are the Boolean variables
// of this search; a full choice without a chain of items above the capacity is a packing: every
// item lies at the length of the longest chain below it.
//
//   C  +---------+     lower(b): no less lies below b, because a does
//      | above b |     upper(b): no less lies above b
//      +---------+     lower(b) + size(b) + upper(b) <= C
//      |    b    |
//      +-----+---+     Both bounds are raised along chains (order); by what lies below an item in
//      |  a  |         one section (load); and what cannot start as low as the rest of a section
//   0  +-----+         needs it to lies above an item that can (edges, as in job shops).
//
// A conflict is explained by the choices it rests on, as in a SAT solver: the clause that says so
// is kept, the search goes back to where it would have spoken, and the next choices are among the
// pairs of recent conflicts. Where the canonical search decides from the bottom up, this one starts
// anywhere, so it does well on problems whose difficulty lies halfway up.
//
// Conflict clauses over Boolean variables alone with bounds explained on demand are those of lazy
// clause generation (Ohrimenko, Stuckey, Codish, 2009); the rule for edges is that of Carlier and
// Pinson (1989).
#pragma once

#include "passes/solvers/pack/CanonicalSearch.h"

namespace stow::pack {

struct OrderRules {
  bool load = true;  ///< an item starts above the sum of what lies below it in a section
  bool edges = true; ///< what a section has no room for below others lies above them
  bool merge = true; ///< as of SearchRules
};

/// Of SearchInstance::searchOrders. `nodes` of its result counts conflicts; Exhausted is a proof.
struct OrderOptions {
  int64_t conflictLimit = std::numeric_limits<int64_t>::max();
  int64_t workLimit = 1'000'000'000;
  OrderRules rules;
  uint64_t seed = 0; ///< other seeds start from other orders
};

} // namespace stow::pack
