// Tests sums that are exchanged together: one call of the ranks, whatever lies between them.
#include "runtime/base/Error.h"
#include "runtime/format/Reduction.h"
#include "runtime/host/AllReduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::host {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Two ranks with the same values, whose sums are twice what one has.
class Doubling : public Ranks {
public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 2; }
  std::string library() const override { return "twins"; }
  bool mayBeCalledBeside() const override { return true; }
  void setWatch(RankWatch) override { abort(1); }
  void waitUntil(const std::function<bool()> &) override { abort(1); }
  void lose(const std::string &) override { abort(1); }
  void scatter(const float *, int64_t, int64_t, int64_t, float *) override { abort(1); }
  void join(const float *, int64_t, int64_t, int64_t, float *) override { abort(1); }
  void gather(const float *, int64_t, float *) override { abort(1); }
  void broadcast(std::span<char>) override { abort(1); }
  std::vector<uint64_t> gather(uint64_t) override { abort(1); }
  [[noreturn]] void abort(int) override { std::abort(); }

  void sum(float *values, int64_t count, char *scratch) override {
    counts.push_back(count);
    std::fill_n(scratch, reductionScratchBytes(count, size()), 0x7f); // which is nobody's
    for (int64_t i = 0; i < count; ++i)
      values[i] *= 2;
  }

  std::vector<int64_t> counts;
};

Command sumOf(Bytes offset, int64_t count) {
  Command command;
  command.op = CommandOp::AllReduce;
  command.name = "w";
  const Operand place = {offset, DType::F32, {count}, {}};
  command.operands = {place, place};
  return command;
}

TEST(SumsTogether, PassInOneExchange) {
  Doubling ranks;
  std::vector<char> scratch(static_cast<size_t>(laneScratchBytes(2)));
  std::vector<float> arena = {1, 2, 3, 4, 5, 6, 7};
  auto *bytes = reinterpret_cast<char *>(arena.data());
  SumsTogether sums(ranks, scratch.data());
  sums.add(sumOf(5 * sizeof(float), 2), bytes);
  sums.add(sumOf(0, 1), bytes);
  sums.add(sumOf(2 * sizeof(float), 2), bytes);
  for (int run = 0; run < 2; ++run)
    sums.exchange();
  EXPECT_THAT(ranks.counts, ElementsAre(5, 5));
  EXPECT_THAT(arena, ElementsAre(4, 2, 12, 16, 5, 24, 28));
}

// Tests that they fill their scratch, and are refused by name where they have more.
TEST(SumsTogether, FitTheirScratch) {
  Doubling ranks;
  std::vector<char> scratch(static_cast<size_t>(laneScratchBytes(2)));
  std::vector<float> arena(static_cast<size_t>(kMostTogether), 1);
  auto *bytes = reinterpret_cast<char *>(arena.data());
  SumsTogether sums(ranks, scratch.data());
  sums.add(sumOf(0, kMostTogether - 1), bytes);
  sums.add(sumOf((kMostTogether - 1) * sizeof(float), 1), bytes);
  sums.exchange();
  EXPECT_THAT(arena, testing::Each(2));
  EXPECT_THAT([&] { sums.add(sumOf(0, 1), bytes); },
              ThrowsMessage<Error>(HasSubstr("expected 131072 of all at most, found 131073")));
}

} // namespace
} // namespace stow::host
