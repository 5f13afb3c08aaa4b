// The processes that train together: N ranks, one program, one device each.
//
// Who needs the others asks this and knows no engine. Every call but rank() and size() is collective: all ranks
// make it, in the same order and with the same sizes, and none returns before its own part is done.
#pragma once

#include "runtime/base/Bytes.h"
#include "runtime/base/Error.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stow {

/// A rank that others wait for does not come. Nothing is known of the exchange that waits, nor can another follow it: each call that is
/// made none the less throws the same at once.
class RankLost : public Error {
public:
  explicit RankLost(const std::string &message) : Error(ErrorKind::BadInput, message) {}
};

/// What a rank does while it waits for others.
struct RankWatch {
  std::chrono::milliseconds patience =
      std::chrono::minutes(10); ///< before RankLost; 0: none is too long
  /// Whether the process has been asked to end. May be empty.
  std::function<bool()> isAskedToEnd = {};
  /// Called once where it is asked to end while ranks that it waits for do not answer, with their names, on the lowest rank that does.
  std::function<void(const std::string &silent)> tell = {};
};

class Ranks {
public:
  virtual ~Ranks() = default;

  virtual int64_t rank() const = 0; ///< 0, 1, ...
  virtual int64_t size() const = 0;
  virtual std::string library() const = 0; ///< by which the ranks are connected, with its version

  /// Whether calls may come from another thread than the one that joined, one at a time.
  virtual bool mayBeCalledBeside() const = 0;

  /// From here on. Calls that wait longer for another rank than that throw RankLost, which names it.
  virtual void setWatch(RankWatch watch) = 0;

  // What ranks exchange by other ways than these calls, as their devices do. Not collective.

  /// Asks `isDone` until it says so or throws: it waits for other ranks, and does not block. Throws RankLost as the calls do.
  virtual void waitUntil(const std::function<bool()> &isDone) = 0;
  /// Such an exchange has failed, which only says why: throws RankLost, with the ranks that do not answer, and from here on so do all calls.
  [[noreturn]] virtual void lose(const std::string &why) = 0;

  /// Replaces each element by its sum over the ranks, added in their order to 0: ((0 + x0) + x1) + ... The same
  /// bits on all ranks and in every run, and those of a loop over the ranks' values in one process.
  /// `scratch` has reductionScratchBytes (runtime/format/Reduction.h). Allocates nothing.
  virtual void sum(float *values, int64_t count, char *scratch) = 0;

  /// Shards of `count` values that every rank has (runtime/base/Shards.h), 2^31 - 1 at most. Of each rank's this one gets the elements
  /// [first, first + piece) of its own shard, one rank's behind the other's.
  virtual void scatter(const float *values, int64_t count, int64_t first, int64_t piece,
                       float *received) = 0;
  /// Every rank gives the elements [first, first + piece) of its shard, which all get at their places among the values.
  virtual void join(const float *shard, int64_t count, int64_t first, int64_t piece,
                    float *values) = 0;

  /// The `count` floats of each rank, by rank.
  virtual void gather(const float *own, int64_t count, float *all) = 0;

  /// Replaces the bytes of all ranks by those of rank 0.
  virtual void broadcast(std::span<char> bytes) = 0;

  /// The numbers of all ranks, by rank.
  virtual std::vector<uint64_t> gather(uint64_t own) = 0;

  /// Ends the processes of all ranks, this one included, with that exit code. Not collective.
  [[noreturn]] virtual void abort(int exitCode) = 0;
};

/// "rank 1", "ranks 1, 4": a few of them by number, and how many more.
std::string namesOf(std::span<const int64_t> some);

/// What adds up over the ranks of a program: these calls, or the ranks' devices, which then need little of them.
enum class SumsBy : uint8_t { Ranks, Devices };

/// Joins the ranks that a launcher has started: mpirun of Open MPI or of MPICH, or srun with one of their plug-ins; where devices add up, also torchrun, or
/// srun without a plug-in (SocketRanks.h). Throws Error(BadInput) that names the command where no such launcher has started this process, where it
/// has started another number of processes than `size`, and where its MPI is not found.
std::unique_ptr<Ranks> joinRanks(int64_t size, SumsBy sums);

/// The same for a library, whose models are made and destroyed in a process that stays: joined at the first call. Another library may have
/// joined before, or the program itself.
std::shared_ptr<Ranks> ranksOfProcess(int64_t size, SumsBy sums);

/// Ends what ranksOfProcess() has begun, before a process ends that has not failed; collective. Launchers take one that ends without it
/// for one that has failed, and end all others.
void leaveRanks();

/// Whether a launcher that joinRanks() takes has started this process as one of several ranks, or as the only one.
bool isLaunched(SumsBy sums);

} // namespace stow
