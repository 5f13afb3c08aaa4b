// Collectives that begin where they stand and are awaited later, so that other ops run meanwhile.
//
//   compute | grad A | grad B | grad C |await A| update A |await B| ...    before:  grad A, all_reduce A, update A, grad B, ...
//   network          |==== A ====|==== B ====|                             after:   grad A, start A, grad B, start B, grad C, await A, ...
//
// The order of the collectives is that of the graph, but for weights that are put together of their shards (stow.unshard): these begin before their
// places, as far as the lane is idle and the bytes allow it. An await comes as soon as its collective has ended by the clock of the lanes, and what
// reads the sum behind it, in the order that it had; what does not read it goes ahead.
// Small sums that begin while the lane is busy are exchanged together (stow.with_next), with the latency of one exchange.
#pragma once

#include "passes/order/CostModel.h"

namespace stow {

/// Bytes that the collectives of a graph hold while they are under way, all together: sums, weights that are put
/// together, and shards that are gathered.
Bytes collectiveBytes(mlir::func::FuncOp graph);

/// Starts the collectives of an ordered graph, whose state is bound, on the lane of `costs.network`, which must be there. At most `most`
/// such bytes are held at once; a collective of more stays one command. O(ops x collectives under way).
void startCollectives(mlir::func::FuncOp graph, const CostModel &costs, Bytes most);

} // namespace stow
