// Ranks on MPI, whose library is opened at run time: a program that was not compiled for several devices needs none,
// and one that was takes the library of the launcher that started it. The two families of libraries have the same
// functions and other handles: Open MPI's are addresses of objects in the library, MPICH's (and Intel's and
// others' of its ABI) are numbers. Each is a class of its own, made of one template over the handle's type.
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"
#include "runtime/format/Reduction.h"
#include "runtime/ranks/Launcher.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/SocketRanks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <thread>
#include <vector>

namespace stow {

namespace {

constexpr int kThreadSerialized = 2; ///< MPI_THREAD_SERIALIZED, of both families

/// Looks at an exchange between two at the clock, after which others may have the processor.
constexpr int64_t kPolls = 64;

/// What a thread that waits beside one that computes leaves to it between two looks.
constexpr std::chrono::microseconds kNap(20);

/// Ranks that a message names.
constexpr size_t kNamed = 8;

/// Bytes that pass at once where nothing is added up.
constexpr size_t kBroadcastBytes = size_t{1} << 20;

/// What MPI is called by, for handles of the type `Handle` (mpi.h of either family).
template <typename Handle> struct Functions {
  int (*initThread)(int *, char ***, int, int *) = nullptr;
  int (*initialized)(int *) = nullptr;
  int (*queryThread)(int *) = nullptr;
  int (*finalize)() = nullptr;
  int (*commRank)(Handle, int *) = nullptr;
  int (*commSize)(Handle, int *) = nullptr;
  int (*libraryVersion)(char *, int *) = nullptr;
  int (*ialltoallv)(const void *, const int *, const int *, Handle, void *, const int *,
                    const int *, Handle, Handle, Handle *) = nullptr;
  int (*iallgatherv)(const void *, int, Handle, void *, const int *, const int *, Handle, Handle,
                     Handle *) = nullptr;
  int (*iallgather)(const void *, int, Handle, void *, int, Handle, Handle, Handle *) = nullptr;
  int (*ibcast)(void *, int, Handle, int, Handle, Handle *) = nullptr;
  int (*isend)(const void *, int, Handle, int, int, Handle, Handle *) = nullptr;
  int (*recv)(void *, int, Handle, int, int, Handle, void *) = nullptr;
  int (*iprobe)(int, int, Handle, int *, void *) = nullptr;
  int (*test)(Handle *, int *, void *) = nullptr;
  int (*abort)(Handle, int) = nullptr;
};

template <typename Handle> struct Constants {
  Handle world, byte, real; ///< real: MPI_FLOAT
  void *inPlace, *noStatus;
};

/// The tag of messages by which ranks that wait find those that do not, and what they hold.
constexpr int kRollTag = 0x5354;
constexpr char kAsks = 1, kAnswers = 0;

/// How often a rank that waits looks up, and how long others have to answer it.
constexpr std::chrono::milliseconds kLooks(100), kAnswerTime(2000), kAnswerTimeAtEnd(300);

/// Text of MPI_Get_library_version: the most that either family writes.
constexpr size_t kVersionBytes = 8192;

template <typename Function> void find(void *library, Function &function, const char *name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    throw Error::badInput(concat("the MPI library has no function ", name,
                                 "; expected Open MPI 3 or MPICH 3.2, or a later one"));
}

template <typename Handle> class MpiRanks : public Ranks {
public:
  MpiRanks(void *library, const Constants<Handle> &constants) : constants(constants) {
    find(library, mpi.initThread, "MPI_Init_thread");
    find(library, mpi.initialized, "MPI_Initialized");
    find(library, mpi.queryThread, "MPI_Query_thread");
    find(library, mpi.finalize, "MPI_Finalize");
    find(library, mpi.commRank, "MPI_Comm_rank");
    find(library, mpi.commSize, "MPI_Comm_size");
    find(library, mpi.libraryVersion, "MPI_Get_library_version");
    find(library, mpi.ialltoallv, "MPI_Ialltoallv");
    find(library, mpi.iallgatherv, "MPI_Iallgatherv");
    find(library, mpi.iallgather, "MPI_Iallgather");
    find(library, mpi.ibcast, "MPI_Ibcast");
    find(library, mpi.isend, "MPI_Isend");
    find(library, mpi.recv, "MPI_Recv");
    find(library, mpi.iprobe, "MPI_Iprobe");
    find(library, mpi.test, "MPI_Test");
    find(library, mpi.abort, "MPI_Abort");
    int provided = 0, number = 0;
    require(mpi.initialized(&number), "MPI_Initialized");
    isOurs = number == 0;
    if (isOurs)
      require(mpi.initThread(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
    require(mpi.queryThread(&provided), "MPI_Query_thread");
    takesThreads = provided >= kThreadSerialized;
    require(mpi.commRank(constants.world, &number), "MPI_Comm_rank");
    ownRank = number;
    require(mpi.commSize(constants.world, &number), "MPI_Comm_size");
    ranks = number;
    for (std::vector<int> *list : {&counts, &starts, &scratchCounts, &scratchStarts})
      list->resize(ranks);
  }

  /// Where a rank is lost, the end of MPI would wait for it as well.
  ~MpiRanks() override {
    if (isOurs && lost.empty())
      mpi.finalize();
  }

  int64_t rank() const override { return ownRank; }
  int64_t size() const override { return ranks; }

  std::string library() const override {
    std::string text(kVersionBytes, '\0');
    int length = 0;
    require(mpi.libraryVersion(text.data(), &length), "MPI_Get_library_version");
    return text.substr(0, text.find('\0'));
  }

  bool mayBeCalledBeside() const override { return takesThreads; }

  void setWatch(RankWatch given) override { watch = std::move(given); }

  void waitUntil(const std::function<bool()> &isDone) override {
    if (!lost.empty())
      throw RankLost(lost);
    watchUntil(isDone);
  }

  void lose(const std::string &why) override {
    if (!lost.empty())
      throw RankLost(lost);
    const std::vector<int64_t> silent = silentRanks(kAnswerTime);
    lost = silent.empty() ? why
                          : concat(why, "; ", namesOf(silent), silent.size() == 1 ? " does" : " do",
                                   " not answer");
    throw RankLost(lost);
  }

  void sum(float *values, int64_t count, char *scratch) override {
    for (int64_t first = 0; first < count; first += kReductionChunk)
      sumChunk(values + first, std::min(kReductionChunk, count - first),
               reinterpret_cast<float *>(scratch));
  }

  void scatter(const float *values, int64_t count, int64_t first, int64_t piece,
               float *received) override {
    const auto own = static_cast<int>(shardPart(count, ranks, ownRank, first, piece).size());
    for (int64_t other = 0; other < ranks; ++other) {
      takePart(other, count, first, piece);
      scratchCounts[other] = own;
      scratchStarts[other] = static_cast<int>(other * own);
    }
    exchange([&](Handle *request) {
      return mpi.ialltoallv(values, counts.data(), starts.data(), constants.real, received,
                            scratchCounts.data(), scratchStarts.data(), constants.real,
                            constants.world, request);
    });
  }

  void join(const float *shard, int64_t count, int64_t first, int64_t piece,
            float *values) override {
    for (int64_t other = 0; other < ranks; ++other)
      takePart(other, count, first, piece);
    exchange([&](Handle *request) {
      return mpi.iallgatherv(shard + first, counts[ownRank], constants.real, values, counts.data(),
                             starts.data(), constants.real, constants.world, request);
    });
  }

  void gather(const float *own, int64_t count, float *all) override {
    exchange([&](Handle *request) {
      return mpi.iallgather(own, bytesOf(count), constants.byte, all, bytesOf(count),
                            constants.byte, constants.world, request);
    });
  }

  void broadcast(std::span<char> bytes) override {
    for (size_t first = 0; first < bytes.size(); first += kBroadcastBytes)
      exchange([&](Handle *request) {
        return mpi.ibcast(bytes.data() + first,
                          static_cast<int>(std::min(kBroadcastBytes, bytes.size() - first)),
                          constants.byte, 0, constants.world, request);
      });
  }

  std::vector<uint64_t> gather(uint64_t own) override {
    std::vector<uint64_t> all(ranks);
    exchange([&](Handle *request) {
      return mpi.iallgather(&own, sizeof(own), constants.byte, all.data(), sizeof(own),
                            constants.byte, constants.world, request);
    });
    return all;
  }

  void abort(int exitCode) override {
    mpi.abort(constants.world, exitCode);
    std::_Exit(exitCode);
  }

private:
  using Clock = std::chrono::steady_clock;

  /// Starts what all ranks do together and waits until this one's part is done, as MPI's call that blocks would, but with an eye on
  /// the time and on signals.
  template <typename Start> void exchange(const Start &begin) {
    if (!lost.empty())
      throw RankLost(lost);
    Handle request{};
    require(begin(&request), "an exchange");
    watchUntil([&] {
      int isDone = 0;
      require(mpi.test(&request, &isDone, constants.noStatus), "MPI_Test");
      return isDone != 0;
    });
  }

  template <typename IsDone> void watchUntil(const IsDone &isDone) {
    const Clock::time_point start = Clock::now();
    Clock::time_point look = start + kLooks;
    std::optional<Clock::time_point> asked;
    for (int64_t polls = 1;; ++polls) {
      if (isDone())
        return;
      if (polls % kPolls != 0)
        continue;
      if (std::this_thread::get_id() == joinedBy)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kNap);
      const Clock::time_point now = Clock::now();
      if (now < look)
        continue;
      look = now + kLooks;
      answer(nullptr);
      if (!hasTold && watch.isAskedToEnd && watch.isAskedToEnd()) {
        if (!asked)
          asked = now;
        else if (now - *asked >= 2 * kLooks)
          tellWhoIsSilent();
      }
      if (watch.patience.count() > 0 && now - start >= watch.patience && comesLate(isDone))
        return;
    }
  }

  /// Reads what other ranks that wait have sent, and answers those that ask.
  void answer(std::vector<bool> *present) {
    for (int64_t other = 0; other < ranks; ++other) {
      int isThere = other == ownRank ? 0 : 1;
      while (isThere != 0) {
        require(mpi.iprobe(static_cast<int>(other), kRollTag, constants.world, &isThere,
                           constants.noStatus),
                "MPI_Iprobe");
        if (isThere == 0)
          break;
        char message = 0;
        require(mpi.recv(&message, 1, constants.byte, static_cast<int>(other), kRollTag,
                         constants.world, constants.noStatus),
                "MPI_Recv");
        if (present)
          (*present)[other] = true;
        if (message == kAsks)
          send(other, kAnswers);
      }
    }
  }

  /// Never waits for the one that gets it, which may have stopped.
  void send(int64_t other, const char &message) {
    Handle request{};
    require(mpi.isend(&message, 1, constants.byte, static_cast<int>(other), kRollTag,
                      constants.world, &request),
            "MPI_Isend");
  }

  /// The ranks that do not answer within that time: all that wait do.
  std::vector<int64_t> silentRanks(std::chrono::milliseconds time) {
    std::vector<bool> present(ranks);
    present[ownRank] = true;
    for (int64_t other = 0; other < ranks; ++other)
      if (other != ownRank)
        send(other, kAsks);
    for (const Clock::time_point end = Clock::now() + time;
         Clock::now() < end && std::ranges::find(present, false) != present.end();) {
      answer(&present);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::vector<int64_t> silent;
    for (int64_t other = 0; other < ranks; ++other)
      if (!present[other])
        silent.push_back(other);
    return silent;
  }

  void tellWhoIsSilent() {
    hasTold = true;
    const std::vector<int64_t> silent = silentRanks(kAnswerTimeAtEnd);
    int64_t lowest = 0;
    while (std::ranges::find(silent, lowest) != silent.end())
      ++lowest;
    if (!silent.empty() && lowest == ownRank && watch.tell)
      watch.tell(namesOf(silent));
  }

  /// Behind the time that a rank may take: whether it has come after all, else RankLost with its name.
  template <typename IsDone> bool comesLate(const IsDone &isDone) {
    const std::vector<int64_t> silent = silentRanks(kAnswerTime);
    for (const Clock::time_point end = Clock::now() + kAnswerTime; Clock::now() < end;)
      if (isDone())
        return true;
    char time[32];
    std::snprintf(time, sizeof(time), "%g s", static_cast<double>(watch.patience.count()) / 1e3);
    lost = silent.empty() ? concat("all ranks have waited for ", time, ", for different things")
                          : concat("waited ", time, " (--timeout) for ", namesOf(silent),
                                   ", which ", silent.size() == 1 ? "does" : "do",
                                   " not answer: stopped, hanging, or slower than that");
    throw RankLost(lost);
  }

  /// Every rank gets from each its values of the piece that it adds up, and gives the sums to all.
  void sumChunk(float *values, int64_t count, float *scratch) {
    const int64_t own = reductionPiece(count, ranks, ownRank);
    int64_t start = 0, ownStart = 0;
    for (int64_t other = 0; other < ranks; ++other) {
      const int64_t piece = reductionPiece(count, ranks, other);
      if (other == ownRank)
        ownStart = start;
      counts[other] = bytesOf(piece);
      starts[other] = bytesOf(start);
      scratchCounts[other] = bytesOf(own);
      scratchStarts[other] = bytesOf(own * other);
      start += piece;
    }
    exchange([&](Handle *request) {
      return mpi.ialltoallv(values, counts.data(), starts.data(), constants.byte, scratch,
                            scratchCounts.data(), scratchStarts.data(), constants.byte,
                            constants.world, request);
    });
    for (int64_t i = 0; i < own; ++i) {
      float total = 0;
      for (int64_t other = 0; other < ranks; ++other)
        total += scratch[own * other + i];
      values[ownStart + i] = total;
    }
    exchange([&](Handle *request) {
      return mpi.iallgatherv(constants.inPlace, 0, constants.byte, values, counts.data(),
                             starts.data(), constants.byte, constants.world, request);
    });
  }

  /// What a rank has of a value in shards, in floats.
  void takePart(int64_t rank, int64_t count, int64_t first, int64_t piece) {
    const ShardRange part = shardPart(count, ranks, rank, first, piece);
    counts[rank] = static_cast<int>(part.size());
    starts[rank] = static_cast<int>(part.begin);
  }

  static int bytesOf(int64_t floats) { return static_cast<int>(floats * sizeof(float)); }

  static void require(int result, const char *function) {
    if (result != 0)
      throw Error::internal(concat(function, " of MPI returned ", result));
  }

  Functions<Handle> mpi;
  Constants<Handle> constants;
  const std::thread::id joinedBy = std::this_thread::get_id();
  bool isOurs = true;        ///< not begun by another library of the process
  bool takesThreads = false; ///< one at a time
  int64_t ownRank = 0, ranks = 1;
  RankWatch watch;
  bool hasTold = false;                                          ///< RankWatch::tell
  std::string lost;                                              ///< RankLost, if any
  std::vector<int> counts, starts, scratchCounts, scratchStarts; ///< of an exchange, in bytes
};

/// The first of `names` that opens; `why` is what the last one says.
void *openFirst(std::span<const char *const> names, std::string &why) {
  for (const char *name : names) {
    // Global, since the plug-ins of Open MPI look there for what it defines.
    if (void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL))
      return library;
    why = dlerror();
  }
  return nullptr;
}

std::unique_ptr<Ranks> openMpi(void *library) {
  void *world = dlsym(library, "ompi_mpi_comm_world"), *byte = dlsym(library, "ompi_mpi_byte"),
       *real = dlsym(library, "ompi_mpi_float");
  if (!world || !byte || !real)
    throw Error::badInput(
        "the MPI library has no ompi_mpi_comm_world, and the process was started by "
        "Open MPI; start it by the mpirun of the library that is installed");
  return std::make_unique<MpiRanks<void *>>(
      library, Constants<void *>{world, byte, real, reinterpret_cast<void *>(1), nullptr});
}

std::unique_ptr<Ranks> openMpich(void *library) {
  return std::make_unique<MpiRanks<int>>(library, Constants<int>{0x44000000, 0x4c00010d, 0x4c00040a,
                                                                 reinterpret_cast<void *>(-1),
                                                                 reinterpret_cast<void *>(1)});
}

/// How a program for so many devices is started.
std::string startIt(int64_t size) {
  return concat("start it as: mpirun -n ", size, " ./model train --data=FILE ...");
}

} // namespace

std::string namesOf(std::span<const int64_t> some) {
  std::string text = some.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < some.size() && i < kNamed; ++i)
    text += concat(i == 0 ? "" : ", ", some[i]);
  return some.size() > kNamed ? concat(text, " and ", some.size() - kNamed, " more") : text;
}

std::unique_ptr<Ranks> joinRanks(int64_t size, SumsBy sums) {
  const std::optional<RankLaunch> launch = launchOfEnvironment(sums);
  if (!launch)
    throw Error::badInput(concat("the program is compiled for ", size, " devices, and ",
                                 whyNoLaunch(sums), "; ", startIt(size)));
  auto refuseSize = [&](int64_t found) {
    throw Error::badInput(concat("the program is compiled for ", size, " devices (--devices=", size,
                                 "), and the launcher has started ", found, " processes; ",
                                 startIt(size), ", or compile it with --devices=", found));
  };
  if (launch->size && *launch->size != size)
    refuseSize(*launch->size);
  if (launch->kind == MpiKind::None)
    return joinBySockets(*launch);
  static constexpr std::array openMpiNames = {"libmpi.so.40", "libmpi.so"};
  static constexpr std::array mpichNames = {"libmpich.so.12", "libmpi.so.12", "libmpich.so"};
  const bool isOpenMpi = launch->kind == MpiKind::OpenMpi;
  std::string why;
  void *library = isOpenMpi ? openFirst(openMpiNames, why) : openFirst(mpichNames, why);
  if (!library)
    throw Error::badInput(concat("the process was started by ", isOpenMpi ? "Open MPI" : "MPICH",
                                 " (", launch->variable, "), and its library does not open: ", why,
                                 "; install it: apt install ",
                                 isOpenMpi ? "openmpi-bin" : "mpich"));
  std::unique_ptr<Ranks> ranks = isOpenMpi ? openMpi(library) : openMpich(library);
  if (ranks->size() != size)
    refuseSize(ranks->size());
  return ranks;
}

namespace {

/// Never destroyed by the end of the process, which alone does not say whether the run has failed.
std::shared_ptr<Ranks> &joined() {
  static auto *const ranks = new std::shared_ptr<Ranks>();
  return *ranks;
}

} // namespace

std::shared_ptr<Ranks> ranksOfProcess(int64_t size, SumsBy sums) {
  if (!joined())
    joined() = joinRanks(size, sums);
  return joined();
}

void leaveRanks() { joined().reset(); }

} // namespace stow
