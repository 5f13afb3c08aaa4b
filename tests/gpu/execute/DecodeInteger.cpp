// Integer arithmetic.
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Lanes.h"

#include <bit>
#include <limits>

namespace stow::sim {
namespace {

//===-- functions of one lane -----------------------------------------------------------------===//

struct Add {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a + b); }
};
struct Sub {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a - b); }
};
struct MulLow {
  template <class T> T operator()(T a, T b) const {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
template <class T>
using Wider =
    std::conditional_t<sizeof(T) == 8,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                       std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
struct MulHigh {
  template <class T> T operator()(T a, T b) const {
    return static_cast<T>((static_cast<Wider<T>>(a) * b) >> (8 * sizeof(T)));
  }
};
struct MulWide {
  template <class T> auto operator()(T a, T b) const { return static_cast<Wider<T>>(a) * b; }
};
struct MadLow {
  template <class T> T operator()(T a, T b, T c) const { return MulLow()(a, b) + c; }
};
struct MadHigh {
  template <class T> T operator()(T a, T b, T c) const { return MulHigh()(a, b) + c; }
};
struct MadWide {
  template <class T, class C> C operator()(T a, T b, C c) const {
    return static_cast<C>(static_cast<C>(MulWide()(a, b)) + c);
  }
};
struct AddSaturated {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
  }
};
struct SubSaturated {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
  }
};
/// Division by zero gives all ones, as the hardware does.
struct Div {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return static_cast<T>(0 - a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T> T operator()(T a, T b) const { return b < a ? b : a; }
};
struct Max {
  template <class T> T operator()(T a, T b) const { return a < b ? b : a; }
};
struct MaxRelu {
  template <class T> T operator()(T a, T b) const { return std::max(T{0}, std::max(a, b)); }
};
struct MinRelu {
  template <class T> T operator()(T a, T b) const { return std::max(T{0}, std::min(a, b)); }
};
struct Abs {
  template <class T> T operator()(T a) const { return static_cast<T>(a < 0 ? 0 - a : a); }
};
struct Neg {
  template <class T> T operator()(T a) const { return static_cast<T>(0 - a); }
};
struct Sad {
  template <class T> T operator()(T a, T b, T c) const {
    return static_cast<T>(c + (a < b ? b - a : a - b));
  }
};
struct Mul24 {
  template <class T> T operator()(T a, T b) const {
    constexpr int kUnused = 8;
    auto cut = [](T v) {
      return static_cast<T>(static_cast<T>(static_cast<uint32_t>(v) << kUnused) >> kUnused);
    };
    return MulLow()(cut(a), cut(b));
  }
};
struct Mad24 {
  template <class T> T operator()(T a, T b, T c) const { return Mul24()(a, b) + c; }
};

/// Sum of products of the bytes of a and b.
template <class A, class B> struct Dot4 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (int i = 0; i < 32; i += 8)
      c += static_cast<uint32_t>(static_cast<A>(a >> i) * static_cast<B>(b >> i));
    return c;
  }
};
/// Sum of products of the halves of a and two bytes of b.
template <class A, class B, int First> struct Dot2 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    c += static_cast<uint32_t>(static_cast<A>(a) * static_cast<B>(b >> (8 * First)));
    return c +
           static_cast<uint32_t>(static_cast<A>(a >> 16) * static_cast<B>(b >> (8 * First + 8)));
  }
};

//===-- by type -------------------------------------------------------------------------------===//

template <class F> Handler one(Type type) {
  switch (type) {
  case Type::S16:
    return run1<int16_t, int16_t, F>;
  case Type::S32:
    return run1<int32_t, int32_t, F>;
  case Type::S64:
    return run1<int64_t, int64_t, F>;
  default:
    return nullptr;
  }
}

template <class F> Handler two(Type type) {
  switch (type) {
  case Type::U16:
    return run2<uint16_t, uint16_t, uint16_t, F>;
  case Type::S16:
    return run2<int16_t, int16_t, int16_t, F>;
  case Type::U32:
    return run2<uint32_t, uint32_t, uint32_t, F>;
  case Type::S32:
    return run2<int32_t, int32_t, int32_t, F>;
  case Type::U64:
    return run2<uint64_t, uint64_t, uint64_t, F>;
  case Type::S64:
    return run2<int64_t, int64_t, int64_t, F>;
  default:
    return nullptr;
  }
}

template <class F> Handler three(Type type) {
  switch (type) {
  case Type::U16:
    return run3<uint16_t, uint16_t, uint16_t, F>;
  case Type::S16:
    return run3<int16_t, int16_t, int16_t, F>;
  case Type::U32:
    return run3<uint32_t, uint32_t, uint32_t, F>;
  case Type::S32:
    return run3<int32_t, int32_t, int32_t, F>;
  case Type::U64:
    return run3<uint64_t, uint64_t, uint64_t, F>;
  case Type::S64:
    return run3<int64_t, int64_t, int64_t, F>;
  default:
    return nullptr;
  }
}

/// Two halves of 16 bits in a register.
template <class T, class F> void runPairs(Warp &warp, const Op &op, uint32_t mask) {
  T *dst = warp.lanes<T>(op.dst);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  forLanes(mask, [=](unsigned lane) {
    for (unsigned i = 2 * lane; i < 2 * lane + 2; ++i)
      dst[i] = F()(a[i], b[i]);
  });
}

/// What there is of pairs, too.
template <class F> Handler twoOrPairs(Type type) {
  return type == Type::U16x2   ? runPairs<uint16_t, F>
         : type == Type::S16x2 ? runPairs<int16_t, F>
                               : two<F>(type);
}

/// Products twice as wide as their factors; `three`: with an addend.
template <class F2, class F3> Handler wide(Type type, bool three) {
  switch (type) {
  case Type::U16:
    return three ? run3<uint32_t, uint16_t, uint32_t, F3> : run2<uint32_t, uint16_t, uint16_t, F2>;
  case Type::S16:
    return three ? run3<int32_t, int16_t, int32_t, F3> : run2<int32_t, int16_t, int16_t, F2>;
  case Type::U32:
    return three ? run3<uint64_t, uint32_t, uint64_t, F3> : run2<uint64_t, uint32_t, uint32_t, F2>;
  case Type::S32:
    return three ? run3<int64_t, int32_t, int64_t, F3> : run2<int64_t, int32_t, int32_t, F2>;
  default:
    return nullptr;
  }
}

Type doubled(Type type) {
  switch (type) {
  case Type::U16:
    return Type::U32;
  case Type::S16:
    return Type::S32;
  case Type::U32:
    return Type::U64;
  default:
    return Type::S64;
  }
}

Op &emitChecked(Decoder &decoder, Handler run, Type type) {
  if (!run)
    decoder.fail(decoder.root() + " has no form for ." + nameOf(type));
  return decoder.emit(run);
}

void emit1(Decoder &decoder, Handler run, Type type) {
  uint32_t a = decoder.source(1, type), dst = decoder.destination(0, type);
  Op &op = emitChecked(decoder, run, type);
  op.a = a, op.dst = dst;
}

void emit2(Decoder &decoder, Handler run, Type type, Type result) {
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t dst = decoder.destination(0, result);
  Op &op = emitChecked(decoder, run, type);
  op.a = a, op.b = b, op.dst = dst;
}

void emit3(Decoder &decoder, Handler run, Type type, Type result) {
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t c = decoder.source(3, result), dst = decoder.destination(0, result);
  Op &op = emitChecked(decoder, run, type);
  op.a = a, op.b = b, op.c = c, op.dst = dst;
}

//===-- carries -------------------------------------------------------------------------------===//

enum CarryOption : uint16_t { kCarryIn = 1, kCarryOut = 2, kCarrySubtract = 4, kCarryHigh = 8 };

/// d = a + b or a - b with the carry flag of slot c in and out; op.d of mad: a * b + c.
template <class T> void runCarry(Warp &warp, const Op &op, uint32_t mask) {
  T *dst = warp.lanes<T>(op.dst);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  const T *addend = op.d == kNoSlot ? nullptr : warp.lanes<T>(op.d);
  uint32_t &flag = warp.predicate(op.c);
  uint32_t carries = flag;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    T x = a[lane], y = b[lane];
    if (addend) {
      x = op.options & kCarryHigh ? MulHigh()(x, y) : MulLow()(x, y);
      y = addend[lane];
    }
    unsigned in = op.options & kCarryIn ? flag >> lane & 1 : 0;
    unsigned __int128 wide = op.options & kCarrySubtract
                                 ? static_cast<unsigned __int128>(x) - y - in
                                 : static_cast<unsigned __int128>(x) + y + in;
    dst[lane] = static_cast<T>(wide);
    unsigned out = static_cast<unsigned>(wide >> (8 * sizeof(T))) & 1;
    carries = (carries & ~(1u << lane)) | out << lane;
  }
  if (op.options & kCarryOut)
    flag = carries;
}

/// The condition code register: one predicate of the kernel.
uint32_t carryFlag(Decoder &decoder) {
  if (decoder.carrySlot == kNoSlot)
    decoder.carrySlot = decoder.scratch(0);
  return decoder.carrySlot;
}

void decodeCarry(Decoder &decoder, uint16_t options, bool multiply) {
  if (decoder.take("cc"))
    options |= kCarryOut;
  if (multiply) {
    if (decoder.take("hi"))
      options |= kCarryHigh;
    else if (!decoder.take("lo"))
      decoder.fail("expected .lo or .hi");
  }
  Type type = decoder.takeType();
  // Carries are those of unsigned numbers; high halves of signed products are not.
  if (multiply && (options & kCarryHigh) && isSignedType(type))
    decoder.fail("carries of signed high products are not known to the simulated device");
  Handler run = bytesOf(type) == 4 ? runCarry<uint32_t> : runCarry<uint64_t>;
  uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
  uint32_t addend = multiply ? decoder.source(3, type) : kNoSlot;
  uint32_t dst = decoder.destination(0, type), flag = carryFlag(decoder);
  Op &op = decoder.emit(run);
  op.a = a, op.b = b, op.d = addend, op.dst = dst, op.c = flag, op.options = options;
}

//===-- families ------------------------------------------------------------------------------===//

void decodeAddSub(Decoder &decoder) {
  bool subtract = decoder.root() == "sub";
  if (decoder.instruction().opcode.find(".cc.") != std::string::npos)
    return decodeCarry(decoder, subtract ? kCarrySubtract : 0, false);
  Type type = decoder.takeType();
  if (decodeFloat(decoder, decoder.root(), type))
    return;
  if (decoder.take("sat"))
    return emit2(decoder,
                 subtract ? run2<int32_t, int32_t, int32_t, SubSaturated>
                          : run2<int32_t, int32_t, int32_t, AddSaturated>,
                 type, type);
  emit2(decoder, subtract ? two<Sub>(type) : twoOrPairs<Add>(type), type, type);
}

void decodeMul(Decoder &decoder) {
  Type type = decoder.takeType();
  if (decodeFloat(decoder, "mul", type))
    return;
  if (decoder.take("wide"))
    return emit2(decoder, wide<MulWide, MadWide>(type, false), type, doubled(type));
  if (decoder.take("hi"))
    return emit2(decoder, two<MulHigh>(type), type, type);
  if (!decoder.take("lo"))
    decoder.fail("expected .lo, .hi or .wide");
  emit2(decoder, two<MulLow>(type), type, type);
}

void decodeMad(Decoder &decoder) {
  if (decoder.instruction().opcode.find(".cc.") != std::string::npos)
    return decodeCarry(decoder, 0, true);
  Type type = decoder.takeType();
  if (decodeFloat(decoder, "fma", type))
    return;
  if (decoder.take("wide"))
    return emit3(decoder, wide<MulWide, MadWide>(type, true), type, doubled(type));
  if (decoder.take("hi"))
    return emit3(decoder, three<MadHigh>(type), type, type);
  if (!decoder.take("lo"))
    decoder.fail("expected .lo, .hi or .wide");
  emit3(decoder, three<MadLow>(type), type, type);
}

void decode24(Decoder &decoder) {
  Type type = decoder.takeType();
  if (!decoder.take("lo"))
    decoder.fail("expected .lo");
  bool isUnsigned = type == Type::U32;
  if (decoder.root() == "mul24")
    return emit2(decoder,
                 isUnsigned ? run2<uint32_t, uint32_t, uint32_t, Mul24>
                            : run2<int32_t, int32_t, int32_t, Mul24>,
                 type, type);
  emit3(decoder,
        isUnsigned ? run3<uint32_t, uint32_t, uint32_t, Mad24>
                   : run3<int32_t, int32_t, int32_t, Mad24>,
        type, type);
}

template <class F> void decodeTwo(Decoder &decoder) {
  Type type = decoder.takeType();
  if (decodeFloat(decoder, decoder.root(), type))
    return;
  emit2(decoder, two<F>(type), type, type);
}

template <class F, class Relu> void decodeMinMax(Decoder &decoder) {
  Type type = decoder.takeType();
  if (decodeFloat(decoder, decoder.root(), type))
    return;
  if (type == Type::S32 && decoder.take("relu"))
    return emit2(decoder, run2<int32_t, int32_t, int32_t, Relu>, type, type);
  if (type == Type::S16x2 && decoder.take("relu"))
    return emit2(decoder, runPairs<int16_t, Relu>, type, type);
  emit2(decoder, twoOrPairs<F>(type), type, type);
}

template <class F> void decodeOne(Decoder &decoder) {
  Type type = decoder.takeType();
  if (decodeFloat(decoder, decoder.root(), type))
    return;
  emit1(decoder, one<F>(type), type);
}

void decodeSad(Decoder &decoder) {
  Type type = decoder.takeType();
  emit3(decoder, three<Sad>(type), type, type);
}

/// The types of both operands: dp4a.u32.s32 d, a, b, c.
template <template <class, class> class F> Handler dotHandler(bool signedA, bool signedB) {
  if (signedA)
    return signedB ? run3<uint32_t, uint32_t, uint32_t, F<int8_t, int8_t>>
                   : run3<uint32_t, uint32_t, uint32_t, F<int8_t, uint8_t>>;
  return signedB ? run3<uint32_t, uint32_t, uint32_t, F<uint8_t, int8_t>>
                 : run3<uint32_t, uint32_t, uint32_t, F<uint8_t, uint8_t>>;
}

template <int First> Handler dot2Handler(bool signedA, bool signedB) {
  if (signedA)
    return signedB ? run3<uint32_t, uint32_t, uint32_t, Dot2<int16_t, int8_t, First>>
                   : run3<uint32_t, uint32_t, uint32_t, Dot2<int16_t, uint8_t, First>>;
  return signedB ? run3<uint32_t, uint32_t, uint32_t, Dot2<uint16_t, int8_t, First>>
                 : run3<uint32_t, uint32_t, uint32_t, Dot2<uint16_t, uint8_t, First>>;
}

void decodeDot(Decoder &decoder) {
  Type a = decoder.takeType(), b = decoder.takeType();
  Handler run;
  if (decoder.root() == "dp4a")
    run = dotHandler<Dot4>(isSignedType(a), isSignedType(b));
  else if (decoder.take("hi"))
    run = dot2Handler<2>(isSignedType(a), isSignedType(b));
  else if (decoder.take("lo"))
    run = dot2Handler<0>(isSignedType(a), isSignedType(b));
  else
    decoder.fail("expected .lo or .hi");
  emit3(decoder, run, Type::U32, Type::U32);
}

} // namespace

void addArithmetic(DecodeTable &table) {
  table["add"] = table["sub"] = decodeAddSub;
  table["addc"] = [](Decoder &decoder) { decodeCarry(decoder, kCarryIn, false); };
  table["subc"] = [](Decoder &decoder) { decodeCarry(decoder, kCarryIn | kCarrySubtract, false); };
  table["madc"] = [](Decoder &decoder) { decodeCarry(decoder, kCarryIn, true); };
  table["mul"] = decodeMul;
  table["mad"] = decodeMad;
  table["mul24"] = table["mad24"] = decode24;
  table["div"] = decodeTwo<Div>;
  table["rem"] = decodeTwo<Rem>;
  table["min"] = decodeMinMax<Min, MinRelu>;
  table["max"] = decodeMinMax<Max, MaxRelu>;
  table["abs"] = decodeOne<Abs>;
  table["neg"] = decodeOne<Neg>;
  table["sad"] = decodeSad;
  table["dp4a"] = table["dp2a"] = decodeDot;
  for (const char *name :
       {"fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "copysign", "testp"})
    table[name] = [](Decoder &decoder) {
      Type type = decoder.takeType();
      if (!decodeFloat(decoder, decoder.root(), type))
        decoder.fail(decoder.root() + " has no form for ." + nameOf(type));
    };
}

} // namespace stow::sim
