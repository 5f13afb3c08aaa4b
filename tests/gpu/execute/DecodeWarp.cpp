// Instructions in which the lanes of a warp take part together.
#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Lanes.h"

#include <bit>

namespace stow::sim {
namespace {

/// The lanes that take part with `lane`; it must be one of them.
uint32_t members(Warp &warp, const Op &op, unsigned lane) {
  uint32_t mask = warp.lanes<uint32_t>(op.d)[lane];
  if (!(mask >> lane & 1)) {
    char text[64];
    snprintf(text, sizeof text, "the lane is not in its own mask 0x%08x", mask);
    warp.fail(Fault::Kind::Barrier, op, lane, text);
  }
  return mask;
}

Op &emitCollective(Decoder &decoder, Handler run, size_t maskOperand) {
  uint32_t mask = decoder.source(maskOperand, Type::B32);
  Op &op = decoder.emit(run);
  op.control = Control::Collective, op.d = mask;
  return op;
}

//===-- shfl ----------------------------------------------------------------------------------===//

enum Shuffle : uint16_t { kUp, kDown, kXor, kIndex };

/// op.target: slot of the predicate behind `|`.
void runShuffle(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t *b = warp.lanes<uint32_t>(op.b), *c = warp.lanes<uint32_t>(op.c);
  uint32_t source[kWarpLanes], inside = 0;
  std::copy_n(warp.lanes<uint32_t>(op.a), kWarpLanes, source);
  uint32_t *dst = warp.lanes<uint32_t>(op.dst);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    members(warp, op, lane);
    int by = b[lane] & 31, self = static_cast<int>(lane);
    int segment = c[lane] >> 8 & 31, clamp = c[lane] & 31;
    int last = (self & segment) | (clamp & ~segment & 31), first = self & segment;
    int from = op.options == kUp     ? self - by
               : op.options == kDown ? self + by
               : op.options == kXor  ? self ^ by
                                     : first | (by & ~segment & 31);
    bool valid = op.options == kUp ? from >= last : from <= last;
    if (!valid)
      from = self;
    inside |= static_cast<uint32_t>(valid) << lane;
    if (!(mask >> from & 1))
      warp.fail(Fault::Kind::Barrier, op, lane,
                concat("shuffle from lane ", from, ", which does not take part"));
    dst[lane] = source[from];
  }
  if (op.target != kNoSlot) {
    uint32_t &valid = warp.predicate(op.target);
    valid = (valid & ~mask) | (inside & mask);
  }
}

void decodeShuffle(Decoder &decoder) {
  if (!decoder.take("sync"))
    decoder.fail("expected .sync");
  std::string mode = decoder.takeOneOf({"up", "down", "bfly", "idx"});
  if (mode.empty())
    decoder.fail("expected .up, .down, .bfly or .idx");
  Type type = decoder.takeType();
  uint32_t a = decoder.source(1, type), b = decoder.source(2, Type::B32);
  uint32_t c = decoder.source(3, Type::B32), dst = decoder.destination(0, type);
  uint32_t valid = decoder.secondPredicate(decoder.operand(0));
  Op &op = emitCollective(decoder, runShuffle, 4);
  op.a = a, op.b = b, op.c = c, op.dst = dst, op.target = valid;
  op.options = mode == "up" ? kUp : mode == "down" ? kDown : mode == "bfly" ? kXor : kIndex;
}

//===-- vote ----------------------------------------------------------------------------------===//

enum Vote : uint16_t { kAll, kAny, kUniform, kBallot, kVoteNegated = 8 };

void runVote(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t holds = warp.predicate(op.a) ^ (op.options & kVoteNegated ? ~0u : 0), result = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    uint32_t who = members(warp, op, lane) & mask, yes = holds & who;
    switch (op.options & 7) {
    case kBallot:
      warp.lanes<uint32_t>(op.dst)[lane] = yes;
      break;
    case kAll:
      result |= static_cast<uint32_t>(yes == who) << lane;
      break;
    case kAny:
      result |= static_cast<uint32_t>(yes != 0) << lane;
      break;
    default:
      result |= static_cast<uint32_t>(yes == 0 || yes == who) << lane;
    }
  }
  if ((op.options & 7) != kBallot) {
    uint32_t &dst = warp.predicate(op.dst);
    dst = (dst & ~mask) | result;
  }
}

void decodeVote(Decoder &decoder) {
  if (!decoder.take("sync"))
    decoder.fail("expected .sync");
  std::string mode = decoder.takeOneOf({"all", "any", "uni", "ballot"});
  if (mode.empty())
    decoder.fail("expected .all, .any, .uni or .ballot");
  decoder.takeType();
  uint32_t a = decoder.predicate(decoder.operand(1));
  uint32_t dst = mode == "ballot" ? decoder.destination(0, Type::B32)
                                  : decoder.predicateDestination(decoder.operand(0));
  bool negated = decoder.operand(1).negated;
  Op &op = emitCollective(decoder, runVote, 2);
  op.a = a, op.dst = dst;
  op.options = mode == "all" ? kAll : mode == "any" ? kAny : mode == "uni" ? kUniform : kBallot;
  op.options |= negated ? kVoteNegated : 0;
}

//===-- match, redux, elect, activemask -------------------------------------------------------===//

/// Lanes whose value of op.bytes bytes is this one's; op.options 1: all or none, with a predicate.
void runMatch(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t holds = 0, result[kWarpLanes] = {};
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    uint32_t who = members(warp, op, lane) & mask, same = 0;
    for (unsigned other = 0; other < kWarpLanes; ++other)
      if ((who >> other & 1) &&
          readBits(warp, op.a, op.bytes, other) == readBits(warp, op.a, op.bytes, lane))
        same |= 1u << other;
    bool all = same == who;
    result[lane] = op.options == 0 || all ? same : 0;
    holds |= static_cast<uint32_t>(all) << lane;
  }
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      warp.lanes<uint32_t>(op.dst)[lane] = result[lane];
  if (op.target != kNoSlot) {
    uint32_t &dst = warp.predicate(op.target);
    dst = (dst & ~mask) | (holds & mask);
  }
}

void decodeMatch(Decoder &decoder) {
  bool all = decoder.take("all");
  if (!all && !decoder.take("any"))
    decoder.fail("expected .any or .all");
  if (!decoder.take("sync"))
    decoder.fail("expected .sync");
  Type type = decoder.takeType();
  uint32_t a = decoder.source(1, type), dst = decoder.destination(0, Type::B32);
  uint32_t holds = decoder.secondPredicate(decoder.operand(0));
  Op &op = emitCollective(decoder, runMatch, 2);
  op.a = a, op.dst = dst, op.target = holds, op.options = all;
  op.bytes = static_cast<uint8_t>(bytesOf(type));
}

enum Reduction : uint16_t { kSum, kMin, kMax, kAnd, kOr, kExclusive };

template <class T> void runReduce(Warp &warp, const Op &op, uint32_t mask) {
  const T *a = warp.lanes<T>(op.a);
  T result[kWarpLanes] = {};
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    uint32_t who = members(warp, op, lane) & mask;
    T value = a[std::countr_zero(who)];
    for (unsigned other = std::countr_zero(who) + 1; other < kWarpLanes; ++other) {
      if (!(who >> other & 1))
        continue;
      T next = a[other];
      value = op.options == kSum   ? value + next
              : op.options == kMin ? std::min(value, next)
              : op.options == kMax ? std::max(value, next)
              : op.options == kAnd ? value & next
              : op.options == kOr  ? value | next
                                   : value ^ next;
    }
    result[lane] = value;
  }
  T *dst = warp.lanes<T>(op.dst);
  forLanes(mask, [&](unsigned lane) { dst[lane] = result[lane]; });
}

void decodeReduce(Decoder &decoder) {
  if (!decoder.take("sync"))
    decoder.fail("expected .sync");
  static const std::vector<std::string> names = {"add", "min", "max", "and", "or", "xor"};
  std::string name = decoder.takeOneOf(names);
  if (name.empty())
    decoder.fail("expected .add, .min, .max, .and, .or or .xor");
  Type type = decoder.takeType();
  if (bytesOf(type) != 4 || isFloatType(type))
    decoder.fail("reductions of ." + std::string(nameOf(type)) +
                 " are not known to the simulated device");
  uint32_t a = decoder.source(1, type), dst = decoder.destination(0, type);
  Op &op =
      emitCollective(decoder, isSignedType(type) ? runReduce<int32_t> : runReduce<uint32_t>, 2);
  op.a = a, op.dst = dst;
  op.options = static_cast<uint16_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

/// The first of the lanes.
void runElect(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t holds = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    auto leader = static_cast<unsigned>(std::countr_zero(members(warp, op, lane) & mask));
    warp.lanes<uint32_t>(op.dst)[lane] = leader;
    holds |= static_cast<uint32_t>(leader == lane) << lane;
  }
  uint32_t &dst = warp.predicate(op.target);
  dst = (dst & ~mask) | holds;
}

void decodeElect(Decoder &decoder) {
  if (!decoder.take("sync"))
    decoder.fail("expected .sync");
  uint32_t dst = decoder.destination(0, Type::B32);
  uint32_t holds = decoder.secondPredicate(decoder.operand(0));
  if (holds == kNoSlot)
    decoder.fail("expected a predicate behind |");
  Op &op = emitCollective(decoder, runElect, 1);
  op.dst = dst, op.target = holds;
}

void runActiveMask(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t *dst = warp.lanes<uint32_t>(op.dst);
  forLanes(mask, [=](unsigned lane) { dst[lane] = mask; });
}

void decodeActiveMask(Decoder &decoder) {
  decoder.takeType();
  uint32_t dst = decoder.destination(0, Type::B32);
  decoder.emit(runActiveMask).dst = dst;
}

} // namespace

void addWarpwide(DecodeTable &table) {
  table["shfl"] = decodeShuffle;
  table["vote"] = decodeVote;
  table["match"] = decodeMatch;
  table["redux"] = decodeReduce;
  table["elect"] = decodeElect;
  table["activemask"] = decodeActiveMask;
}

} // namespace stow::sim
