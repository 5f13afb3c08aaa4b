// How rows of a kernel are dealt to the threads of a device.
#pragma once

#include "codegen/kernels/Emit.h"

namespace stow {

/// What threads take of a row one at a time: its vectors, or positions, or the pieces of its edges.
struct Portions {
  int64_t lanes = 1; ///< of one: along the axis, or rows side by side
  int64_t ofRun = 1; ///< of a contiguous part of the axis; where rows have edges at most
  int64_t count = 0; ///< of the axis
  bool areEdges = false;
};

/// How rows of a kernel are dealt to threads.
struct Team {
  bool along = true;
  int64_t members = kWarp; ///< threads that share the axis of a row
  int64_t parts = 1;       ///< teams that share a row
  bool keeps = false;      ///< what is read stays in registers
  Portions vectors, edges; ///< the latter none where rows are whole vectors
  int64_t certain = 0;     ///< vectors that each contiguous part has, wherever it begins

  bool hasEdges() const { return edges.count > 0; }
  /// Pieces from one of a thread to its next.
  int64_t stride() const { return members * parts; }
  int64_t ofMember(const Portions &pieces) const {
    return (pieces.count + stride() - 1) / stride();
  }
};

/// The team of rows along which it folds. Where rows have edges, the last access of both spaces then says
/// where a contiguous part of the axis would begin, modulo a vector, if the tensor of access 0 had no gaps.
Team teamAlong(const KernelFrame &frame, Space &kept, Space &axis);

/// That of rows side by side along `lane`.
Team teamAcross(const KernelFrame &frame, const Space &outer, const Space::Dim &lane,
                const Space &axis);

} // namespace stow
