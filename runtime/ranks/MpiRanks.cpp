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

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <limits>

namespace stow {

namespace {

constexpr int kThreadFunneled = 1; ///< MPI_THREAD_FUNNELED, of both families

/// Bytes that pass at once where nothing is added up.
constexpr size_t kBroadcastBytes = size_t{1} << 20;

/// What MPI is called by, for handles of the type `Handle` (mpi.h of either family).
template <typename Handle> struct Functions {
  int (*initThread)(int *, char ***, int, int *) = nullptr;
  int (*initialized)(int *) = nullptr;
  int (*finalize)() = nullptr;
  int (*commRank)(Handle, int *) = nullptr;
  int (*commSize)(Handle, int *) = nullptr;
  int (*alltoallv)(const void *, const int *, const int *, Handle, void *, const int *, const int *,
                   Handle, Handle) = nullptr;
  int (*allgatherv)(const void *, int, Handle, void *, const int *, const int *, Handle,
                    Handle) = nullptr;
  int (*allgather)(const void *, int, Handle, void *, int, Handle, Handle) = nullptr;
  int (*bcast)(void *, int, Handle, int, Handle) = nullptr;
  int (*abort)(Handle, int) = nullptr;
};

template <typename Handle> struct Constants {
  Handle world, byte, real; ///< real: MPI_FLOAT
  void *inPlace;
};

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
    find(library, mpi.finalize, "MPI_Finalize");
    find(library, mpi.commRank, "MPI_Comm_rank");
    find(library, mpi.commSize, "MPI_Comm_size");
    find(library, mpi.alltoallv, "MPI_Alltoallv");
    find(library, mpi.allgatherv, "MPI_Allgatherv");
    find(library, mpi.allgather, "MPI_Allgather");
    find(library, mpi.bcast, "MPI_Bcast");
    find(library, mpi.abort, "MPI_Abort");
    int provided = 0, number = 0;
    require(mpi.initialized(&number), "MPI_Initialized");
    isOurs = number == 0;
    if (isOurs)
      require(mpi.initThread(nullptr, nullptr, kThreadFunneled, &provided), "MPI_Init_thread");
    require(mpi.commRank(constants.world, &number), "MPI_Comm_rank");
    ownRank = number;
    require(mpi.commSize(constants.world, &number), "MPI_Comm_size");
    ranks = number;
    for (std::vector<int> *list : {&counts, &starts, &scratchCounts, &scratchStarts})
      list->resize(ranks);
  }

  ~MpiRanks() override {
    if (isOurs)
      mpi.finalize();
  }

  int64_t rank() const override { return ownRank; }
  int64_t size() const override { return ranks; }

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
    require(mpi.alltoallv(values, counts.data(), starts.data(), constants.real, received,
                          scratchCounts.data(), scratchStarts.data(), constants.real,
                          constants.world),
            "MPI_Alltoallv");
  }

  void join(const float *shard, int64_t count, int64_t first, int64_t piece,
            float *values) override {
    for (int64_t other = 0; other < ranks; ++other)
      takePart(other, count, first, piece);
    require(mpi.allgatherv(shard + first, counts[ownRank], constants.real, values, counts.data(),
                           starts.data(), constants.real, constants.world),
            "MPI_Allgatherv");
  }

  void gather(const float *own, int64_t count, float *all) override {
    require(mpi.allgather(own, bytesOf(count), constants.byte, all, bytesOf(count), constants.byte,
                          constants.world),
            "MPI_Allgather");
  }

  void broadcast(std::span<char> bytes) override {
    for (size_t first = 0; first < bytes.size(); first += kBroadcastBytes)
      require(mpi.bcast(bytes.data() + first,
                        static_cast<int>(std::min<size_t>(kBroadcastBytes, bytes.size() - first)),
                        constants.byte, 0, constants.world),
              "MPI_Bcast");
  }

  std::vector<uint64_t> gather(uint64_t own) override {
    std::vector<uint64_t> all(ranks);
    require(mpi.allgather(&own, sizeof(own), constants.byte, all.data(), sizeof(own),
                          constants.byte, constants.world),
            "MPI_Allgather");
    return all;
  }

  void abort(int exitCode) override {
    mpi.abort(constants.world, exitCode);
    std::_Exit(exitCode);
  }

private:
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
    require(mpi.alltoallv(values, counts.data(), starts.data(), constants.byte, scratch,
                          scratchCounts.data(), scratchStarts.data(), constants.byte,
                          constants.world),
            "MPI_Alltoallv");
    for (int64_t i = 0; i < own; ++i) {
      float total = 0;
      for (int64_t other = 0; other < ranks; ++other)
        total += scratch[own * other + i];
      values[ownStart + i] = total;
    }
    require(mpi.allgatherv(constants.inPlace, 0, constants.byte, values, counts.data(),
                           starts.data(), constants.byte, constants.world),
            "MPI_Allgatherv");
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
  bool isOurs = true; ///< not begun by another library of the process
  int64_t ownRank = 0, ranks = 1;
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
      library, Constants<void *>{world, byte, real, reinterpret_cast<void *>(1)});
}

std::unique_ptr<Ranks> openMpich(void *library) {
  return std::make_unique<MpiRanks<int>>(
      library, Constants<int>{0x44000000, 0x4c00010d, 0x4c00040a, reinterpret_cast<void *>(-1)});
}

/// How a program for so many devices is started.
std::string startIt(int64_t size) {
  return concat("start it as: mpirun -n ", size, " ./model train --data=FILE ...");
}

} // namespace

std::unique_ptr<Ranks> joinRanks(int64_t size) {
  const std::optional<RankLaunch> launch = launchOfEnvironment();
  if (!launch)
    throw Error::badInput(concat("the program is compiled for ", size, " devices, and ",
                                 whyNoLaunch(), "; ", startIt(size)));
  auto refuseSize = [&](int64_t found) {
    throw Error::badInput(concat("the program is compiled for ", size, " devices (--devices=", size,
                                 "), and the launcher has started ", found, " processes; ",
                                 startIt(size), ", or compile it with --devices=", found));
  };
  if (launch->size && *launch->size != size)
    refuseSize(*launch->size);
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

std::shared_ptr<Ranks> ranksOfProcess(int64_t size) {
  if (!joined())
    joined() = joinRanks(size);
  return joined();
}

void leaveRanks() { joined().reset(); }

} // namespace stow
