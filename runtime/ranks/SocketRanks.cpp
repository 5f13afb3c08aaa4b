// Rank 0 has a connection to each of the others, and passes on what they give it: a few numbers and bytes, in the order in which all call. While
// a rank waits it looks whether the others still are there. After the time that one may take, rank 0 asks all whether they wait as well, and names
// those that do not answer; what the others wait for is rank 0.
#include "runtime/ranks/SocketRanks.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/ranks/AgentStore.h"
#include "runtime/ranks/Socket.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace stow {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How often a rank that waits looks up, how long others have to answer it, and how much longer those wait that wait for rank 0.
constexpr milliseconds kLooks(100), kAnswerTime(2000), kTimeOfRank0(5000);

/// From the first rank to the last: compilations that differ in their time lie between.
constexpr milliseconds kMeetingTime = std::chrono::minutes(10);

/// For a few bytes of somebody who has just connected.
constexpr milliseconds kHelloTime(2000);

/// Where the agent's store has rank 0's port. It outlives ranks that are started anew, and a process may join more than once.
std::string keyOf(const RankLaunch &launch) {
  static int joined = 0;
  return concat("stowage/", launch.attempt, "/", joined++, "/port of rank 0");
}

/// What every connection begins with, in both directions.
struct Hello {
  std::array<char, 8> name = {'s', 't', 'o', 'w', 'a', 'g', 'e', '1'};
  int64_t rank = 0, size = 0;
};

/// Before everything that passes.
struct Header {
  enum class Kind : uint64_t { Bytes, Asks, Answers } kind = Kind::Bytes;
  uint64_t bytes = 0;
};

template <typename Value> std::span<char> bytesOf(Value &value) {
  return {reinterpret_cast<char *>(&value), sizeof(value)};
}

class SocketRanks : public Ranks {
public:
  SocketRanks(int64_t rank, int64_t size, std::vector<Socket> given)
      : ownRank(rank), ranks(size), others(std::move(given)) {}

  int64_t rank() const override { return ownRank; }
  int64_t size() const override { return ranks; }
  std::string library() const override { return "connections to rank 0"; }
  bool mayBeCalledBeside() const override { return true; } // sockets know no threads

  void setWatch(RankWatch given) override { watch = std::move(given); }

  void waitUntil(const std::function<bool()> &isDone) override {
    requireNoneLost();
    const Wait wait;
    for (Clock::time_point look = wait.start + kLooks; !isDone();)
      if (const Clock::time_point now = Clock::now(); now >= look) {
        look = now + kLooks;
        for (int64_t other = 0; other < ranks; ++other)
          if (isConnectedTo(other)) {
            answerIfAsked(other);
            requireThere(other);
          }
        if (isOver(wait))
          lateFor(isDone);
      }
  }

  void lose(const std::string &why) override {
    requireNoneLost();
    for (int64_t other = 0; other < ranks; ++other)
      if (isConnectedTo(other) && others[other].hasEnded())
        throwLost(concat(why, "; rank ", other, " has ended"));
    throwLost(why);
  }

  void sum(float *, int64_t, char *) override { refuseSums(); }
  void scatter(const float *, int64_t, int64_t, int64_t, float *) override { refuseSums(); }
  void join(const float *, int64_t, int64_t, int64_t, float *) override { refuseSums(); }

  void gather(const float *own, int64_t count, float *all) override {
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    gatherBytes({reinterpret_cast<const char *>(own), bytes},
                {reinterpret_cast<char *>(all), bytes * static_cast<size_t>(ranks)});
  }

  std::vector<uint64_t> gather(uint64_t own) override {
    std::vector<uint64_t> all(ranks);
    gatherBytes(bytesOf(own), {reinterpret_cast<char *>(all.data()), all.size() * sizeof(own)});
    return all;
  }

  void broadcast(std::span<char> bytes) override {
    requireNoneLost();
    if (ownRank != 0)
      return receive(0, bytes);
    for (int64_t other = 1; other < ranks; ++other)
      send(other, bytes);
  }

  /// The others hear of it by the end of the connection.
  void abort(int exitCode) override { std::_Exit(exitCode); }

private:
  struct Wait {
    Clock::time_point start = Clock::now();
  };

  bool isConnectedTo(int64_t other) const {
    return other != ownRank && (ownRank == 0 || other == 0);
  }

  void requireNoneLost() const {
    if (!lost.empty())
      throw RankLost(lost);
  }

  [[noreturn]] void throwLost(const std::string &why) {
    lost = why;
    throw RankLost(lost);
  }

  [[noreturn]] static void refuseSums() {
    throw Error::internal("a sum over ranks that are connected by rank 0 alone");
  }

  void requireThere(int64_t other) {
    if (others[other].hasEnded())
      throwLost(concat("rank ", other, " has ended"));
  }

  bool isOver(const Wait &wait) const {
    const milliseconds more = ownRank == 0 ? milliseconds(0) : kTimeOfRank0;
    return watch.patience.count() > 0 && Clock::now() - wait.start >= watch.patience + more;
  }

  std::string waited() const {
    return concat("waited ", watch.patience.count() / 1000, " s (--timeout) for ");
  }

  [[noreturn]] void throwLate(const std::vector<int64_t> &silent) {
    throwLost(concat(waited(), namesOf(silent), ", which ", silent.size() == 1 ? "does" : "do",
                     " not answer: stopped, hanging, or slower than that"));
  }

  /// Behind the time for a device: who does not wait as well is told, unless it comes after all.
  void lateFor(const std::function<bool()> &isDone) {
    if (ownRank != 0)
      throwLate({0});
    const std::vector<int64_t> silent = silentRanks();
    if (isDone())
      return;
    if (silent.empty())
      throwLost(concat("all ranks have waited for ", watch.patience.count() / 1000,
                       " s, for different things"));
    throwLate(silent);
  }

  /// The same for bytes of another rank, which may itself wait for one that hangs.
  [[noreturn]] void lateIn(int64_t other) {
    std::vector<int64_t> silent;
    if (ownRank == 0)
      silent = silentRanks();
    throwLate(silent.empty() ? std::vector{other} : silent);
  }

  /// Who has come, or waits, has sent something.
  std::vector<int64_t> silentRanks() {
    std::vector<int64_t> silent;
    for (int64_t other = 1; other < ranks; ++other)
      sendHeader(other, {Header::Kind::Asks, 0});
    const Clock::time_point end = Clock::now() + kAnswerTime;
    for (int64_t other = 1; other < ranks; ++other) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      if (!has(other, std::max(left, milliseconds(0))))
        silent.push_back(other);
    }
    return silent;
  }

  bool has(int64_t other, milliseconds time) {
    others[other].waitFor(/*toSend=*/false, time);
    return others[other].mayReceive();
  }

  /// A question of rank 0 lies before everything that it sends later.
  void answerIfAsked(int64_t other) {
    if (ownRank == 0 || !others[other].mayReceive())
      return;
    if (!pending)
      receiveHeader(other);
    if (pending->kind == Header::Kind::Asks) {
      pending.reset();
      sendHeader(0, {Header::Kind::Answers, 0});
    }
  }

  void gatherBytes(std::span<const char> own, std::span<char> all) {
    requireNoneLost();
    const size_t each = own.size();
    if (ownRank != 0) {
      send(0, own);
      return receive(0, all);
    }
    std::ranges::copy(own, all.begin());
    for (int64_t other = 1; other < ranks; ++other)
      receive(other, all.subspan(static_cast<size_t>(other) * each, each));
    for (int64_t other = 1; other < ranks; ++other)
      send(other, all);
  }

  void sendHeader(int64_t other, Header header) {
    pass(other, bytesOf(header).size(), /*isSent=*/true,
         [&](size_t done) { return others[other].send(bytesOf(header).subspan(done)); });
  }

  void send(int64_t other, std::span<const char> bytes) {
    sendHeader(other, {Header::Kind::Bytes, bytes.size()});
    pass(other, bytes.size(), /*isSent=*/true,
         [&](size_t done) { return others[other].send(bytes.subspan(done)); });
  }

  void receiveHeader(int64_t other) {
    Header header;
    pass(other, sizeof(header), /*isSent=*/false,
         [&](size_t done) { return others[other].receive(bytesOf(header).subspan(done)); });
    pending = header;
  }

  void receive(int64_t other, std::span<char> bytes) {
    for (;; pending.reset()) {
      if (!pending)
        receiveHeader(other);
      if (pending->kind == Header::Kind::Bytes)
        break;
      if (pending->kind == Header::Kind::Asks)
        sendHeader(other, {Header::Kind::Answers, 0});
    }
    const uint64_t found = pending->bytes;
    pending.reset();
    if (found != bytes.size())
      throw Error::internal(concat("rank ", other, " sends ", found, " bytes where rank ", ownRank,
                                   " expects ", bytes.size()));
    pass(other, bytes.size(), /*isSent=*/false,
         [&](size_t done) { return others[other].receive(bytes.subspan(done)); });
  }

  /// Until `count` bytes have passed, some at a step.
  template <typename Step> void pass(int64_t other, size_t count, bool isSent, const Step &step) {
    const Wait wait;
    std::optional<Clock::time_point> asked;
    for (size_t done = 0; done < count;) {
      const ptrdiff_t some = step(done);
      if (some < 0)
        throwLost(concat("rank ", other, " has ended"));
      done += static_cast<size_t>(some);
      if (some > 0)
        continue;
      others[other].waitFor(isSent, kLooks);
      if (!hasTold && watch.isAskedToEnd && watch.isAskedToEnd()) {
        asked = asked.value_or(Clock::now());
        if (ownRank == 0 && Clock::now() - *asked >= 2 * kLooks && watch.tell) {
          hasTold = true;
          watch.tell(concat("rank ", other));
        }
      }
      if (isOver(wait))
        lateIn(other);
    }
  }

  const int64_t ownRank, ranks;
  std::vector<Socket> others; ///< by rank; those that this one has no connection to are closed
  std::optional<Header>
      pending; ///< of rank `other` of the call at hand, received and not looked at
  RankWatch watch;
  bool hasTold = false;
  std::string lost;
};

/// All ranks but this one have said who they are. Others who connect are sent away.
std::vector<Socket> acceptAll(const Socket &door, int64_t size) {
  std::vector<Socket> others(static_cast<size_t>(size));
  const Clock::time_point end = Clock::now() + kMeetingTime;
  for (int64_t missing = size - 1; missing > 0;) {
    if (Clock::now() > end)
      throw Error::badInput(concat(
          "of ", size, " ranks ", missing, " have not come within ", kMeetingTime.count() / 60000,
          " minutes; the launcher says that there are as many (WORLD_SIZE)"));
    Socket socket = door.accept(kLooks);
    Hello hello;
    if (!socket.isOpen() || !socket.receiveAll(bytesOf(hello), kHelloTime) ||
        hello.name != Hello().name)
      continue;
    if (hello.size != size || hello.rank <= 0 || hello.rank >= size ||
        others[static_cast<size_t>(hello.rank)].isOpen())
      throw Error::badInput(concat("a process connects as rank ", hello.rank, " of ", hello.size,
                                   ", and this is rank 0 of ", size,
                                   ": start all by one launcher"));
    Hello own = {.size = size};
    if (!socket.sendAll(bytesOf(own), kHelloTime))
      continue;
    others[static_cast<size_t>(hello.rank)] = std::move(socket);
    --missing;
  }
  return others;
}

std::vector<Socket> connectToRank0(const std::string &address, int port, int64_t rank,
                                   int64_t size) {
  std::vector<Socket> others(static_cast<size_t>(size));
  others[0] = Socket::connectTo(address, port, kMeetingTime);
  Hello own = {.rank = rank, .size = size}, hello;
  if (!others[0].sendAll(bytesOf(own), kMeetingTime) ||
      !others[0].receiveAll(bytesOf(hello), kMeetingTime) || hello.name != own.name ||
      hello.size != size)
    throw Error::badInput(concat("who listens at ", address, ", port ", port,
                                 " (MASTER_ADDR, MASTER_PORT) is no rank 0 of ", size,
                                 " ranks of this program"));
  return others;
}

} // namespace

std::unique_ptr<Ranks> joinBySockets(const RankLaunch &launch) {
  const int64_t size = launch.size.value();
  if (size == 1)
    return std::make_unique<SocketRanks>(0, 1, std::vector<Socket>(1));
  int port = launch.port;
  const std::string key = keyOf(launch);
  std::optional<AgentStore> store;
  if (launch.hasAgent)
    store.emplace(launch.address, launch.port, kMeetingTime);
  if (launch.rank == 0) {
    const Socket door = Socket::listenAt(launch.address, store ? 0 : port);
    if (store)
      store->set(key, std::to_string(door.port()));
    return std::make_unique<SocketRanks>(0, size, acceptAll(door, size));
  }
  if (store)
    port = std::atoi(store->get(key).c_str());
  return std::make_unique<SocketRanks>(launch.rank, size,
                                       connectToRank0(launch.address, port, launch.rank, size));
}

} // namespace stow
