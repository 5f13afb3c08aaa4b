// Tests what the network's lane does beside its caller, and when.
#include "runtime/host/ExchangeLane.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

namespace stow::host {
namespace {

using testing::ElementsAre;

/// Notes what is done, and may wait for a sign in between.
class Noted : public Exchange {
public:
  Noted(std::string name, std::vector<std::string> &notes, std::shared_future<void> sign = {},
        bool throws = false)
      : name(std::move(name)), notes(notes), sign(std::move(sign)), throws(throws) {}

  void prepare() override { notes.push_back("prepare " + name); }
  void exchange() override {
    if (sign.valid())
      sign.wait();
    if (throws)
      throw Error::badInput(name + " is lost");
    notes.push_back(name);
  }

private:
  std::string name;
  std::vector<std::string> &notes;
  std::shared_future<void> sign;
  bool throws;
};

// Tests that the caller goes on while an exchange waits for other ranks: it gives the sign itself.
TEST(ExchangeLane, RunsBesideTheCaller) {
  std::vector<std::string> notes;
  std::promise<void> sign;
  ExchangeLane lane(CopyTime::Background, 64);
  const size_t a = lane.add(std::make_unique<Noted>("a", notes, sign.get_future().share()));
  startOf(lane, a)->run();
  EXPECT_THAT(notes, ElementsAre("prepare a"));
  sign.set_value();
  awaitOf(lane, a)->run();
  EXPECT_THAT(notes, ElementsAre("prepare a", "a"));
}

// Tests that exchanges are made in the order of their starts, in whatever order they are awaited, again in every run.
TEST(ExchangeLane, KeepsTheOrderOfStarts) {
  for (const CopyTime time : {CopyTime::Background, CopyTime::Late}) {
    std::vector<std::string> prepared, made;
    ExchangeLane lane(time, 64);
    const size_t a = lane.add(std::make_unique<Noted>("a", made)),
                 b = lane.add(std::make_unique<Noted>("b", made));
    for (int run = 0; run < 2; ++run) {
      made.clear();
      lane.start(b);
      lane.await(b);
      lane.start(a);
      startAndAwait(lane, b)->run();
      lane.await(a);
      std::erase_if(made, [](const std::string &note) { return note.starts_with("prepare"); });
      EXPECT_THAT(made, ElementsAre("b", "a", "b"));
    }
  }
}

// Tests the two ends of the time that a plan leaves to an exchange.
TEST(ExchangeLane, RunsEarlyAndLate) {
  std::vector<std::string> notes;
  ExchangeLane early(CopyTime::Early, 64);
  early.start(early.add(std::make_unique<Noted>("a", notes)));
  EXPECT_THAT(notes, ElementsAre("prepare a", "a"));
  notes.clear();
  ExchangeLane late(CopyTime::Late, 64);
  const size_t b = late.add(std::make_unique<Noted>("b", notes));
  late.start(b);
  EXPECT_THAT(notes, ElementsAre("prepare b"));
  late.await(b);
  EXPECT_THAT(notes, ElementsAre("prepare b", "b"));
}

// Tests that a rank that is lost reaches the caller, and no exchange follows it.
TEST(ExchangeLane, ThrowsWhatAnExchangeThrew) {
  std::vector<std::string> notes;
  ExchangeLane lane(CopyTime::Background, 64);
  const size_t a = lane.add(std::make_unique<Noted>("a", notes, std::shared_future<void>(), true)),
               b = lane.add(std::make_unique<Noted>("b", notes));
  lane.start(a);
  EXPECT_THROW(lane.await(a), Error);
  lane.start(b);
  EXPECT_THROW(lane.await(b), Error);
  EXPECT_THAT(notes, ElementsAre("prepare a", "prepare b"));
}

} // namespace
} // namespace stow::host
