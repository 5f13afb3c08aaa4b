// Two lanes, out and in, on which buffers travel between memory and a SlowFile while the caller computes.
//
//   caller      start(a) | compute ......... | await(a)
//   lane, out       |== a, piece 0 ==|== a, piece 2 ==|         two threads to a lane take the pieces of one
//                     |== a, piece 1 ==|                         copy after the other: while one of them waits
//                                                                for the disk, the other moves bytes
//
// A piece passes through memory of its thread, aligned as O_DIRECT needs it, so that buffers lie wherever a plan puts
// them. A copy out notes a checksum of each piece and a copy in compares it.
// After the last add() nothing is allocated, unless a copy fails.
#pragma once

#include "runtime/base/CopyPace.h"
#include "runtime/base/Error.h"
#include "runtime/slow/SlowFile.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stow::slow {

/// What passes at once: large enough that a disk's bandwidth is reached, as small as a processor's cache.
inline constexpr Bytes kPieceBytes = Bytes{1} << 20;
inline constexpr int kThreadsPerLane = 2;
/// The memory that the lanes take, beside checksums of 8 bytes for each piece.
inline constexpr Bytes kLaneBytes = 2 * kThreadsPerLane * kPieceBytes;

/// A copy that could not be done: names the user's node and why; of a file, what was expected and found.
class CopyFailed : public Error {
public:
  explicit CopyFailed(const std::string &message) : Error(ErrorKind::BadInput, message) {}
};

/// Bytes in slow memory that stay there from run to run.
struct SlowPlace {
  Bytes slowOffset = 0, bytes = 0;
  std::string name; ///< for errors
};

struct LaneCopy {
  bool isOut = true;
  char *memory = nullptr;
  Bytes bytes = 0;
  Bytes slowOffset = 0;
  /// Of a copy in: the number of the copy out whose bytes it fetches; absent: the place has them already.
  std::optional<size_t> source;
  std::string node; ///< the user's, for errors
  /// The number of the place that it reads or writes; absent: bytes that are a run's alone.
  std::optional<size_t> place = {};
};

/// What has passed so far.
struct LaneTraffic {
  Bytes bytesOut = 0, bytesIn = 0;
};

class CopyLanes {
public:
  /// `file` outlives the lanes. Without Background there are no threads. A process that is forked later has
  /// neither the threads nor a file of its own: there every copy throws CopyFailed, cancel() and the destructor
  /// return at once.
  CopyLanes(const SlowFile &file, const CopyPace &pace);
  /// Waits for pieces that are on their way; what has not begun does not happen.
  ~CopyLanes();
  CopyLanes(const CopyLanes &) = delete;
  CopyLanes &operator=(const CopyLanes &) = delete;

  /// Notes bytes that stay, before the copies that read or write them; returns the place's number. Until they are put there
  /// they are zeros.
  size_t addPlace(const SlowPlace &place);

  /// Memory of a piece, for put() and that get() gives.
  char *pieceMemory() { return pieces.get(); }
  /// Writes what is in pieceMemory() to piece `piece` of a place, the bytes from piece * kPieceBytes on, or reads them. While no
  /// copy is on its way. Throws CopyFailed where it could not be done.
  void put(size_t place, int64_t piece);
  const char *get(size_t place, int64_t piece);

  /// Notes a copy to do again and again, before the first start; returns its number. A copy in comes
  /// behind its source.
  size_t add(const LaneCopy &copy);

  /// Starts a copy, which has been awaited if it was started before. A copy in does not begin before its source has
  /// ended.
  void start(size_t copy);
  /// Returns when the copy has ended. Throws CopyFailed where it could not be done.
  void await(size_t copy);
  /// Waits until nothing is on its way; copies that were started and not awaited did not happen.
  void cancel();

  /// From the begin of a copy's first piece to the end of its last, when it was done last.
  double seconds(size_t copy) const;
  LaneTraffic traffic() const;

private:
  using Clock = std::chrono::steady_clock;
  struct Free {
    void operator()(char *memory) const;
  };
  using Staging = std::unique_ptr<char, Free>;

  struct Job {
    LaneCopy copy;
    int64_t pieces = 0;
    size_t place = 0; ///< whose checksums its bytes have
    // Of the run at hand, under the mutex.
    int64_t taken = 0, done = 0;
    bool isEnded = false;
    std::string problem; ///< empty: none
    Clock::time_point begin, end;
  };

  struct Place {
    SlowPlace where;
    std::vector<uint64_t> sums; ///< by piece
  };

  struct Lane {
    std::vector<size_t>
        queue; ///< copies in the order of their starts, from `head` on not begun or not all taken
    size_t head = 0;
    double bytesPerSecond = 0;
    double latencySeconds = 0; ///< with a bandwidth: of each copy
    Clock::time_point freeAt;  ///< with a bandwidth: when the last piece that was taken has passed
    Bytes passed = 0;
  };

  static Staging pieceBuffer();
  size_t placeFor(const SlowPlace &where);
  void stop();
  /// Whether this is the process that made the lanes.
  bool isOwn() const { return ::getpid() == process; }
  void requireOwn(const Job &job) const;
  void requireOwn(const std::string &title) const;
  void writePiece(Place &place, int64_t piece, char *buffer);
  void readPiece(const Place &place, int64_t piece, char *buffer) const;
  static Bytes bytesOf(const Place &place, int64_t piece);
  std::unique_lock<std::mutex> lock() const;
  Lane &laneOf(const Job &job) { return job.copy.isOut ? out : in; }
  bool isReady(const Lane &lane) const;
  void work(Lane &lane, char *staging);
  Job &take(Lane &lane, int64_t &piece);
  Clock::time_point reserve(Lane &lane, Bytes bytes, bool isFirst) const;
  void finishPiece(Lane &lane, Job &job, int64_t piece, const std::string &problem);
  void copyPiece(Job &job, int64_t piece, char *staging);
  void copyNow(size_t copy);
  static Bytes bytesOf(const Job &job, int64_t piece);

  const SlowFile &file;
  const CopyTime time;
  const pid_t process = ::getpid();
  mutable std::mutex mutex;
  std::condition_variable changed; ///< of anything below
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<std::unique_ptr<Place>> places;
  Staging pieces; ///< where there are places that stay
  Lane out, in;
  bool isStopping = false;
  std::vector<Staging> staging;
  std::vector<std::thread> threads;
};

} // namespace stow::slow
