// How a sum over ranks is exchanged: what a plan has to know of it, and every rank keeps to.
//
// A reduction of `count` floats goes through in chunks. Of each chunk every rank adds up one piece: it gets the
// values of that piece from all ranks, adds them in the ranks' order, and gives the sums to all. So each rank
// sends as much as a ring would, and the order of the sums is that of the ranks, not of their neighbourhood.
#pragma once

#include "runtime/base/Bytes.h"
#include "runtime/base/Shards.h"

#include <cstdint>

namespace stow {

/// Elements of a chunk, 1 MiB of floats: the most scratch that a reduction has, but for what makes its pieces equal.
inline constexpr int64_t kReductionChunk = int64_t{1} << 18;

/// Elements of a chunk of `count` that rank number `rank` of `ranks` adds up.
constexpr int64_t reductionPiece(int64_t count, int64_t ranks, int64_t rank) {
  return count / ranks + (rank < count % ranks ? 1 : 0);
}

/// Of a shard, elements that pass at once.
constexpr int64_t shardPiece(int64_t count, int64_t ranks) {
  const int64_t most = kReductionChunk / ranks, all = shardElements(count, ranks);
  return most < 1 ? 1 : all < most ? all : most;
}

/// The most floats that sums have which are exchanged together: they lie beside each other in the scratch of a lane, in front of the
/// scratch of their sum.
inline constexpr int64_t kMostTogether = kReductionChunk / 2;

/// What a process that joins others takes for it beside the arena: the engine's library, its plug-ins, and the memory
/// that the ranks of a machine share. Twice what a small process of four ranks was measured to take in all, 23 MiB with MPICH
/// 4.0.2 and 21 with Open MPI 4.1.4.
inline constexpr Bytes kRanksProcessBytes = Bytes{48} << 20;

/// What a lane of its own for exchanges, which run beside other commands, takes beside the arena: its scratch, which is that of a
/// chunk with a little more for pieces of equal size, and what its thread touches of its stack.
inline constexpr Bytes kExchangeLaneBytes = Bytes{2} << 20;

/// Scratch in which any exchange between `ranks` ranks fits.
constexpr Bytes laneScratchBytes(int64_t ranks) {
  return (kReductionChunk + ranks) * static_cast<Bytes>(sizeof(float));
}

/// Scratch of the sum of `count` floats.
Bytes reductionScratchBytes(int64_t count, int64_t ranks);

/// Scratch of a shard of such a sum.
Bytes scatterScratchBytes(int64_t count, int64_t ranks);

/// What a rank sends for that, and what for putting `count` floats together of shards.
Bytes shardTraffic(int64_t count, int64_t ranks);

/// What a rank sends for the sum of `count` floats, the most of any: others' pieces, and its own sums to each.
Bytes reductionTraffic(int64_t count, int64_t ranks);

/// Exchanges, one behind the other, that the sum of `count` floats consists of, and those of a shard of such a sum or of putting
/// shards together.
int64_t reductionExchanges(int64_t count);
int64_t shardExchanges(int64_t count, int64_t ranks);

} // namespace stow
