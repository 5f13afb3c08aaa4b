// Where a schedule's buffers idle: what could travel meanwhile.
//
//   run      0   1   2   3   4   5   6      a buffer idles between two runs that touch it, one
//   buffer a [w  r---------------r  r]      after the other: here from 1 to 5. While it is away its
//   away             2...4                  bytes are free at the runs between, 2 to 4.
//
// A buffer that nothing writes to between two of its idle spells has to be copied out once for both.
#pragma once

#include "ir/plan/schedule/Lanes.h"

namespace stow::schedule {

/// A spell in which a buffer is not touched, with a run in it at least; or a copy of state, which the
/// schedule runs as an op:
///  - Fetch: the copy may start behind `from`, the last touch of what was fetched before, or -1; the
///    first reader is `to`. Until the copy starts there is no buffer.
///  - Send: the copy may start behind `from`, the last write; the next write is `to`, or runs() + 1
///    where there is none. The buffer is there until the copy is awaited.
struct Spell {
  enum class Kind : int8_t { Idle, Fetch, Send };
  int32_t group = 0;        ///< spells of one group share one copy out
  int32_t from = 0, to = 0; ///< positions around it; `to` may be runs(): the end
  int32_t ready = 0;        ///< the first position at which the copy out may start
  Bytes bytes = 0;
  ValueId value = 0; ///< that is read at `to`: steps name it
  Kind kind = Kind::Idle;
  OpId op = 0; ///< of a copy of state
};

/// A schedule without copies, looked at as what could travel in it.
class Residency {
public:
  /// `solution` must be legal.
  Residency(const Problem &problem, const Lanes &lanes, const Solution &solution);

  int32_t runs() const { return static_cast<int32_t>(bytesAt.size()) - 1; }
  Cost runTime() const { return startOf.back(); }
  Bytes peak() const;

  /// Per run, and behind the last: bytes if nothing travels but state, which is there from its first
  /// reader to its last writer; what has run before it takes. Copies of state take no time.
  std::vector<Bytes> bytesAt;
  std::vector<Cost> startOf;
  std::vector<Spell> spells;   ///< by `to`, `from` and value
  std::vector<int32_t> copied; ///< spells that are copies of state, ascending
  std::vector<char> isCopy;    ///< per run: of an op of a copy lane
  int32_t groupCount = 0;
};

/// Bytes per position: range add and range maximum, O(log positions).
class RangePeak {
public:
  explicit RangePeak(const std::vector<Bytes> &bytes);
  /// Both ends included.
  void add(int32_t first, int32_t last, Bytes bytes);
  Bytes peak(int32_t first, int32_t last) const;
  Bytes peak() const { return top.empty() ? 0 : top[1]; }

private:
  /// Leaves of [first, last] are added to where whole nodes are covered; `top` of a node is the
  /// maximum below it with `added` of the node itself, without that of the nodes above.
  int32_t leaves = 1;
  std::vector<Bytes> top, added;
};

} // namespace stow::schedule
