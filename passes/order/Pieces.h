// A stretch of bytes divided among its readers: each reads all or none of a piece.
//
//   read by f      [-----------)
//   read by g          [-----------)
//   pieces         0   1       2    3
//
// A piece may lie in several runs: the same channels of every pixel, say.
#pragma once

#include "runtime/base/Bytes.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace stow {

/// A row's bytes in pieces, each of any number of runs.
class Pieces {
public:
  explicit Pieces(Bytes size) : runs{{size, 0}} {}

  /// Bytes [begin, end) with a key of their own; all others have key 0.
  struct Mark {
    Bytes begin = 0, end = 0;
    unsigned key = 0;
  };
  /// Divides every piece by the keys of its bytes. `marks` are disjoint and ascending. True when
  /// there are more pieces now.
  bool refine(const std::vector<Mark> &marks);

  /// Calls with (piece, begin, end) for every run of bytes [begin, end) within one piece.
  void visit(Bytes begin, Bytes end, llvm::function_ref<void(unsigned, Bytes, Bytes)> run) const;

  unsigned at(Bytes byte) const;
  unsigned count() const { return pieces; }
  std::vector<Bytes> sizes() const;

private:
  struct Run {
    Bytes end = 0; ///< begins where the one before ends
    unsigned piece = 0;
  };
  std::vector<Run> runs;
  unsigned pieces = 1;
};

} // namespace stow
