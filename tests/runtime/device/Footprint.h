// The bytes of the arena that a command may touch, from its operands and from its step in the plan.
#pragma once

#include "runtime/format/Program.h"

#include <vector>

namespace stow::test {

/// What a command may do with bytes of its operands.
enum Use : uint8_t {
  Reads = 1,
  Writes = 2,  ///< without Reads: what lies there before is of no account
  Scratch = 4, ///< its workspace: holds nothing before it and nothing after it
};

struct Segment {
  Bytes begin = 0, end = 0;
  uint8_t uses = 0; ///< of Use
};

struct Footprint {
  std::vector<Segment> allowed; ///< disjoint, rising
  std::vector<Segment> pages;   ///< ranges of whole pages that `allowed` touches; no uses
  std::vector<Segment> gaps;    ///< the bytes of `pages` that are not in `allowed`; no uses
};

/// Bytes of an operand: gaps of a layout with a pitch left out, padding of blocks included.
std::vector<Segment> bytesOf(const Operand &operand, uint8_t uses);

/// The footprint of command `index` of `graph`. An operand that lies in buffers that the plan's step
/// reads only, or writes only, has that use; where the plan says nothing, both. Throws
/// Error(Internal) naming a command with an operand that lies in no buffer that its step reads or
/// writes.
Footprint footprintOf(const GraphProgram &graph, size_t index, const Plan &plan);

} // namespace stow::test
