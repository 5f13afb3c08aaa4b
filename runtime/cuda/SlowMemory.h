// The slow memory of a program on a GPU: pinned memory of the host, and the program's copies on two streams of their own.
//
//   stream    ... s(a) ====== s(b) ====== w(a) ====== w(b) ======     s: a copy starts, w: it is awaited
//   out            `--[ a ]--------------'                 |
//   in                           `--[ b ]------------------'
//
// Each direction is a stream, which does its copies in the order of their starts. Events fork and join them, also while
// the commands' stream is captured: the graph that comes of it has the copies beside its kernels.
#pragma once

#include "runtime/cuda/Driver.h"
#include "runtime/device/Device.h"
#include "runtime/format/SlowCopies.h"

#include <array>
#include <string>
#include <vector>

namespace stow::cuda {

class SlowMemory {
public:
  /// Takes program.slowBytes of pinned memory of the host for the arena at `arena`. The context is current in this
  /// thread, as it is in all calls. Throws Error(BadInput) where the driver has no such piece, where a folder or a
  /// bandwidth is asked for, which are a file's, and as slowCopiesOf() does.
  SlowMemory(const Driver &driver, const Program &program, const SlowMemoryOptions &options,
             Address arena);
  /// Nothing may be on its way.
  ~SlowMemory();
  SlowMemory(const SlowMemory &) = delete;
  SlowMemory &operator=(const SlowMemory &) = delete;

  /// Puts the start of a graph's copy, or the wait for it, behind what `stream` has so far. With `isTimed`, which a
  /// capture is not, seconds() knows what the copy took once the stream has passed its await.
  void start(size_t graph, size_t copy, Stream stream, bool isTimed);
  void await(size_t graph, size_t copy, Stream stream, bool isTimed);

  /// Of a copy that was timed and awaited; 0 before.
  double seconds(size_t graph, size_t copy) const;

  /// The host's view of [offset, offset + bytes) of slow memory, while nothing is on its way.
  char *at(Bytes offset) { return memory + offset; }

  /// Times the largest copy of each direction, from and to the arena as it is, while nothing is on its way. A sentence for each
  /// that takes longer than `plan` says.
  std::vector<std::string> slowerThanPlanned(const Program &program);

  /// Notes that a graph was run.
  void addTraffic(size_t graph);
  SlowTraffic traffic() const;
  Bytes bytes() const { return size; }

private:
  struct Copy {
    SlowCopy what;
    std::string node;
    Event ended = nullptr;
    std::array<Event, 2> timing =
        {};             ///< around it on its lane; made by the first run that is timed
    bool isPut = false; ///< on its lane, since its start was submitted last
  };
  struct GraphCopies {
    std::vector<Copy> copies;
    Bytes bytesOut = 0, bytesIn = 0;
  };

  Copy &copyOf(size_t graph, size_t copy) { return graphs.at(graph).copies.at(copy); }
  void put(size_t graph, size_t copy, Stream stream, bool isTimed);
  void submit(const Copy &copy, Stream lane) const;
  double secondsAlone(Copy &copy);
  double elapsed(const Copy &copy) const;
  void makeTimingEvents(Copy &copy) const;
  Event makeEvent(unsigned flags) const;
  void release();

  const Driver &driver;
  const CopyTime time;
  const Address arena;
  const Bytes size;
  char *memory = nullptr;
  Stream out = nullptr, in = nullptr;
  Event started = nullptr; ///< recorded by every start, and waited for at once
  std::vector<GraphCopies> graphs;
  Bytes bytesOut = 0, bytesIn = 0;
};

} // namespace stow::cuda
