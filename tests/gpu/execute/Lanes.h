// Loops over the lanes of a warp that the compiler can vectorize.
#pragma once

#include "tests/gpu/execute/Options.h"
#include "tests/gpu/execute/Warp.h"

namespace stow::sim {

/// Calls `body(lane)` for the lanes of `mask`. Slots are disjoint or equal, so lanes are independent.
template <class Body> inline void forLanes(uint32_t mask, Body body) {
  if (mask == ~0u) {
#pragma clang loop vectorize(assume_safety)
    for (unsigned lane = 0; lane < kWarpLanes; ++lane)
      body(lane);
    return;
  }
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      body(lane);
}

template <class R, class A, class F> void run1(Warp &warp, const Op &op, uint32_t mask) {
  R *dst = warp.lanes<R>(op.dst);
  const A *a = warp.lanes<A>(op.a);
  forLanes(mask, [=](unsigned lane) { dst[lane] = static_cast<R>(F()(a[lane])); });
}

template <class R, class A, class B, class F> void run2(Warp &warp, const Op &op, uint32_t mask) {
  R *dst = warp.lanes<R>(op.dst);
  const A *a = warp.lanes<A>(op.a);
  const B *b = warp.lanes<B>(op.b);
  forLanes(mask, [=](unsigned lane) { dst[lane] = static_cast<R>(F()(a[lane], b[lane])); });
}

template <class R, class A, class C, class F> void run3(Warp &warp, const Op &op, uint32_t mask) {
  R *dst = warp.lanes<R>(op.dst);
  const A *a = warp.lanes<A>(op.a), *b = warp.lanes<A>(op.b);
  const C *c = warp.lanes<C>(op.c);
  forLanes(mask,
           [=](unsigned lane) { dst[lane] = static_cast<R>(F()(a[lane], b[lane], c[lane])); });
}

/// A predicate of two operands; op.c, where given, joins as `options` says.
enum PredicateOption : uint16_t {
  kPredicateAnd = 1,
  kPredicateOr = 2,
  kPredicateXor = 3,
  kPredicateNegated = 4,
};

/// Writes `first` to op.dst and `second` to op.d, each joined with op.c, as setp does.
void writePredicates(Warp &warp, const Op &op, uint32_t mask, uint32_t first, uint32_t second);

/// Writes `bits` and its opposite.
inline void writePredicates(Warp &warp, const Op &op, uint32_t mask, uint32_t bits) {
  writePredicates(warp, op, mask, bits, ~bits);
}

template <class T, class F> void runCompare(Warp &warp, const Op &op, uint32_t mask) {
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    bits |= static_cast<uint32_t>(F()(a[lane], b[lane])) << lane;
  writePredicates(warp, op, mask, bits);
}

/// Of the low halves into op.dst, of the high ones into op.d.
template <class F> void runComparePairs(Warp &warp, const Op &op, uint32_t mask) {
  const uint16_t *a = warp.lanes<uint16_t>(op.a), *b = warp.lanes<uint16_t>(op.b);
  uint32_t low = 0, high = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    low |= static_cast<uint32_t>(F()(a[2 * lane], b[2 * lane])) << lane;
    high |= static_cast<uint32_t>(F()(a[2 * lane + 1], b[2 * lane + 1])) << lane;
  }
  writePredicates(warp, op, mask, low, high);
}

/// The bits of a register of `bytes` bytes, zero-extended.
inline uint64_t readBits(Warp &warp, uint32_t slot, unsigned bytes, unsigned lane) {
  switch (bytes) {
  case 2:
    return warp.lanes<uint16_t>(slot)[lane];
  case 4:
    return warp.lanes<uint32_t>(slot)[lane];
  default:
    return warp.lanes<uint64_t>(slot)[lane];
  }
}

inline void writeBits(Warp &warp, uint32_t slot, unsigned bytes, unsigned lane, uint64_t bits) {
  switch (bytes) {
  case 2:
    warp.lanes<uint16_t>(slot)[lane] = static_cast<uint16_t>(bits);
    break;
  case 4:
    warp.lanes<uint32_t>(slot)[lane] = static_cast<uint32_t>(bits);
    break;
  default:
    warp.lanes<uint64_t>(slot)[lane] = bits;
  }
}

} // namespace stow::sim
