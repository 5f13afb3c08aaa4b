// Conversions between types, and between address spaces.
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Lanes.h"
#include "tests/gpu/execute/Memory.h"
#include "tests/gpu/execute/Narrow.h"

#include <algorithm>
#include <cfenv>
#include <limits>

namespace stow::sim {
namespace {

//===-- values --------------------------------------------------------------------------------===//

unsigned bitsOf(Type type) { return 8 * bytesOf(type); }

/// The integer that the low bits of a register are.
__int128 integerOf(uint64_t bits, Type type) {
  unsigned unused = 64 - bitsOf(type);
  if (isSignedType(type))
    return static_cast<int64_t>(bits << unused) >> unused;
  return static_cast<__int128>(bits << unused >> unused);
}

double floatOf(uint64_t bits, Type type) {
  switch (type) {
  case Type::F16:
    return f16ToFloat(static_cast<uint16_t>(bits));
  case Type::BF16:
    return bf16ToFloat(static_cast<uint16_t>(bits));
  case Type::F32:
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  default:
    return std::bit_cast<double>(bits);
  }
}

__int128 leastOf(Type type) {
  return isSignedType(type) ? -(static_cast<__int128>(1) << (bitsOf(type) - 1)) : 0;
}

__int128 mostOf(Type type) {
  return (static_cast<__int128>(1) << (bitsOf(type) - isSignedType(type))) - 1;
}

double roundToInteger(double value, unsigned rounding) {
  switch (rounding & kRoundMask) {
  case kRoundZero:
    return std::trunc(value);
  case kRoundDown:
    return std::floor(value);
  case kRoundUp:
    return std::ceil(value);
  default:
    return std::nearbyint(value);
  }
}

bool isSubnormal(double value, Type type) {
  return type == Type::F32 && value != 0 && std::abs(value) < 0x1p-126;
}

/// A double to the bits of a float type, rounded once.
uint64_t floatBits(double value, Type type, unsigned options) {
  if (options & kSaturate)
    value = value > 0 ? std::min(value, 1.0) : 0.0;
  if (options & kRelu)
    value = value > 0 || value != value ? value : 0.0;
  if (type == Type::F64)
    return std::bit_cast<uint64_t>(value);
  Format format = type == Type::F16 ? kF16 : type == Type::BF16 ? kBF16 : kF32;
  uint32_t bits = encode(value, format, options);
  if (type == Type::F32 && (options & kFlush) && !(bits & 0x7F800000))
    bits &= 0x80000000;
  return bits;
}

/// The integer with its lowest bits joined into one, so that double holds it and a later rounding is
/// that of the integer.
double toOddDouble(__int128 value) {
  bool negative = value < 0;
  auto magnitude = static_cast<unsigned __int128>(negative ? -value : value);
  int shift = 0;
  bool lost = false;
  for (; magnitude >> 53; ++shift) {
    lost |= magnitude & 1;
    magnitude >>= 1;
  }
  if (lost)
    magnitude |= 1;
  double result = std::ldexp(static_cast<double>(static_cast<uint64_t>(magnitude)), shift);
  return negative ? -result : result;
}

uint64_t integerToFloat(__int128 value, Type type, unsigned options) {
  if (type != Type::F64)
    return floatBits(toOddDouble(value), type, options);
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  volatile int64_t asSigned = static_cast<int64_t>(value);
  volatile uint64_t asUnsigned = static_cast<uint64_t>(value);
  fesetround(modes[options & 3]);
  volatile double result =
      value < 0 ? static_cast<double>(asSigned) : static_cast<double>(asUnsigned);
  fesetround(FE_TONEAREST);
  return std::bit_cast<uint64_t>(double{result});
}

/// Out of range saturates; NaN is zero.
uint64_t floatToInteger(double value, Type type, unsigned options) {
  if (value != value)
    return 0;
  double rounded = roundToInteger(value, options);
  if (rounded <= static_cast<double>(leastOf(type)))
    return static_cast<uint64_t>(leastOf(type));
  if (rounded >= static_cast<double>(mostOf(type)))
    return static_cast<uint64_t>(mostOf(type));
  return static_cast<uint64_t>(static_cast<__int128>(rounded));
}

uint64_t convert(uint64_t bits, Type to, Type from, unsigned options) {
  if (!isFloatType(from)) {
    __int128 value = integerOf(bits, from);
    if (isFloatType(to))
      return integerToFloat(value, to, options);
    if (options & kSaturate)
      value = std::clamp(value, leastOf(to), mostOf(to));
    // The register may be wider: the value fills it.
    return static_cast<uint64_t>(integerOf(static_cast<uint64_t>(value), to));
  }
  double value = floatOf(bits, from);
  if ((options & kFlush) && isSubnormal(value, from))
    value = std::copysign(0.0, value);
  if (!isFloatType(to))
    return floatToInteger(value, to, options);
  if (options & kRoundToInteger)
    value = roundToInteger(value, options);
  return floatBits(value, to, options);
}

//===-- loops ---------------------------------------------------------------------------------===//

/// op.count and op.immediate: the types; op.bytes and op.target: widths of the registers.
void runConvert(Warp &warp, const Op &op, uint32_t mask) {
  auto to = static_cast<Type>(op.count), from = static_cast<Type>(op.immediate);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      writeBits(warp, op.dst, op.target, lane,
                convert(readBits(warp, op.a, op.bytes, lane), to, from, op.options));
}

struct Same {
  template <class T> T operator()(T a) const { return a; }
};
struct FromBrain {
  float operator()(uint16_t a) const { return bf16ToFloat(a); }
};
struct ToBrain {
  uint16_t operator()(float a) const { return floatToBf16(a); }
};
struct FromHalf {
  float operator()(uint16_t a) const { return f16ToFloat(a); }
};
struct Floor {
  float operator()(float a) const {
    return a != a ? std::bit_cast<float>(0x7FFFFFFFu) : std::floor(a);
  }
};
struct ToInt {
  int32_t operator()(float a) const {
    if (a >= 0x1p31f)
      return INT32_MAX;
    return a > -0x1p31f ? static_cast<int32_t>(a) : a != a ? 0 : INT32_MIN;
  }
};

/// Plain loops for what kernels do all the time; null: none.
Handler fastConversion(Type to, Type from, uint16_t options, unsigned toBytes, unsigned fromBytes) {
  bool whole = toBytes == bytesOf(to) && fromBytes == bytesOf(from);
  if (!whole)
    return nullptr;
  bool plain = options == 0;
  if (plain && from == Type::U32 && bytesOf(to) == 8 && !isFloatType(to))
    return run1<uint64_t, uint32_t, Same>;
  if (plain && from == Type::S32 && bytesOf(to) == 8 && !isFloatType(to))
    return run1<int64_t, int32_t, Same>;
  if (plain && bytesOf(from) == 8 && bytesOf(to) == 4 && !isFloatType(from) && !isFloatType(to))
    return run1<uint32_t, uint64_t, Same>;
  if (plain && from == Type::S32 && to == Type::F32)
    return run1<float, int32_t, Same>;
  if (plain && from == Type::U32 && to == Type::F32)
    return run1<float, uint32_t, Same>;
  if (plain && from == Type::BF16 && to == Type::F32)
    return run1<float, uint16_t, FromBrain>;
  if (plain && from == Type::F16 && to == Type::F32)
    return run1<float, uint16_t, FromHalf>;
  if (plain && from == Type::F32 && to == Type::BF16)
    return run1<uint16_t, float, ToBrain>;
  if (options == kRoundZero && from == Type::F32 && to == Type::S32)
    return run1<int32_t, float, ToInt>;
  if (options == (kRoundDown | kRoundToInteger) && from == Type::F32 && to == Type::F32)
    return run1<float, float, Floor>;
  return nullptr;
}

/// Two f32 into the halves of a register: the second operand is the lower half.
void runConvertPair(Warp &warp, const Op &op, uint32_t mask) {
  auto to = static_cast<Type>(op.count);
  const float *a = warp.lanes<float>(op.a), *b = warp.lanes<float>(op.b);
  uint32_t *dst = warp.lanes<uint32_t>(op.dst);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1) {
      auto part = [&](float value) {
        return static_cast<uint32_t>(
            convert(std::bit_cast<uint32_t>(value), to, Type::F32, op.options));
      };
      dst[lane] = part(a[lane]) << 16 | part(b[lane]);
    }
}

/// To tf32: f32 with ten bits of mantissa.
void runConvertTf32(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t *a = warp.lanes<uint32_t>(op.a);
  uint32_t *dst = warp.lanes<uint32_t>(op.dst);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1) {
      uint32_t bits = a[lane], rest = bits & 0x1FFF;
      bool special = (bits & 0x7F800000) == 0x7F800000;
      if (!special && roundsUp(bits >> 13, rest, 0x2000, bits >> 31, op.options))
        bits += 0x2000;
      dst[lane] = special && (bits & 0x7FFFFF) ? 0x7FFFFFFF : bits & ~0x1FFFu;
    }
}

//===-- decoding ------------------------------------------------------------------------------===//

uint16_t takeRounding(Decoder &decoder) {
  static const std::map<std::string, uint16_t> integer = {
      {"rni", kRoundNearest}, {"rzi", kRoundZero}, {"rmi", kRoundDown}, {"rpi", kRoundUp}};
  for (auto &[name, bits] : integer)
    if (decoder.take(name))
      return static_cast<uint16_t>(bits | kRoundToInteger);
  return decoder.take("rna") ? kRoundAway : 0;
}

void decodeCvt(Decoder &decoder) {
  uint16_t options = takeRounding(decoder);
  options |= decoder.takeFloatOptions();
  Type to = decoder.takeType(), from = decoder.takeType();
  if (to == Type::F16x2 || to == Type::BF16x2) {
    if (from != Type::F32)
      decoder.fail("pairs are converted from .f32 only");
    uint32_t a = decoder.source(1, from), b = decoder.source(2, from);
    uint32_t dst = decoder.destination(0, to);
    Op &op = decoder.emit(runConvertPair);
    op.a = a, op.b = b, op.dst = dst, op.options = options;
    op.count = static_cast<uint8_t>(to == Type::F16x2 ? Type::F16 : Type::BF16);
    return;
  }
  if (to == Type::TF32) {
    uint32_t a = decoder.source(1, from), dst = decoder.destination(0, Type::B32);
    Op &op = decoder.emit(runConvertTf32);
    op.a = a, op.dst = dst, op.options = options;
    return;
  }
  if (!isFloatType(to))
    options &= static_cast<uint16_t>(~kRoundToInteger);
  uint8_t fromBytes = 0, toBytes = 0;
  uint32_t a = decoder.wideSource(decoder.operand(1), from, fromBytes);
  uint32_t dst = decoder.wideDestination(decoder.operand(0), to, toBytes);
  Handler fast = fastConversion(to, from, options, toBytes, fromBytes);
  Op &op = decoder.emit(fast ? fast : runConvert);
  op.a = a, op.dst = dst, op.options = options;
  op.bytes = fromBytes, op.target = toBytes;
  op.count = static_cast<uint8_t>(to), op.immediate = static_cast<int64_t>(from);
}

//===-- address spaces ------------------------------------------------------------------------===//

uint64_t windowOf(Decoder &decoder) {
  std::string space = decoder.takeOneOf({"global", "shared", "local", "const", "param"});
  if (space == "shared")
    decoder.take("::cta");
  return space == "shared"  ? kSharedWindow
         : space == "local" ? kLocalWindow
         : space == "param" ? kParamWindow
                            : 0;
}

/// Adds op.immediate: the window's place among generic addresses.
template <class T> void runMoveWindow(Warp &warp, const Op &op, uint32_t mask) {
  T *dst = warp.lanes<T>(op.dst);
  const T *a = warp.lanes<T>(op.a);
  T by = static_cast<T>(op.immediate);
  forLanes(mask, [=](unsigned lane) { dst[lane] = a[lane] + by; });
}

void decodeCvta(Decoder &decoder) {
  bool to = decoder.take("to");
  uint64_t window = windowOf(decoder);
  Type type = decoder.takeType();
  if (type != Type::U64)
    decoder.fail("addresses must have 64 bits");
  uint32_t a = decoder.source(1, type), dst = decoder.destination(0, type);
  Op &op = decoder.emit(runMoveWindow<uint64_t>);
  op.a = a, op.dst = dst, op.immediate = static_cast<int64_t>(to ? 0 - window : window);
}

/// Whether a generic address lies in the window of op.immediate; 0: in none of them.
void runIsSpace(Warp &warp, const Op &op, uint32_t mask) {
  const uint64_t *a = warp.lanes<uint64_t>(op.a);
  auto window = static_cast<uint64_t>(op.immediate);
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    bool holds =
        window ? a[lane] - window < kWindowBytes : a[lane] - kSharedWindow >= 3 * kWindowBytes;
    bits |= static_cast<uint32_t>(holds) << lane;
  }
  writePredicates(warp, op, mask, bits);
}

void decodeIsSpace(Decoder &decoder) {
  uint64_t window = windowOf(decoder);
  uint32_t a = decoder.source(1, Type::U64);
  uint32_t dst = decoder.predicateDestination(decoder.operand(0));
  Op &op = decoder.emit(runIsSpace);
  op.a = a, op.dst = dst, op.immediate = static_cast<int64_t>(window);
}

} // namespace

void addConversions(DecodeTable &table) {
  table["cvt"] = decodeCvt;
  table["cvta"] = decodeCvta;
  table["isspacep"] = decodeIsSpace;
}

} // namespace stow::sim
