// Moves, selections, comparisons and operations on bits.
#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Lanes.h"

#include <bit>
#include <cmath>

namespace stow::sim {

void writePredicates(Warp &warp, const Op &op, uint32_t mask, uint32_t first, uint32_t second) {
  if (op.c != kNoSlot) {
    uint32_t other = warp.predicate(op.c) ^ (op.options & kPredicateNegated ? ~0u : 0);
    auto join = [&](uint32_t value) {
      switch (op.options & 3) {
      case kPredicateAnd:
        return value & other;
      case kPredicateOr:
        return value | other;
      default:
        return value ^ other;
      }
    };
    first = join(first), second = join(second);
  }
  auto write = [&](uint32_t slot, uint32_t bits) {
    uint32_t &dst = warp.predicate(slot);
    dst = (dst & ~mask) | (bits & mask);
  };
  if (op.d != kNoSlot)
    write(op.d, second);
  write(op.dst, first);
}

namespace {

//===-- functions of one lane -----------------------------------------------------------------===//

struct Copy {
  template <class T> T operator()(T a) const { return a; }
};
struct And {
  template <class T> T operator()(T a, T b) const { return a & b; }
};
struct Or {
  template <class T> T operator()(T a, T b) const { return a | b; }
};
struct Xor {
  template <class T> T operator()(T a, T b) const { return a ^ b; }
};
struct Not {
  template <class T> T operator()(T a) const { return static_cast<T>(~a); }
};
struct LogicalNot {
  template <class T> T operator()(T a) const { return a == 0; }
};
struct ShiftLeft {
  template <class T> T operator()(T a, uint32_t b) const {
    return b >= 8 * sizeof(T) ? 0 : static_cast<T>(a << b);
  }
};
struct ShiftRight {
  template <class T> T operator()(T a, uint32_t b) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if (b >= kBits)
      return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> b);
  }
};
struct Popcount {
  template <class T> uint32_t operator()(T a) const { return std::popcount(a); }
};
struct LeadingZeros {
  template <class T> uint32_t operator()(T a) const { return std::countl_zero(a); }
};
struct Reverse {
  template <class T> T operator()(T a) const {
    T r = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i)
      r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
  }
};
/// The highest bit that differs from the sign; all ones: none does.
template <bool Shift> struct FindBit {
  template <class T> uint32_t operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    U bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (bits == 0)
      return ~0u;
    unsigned lead = std::countl_zero(bits);
    return Shift ? lead : 8 * sizeof(T) - 1 - lead;
  }
};
struct ExtractBits {
  template <class T> T operator()(T a, uint32_t position, uint32_t length) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    using U = std::make_unsigned_t<T>;
    position &= 255, length &= 255;
    uint32_t last = std::min(position + length - 1, kBits - 1);
    U fill = std::is_signed_v<T> && length && (static_cast<U>(a) >> last & 1) ? ~U{0} : U{0};
    U bits = position < kBits ? static_cast<U>(a) >> position : 0;
    uint32_t have = position < kBits ? std::min(length, kBits - position) : 0;
    if (have >= kBits)
      return static_cast<T>(bits);
    U low = (U{1} << have) - 1;
    return static_cast<T>((bits & low) | (fill & ~low));
  }
};
struct FunnelLeftWrap {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) << (c & 31) >> 32);
  }
};
struct FunnelLeftClamp {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return c >= 32 ? a : FunnelLeftWrap()(a, b, c);
  }
};
struct FunnelRightWrap {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> (c & 31));
  }
};
struct FunnelRightClamp {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return c >= 32 ? b : FunnelRightWrap()(a, b, c);
  }
};
/// Bytes of a and b, chosen by the nibbles of c; 8 in a nibble spreads the byte's sign.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      uint32_t choice = c >> (4 * i);
      uint32_t byte = bytes >> (8 * (choice & 7)) & 255;
      if (choice & 8)
        byte = byte & 128 ? 255 : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
/// A mask of b ones from bit a on.
template <bool Wrap> struct BitMask {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    if (Wrap)
      a &= 31, b &= 31;
    if (a >= 32 || b == 0)
      return 0;
    return (b >= 32 ? ~0u : (1u << b) - 1) << a;
  }
};

//===-- by width ------------------------------------------------------------------------------===//

template <class F> Handler oneBits(unsigned bytes) {
  switch (bytes) {
  case 2:
    return run1<uint16_t, uint16_t, F>;
  case 4:
    return run1<uint32_t, uint32_t, F>;
  default:
    return run1<uint64_t, uint64_t, F>;
  }
}

template <class F> Handler twoBits(unsigned bytes) {
  switch (bytes) {
  case 2:
    return run2<uint16_t, uint16_t, uint16_t, F>;
  case 4:
    return run2<uint32_t, uint32_t, uint32_t, F>;
  default:
    return run2<uint64_t, uint64_t, uint64_t, F>;
  }
}

template <class F> void runPredicates(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t a = warp.predicate(op.a), b = op.b == kNoSlot ? 0 : warp.predicate(op.b);
  uint32_t &dst = warp.predicate(op.dst);
  dst = (dst & ~mask) | (F()(a, b) & mask);
}
struct First {
  uint32_t operator()(uint32_t a, uint32_t) const { return a; }
};
struct NotFirst {
  uint32_t operator()(uint32_t a, uint32_t) const { return ~a; }
};

void emitPredicates(Decoder &decoder, Handler run, bool two) {
  uint32_t a = decoder.predicate(decoder.operand(1));
  uint32_t b = two ? decoder.predicate(decoder.operand(2)) : kNoSlot;
  uint32_t dst = decoder.predicateDestination(decoder.operand(0));
  Op &op = decoder.emit(run);
  op.a = a, op.b = b, op.dst = dst;
}

template <class F, class P> void decodeBitwise(Decoder &decoder) {
  Type type = decoder.takeType();
  if (type == Type::Pred)
    return emitPredicates(decoder, runPredicates<P>, true);
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t dst = decoder.destination(0, type);
  Op &op = decoder.emit(twoBits<F>(bytesOf(type)));
  op.a = a, op.b = b, op.dst = dst;
}

void decodeNot(Decoder &decoder) {
  Type type = decoder.takeType();
  if (type == Type::Pred)
    return emitPredicates(decoder, runPredicates<NotFirst>, false);
  uint32_t a = decoder.source(1, type), dst = decoder.destination(0, type);
  Op &op = decoder.emit(decoder.root() == "not" ? oneBits<Not>(bytesOf(type))
                                                : oneBits<LogicalNot>(bytesOf(type)));
  op.a = a, op.dst = dst;
}

//===-- moves ---------------------------------------------------------------------------------===//

/// Joins op.count slots of op.bytes each into one register.
void runPack(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t *parts = warp.worker.kernel.slots.data() + op.list;
  unsigned whole = op.bytes * op.count;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1) {
      uint64_t bits = 0;
      for (unsigned i = 0; i < op.count; ++i)
        bits |= readBits(warp, parts[i], op.bytes, lane) << (8 * op.bytes * i);
      writeBits(warp, op.dst, whole, lane, bits);
    }
}

void runUnpack(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t *parts = warp.worker.kernel.slots.data() + op.list;
  unsigned whole = op.bytes * op.count;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1) {
      uint64_t bits = readBits(warp, op.a, whole, lane);
      for (unsigned i = 0; i < op.count; ++i)
        writeBits(warp, parts[i], op.bytes, lane, bits >> (8 * op.bytes * i));
    }
}

/// Counters that only grow: thread instructions of this host thread.
void runClock(Warp &warp, const Op &op, uint32_t mask) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      writeBits(warp, op.dst, op.bytes, lane, warp.worker.instructions);
}

Type bitsType(unsigned bytes) {
  return bytes == 1 ? Type::B8 : bytes == 2 ? Type::B16 : bytes == 4 ? Type::B32 : Type::B64;
}

void decodePack(Decoder &decoder, Type type, bool pack) {
  const Operand &vector = decoder.operand(pack ? 1 : 0);
  auto count = static_cast<unsigned>(vector.elements.size());
  unsigned bytes = bytesOf(type) / count;
  if (bytes * count != bytesOf(type) || bytes < 2 || bytesOf(type) > 8)
    decoder.fail(concat("moves of ", count, " parts of .", nameOf(type),
                        " are not known to the simulated device"));
  std::vector<uint32_t> parts;
  for (const Operand &element : vector.elements)
    parts.push_back(pack ? decoder.source(element, bitsType(bytes))
                         : decoder.destination(element, bitsType(bytes)));
  uint32_t whole = pack ? decoder.destination(0, type) : decoder.source(1, type);
  Op &op = decoder.emit(pack ? runPack : runUnpack);
  op.list = static_cast<uint32_t>(decoder.kernel.slots.size());
  op.count = static_cast<uint8_t>(count), op.bytes = static_cast<uint8_t>(bytes);
  (pack ? op.dst : op.a) = whole;
  decoder.kernel.slots.insert(decoder.kernel.slots.end(), parts.begin(), parts.end());
}

void decodeMov(Decoder &decoder) {
  Type type = decoder.takeType();
  if (type == Type::Pred)
    return emitPredicates(decoder, runPredicates<First>, false);
  const Operand &from = decoder.operand(1);
  if (from.kind == Operand::Kind::Vector || decoder.operand(0).kind == Operand::Kind::Vector)
    return decodePack(decoder, type, from.kind == Operand::Kind::Vector);
  uint32_t dst = decoder.destination(0, type);
  if (from.name == "%clock" || from.name == "%clock64" || from.name == "%clock_hi" ||
      from.name == "%globaltimer") {
    Op &op = decoder.emit(runClock);
    op.dst = dst, op.bytes = static_cast<uint8_t>(bytesOf(type));
    return;
  }
  uint32_t a = decoder.source(1, type);
  Op &op = decoder.emit(oneBits<Copy>(bytesOf(type)));
  op.a = a, op.dst = dst;
}

//===-- selections ----------------------------------------------------------------------------===//

template <class T> void runSelect(Warp &warp, const Op &op, uint32_t mask) {
  T *dst = warp.lanes<T>(op.dst);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  uint32_t first = warp.predicate(op.c) ^ (op.options & kPredicateNegated ? ~0u : 0);
  forLanes(mask, [=](unsigned lane) { dst[lane] = first >> lane & 1 ? a[lane] : b[lane]; });
}

Handler selectHandler(unsigned bytes) {
  return bytes == 2 ? runSelect<uint16_t> : bytes == 4 ? runSelect<uint32_t> : runSelect<uint64_t>;
}

void decodeSelp(Decoder &decoder) {
  Type type = decoder.takeType();
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t c = decoder.predicate(decoder.operand(3)), dst = decoder.destination(0, type);
  Op &op = decoder.emit(selectHandler(bytesOf(type)));
  op.a = a, op.b = b, op.c = c, op.dst = dst;
  op.options = decoder.operand(3).negated ? kPredicateNegated : 0;
}

/// a where c >= 0, b elsewhere.
void decodeSlct(Decoder &decoder) {
  decoder.take("ftz");
  Type type = decoder.takeType(), condition = decoder.takeType();
  uint32_t c = decoder.source(3, condition), chosen = decoder.scratch(0);
  uint32_t zero = decoder.constant(0, bytesOf(condition));
  Op &compare = decoder.emit(compareHandler("ge", condition));
  compare.a = c, compare.b = zero, compare.dst = chosen;
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t dst = decoder.destination(0, type);
  Op &op = decoder.emit(selectHandler(bytesOf(type)));
  op.a = a, op.b = b, op.c = chosen, op.dst = dst;
}

//===-- comparisons ---------------------------------------------------------------------------===//

const std::vector<std::string> kComparisons = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",
                                               "lo",  "ls",  "hi",  "hs",  "equ", "neu",
                                               "ltu", "leu", "gtu", "geu", "num", "nan"};

/// A comparison into op.dst; `second` behind `|`, op.c joined from operand `third`. The type compared.
Type decodeCompare(Decoder &decoder, uint32_t dst, uint32_t second) {
  std::string comparison = decoder.takeOneOf(kComparisons);
  std::string join = decoder.takeOneOf({"and", "or", "xor"});
  if (decoder.take("ftz"))
    comparison += ".ftz";
  Type type = decoder.takeType();
  Handler run = compareHandler(comparison, type);
  if (!run)
    decoder.fail("comparison ." + comparison + " of ." + nameOf(type) +
                 " is not known to the simulated device");
  if (isHalfPair(type) && second == kNoSlot)
    decoder.fail("a comparison of ." + std::string(nameOf(type)) + " has two results");
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t c = join.empty() ? kNoSlot : decoder.predicate(decoder.operand(3));
  Op &op = decoder.emit(run);
  op.a = a, op.b = b, op.c = c, op.dst = dst, op.d = second;
  if (!join.empty()) {
    op.options = join == "and" ? kPredicateAnd : join == "or" ? kPredicateOr : kPredicateXor;
    op.options |= decoder.operand(3).negated ? kPredicateNegated : 0;
  }
  return type;
}

void decodeSetp(Decoder &decoder) {
  const Operand &result = decoder.operand(0);
  uint32_t dst = decoder.predicateDestination(result), second = decoder.secondPredicate(result);
  decodeCompare(decoder, dst, second);
}

/// op.immediate or zero into the lower half by predicate op.c, into the upper one by op.d.
void runSelectHalves(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t *dst = warp.lanes<uint32_t>(op.dst);
  uint32_t low = warp.predicate(op.c), high = warp.predicate(op.d);
  auto one = static_cast<uint32_t>(op.immediate);
  forLanes(mask, [=](unsigned lane) {
    dst[lane] = (low >> lane & 1 ? one : 0) | (high >> lane & 1 ? one << 16 : 0);
  });
}

/// What set writes where the comparison holds: 1.0 or all ones; of a pair what one half gets.
uint32_t oneOf(Type type) {
  switch (type) {
  case Type::F32:
    return 0x3F800000;
  case Type::F16:
  case Type::F16x2:
    return 0x3C00;
  case Type::BF16:
  case Type::BF16x2:
    return 0x3F80;
  default:
    return ~0u;
  }
}

void decodeSet(Decoder &decoder) {
  Type result = decoder.takeType();
  uint32_t first = decoder.scratch(0), second = decoder.scratch(0);
  uint32_t dst = decoder.destination(0, result);
  Type compared = decodeCompare(decoder, first, second);
  unsigned bytes = bytesOf(result);
  if (isHalfPair(compared) ? bytes != 4 || result == Type::F32
                           : (bytes != 2 && bytes != 4) || isHalfPair(result))
    decoder.fail(concat("set of .", nameOf(result), " from .", nameOf(compared),
                        " is not known to the simulated device"));
  if (isHalfPair(compared)) {
    Op &op = decoder.emit(runSelectHalves);
    op.c = first, op.d = second, op.dst = dst, op.immediate = oneOf(result) & 0xFFFF;
    return;
  }
  uint32_t one =
      decoder.constant(oneOf(result) >> (bytes == 2 && !isFloatType(result) ? 16 : 0), bytes);
  uint32_t zero = decoder.constant(0, bytes);
  Op &op = decoder.emit(selectHandler(bytes));
  op.a = one, op.b = zero, op.c = first, op.dst = dst;
}

//===-- shifts and bits -----------------------------------------------------------------------===//

template <class T> constexpr Handler kShiftLeft = run2<T, T, uint32_t, ShiftLeft>;
template <class T> constexpr Handler kShiftRight = run2<T, T, uint32_t, ShiftRight>;

void decodeShift(Decoder &decoder) {
  Type type = decoder.takeType();
  bool left = decoder.root() == "shl";
  Handler run = nullptr;
  switch (type) {
  case Type::B16:
  case Type::U16:
    run = left ? kShiftLeft<uint16_t> : kShiftRight<uint16_t>;
    break;
  case Type::S16:
    run = left ? kShiftLeft<int16_t> : kShiftRight<int16_t>;
    break;
  case Type::B32:
  case Type::U32:
    run = left ? kShiftLeft<uint32_t> : kShiftRight<uint32_t>;
    break;
  case Type::S32:
    run = left ? kShiftLeft<int32_t> : kShiftRight<int32_t>;
    break;
  case Type::B64:
  case Type::U64:
    run = left ? kShiftLeft<uint64_t> : kShiftRight<uint64_t>;
    break;
  case Type::S64:
    run = left ? kShiftLeft<int64_t> : kShiftRight<int64_t>;
    break;
  default:
    decoder.fail("shifts of ." + std::string(nameOf(type)) + " do not exist");
  }
  uint32_t a = decoder.source(1, type), b = decoder.source(2, Type::U32);
  uint32_t dst = decoder.destination(0, type);
  Op &op = decoder.emit(run);
  op.a = a, op.b = b, op.dst = dst;
}

void emitWords(Decoder &decoder, Handler run, Type first, Type others, Type result,
               unsigned operands) {
  uint32_t a = decoder.source(1, first);
  uint32_t b = operands > 1 ? decoder.source(2, others) : kNoSlot;
  uint32_t c = operands > 2 ? decoder.source(3, others) : kNoSlot;
  uint32_t dst = decoder.destination(0, result);
  Op &op = decoder.emit(run);
  op.a = a, op.b = b, op.c = c, op.dst = dst;
}

void decodeFunnel(Decoder &decoder) {
  bool left = decoder.take("l");
  if (!left && !decoder.take("r"))
    decoder.fail("expected .l or .r");
  bool clamp = decoder.take("clamp");
  if (!clamp && !decoder.take("wrap"))
    decoder.fail("expected .clamp or .wrap");
  Type type = decoder.takeType();
  Handler run = left ? (clamp ? run3<uint32_t, uint32_t, uint32_t, FunnelLeftClamp>
                              : run3<uint32_t, uint32_t, uint32_t, FunnelLeftWrap>)
                     : (clamp ? run3<uint32_t, uint32_t, uint32_t, FunnelRightClamp>
                              : run3<uint32_t, uint32_t, uint32_t, FunnelRightWrap>);
  emitWords(decoder, run, type, type, type, 3);
}

void decodePermute(Decoder &decoder) {
  Type type = decoder.takeType();
  emitWords(decoder, run3<uint32_t, uint32_t, uint32_t, Permute>, type, type, type, 3);
}

/// Any function of three bits; op.immediate is its table.
void runLop3(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  uint32_t *dst = warp.lanes<uint32_t>(op.dst);
  auto table = static_cast<uint32_t>(op.immediate);
  forLanes(mask, [=](unsigned lane) {
    uint32_t x = a[lane], y = b[lane], z = c[lane], result = 0;
    for (unsigned i = 0; i < 8; ++i) {
      uint32_t term = (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
      result |= table >> i & 1 ? term : 0;
    }
    dst[lane] = result;
  });
}

void decodeLop3(Decoder &decoder) {
  Type type = decoder.takeType();
  const Operand &table = decoder.operand(4);
  if (table.kind != Operand::Kind::Integer)
    decoder.fail("expected the table as a constant");
  emitWords(decoder, runLop3, type, type, type, 3);
  decoder.kernel.ops.back().immediate = static_cast<int64_t>(table.value & 255);
}

template <class F> void decodeCount(Decoder &decoder) {
  Type type = decoder.takeType();
  emitWords(decoder, bytesOf(type) == 4 ? run1<uint32_t, uint32_t, F> : run1<uint32_t, uint64_t, F>,
            type, type, Type::U32, 1);
}

void decodeReverse(Decoder &decoder) {
  Type type = decoder.takeType();
  emitWords(decoder, oneBits<Reverse>(bytesOf(type)), type, type, type, 1);
}

template <bool Shift> Handler findBitHandler(Type type) {
  switch (type) {
  case Type::U32:
    return run1<uint32_t, uint32_t, FindBit<Shift>>;
  case Type::S32:
    return run1<uint32_t, int32_t, FindBit<Shift>>;
  case Type::U64:
    return run1<uint32_t, uint64_t, FindBit<Shift>>;
  default:
    return run1<uint32_t, int64_t, FindBit<Shift>>;
  }
}

void decodeFindBit(Decoder &decoder) {
  bool shift = decoder.take("shiftamt");
  Type type = decoder.takeType();
  emitWords(decoder, shift ? findBitHandler<true>(type) : findBitHandler<false>(type), type, type,
            Type::U32, 1);
}

template <class T> void runExtract(Warp &warp, const Op &op, uint32_t mask) {
  const T *a = warp.lanes<T>(op.a);
  const uint32_t *b = warp.lanes<uint32_t>(op.b), *c = warp.lanes<uint32_t>(op.c);
  T *dst = warp.lanes<T>(op.dst);
  forLanes(mask, [=](unsigned lane) { dst[lane] = ExtractBits()(a[lane], b[lane], c[lane]); });
}

void decodeExtract(Decoder &decoder) {
  Type type = decoder.takeType();
  Handler run = type == Type::U32   ? runExtract<uint32_t>
                : type == Type::S32 ? runExtract<int32_t>
                : type == Type::U64 ? runExtract<uint64_t>
                                    : runExtract<int64_t>;
  emitWords(decoder, run, type, Type::U32, type, 3);
}

/// The low bits of a at position c of b, op.d of them.
template <class T> void runInsert(Warp &warp, const Op &op, uint32_t mask) {
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  const uint32_t *position = warp.lanes<uint32_t>(op.c), *length = warp.lanes<uint32_t>(op.d);
  T *dst = warp.lanes<T>(op.dst);
  forLanes(mask, [=](unsigned lane) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    uint32_t at = position[lane] & 255, count = length[lane] & 255;
    T field = count >= kBits ? ~T{0} : static_cast<T>((T{1} << count) - 1);
    T shifted = at >= kBits ? 0 : static_cast<T>(field << at);
    T bits = at >= kBits ? 0 : static_cast<T>(a[lane] << at);
    dst[lane] = (b[lane] & ~shifted) | (bits & shifted);
  });
}

void decodeInsert(Decoder &decoder) {
  Type type = decoder.takeType();
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t c = decoder.source(3, Type::U32), d = decoder.source(4, Type::U32);
  uint32_t dst = decoder.destination(0, type);
  Op &op = decoder.emit(bytesOf(type) == 4 ? runInsert<uint32_t> : runInsert<uint64_t>);
  op.a = a, op.b = b, op.c = c, op.d = d, op.dst = dst;
}

void decodeBitMask(Decoder &decoder) {
  bool wrap = decoder.take("wrap");
  if (!wrap && !decoder.take("clamp"))
    decoder.fail("expected .wrap or .clamp");
  Type type = decoder.takeType();
  emitWords(decoder,
            wrap ? run2<uint32_t, uint32_t, uint32_t, BitMask<true>>
                 : run2<uint32_t, uint32_t, uint32_t, BitMask<false>>,
            type, type, type, 2);
}

} // namespace

void addLogic(DecodeTable &table) {
  table["mov"] = decodeMov;
  table["and"] = decodeBitwise<And, And>;
  table["or"] = decodeBitwise<Or, Or>;
  table["xor"] = decodeBitwise<Xor, Xor>;
  table["not"] = table["cnot"] = decodeNot;
  table["selp"] = decodeSelp;
  table["slct"] = decodeSlct;
  table["setp"] = decodeSetp;
  table["set"] = decodeSet;
  table["shl"] = table["shr"] = decodeShift;
  table["shf"] = decodeFunnel;
  table["prmt"] = decodePermute;
  table["lop3"] = decodeLop3;
  table["popc"] = decodeCount<Popcount>;
  table["clz"] = decodeCount<LeadingZeros>;
  table["brev"] = decodeReverse;
  table["bfind"] = decodeFindBit;
  table["bfe"] = decodeExtract;
  table["bfi"] = decodeInsert;
  table["bmsk"] = decodeBitMask;
}

} // namespace stow::sim
