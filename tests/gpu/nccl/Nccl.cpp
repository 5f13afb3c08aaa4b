// A stand-in for NCCL over the stand-in for libcuda: each process has its own simulated GPUs, and what ranks exchange passes memory that they
// share.
//
// A collective is work of the stream that waits for the other ranks when the stream comes to it, captured or not, and holds up what is behind
// it; queries of the stream go on meanwhile. Sums are made in the order of the ranks. What the real library would let hang or compute wrongly is
// an error here: ranks that do not run the same collectives of the same counts, operands outside of allocations, on other GPUs or on each other.
#include "tests/gpu/nccl/Nccl.h"

#include "runtime/base/Concat.h"
#include "tests/gpu/driver/StandIn.h"
#include "tests/gpu/nccl/Seats.h"

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace stow::sim;
using stow::concat;

namespace {

constexpr auto kNap = std::chrono::microseconds(50);
constexpr int kNapsToALook = 200; ///< after which a rank looks whether the others still run
constexpr auto kMeeting = std::chrono::seconds(60), kTimeOfGraphs = std::chrono::seconds(5);

/// What the stand-in for libcuda offers.
template <typename Function> Function driverFunction(const char *name) {
  static void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  return reinterpret_cast<Function>(driver ? dlsym(driver, name) : nullptr);
}

CUcontext contextAtHand() {
  static auto *current = driverFunction<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  return current && current(&context) == CUDA_SUCCESS ? context : nullptr;
}

int deviceAtHand() {
  static auto *current = driverFunction<decltype(&cuCtxGetDevice)>("cuCtxGetDevice");
  int device = -1;
  return current && current(&device) == CUDA_SUCCESS ? device : -1;
}

/// Null where the bytes are not all inside one allocation.
float *place(uint64_t address, uint64_t floats) {
  static auto *find = driverFunction<decltype(&standinHostPointer)>("standinHostPointer");
  return static_cast<float *>(find ? find(address, floats * sizeof(float)) : nullptr);
}

std::string &lastError() {
  static std::string text;
  return text;
}

ncclResult_t refuse(ncclResult_t result, const std::string &why) {
  lastError() = why;
  return result;
}

/// STANDIN_NCCL_FAIL=ncclCommRegister:1:5,run:12:6: the result of the nth call of a function, or of the nth collective that runs.
class Failures {
public:
  Failures() {
    const char *text = std::getenv("STANDIN_NCCL_FAIL");
    for (std::string rest = text ? text : ""; !rest.empty();) {
      const size_t end = std::min(rest.find(','), rest.size());
      const std::string one = rest.substr(0, end);
      const size_t first = one.find(':'), second = one.find(':', first + 1);
      if (second == std::string::npos) {
        std::fprintf(stderr, "STANDIN_NCCL_FAIL: expected FUNCTION:NTH:RESULT, found '%s'\n",
                     one.c_str());
        std::abort();
      }
      asked[one.substr(0, first)] = {std::atoi(one.c_str() + first + 1),
                                     std::atoi(one.c_str() + second + 1)};
      rest.erase(0, end + 1);
    }
  }

  ncclResult_t of(const std::string &function) {
    const auto found = asked.find(function);
    if (found == asked.end() || --found->second.first != 0)
      return ncclSuccess;
    return refuse(static_cast<ncclResult_t>(found->second.second),
                  function + " was asked to fail by the test");
  }

private:
  std::map<std::string, std::pair<int, int>> asked;
};

Failures &failures() {
  static Failures all;
  return all;
}

struct Range {
  uint64_t begin = 0, bytes = 0;
  bool holds(const Range &other) const {
    return other.begin >= begin && other.begin + other.bytes <= begin + bytes;
  }
  bool meets(const Range &other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

} // namespace

/// One collective, from its call on; a captured one runs any number of times.
struct Work {
  ncclComm_t comm;
  Operation operation;
  Range send, receive;
  uint64_t done = 0; ///< floats that it has shown and read
  bool isShown = false, hasBegun = false;
};

struct ncclComm {
  Table *table = nullptr;
  int ranks = 1, rank = 0, device = 0;
  CUcontext context = nullptr;
  uint64_t pieces = 0; ///< shown so far
  int naps = 0;
  std::atomic<int> error = ncclSuccess;
  std::atomic<bool> isAborted = false, isOver = false;
  std::atomic<int> inUse = 0; ///< its work that a graph or a stream has
  std::map<void *, Range> registered;
  std::vector<std::unique_ptr<Work>> all;
  std::unique_ptr<FILE, int (*)(FILE *)> log{nullptr, fclose};
  std::thread mover;

  Seat &own() { return table->seats[static_cast<size_t>(rank)]; }
  Seat &seat(int other) { return table->seats[static_cast<size_t>(other)]; }

  void fail(ncclResult_t result, const std::string &why) {
    std::fprintf(stderr, "stand-in for NCCL, rank %d: %s\n", rank, why.c_str());
    refuse(result, why);
    error = result;
  }

  /// Whether all have shown, or read, as many pieces as this one; a rank that has ended is an error.
  bool haveAll(std::atomic<uint64_t> Seat::*count) {
    for (int other = 0; other < ranks; ++other)
      if ((seat(other).*count).load() < pieces)
        return nap(other);
    return true;
  }

  bool nap(int other) {
    std::this_thread::sleep_for(kNap);
    if (++naps % kNapsToALook == 0 && (seat(other).hasLeft || !runs(seat(other).process)))
      fail(ncclRemoteError, concat("rank ", other, " has ended"));
    return false;
  }
};

namespace {

/// Floats that a rank shows of an operation.
uint64_t shownBy(const Operation &operation, int ranks) {
  return operation.kind == Collective::ReduceScatter
             ? operation.count * static_cast<uint64_t>(ranks)
             : operation.count;
}

/// The sum over ranks in their order, from 0 on, of element i of the pieces that are shown.
float sumOf(ncclComm &comm, uint64_t i) {
  float sum = 0;
  for (int rank = 0; rank < comm.ranks; ++rank)
    sum += comm.seat(rank).piece[i];
  return sum;
}

/// Writes what the pieces of all ranks, `count` floats from `first` on, mean for this one.
void take(Work &work, float *receive, uint64_t first, uint64_t count) {
  ncclComm &comm = *work.comm;
  const uint64_t each = work.operation.count;
  switch (work.operation.kind) {
  case Collective::AllReduce:
    for (uint64_t i = 0; i < count; ++i)
      receive[first + i] = sumOf(comm, i);
    return;
  case Collective::ReduceScatter:
    for (uint64_t i = 0; i < count; ++i)
      if ((first + i) / each == static_cast<uint64_t>(comm.rank))
        receive[(first + i) % each] = sumOf(comm, i);
    return;
  case Collective::AllGather:
    for (int rank = 0; rank < comm.ranks; ++rank)
      std::memcpy(receive + static_cast<uint64_t>(rank) * each + first,
                  comm.seat(rank).piece.data(), count * sizeof(float));
    return;
  case Collective::Reduce:
    for (uint64_t i = 0; i < count && comm.rank == work.operation.root; ++i)
      receive[first + i] = sumOf(comm, i);
    return;
  case Collective::Broadcast:
    std::memcpy(receive + first, comm.seat(work.operation.root).piece.data(),
                count * sizeof(float));
    return;
  }
}

bool receives(const Work &work) {
  return work.operation.kind != Collective::Reduce || work.comm->rank == work.operation.root;
}

bool sends(const Work &work) {
  return work.operation.kind != Collective::Broadcast || work.comm->rank == work.operation.root;
}

/// One more piece, as far as the other ranks are; whether the work is done.
bool goOn(Work &work) {
  ncclComm &comm = *work.comm;
  const uint64_t whole = shownBy(work.operation, comm.ranks),
                 count = std::min(kPiece, whole - work.done);
  float *send = sends(work) ? place(work.send.begin, work.send.bytes / sizeof(float)) : nullptr;
  float *receive =
      receives(work) ? place(work.receive.begin, work.receive.bytes / sizeof(float)) : nullptr;
  if ((sends(work) && !send) || (receives(work) && !receive)) {
    std::fprintf(stderr, "stand-in for NCCL: an operand of a %s is not inside an allocation\n",
                 describe(work.operation).c_str());
    std::abort();
  }
  if (!work.isShown) {
    if (!comm.haveAll(&Seat::read))
      return false;
    comm.own().operation = work.operation;
    if (send)
      std::memcpy(comm.own().piece.data(), send + work.done, count * sizeof(float));
    comm.own().shown = ++comm.pieces;
    work.isShown = true;
  }
  if (!comm.haveAll(&Seat::shown))
    return false;
  for (int other = 0; other < comm.ranks; ++other)
    if (!(comm.seat(other).operation == work.operation)) {
      comm.fail(ncclInvalidUsage, concat("runs a ", describe(work.operation), ", and rank ", other,
                                         " a ", describe(comm.seat(other).operation)));
      return false;
    }
  take(work, receive, work.done, count);
  comm.own().read = comm.pieces;
  work.isShown = false;
  work.done += count;
  return work.done == whole;
}

/// Asked until it is not 0. After an error a kernel of the library stays on the device until the communicator is aborted.
int poll(void *user) {
  auto &work = *static_cast<Work *>(user);
  ncclComm &comm = *work.comm;
  if (!work.hasBegun && !comm.isAborted)
    if (const ncclResult_t failure = failures().of("run"))
      comm.fail(failure, lastError());
  work.hasBegun = true;
  bool isDone = comm.isAborted;
  for (uint64_t before = UINT64_MAX; !isDone && comm.error == ncclSuccess && before != work.done;) {
    before = work.done;
    isDone = goOn(work);
  }
  if (!isDone && comm.error != ncclSuccess)
    std::this_thread::sleep_for(kNap);
  if (isDone)
    work.done = 0, work.isShown = work.hasBegun = false;
  return isDone ? 1 : 0;
}

/// A device goes on by itself; the simulated one when its host waits. Where another rank waits for this one, it moves.
void moveOn(ncclComm &comm) {
  static auto *step = driverFunction<decltype(&standinStep)>("standinStep");
  while (!comm.isOver) {
    std::this_thread::sleep_for(4 * kNap);
    for (int other = 0; other < comm.ranks; ++other)
      if (comm.seat(other).shown > comm.own().shown && !comm.isAborted &&
          comm.error == ncclSuccess) {
        step();
        break;
      }
  }
}

ncclResult_t submit(std::unique_ptr<Work> work, void *stream) {
  static auto *launch = driverFunction<decltype(&standinLaunchPolled)>("standinLaunchPolled");
  ncclComm &comm = *work->comm;
  if (comm.log) {
    auto isRegistered = [&](const Range &range) {
      return std::ranges::any_of(comm.registered,
                                 [&](const auto &known) { return known.second.holds(range); });
    };
    std::fprintf(comm.log.get(), "%s registered=%d\n", describe(work->operation).c_str(),
                 isRegistered(work->send) && isRegistered(work->receive) ? 1 : 0);
    std::fflush(comm.log.get());
  }
  comm.all.push_back(std::move(work));
  ++comm.inUse;
  auto released = [](void *user) { --static_cast<Work *>(user)->comm->inUse; };
  return launch && launch(stream, poll, comm.all.back().get(), released) == CUDA_SUCCESS
             ? ncclSuccess
             : refuse(ncclUnhandledCudaError, "the stream does not take it");
}

/// The library waits for all graphs that have its calls, also in an abort (src/init.cc, commDestroySync): without end, which here
/// ends the process.
void waitForGraphs(ncclComm &comm) {
  static auto *step = driverFunction<decltype(&standinStep)>("standinStep");
  const auto end = std::chrono::steady_clock::now() + kTimeOfGraphs;
  while (comm.inUse > 0) {
    if (std::chrono::steady_clock::now() > end) {
      std::fprintf(stderr,
                   "stand-in for NCCL, rank %d: a communicator is given up, and %d of its calls "
                   "are in graphs or streams\n",
                   comm.rank, comm.inUse.load());
      std::abort();
    }
    step();
    std::this_thread::sleep_for(kNap);
  }
}

struct Group {
  int depth = 0;
  std::vector<std::pair<std::unique_ptr<Work>, void *>> waiting;
};
Group &group() {
  thread_local Group all;
  return all;
}

/// In place, or apart from each other.
bool mayLie(const Work &work) {
  const auto rank = static_cast<uint64_t>(work.comm->rank),
             bytes = work.operation.count * sizeof(float);
  uint64_t send = work.send.begin, receive = work.receive.begin;
  if (work.operation.kind == Collective::ReduceScatter)
    send += rank * bytes;
  if (work.operation.kind == Collective::AllGather)
    receive += rank * bytes;
  return send == receive || !sends(work) || !receives(work) || !work.send.meets(work.receive);
}

ncclResult_t enqueue(const Operation &operation, const void *send, void *receive,
                     ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, void *stream) {
  if (!comm || comm->isAborted)
    return refuse(ncclInvalidArgument, "no communicator, or one that was aborted");
  if (type != ncclFloat32 || op != ncclSum)
    return refuse(ncclInvalidArgument, "the stand-in adds up floats");
  if (operation.root < 0 || operation.root >= comm->ranks)
    return refuse(ncclInvalidArgument,
                  concat("root ", operation.root, " of ", comm->ranks, " ranks"));
  if (contextAtHand() != comm->context)
    return refuse(ncclInvalidArgument, "the thread's GPU is not the communicator's");
  if (comm->error != ncclSuccess)
    return static_cast<ncclResult_t>(comm->error.load());
  auto work = std::make_unique<Work>();
  work->comm = comm, work->operation = operation;
  const uint64_t bytes = operation.count * sizeof(float),
                 all = bytes * static_cast<uint64_t>(comm->ranks);
  work->send = {reinterpret_cast<uint64_t>(send),
                operation.kind == Collective::ReduceScatter ? all : bytes};
  work->receive = {reinterpret_cast<uint64_t>(receive),
                   operation.kind == Collective::AllGather ? all : bytes};
  if ((sends(*work) && !send) || (receives(*work) && !receive) ||
      work->send.begin % sizeof(float) != 0 || work->receive.begin % sizeof(float) != 0)
    return refuse(ncclInvalidArgument, "an operand that is null, or not aligned to its type");
  if (!mayLie(*work))
    return refuse(ncclInvalidArgument,
                  concat("operands of a ", describe(operation), " that overlap, and not in place"));
  if (operation.count == 0)
    return ncclSuccess;
  if (group().depth > 0) {
    group().waiting.emplace_back(std::move(work), stream);
    return ncclSuccess;
  }
  return submit(std::move(work), stream);
}

/// Waits until all ranks sit at the table.
ncclResult_t meet(ncclComm &comm) {
  const auto end = std::chrono::steady_clock::now() + kMeeting;
  while (comm.table->arrived < comm.ranks) {
    if (std::chrono::steady_clock::now() > end)
      return refuse(ncclSystemError,
                    concat(comm.table->arrived.load(), " of ", comm.ranks, " ranks have come"));
    std::this_thread::sleep_for(kNap);
  }
  for (int a = 0; a < comm.ranks; ++a)
    for (int b = 0; b < a; ++b)
      if (comm.seat(a).device == comm.seat(b).device)
        return refuse(ncclInvalidUsage, concat("Duplicate GPU detected : rank ", a, " and rank ", b,
                                               " both on GPU ", comm.seat(a).device.load()));
  return ncclSuccess;
}

void leave(ncclComm_t comm) {
  waitForGraphs(*comm);
  comm->isOver = true;
  if (comm->mover.joinable())
    comm->mover.join();
  comm->own().hasLeft = 1;
}

} // namespace

#define STANDIN extern "C" __attribute__((visibility("default")))

STANDIN ncclResult_t ncclGetVersion(int *version) {
  const char *asked = std::getenv("STANDIN_NCCL_VERSION");
  *version = asked ? std::atoi(asked) : 22707;
  return ncclSuccess;
}

STANDIN ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  return makeTable(id->internal) ? failures().of("ncclGetUniqueId")
                                 : refuse(ncclSystemError, "no shared memory");
}

STANDIN ncclResult_t ncclCommInitRank(ncclComm_t *made, int ranks, ncclUniqueId id, int rank) {
  if (const ncclResult_t failure = failures().of("ncclCommInitRank"))
    return failure;
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, concat("rank ", rank, " of ", ranks));
  auto comm = std::make_unique<ncclComm>();
  comm->ranks = ranks, comm->rank = rank;
  comm->context = contextAtHand(), comm->device = deviceAtHand();
  comm->table = openTable(id.internal);
  if (!comm->table || !comm->context)
    return refuse(ncclSystemError,
                  comm->table ? "no GPU is current in this thread" : "nobody has made this id");
  int nobody = 0;
  if (!comm->own().process.compare_exchange_strong(nobody, getpid()))
    return refuse(ncclInvalidUsage, concat("rank ", rank, " is there already"));
  comm->own().device = comm->device;
  if (++comm->table->arrived == ranks)
    forgetTable(id.internal);
  if (const ncclResult_t problem = meet(*comm))
    return problem;
  if (const char *path = std::getenv("STANDIN_NCCL_LOG"))
    comm->log.reset(fopen(concat(path, ".", rank).c_str(), "w"));
  *made = comm.release();
  (*made)->mover = std::thread([comm = *made] { moveOn(*comm); });
  return ncclSuccess;
}

STANDIN ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm || comm->isAborted)
    return refuse(ncclInvalidArgument, "no communicator, or one that was aborted");
  leave(comm);
  return comm->registered.empty()
             ? ncclSuccess
             : refuse(ncclInvalidUsage, "memory of the communicator is still registered");
}

/// Its work may still be asked for by a stream, and sees that it is over.
STANDIN ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm || comm->isAborted)
    return refuse(ncclInvalidArgument, "no communicator, or one that was aborted");
  comm->isAborted = true;
  leave(comm);
  return ncclSuccess;
}

STANDIN ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  if (!comm || comm->isAborted)
    return refuse(ncclInvalidArgument, "no communicator, or one that was aborted");
  *error = static_cast<ncclResult_t>(comm->error.load());
  return ncclSuccess;
}

STANDIN const char *ncclGetErrorString(ncclResult_t result) {
  static constexpr std::array names = {"no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress"};
  return static_cast<size_t>(result) < names.size() ? names[static_cast<size_t>(result)]
                                                    : "unknown result code";
}

STANDIN const char *ncclGetLastError(ncclComm_t) { return lastError().c_str(); }

STANDIN ncclResult_t ncclCommRegister(ncclComm_t comm, void *buffer, size_t bytes, void **handle) {
  if (const ncclResult_t failure = failures().of("ncclCommRegister"))
    return failure;
  static auto *rangeOf =
      driverFunction<CUresult (*)(CUdeviceptr *, size_t *, CUdeviceptr)>("cuMemGetAddressRange_v2");
  CUdeviceptr base = 0;
  size_t there = 0;
  const auto address = reinterpret_cast<uint64_t>(buffer);
  if (!comm || !handle || bytes == 0 || !rangeOf ||
      rangeOf(&base, &there, address) != CUDA_SUCCESS ||
      !Range{base, there}.holds({address, bytes}))
    return refuse(ncclInvalidArgument, "memory that is not inside one allocation");
  *handle = new char;
  comm->registered[*handle] = {address, bytes};
  return ncclSuccess;
}

STANDIN ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle) {
  if (!comm || comm->registered.erase(handle) == 0)
    return refuse(ncclInvalidArgument, "memory that is not registered");
  delete static_cast<char *>(handle);
  return ncclSuccess;
}

STANDIN ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

STANDIN ncclResult_t ncclGroupEnd() {
  if (group().depth == 0)
    return refuse(ncclInvalidUsage, "the end of a group that has not begun");
  if (--group().depth > 0)
    return ncclSuccess;
  for (auto &[work, stream] : std::exchange(group().waiting, {}))
    if (const ncclResult_t result = submit(std::move(work), stream))
      return result;
  return ncclSuccess;
}

STANDIN ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count,
                                   ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                   void *stream) {
  return enqueue({Collective::AllReduce, 0, count}, send, receive, type, op, comm, stream);
}

STANDIN ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count,
                                       ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                       void *stream) {
  return enqueue({Collective::ReduceScatter, 0, count}, send, receive, type, op, comm, stream);
}

STANDIN ncclResult_t ncclAllGather(const void *send, void *receive, size_t count,
                                   ncclDataType_t type, ncclComm_t comm, void *stream) {
  return enqueue({Collective::AllGather, 0, count}, send, receive, type, ncclSum, comm, stream);
}

STANDIN ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, int root, ncclComm_t comm, void *stream) {
  return enqueue({Collective::Reduce, root, count}, send, receive, type, op, comm, stream);
}

STANDIN ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count,
                                   ncclDataType_t type, int root, ncclComm_t comm, void *stream) {
  return enqueue({Collective::Broadcast, root, count}, send, receive, type, ncclSum, comm, stream);
}
