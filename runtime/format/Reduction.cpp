#include "runtime/format/Reduction.h"

#include <algorithm>

namespace stow {

Bytes reductionScratchBytes(int64_t count, int64_t ranks) {
  return ranks * reductionPiece(std::min(count, kReductionChunk), ranks, 0) *
         static_cast<Bytes>(sizeof(float));
}

Bytes scatterScratchBytes(int64_t count, int64_t ranks) {
  return ranks * shardPiece(count, ranks) * static_cast<Bytes>(sizeof(float));
}

Bytes shardTraffic(int64_t count, int64_t ranks) {
  return (ranks - 1) * shardElements(count, ranks) * static_cast<Bytes>(sizeof(float));
}

Bytes reductionTraffic(int64_t count, int64_t ranks) {
  int64_t sent = 0;
  for (int64_t first = 0; first < count; first += kReductionChunk) {
    const int64_t chunk = std::min(kReductionChunk, count - first);
    const int64_t piece = reductionPiece(chunk, ranks, 0); // the largest
    // Of two ranks both send a chunk's other piece and their own; of more, the one with the larger piece sends more.
    sent += (chunk - piece) + (ranks - 1) * piece;
  }
  return sent * static_cast<Bytes>(sizeof(float));
}

int64_t reductionExchanges(int64_t count) {
  return 2 * ((count + kReductionChunk - 1) / kReductionChunk);
}

int64_t shardExchanges(int64_t count, int64_t ranks) {
  const int64_t piece = shardPiece(count, ranks);
  return (shardElements(count, ranks) + piece - 1) / piece;
}

} // namespace stow
