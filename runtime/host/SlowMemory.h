// The slow memory of a program on the host: a file, and the program's copies on its two lanes.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/slow/CopyLanes.h"

#include <vector>

namespace stow::host {

/// What a command of a copy does.
struct CopyStep {
  slow::CopyLanes *lanes = nullptr;
  size_t copy = 0; ///< the lanes' number
  bool isStart = false;
};

class SlowMemory {
public:
  /// `arena` is where offset 0 lies. Throws Error(BadInput) where no folder is said, as SlowFile does, and
  /// as slowCopiesOf() does.
  SlowMemory(const Program &program, const SlowMemoryOptions &options, char *arena);

  /// Of a command that is one of a copy.
  CopyStep stepOf(const Command &command, size_t graph);

  /// State that lies here, for the host, between runs: [offset, offset + bytes) of slow memory, a whole piece of a tensor
  /// (kSlowPieceBytes). Memory for what is to come there; writes it; what is there, until the next call. Throws
  /// slow::CopyFailed as the lanes do.
  char *stage(Bytes offset, Bytes bytes);
  void commit(Bytes offset, Bytes bytes);
  const char *fetch(Bytes offset, Bytes bytes);

  void cancel() { lanes.cancel(); }
  double seconds(size_t graph, size_t copy) const {
    return lanes.seconds(numbers.at(graph).at(copy));
  }
  SlowTraffic traffic() const;
  Bytes outsideBytes() const; ///< that it takes beside the arena
  std::vector<std::string> notes() const { return file.notes(); }

private:
  struct Piece {
    size_t place = 0;
    int64_t number = 0;
  };
  Piece pieceAt(Bytes offset, Bytes bytes) const;

  const slow::SlowFile file;
  slow::CopyLanes lanes;
  std::vector<std::vector<size_t>> numbers; ///< the lanes' of each graph's copies
  const std::vector<SlowState> state;       ///< by place
  std::vector<size_t> places;               ///< the lanes' of each
  Bytes bytesOut = 0;                       ///< of what is a run's alone
  int64_t copiesOut = 0;
};

} // namespace stow::host
