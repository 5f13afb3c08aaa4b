// The bytes of the arena that a command may touch, from its operands and from its step in the plan.
#pragma once

#include "runtime/format/Program.h"

#include <string>
#include <vector>

namespace stow {

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

/// Bytes of an operand: gaps of a layout with a pitch left out, padding of blocks included.
std::vector<Segment> bytesOf(const Operand &operand, uint8_t uses);

/// What command `index` of `graph` may touch: disjoint, rising. An operand that lies in buffers that the
/// plan's step reads only, or writes only, has that use; where the plan says nothing, both. Throws
/// Error(Internal) naming a command with an operand that lies in no buffer that its step reads or
/// writes.
std::vector<Segment> footprintOf(const GraphProgram &graph, size_t index, const Plan &plan);

/// "command 12 of graph 'train', 'kernel' of node '/fc/Gemm'".
std::string titleOf(const GraphProgram &graph, size_t index);

} // namespace stow
