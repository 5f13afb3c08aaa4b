// Packing from the large items to the small ones.
//
// Training steps have items of all sizes, from activations of a tenth of the load down to
// statistics of a few kilobytes. A search that meets all of them at once loses itself among those
// that hardly matter. Here the large ones are packed first, by the search (PartSearch.h), then
// layer by layer smaller ones are put in between, where they make the least tall chain, and the
// packing is lowered by its chains again (Chains.h) before the next layer.
#pragma once

#include "passes/solvers/pack/PartSearch.h"

namespace stow::pack {

/// True where chains can describe the packings and the work left suffices for a first try.
bool canPackInLayers(const Incumbent &incumbent);

/// Lowers the packing of `incumbent` layer by layer, with other first layers and more work in turn,
/// until its goal is met or the work is used up. Never makes it higher.
void packInLayers(Incumbent &incumbent);

} // namespace stow::pack
