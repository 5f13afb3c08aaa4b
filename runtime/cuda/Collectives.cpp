#include "runtime/cuda/Collectives.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"
#include "runtime/ranks/Launcher.h"

#include <chrono>
#include <thread>

namespace stow::cuda {

namespace {

/// Between two looks at a step that runs: little beside a step, and a processor that others may have.
constexpr std::chrono::microseconds kLooks(20);

/// What all of them have: a value of all ranks, in floats, and a name.
class CollectiveCall : public LibraryCall {
public:
  struct Places {
    std::string name;  ///< the user's node
    Address whole = 0; ///< of all ranks
    Address part = 0;  ///< this rank's shard; of all_reduce its result
    int64_t count = 0; ///< of the whole value
    int64_t ranks = 1, rank = 0;
  };

  CollectiveCall(const Driver &driver, const nccl::Library &library, nccl::Comm comm, Places places)
      : driver(driver), library(library), comm(comm), places(std::move(places)) {}

protected:
  int64_t shard() const { return shardElements(places.count, places.ranks); }
  bool isEven() const { return places.count % places.ranks == 0; }
  ShardRange range(int64_t rank) const { return shardRange(places.count, places.ranks, rank); }
  static void *at(Address address, int64_t floats = 0) {
    return reinterpret_cast<void *>(address + static_cast<Address>(floats) * sizeof(float));
  }

  /// What a shard has behind the end of the value is zero.
  void clearTail(Stream stream) const {
    const int64_t own = range(places.rank).size();
    if (own < shard())
      driver.require(driver.memsetD8Async(places.part + static_cast<Address>(own) * sizeof(float),
                                          0, static_cast<size_t>(shard() - own) * sizeof(float),
                                          stream),
                     "clearing the end of a shard of node '" + places.name + "'");
  }

  void require(nccl::Result result, const char *what) const {
    library.require(result, concat(what, " of node '", places.name, "'"));
  }

  /// Calls each(rank, its part of the value) between the ends of a group: NCCL runs them as one.
  template <typename Each> void inGroup(const Each &each) const {
    require(library.groupStart(), "a group");
    for (int64_t rank = 0; rank < places.ranks; ++rank)
      if (const ShardRange part = range(rank); part.size() > 0)
        each(static_cast<int>(rank), part);
    require(library.groupEnd(), "a group");
  }

  const Driver &driver;
  const nccl::Library &library;
  nccl::Comm comm;
  const Places places;
};

class AllReduceCall : public CollectiveCall {
public:
  using CollectiveCall::CollectiveCall;

  void submit(Stream stream) override {
    require(library.allReduce(at(places.whole), at(places.part), static_cast<size_t>(places.count),
                              nccl::kFloat32, nccl::kSum, comm, stream),
            "a sum over ranks");
  }
};

/// NCCL's shards are of one size: where the last ranks have less of the value, every rank's shard is a sum of its own, in one group.
class ReduceScatterCall : public CollectiveCall {
public:
  using CollectiveCall::CollectiveCall;

  void submit(Stream stream) override {
    if (isEven()) {
      require(library.reduceScatter(at(places.whole), at(places.part), static_cast<size_t>(shard()),
                                    nccl::kFloat32, nccl::kSum, comm, stream),
              "sums of shards");
      return;
    }
    inGroup([&](int rank, ShardRange part) {
      require(library.reduce(at(places.whole, part.begin), at(places.part),
                             static_cast<size_t>(part.size()), nccl::kFloat32, nccl::kSum, rank,
                             comm, stream),
              "the sum of a shard");
    });
    clearTail(stream);
  }
};

class ShardOfOwnCall : public CollectiveCall {
public:
  using CollectiveCall::CollectiveCall;

  void submit(Stream stream) override {
    const ShardRange own = range(places.rank);
    if (own.size() > 0)
      driver.require(
          driver.memcpyDtoDAsync(places.part,
                                 places.whole + static_cast<Address>(own.begin) * sizeof(float),
                                 static_cast<size_t>(own.size()) * sizeof(float), stream),
          "copying a shard of node '" + places.name + "'");
    clearTail(stream);
  }
};

class AllGatherCall : public CollectiveCall {
public:
  using CollectiveCall::CollectiveCall;

  void submit(Stream stream) override {
    if (isEven()) {
      require(library.allGather(at(places.part), at(places.whole), static_cast<size_t>(shard()),
                                nccl::kFloat32, comm, stream),
              "gathering shards");
      return;
    }
    inGroup([&](int rank, ShardRange part) {
      require(library.broadcast(at(places.part), at(places.whole, part.begin),
                                static_cast<size_t>(part.size()), nccl::kFloat32, rank, comm,
                                stream),
              "giving a shard to all");
    });
  }
};

[[noreturn]] void fail(const Command &command, const std::string &why) {
  throw Error::badInput("command " + command.title() + ": " + why);
}

/// The number of floats of an operand, all that it stores.
int64_t floatsOf(const Command &command, const Operand &operand) {
  if (operand.dtype != DType::F32)
    fail(command, "expected operands of f32");
  return storedBytes(operand.layout, operand.shape, operand.dtype) /
         static_cast<Bytes>(sizeof(float));
}

/// Whole values and shards of them, by the order of the command's operands (runtime/format/CommandOp.h).
CollectiveCall::Places placesOf(const Command &command, Address arena, const Ranks &ranks) {
  const auto wanted = command.ints.find("ranks");
  if (wanted == command.ints.end() || wanted->second.size() != 1 ||
      wanted->second.front() != ranks.size())
    fail(command, concat("is of another number of ranks than ", ranks.size()));
  const bool isGather = command.op == CommandOp::AllGather,
             isSum = command.op == CommandOp::AllReduce;
  if (command.operands.size() != 2 && !(isGather && command.operands.size() == 3))
    fail(command, isGather ? "expected a shard, perhaps an old value, and the whole"
                           : "expected a value, and its sum or a shard of it");
  const Operand &whole = isGather ? command.operands.back() : command.operands[0],
                &part = isGather ? command.operands[0] : command.operands[1];
  const int64_t count = floatsOf(command, whole);
  const int64_t expected = isSum ? count : shardElements(count, ranks.size());
  if (floatsOf(command, part) != expected)
    fail(command, concat("expected ", expected, " elements of ", count, ", found ",
                         floatsOf(command, part)));
  if (!isSum && (!whole.layout.isRowMajor() || !part.layout.isRowMajor()))
    fail(command, "expected values in shards row-major");
  return {command.name,
          arena + static_cast<Address>(whole.offset),
          arena + static_cast<Address>(part.offset),
          count,
          ranks.size(),
          ranks.rank()};
}

} // namespace

int64_t gpuOfRank(const Driver &driver) {
  const std::optional<RankLaunch> launch = launchOfEnvironment(SumsBy::Devices);
  int count = 0;
  driver.require(driver.deviceGetCount(&count), "counting GPUs");
  if (!launch || !launch->localRank || count == 1)
    return 0;
  if (*launch->localRank >= count)
    throw Error::badInput(
        concat("rank ", launch->rank, " is number ", *launch->localRank, " on its machine (",
               launch->localVariable, "), which has ", count,
               " GPUs for this process; start as many ranks on a machine as it has GPUs"));
  return *launch->localRank;
}

Communicator::Communicator(const Driver &driver, Ranks &ranks, std::function<void()> destroyGraphs)
    : driver(driver), library(nccl::openLibrary()), ranks(ranks),
      destroyGraphs(std::move(destroyGraphs)) {
  int version = 0;
  library.require(library.getVersion(&version), "asking NCCL for its version");
  const std::vector<uint64_t> versions = ranks.gather(static_cast<uint64_t>(version));
  for (size_t other = 0; other < versions.size(); ++other)
    if (versions[other] != versions.front())
      throw Error::badInput(
          concat("rank ", other, " has NCCL ", nccl::versionText(static_cast<int>(versions[other])),
                 " and rank 0 has ", nccl::versionText(static_cast<int>(versions.front())),
                 ": install one version on all machines"));
  nccl::UniqueId id = {};
  if (ranks.rank() == 0)
    library.require(library.getUniqueId(&id), "making a name for the ranks");
  ranks.broadcast({id.bytes, sizeof(id.bytes)});
  library.require(library.commInitRank(&comm, static_cast<int>(ranks.size()), id,
                                       static_cast<int>(ranks.rank())),
                  concat("connecting ", ranks.size(), " ranks"));
}

/// Results do not matter any more.
Communicator::~Communicator() {
  if (!comm)
    return;
  if (registration)
    library.commDeregister(comm, registration);
  library.commDestroy(comm);
}

void Communicator::registerArena(Address arena, Bytes bytes) {
  if (!library.commRegister || !library.commDeregister) {
    why = "NCCL before 2.19 does not register memory: sums over ranks pass its own buffers";
    return;
  }
  const nccl::Result result = library.commRegister(comm, reinterpret_cast<void *>(arena),
                                                   static_cast<size_t>(bytes), &registration);
  if (result != nccl::kSuccess)
    why = concat("NCCL does not register the arena, and sums over ranks pass its own buffers: ",
                 library.describe(result));
}

std::unique_ptr<LibraryCall> Communicator::bind(const Command &command, Address arena) {
  const CollectiveCall::Places places = placesOf(command, arena, ranks);
  switch (command.op) {
  case CommandOp::AllReduce:
    return std::make_unique<AllReduceCall>(driver, library, comm, places);
  case CommandOp::ReduceScatter:
    return std::make_unique<ReduceScatterCall>(driver, library, comm, places);
  case CommandOp::Shard:
    return std::make_unique<ShardOfOwnCall>(driver, library, comm, places);
  case CommandOp::AllGather:
    return std::make_unique<AllGatherCall>(driver, library, comm, places);
  default:
    fail(command, "is none of ranks together");
  }
}

std::unique_ptr<LibraryCall> bindOfRanks(Communicator *communicator, const Command &command,
                                         Address arena) {
  if (!communicator)
    fail(command, "is of several ranks, and this process is alone; programs for several devices "
                  "are started as: "
                  "mpirun -n N ./model train --data=FILE ...");
  return communicator->bind(command, arena);
}

void Communicator::abort() {
  // Graphs that run are freed when they end, which the abort lets them; it waits for that.
  if (comm) {
    destroyGraphs();
    library.commAbort(comm);
  }
  comm = nullptr, registration = nullptr;
}

void Communicator::requireConnected() {
  if (!comm)
    ranks.lose("NCCL has ended");
}

void Communicator::requireNoError() {
  nccl::Result now = nccl::kSuccess;
  library.require(library.commGetAsyncError(comm, &now), "asking after the ranks");
  if (now != nccl::kSuccess && now != nccl::kInProgress)
    ranks.lose("NCCL reports: " + library.describe(now));
}

void Communicator::wait(Stream stream, Event event, const std::string &what) {
  requireConnected();
  try {
    ranks.waitUntil([&] {
      const Result result = event ? driver.eventQuery(event) : driver.streamQuery(stream);
      if (result != kNotReady) {
        driver.require(result, what);
        return true;
      }
      requireNoError();
      std::this_thread::sleep_for(kLooks);
      return false;
    });
  } catch (const RankLost &) {
    abort();
    throw;
  }
}

} // namespace stow::cuda
