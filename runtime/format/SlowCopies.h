// Copies between the arena and slow memory, as the commands of a graph say them.
//
// Slow memory is larger and slower than the arena: a file beside RAM, RAM beside a GPU. A copy is two
// commands, its start and the one that waits for it; what stands between them runs meanwhile.
//
//   op            operands  ints
//   copy_out      buffer    slow_offset (bytes from the start of slow memory, a multiple of
//                           kSlowAlignment), copy (its number, from 0, of no other copy of the graph)
//   copy_in       buffer    the same
//   await_copy    buffer    copy (the number of the one that it waits for)
//
// State whose place is slow memory (slowStateOf) is there before a run and behind it: a copy_in may fetch it without
// a copy_out before, and what a copy_out of its size to its place puts there is its new value.
//
// From a copy_out to its await nobody writes the buffer, from a copy_in to its await nobody reads or
// writes it. A copy_in fetches what the last copy_out to the same slow bytes in the same run has put there,
// and waits for that copy. Each direction does one copy at a time, in the order of their starts. A buffer
// is row-major bytes: its place and its size count alone.
#pragma once

#include "runtime/format/Program.h"

#include <optional>
#include <vector>

namespace stow {

/// State that lies in slow memory.
struct SlowState {
  std::string name;
  size_t number = 0; ///< in Program::state
  Bytes slowOffset = 0, bytes = 0;
  Bytes scatteredBytes =
      0; ///< all of them where it is not row-major, and more than is transferred at once
  Bytes slowEnd() const { return slowOffset + alignUp(bytes, kSlowAlignment); }
};

/// By their places; none where there is no slow memory. Throws Error(BadInput) naming one that leaves the slow memory, meets another, or is not whole blocks away
/// from its begin.
std::vector<SlowState> slowStateOf(const Program &program);

struct SlowCopy {
  bool isOut = true;
  size_t start = 0, await = 0; ///< numbers of its two commands
  Bytes offset = 0, bytes = 0; ///< of the buffer, in the arena
  Bytes slowOffset = 0;        ///< where it lies in slow memory
  /// Of a copy in: the number of the copy out whose bytes it fetches; absent: state of the run before.
  std::optional<size_t> source;
  std::optional<size_t> state; ///< where the slow bytes are state's: its number in slowStateOf()
  Bytes slowEnd() const { return slowOffset + alignUp(bytes, kSlowAlignment); }
};

/// Whether the command is one of the three.
bool isOfCopy(const Command &command);

/// The copies of a graph by their numbers. Throws Error(BadInput) naming the command at fault and its
/// node: a copy that is not awaited once, or of another buffer; that leaves the slow memory of `slowBytes`; that
/// fetches what no copy out has put there, or overwrites what another copy may still read or write, or a part of `state`.
std::vector<SlowCopy> slowCopiesOf(const GraphProgram &graph, Bytes slowBytes,
                                   const std::vector<SlowState> &state = {});

} // namespace stow
