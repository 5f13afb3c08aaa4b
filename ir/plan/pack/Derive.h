// Hard problems with a certificate: a known packing, changed together with its problem.
//
//   +--+----+        +--+-+--+        Every change moves, cuts, joins, stretches or removes the
//   |  | b  |        |  |b|b |        rectangles of a packing that is known, so that the changed
//   | a+--+-+   ->   |a +-+--+        problem has a packing of the same height by construction,
//   |  |c |          |  |  c |        however hard it is to find. A solver that fails on such a
//   +--+--+          +--+----+        problem within its capacity is at fault.
//
// All changes are pure functions of their arguments and give the same on every platform. They take
// and give plain problems: no shared storages, fixed offsets or persistent buffers; alignment 1.
#pragma once

#include "ir/plan/pack/Problem.h"

namespace stow::pack {

/// A problem and a packing of it.
struct Certified {
  Problem problem;
  Solution packing; ///< its height is the capacity to decide
};

enum class Derivation {
  Reverse,   ///< time runs backward
  Shrink,    ///< a third of the buffers lose some bytes or some of their life
  Drop,      ///< a tenth of the buffers is left out
  CutTime,   ///< a quarter of the buffers becomes two, one after the other
  CutBytes,  ///< a quarter of the buffers becomes two, one above the other
  Merge,     ///< buffers that share a whole edge in the packing become one, where there are any
  Scramble,  ///< cuts and merges in turns: as many buffers, the same outline, other shapes
  Lengthen,  ///< lives grow into free space, as far as the packing allows
  Grow,      ///< sizes grow into free space
  Saturate,  ///< both, and new buffers fill what is left: no free byte at any time
  StackTime, ///< the packing and its mirror image one after the other, joined at the seam
  StackBytes ///< the packing under its reverse, some buffers joined across: twice the height
};

constexpr Derivation allDerivations[] = {
    Derivation::Reverse,  Derivation::Shrink,   Derivation::Drop,      Derivation::CutTime,
    Derivation::CutBytes, Derivation::Merge,    Derivation::Scramble,  Derivation::Lengthen,
    Derivation::Grow,     Derivation::Saturate, Derivation::StackTime, Derivation::StackBytes};

/// "reverse", "cut-time", ...
const char *name(Derivation derivation);

/// Changes a certified problem. Buffers are renamed and shuffled, so that nothing of the known
/// packing shows. Bytes and times stay multiples of what they were multiples of.
Certified derive(const Certified &original, Derivation derivation, uint64_t seed);

} // namespace stow::pack
