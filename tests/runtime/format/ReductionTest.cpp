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

// Tests that shards cover a value in their order, the last ones as far as it goes, and that one as large as all of a value's is whole.
TEST(ReductionTest, ShardsCoverTheValue) {
  for (int64_t ranks : {2, 3, 7})
    for (int64_t count : {0, 1, 6, 7, 1000}) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const ShardRange range = shardRange(count, ranks, rank);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size(), shardElements(count, ranks));
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
}

// Tests the scratch of a small value, of one that goes in pieces, and of more ranks than a chunk has elements.
TEST(ReductionTest, ScratchOfShardsIsBounded) {
  EXPECT_EQ(scatterScratchBytes(10, 4), 4 * 3 * 4);
  EXPECT_EQ(scatterScratchBytes(100 * kReductionChunk, 4), 4 * kReductionChunk);
  EXPECT_EQ(scatterScratchBytes(1, 2 * kReductionChunk), 4 * 2 * kReductionChunk);
}

// Tests that scattering a sum and gathering its shards send together what reducing it does, up to what fills up the last.
TEST(ReductionTest, TrafficOfShards) {
  EXPECT_EQ(shardTraffic(1000, 4), 4 * 3 * 250);
  EXPECT_EQ(2 * shardTraffic(1000, 4), reductionTraffic(1000, 4));
  EXPECT_EQ(shardTraffic(1001, 2), 4 * 501);
}

} // namespace
} // namespace stow
