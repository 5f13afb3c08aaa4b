// Meanings of Op::options, per family of instructions.
#pragma once

#include <cstdint>

namespace stow::sim {

/// Of floating-point instructions and conversions.
enum FloatOption : uint16_t {
  kRoundNearest = 0,
  kRoundZero = 1,
  kRoundDown = 2,
  kRoundUp = 3,
  kRoundAway = 4, ///< nearest, ties away from zero
  kRoundMask = 7,
  kFlush = 8,            ///< subnormals of inputs and results are zero (.ftz)
  kSaturate = 16,        ///< .sat; of conversions to integers always
  kNan = 32,             ///< min and max give NaN where an operand is one
  kAbsolute = 64,        ///< .xorsign.abs and such
  kRelu = 128,           ///< negative results and NaN are zero
  kRoundToInteger = 256, ///< .rni and such of a float result
};

/// Of barriers.
enum BarrierOption : uint16_t {
  kBarrierArrive = 1, ///< does not wait
  kBarrierPopc = 2,
  kBarrierAnd = 3,
  kBarrierOr = 4,
  kBarrierKind = 7,
  kBarrierAligned = 8,
  kBarrierNegated = 16, ///< the predicate's opposite counts
};

} // namespace stow::sim
