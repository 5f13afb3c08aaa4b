#include "runtime/format/Reduction.h"

#include <gtest/gtest.h>

namespace stow {
namespace {

// Tests that the pieces of a chunk cover it, and that they are as equal as they can be.
TEST(ReductionTest, PiecesCoverTheChunk) {
  for (int64_t ranks : {2, 3, 7})
    for (int64_t count : {0, 1, 6, 7, 1000}) {
      int64_t sum = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t piece = reductionPiece(count, ranks, rank);
        EXPECT_LE(reductionPiece(count, ranks, 0) - piece, 1);
        sum += piece;
      }
      EXPECT_EQ(sum, count);
    }
}

// Tests that scratch holds one piece from every rank, and of a long reduction those of one chunk.
TEST(ReductionTest, ScratchIsThatOfOneChunk) {
  EXPECT_EQ(reductionScratchBytes(1, 2), 8);
  EXPECT_EQ(reductionScratchBytes(10, 4), 48);
  EXPECT_EQ(reductionScratchBytes(kReductionChunk, 4), 4 * kReductionChunk);
  EXPECT_EQ(reductionScratchBytes(100 * kReductionChunk + 5, 4), 4 * kReductionChunk);
}

// Tests that two ranks send all bytes, more of them nearly twice as many.
TEST(ReductionTest, TrafficIsThatOfARing) {
  EXPECT_EQ(reductionTraffic(0, 2), 0);
  EXPECT_EQ(reductionTraffic(1000, 2), 4000);
  EXPECT_EQ(reductionTraffic(1000, 4), 4 * (750 + 750));
  EXPECT_EQ(reductionTraffic(3 * kReductionChunk, 4), 3 * kReductionChunk * 6);
}

} // namespace
} // namespace stow
