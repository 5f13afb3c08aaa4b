// Ranks that are connected by rank 0, as processes of this machine.
#include "runtime/ranks/SocketRanks.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/ranks/Socket.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace stow {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

using std::chrono::milliseconds;

constexpr int64_t kMost = 4;
constexpr size_t kText = 500;

/// A port that nobody listens at.
int freePort() { return Socket::listenAt("127.0.0.1", 0).port(); }

RankLaunch launchOf(int64_t rank, int64_t size, int port) {
  RankLaunch launch{MpiKind::None, rank, size, "RANK", {}};
  launch.address = "127.0.0.1";
  launch.port = port;
  return launch;
}

using Body = std::function<void(Ranks &)>;

/// What each of `size` processes has to say: nothing, or its error. `sizeOf` is the number of ranks that each is told.
std::vector<std::string> sayings(int64_t size, const Body &body,
                                 const std::function<int64_t(int64_t)> &sizeOf = {}) {
  auto *said = static_cast<char (*)[kText]>(
      mmap(nullptr, kMost * kText, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const int port = freePort();
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        const std::unique_ptr<Ranks> ranks =
            joinBySockets(launchOf(rank, sizeOf ? sizeOf(rank) : size, port));
        body(*ranks);
      } catch (const std::exception &error) {
        std::strncpy(said[rank], error.what(), kText - 1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::string> all;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    waitpid(children[rank], &status, WUNTRACED);
    if (WIFSTOPPED(status)) { // the others are done with it when they have ended
      for (size_t other = rank + 1; other < children.size(); ++other)
        waitpid(children[other], nullptr, 0);
      kill(children[rank], SIGKILL);
      waitpid(children[rank], nullptr, 0);
      for (size_t each = rank; each < children.size(); ++each)
        all.emplace_back(said[each]);
      break;
    }
    all.emplace_back(WIFEXITED(status) ? said[rank] : "killed");
  }
  munmap(said, kMost * kText);
  return all;
}

void expect(bool holds, const std::string &what) {
  if (!holds)
    throw Error::badInput(what);
}

/// Bytes that no buffer of a connection holds at once.
constexpr size_t kMany = size_t{4} << 20;

TEST(SocketRanksTest, AgreeOnNumbersAndBytes) {
  EXPECT_THAT(
      sayings(4,
              [](Ranks &ranks) {
                expect(ranks.size() == 4, "another size");
                for (uint64_t round = 0; round < 100; ++round) {
                  const auto own = static_cast<uint64_t>(ranks.rank()) * 1000 + round;
                  const std::vector<uint64_t> all = ranks.gather(own);
                  for (uint64_t rank = 0; rank < 4; ++rank)
                    expect(all[rank] == rank * 1000 + round, concat("number of rank ", rank));
                }
                std::vector<char> bytes(kMany, static_cast<char>(ranks.rank() + 1));
                ranks.broadcast(bytes);
                expect(bytes == std::vector<char>(kMany, 1), "the bytes of rank 0");
                std::vector<float> own(kMany / 4, static_cast<float>(ranks.rank())), floats(kMany);
                ranks.gather(own.data(), std::ssize(own), floats.data());
                for (size_t i = 0; i < floats.size(); ++i)
                  expect(floats[i] == static_cast<float>(i / own.size()), concat("float ", i));
              }),
      Each(IsEmpty()));
}

TEST(SocketRanksTest, ARankThatEnds) {
  const std::vector<std::string> said = sayings(3, [](Ranks &ranks) {
    if (ranks.rank() == 1)
      raise(SIGKILL);
    for (;;)
      ranks.gather(0);
  });
  EXPECT_EQ(said[0], "rank 1 has ended");
  EXPECT_EQ(said[1], "killed");
  EXPECT_EQ(said[2], "rank 0 has ended");
}

TEST(SocketRanksTest, ARankThatEndsWhileOthersWaitForTheirDevice) {
  const std::vector<std::string> said = sayings(3, [](Ranks &ranks) {
    if (ranks.rank() == 2)
      return;
    ranks.waitUntil([] { return false; });
  });
  EXPECT_EQ(said[0], "rank 2 has ended");
  EXPECT_EQ(said[1], "rank 0 has ended");
}

/// Whether rank 0 waits for bytes or its device, while the other one waits and answers.
TEST(SocketRanksTest, ARankThatHangs) {
  for (bool isOfDevice : {false, true}) {
    const std::vector<std::string> said = sayings(3, [&](Ranks &ranks) {
      ranks.setWatch({.patience = milliseconds(1000)});
      ranks.gather(0);
      if (ranks.rank() == 2)
        raise(SIGSTOP);
      if (isOfDevice || ranks.rank() == 1)
        ranks.waitUntil([] { return false; });
      ranks.gather(0);
    });
    EXPECT_EQ(said[0], "waited 1 s (--timeout) for rank 2, which does not answer: stopped, "
                       "hanging, or slower than that");
    EXPECT_EQ(said[1], "rank 0 has ended");
  }
  const std::vector<std::string> said = sayings(2, [&](Ranks &ranks) {
    ranks.setWatch({.patience = milliseconds(500)});
    ranks.gather(0);
    if (ranks.rank() == 0)
      raise(SIGSTOP);
    ranks.gather(0);
  });
  EXPECT_THAT(said[1], HasSubstr("for rank 0, which does not answer"));
}

/// What was lost stays lost, and is said at once.
TEST(SocketRanksTest, NothingFollowsALostRank) {
  const std::vector<std::string> said = sayings(2, [](Ranks &ranks) {
    if (ranks.rank() == 1)
      return;
    try {
      ranks.gather(0);
      ranks.gather(0);
    } catch (const RankLost &) {
      try {
        ranks.waitUntil([] { return true; });
      } catch (const RankLost &lost) {
        throw Error::badInput(concat("again: ", lost.what()));
      }
    }
  });
  EXPECT_EQ(said[0], "again: rank 1 has ended");
}

TEST(SocketRanksTest, AnotherNumberOfRanks) {
  EXPECT_THAT(
      sayings(
          2, [](Ranks &) {}, [](int64_t rank) { return rank == 0 ? 2 : 3; }),
      testing::ElementsAre(
          HasSubstr("connects as rank 1 of 3, and this is rank 0 of 2: start all by one launcher"),
          HasSubstr("is no rank 0 of 3 ranks")));
}

/// Somebody who is no rank is sent away, and rank 0 listens at the address that was given alone.
TEST(SocketRanksTest, OthersAreNotLetIn) {
  const int port = freePort();
  std::thread second;
  std::unique_ptr<Ranks> first;
  std::thread rank0([&] { first = joinBySockets(launchOf(0, 2, port)); });
  {
    const Socket stranger = Socket::connectTo("127.0.0.1", port, milliseconds(5000));
    const std::string text(100, 'x');
    EXPECT_TRUE(stranger.sendAll(text, milliseconds(1000)));
    EXPECT_THROW(Socket::connectTo("127.0.0.2", port, milliseconds(0)), Error);
    char answer = 0;
    EXPECT_FALSE(stranger.receiveAll({&answer, 1}, milliseconds(5000)));
  }
  const std::unique_ptr<Ranks> other = joinBySockets(launchOf(1, 2, port));
  rank0.join();
  EXPECT_EQ(first->size(), 2);
  EXPECT_EQ(other->rank(), 1);
}

TEST(SocketRanksTest, AddressesThatAreNone) {
  auto refusalOf = [](const std::string &address, int port) -> std::string {
    try {
      Socket::listenAt(address, port);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusalOf("192.0.2.1", 29500),
              AllOf(HasSubstr("rank 0 cannot listen at 192.0.2.1, port 29500"),
                    HasSubstr("one of rank 0's machine")));
  const Socket taken = Socket::listenAt("127.0.0.1", 0);
  EXPECT_THAT(refusalOf("127.0.0.1", taken.port()), HasSubstr("Address already in use"));
}

} // namespace
} // namespace stow
