// Static memory packing: buffers with known lifetimes and sizes get byte offsets in one arena.
//
//   bytes
//     ^            +-----+
//     |   +--------+  c  |        a, b and c are live in half-open time intervals and never
//     |   |   b    +-----+--+     overlap both in time and in bytes; `height` is the highest
//     | +-+------+----------+     byte in use. The largest sum of live sizes (the load) is a
//     | |   a    |    d     |     lower bound on the height.
//     +-+--------+----------+--> time
//
// Beyond plain rectangles a problem states what its caller knows about storage:
//   sameAs      two buffers share one storage (views, in-place results): equal offsets;
//   inside      a buffer lies at a given offset inside another one (an operand written straight
//               into the result of a concatenation);
//   fixedOffset the offset is given;
//   persistent  live at every instant, whatever `life` says (parameters, optimizer state).
// Buffers tied by sameAs / inside form one *storage*, which moves as a rigid body. Members of one
// storage may share bytes at the same time where one is the same as, or lies inside, the other;
// two slices side by side in a container may not.
//
// The family's vocabulary: Problem, Solution, check, verify, lowerBound, print, parse, generate.
// Solvers live in passes/solvers/pack. Everything here is deterministic and free of MLIR.
#pragma once

#include "runtime/base/Bytes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stow::pack {

/// A point in time: any integer scale, e.g. the index of a kernel in the schedule.
using Time = int64_t;

/// The index of a buffer in Problem::buffers.
using BufferId = int32_t;

/// The half-open time interval [begin, end).
struct Interval {
  Time begin = 0;
  Time end = 0;

  bool operator==(const Interval &) const = default;
  Time length() const { return end - begin; }
  bool overlaps(const Interval &other) const { return begin < other.end && other.begin < end; }
};

/// A place inside another buffer: `offset` bytes above its first byte.
struct Inside {
  BufferId container = 0;
  Bytes offset = 0;

  bool operator==(const Inside &) const = default;
};

struct Buffer {
  std::string name; ///< unique; reports and files refer to buffers by it
  Interval life;    ///< non-empty
  Bytes size = 0;   ///< zero is allowed and occupies nothing
  Bytes alignment = 1;
  std::optional<Bytes> fixedOffset;
  std::optional<BufferId> sameAs;
  std::optional<Inside> inside;
  bool persistent = false;

  bool operator==(const Buffer &) const = default;
};

struct Problem {
  std::vector<Buffer> buffers;

  bool operator==(const Problem &) const = default;
};

struct Solution {
  std::vector<Bytes> offsets; ///< by BufferId
  Bytes height = 0;           ///< largest offset + size

  bool operator==(const Solution &) const = default;
};

/// The times at which anything is live: [earliest begin, latest end), empty without buffers.
Interval horizon(const Problem &problem);

/// When `buffer` occupies bytes: its life, or the whole `horizon` when it is persistent.
Interval occupancy(const Buffer &buffer, const Interval &horizon);

/// Where each buffer lies relative to the storage it belongs to.
struct Storages {
  std::vector<BufferId> root;  ///< by BufferId: the outermost buffer of its storage
  std::vector<Bytes> relative; ///< by BufferId: offset above the root's first byte, >= 0
};

/// Follows sameAs and inside to the outermost buffer. Requires that `check` found nothing.
Storages resolveStorages(const Problem &problem);

/// What is wrong with `problem`, one sentence each, in buffer order and at most 20; empty when it
/// is well formed. Rules: names are unique; lives are not empty; sizes are not negative and sum up
/// to at most 2^60; alignments are in [1, 2^40]; fixed offsets are aligned, not negative, and agree
/// within a storage; sameAs and inside name other buffers without a cycle and exclude each other;
/// a contained buffer fits its container and keeps its alignment there; slices of one container
/// that are live together are disjoint.
std::vector<std::string> check(const Problem &problem);

/// Throws Error(BadInput) with the first finding of `check`.
void requireValid(const Problem &problem);

/// The height that `offsets` need.
Bytes heightOf(const Problem &problem, const std::vector<Bytes> &offsets);

} // namespace stow::pack
