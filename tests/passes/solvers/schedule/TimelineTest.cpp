#include "passes/solvers/schedule/Timeline.h"

#include "ir/plan/schedule/Generate.h"

#include <gtest/gtest.h>
#include <random>

namespace stow::schedule {
namespace {

TEST(ProfileTest, EqualsANaiveArray) {
  std::mt19937_64 random(5);
  for (int slots : {1, 2, 16, 64, 70, 500, 4100}) {
    SlotBytes slotBytes;
    slotBytes.reset(slots);
    std::vector<Bytes> naive(slots, 0);
    constexpr Bytes limit = 90;
    auto above = [&](Bytes bytes) { return std::max<Bytes>(bytes - limit, 0); };
    for (int i = 0; i < 500; ++i) {
      if (i == 50)
        slotBytes.setLimit(limit);
      int a = static_cast<int>(random() % slots), b = static_cast<int>(random() % slots);
      Bytes bytes = static_cast<Bytes>(random() % 100) - 40;
      slotBytes.add(std::min(a, b), std::max(a, b), bytes);
      for (int s = std::min(a, b); s <= std::max(a, b); ++s)
        naive[s] += bytes;
      auto highest = std::max_element(naive.begin(), naive.end());
      ASSERT_EQ(slotBytes.peak(), *highest);
      ASSERT_EQ(slotBytes.peakSlot(), highest - naive.begin());
      Bytes excess = 0, relief = 0;
      for (int s = 0; s < slots; ++s) {
        excess += above(naive[s]);
        if (s >= std::min(a, b) && s <= std::max(a, b))
          relief += above(naive[s]) - above(naive[s] - 25);
      }
      ASSERT_EQ(slotBytes.excess(), i < 50 ? 0 : excess);
      ASSERT_EQ(slotBytes.reliefOf(std::min(a, b), std::max(a, b), 25), i < 50 ? 0 : relief);
    }
  }
}

// Tests that blocks above the limit get dearer and others cheaper, within bounds, and that slots
// are drawn where the excess is, by weight.
TEST(ProfileTest, WeighsTheExcess) {
  SlotBytes slotBytes;
  slotBytes.reset(320); // blocks of 32 slots
  slotBytes.setLimit(10);
  slotBytes.add(0, 9, 15);
  slotBytes.add(100, 149, 12); // in two blocks
  EXPECT_EQ(slotBytes.excess(), 10 * 5 + 50 * 2);
  slotBytes.reweigh(2);
  EXPECT_EQ(slotBytes.excess(), 2 * (10 * 5 + 50 * 2));
  slotBytes.add(170, 179, 14); // was below the limit: half the weight
  EXPECT_EQ(slotBytes.excess(), 300 + 10 * 4 / 2);
  EXPECT_EQ(slotBytes.reliefOf(160, 191, 3), 10 * 3 / 2);

  EXPECT_EQ(slotBytes.slotOfExcess(0), 0);
  std::vector<int> drawn(320, 0);
  constexpr int draws = 3200;
  for (int i = 0; i < draws; ++i)
    ++drawn[slotBytes.slotOfExcess((i + 0.5) / draws)];
  for (int slot = 0; slot < 320; ++slot) {
    const bool isOver = slot < 10 || (slot >= 100 && slot < 150) || (slot >= 170 && slot < 180);
    const int expected = slot < 10 ? 100 : slot < 150 ? 40 : 20;
    EXPECT_EQ(drawn[slot], isOver ? expected : 0) << slot;
  }

  for (int i = 0; i < 20; ++i)
    slotBytes.reweigh(2);
  EXPECT_EQ(slotBytes.excess(), 100 * (10 * 5 + 50 * 2 + 10 * 4));
  slotBytes.setLimit(20);
  for (int i = 0; i < 20; ++i)
    slotBytes.reweigh(2);
  slotBytes.setLimit(10);
  EXPECT_DOUBLE_EQ(slotBytes.excess(), 0.01 * (10 * 5 + 50 * 2 + 10 * 4));
}

// Tests 3,000 problems under random additions, removals and shifts of runs: peak, time and
// violations are always those of a full recount, and in the end what is idle follows from what is
// live and read.
TEST(TimelineTest, EqualsARecountAfterEveryChange) {
  int changes = 0, shifts = 0, idle = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    if (graph.ops.empty())
      continue;
    Timeline timeline(graph, graph.inputOrder());
    std::mt19937_64 random(seed);
    for (int i = 0; i < 20; ++i) {
      const uint64_t kind = random() % 5;
      if (kind < 2) {
        const std::vector<int32_t> &runs = timeline.runsOf(random() % graph.ops.size());
        const int32_t slot = runs[random() % runs.size()];
        auto [left, right] = timeline.slack(slot);
        const int32_t target = left + 1 + static_cast<int32_t>(random() % (right - left - 1));
        if (timeline.runAt(target) == Timeline::none && timeline.violations() == 0) {
          timeline.move(slot, target);
          ++shifts;
        }
      } else if (kind == 2) {
        int32_t slot = static_cast<int32_t>(random() % timeline.slotCount());
        if (timeline.runAt(slot) != Timeline::none && timeline.removable(slot))
          timeline.remove(slot);
      } else {
        int32_t op = static_cast<int32_t>(random() % graph.ops.size());
        int32_t slot = static_cast<int32_t>(random() % timeline.slotCount());
        bool served = timeline.runAt(slot) == Timeline::none;
        for (int32_t input : graph.ops[op].inputs)
          served &= timeline.servedFrom(input, slot) != Timeline::none;
        if (served)
          timeline.add(op, slot);
      }
      Sequence sequence = timeline.sequence();
      Measure full = measure(graph, sequence);
      ASSERT_EQ(timeline.time(), full.time) << "seed " << seed;
      ASSERT_EQ(timeline.peak(), full.peakBytes) << "seed " << seed << " change " << i;
      ASSERT_EQ(timeline.violations() == 0, full.legal) << "seed " << seed << " change " << i;
      ++changes;
    }
    // A value is idle across a slot if it is live there and no run there reads it.
    const auto slot = static_cast<int32_t>(random() % timeline.slotCount());
    for (int32_t value = 0; value < static_cast<int32_t>(graph.values.size()); ++value) {
      const int32_t from = timeline.servedFrom(value, slot);
      const bool isIdle = graph.values[value].sizeBytes > 0 && from != Timeline::none &&
                          timeline.liveUntil(value, from) > slot &&
                          timeline.lastReadBefore(value, slot + 1) != slot;
      ASSERT_EQ(timeline.isIdleAcross(value, slot), isIdle) << "seed " << seed;
      idle += isIdle;
    }
    Bytes before = timeline.peak();
    timeline.assign(timeline.sequence());
    ASSERT_EQ(timeline.peak(), before) << "seed " << seed;
  }
  EXPECT_GT(changes, 20000);
  EXPECT_GT(shifts, 5000);
  EXPECT_GT(idle, 2000);
}

} // namespace
} // namespace stow::schedule
