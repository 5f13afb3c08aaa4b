// Floating-point arithmetic. f32 and f64 in the nearest rounding are plain loops; every other form
// goes lane by lane through the processor's rounding mode. f16 and bf16 are computed in double, whose
// second rounding is harmless, with sums of products rounded to odd (Boldo and Melquiond 2008).
#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Lanes.h"
#include "tests/gpu/execute/Narrow.h"

#include <cfenv>
#include <limits>

namespace stow::sim {
namespace {

//===-- functions of one lane -----------------------------------------------------------------===//

struct Add {
  template <class T> T operator()(T a, T b, T) const { return a + b; }
};
struct Sub {
  template <class T> T operator()(T a, T b, T) const { return a - b; }
};
struct Mul {
  template <class T> T operator()(T a, T b, T) const { return a * b; }
};
struct Fma {
  template <class T> T operator()(T a, T b, T c) const { return std::fma(a, b, c); }
};
struct Div {
  template <class T> T operator()(T a, T b, T) const { return a / b; }
};
struct Reciprocal {
  template <class T> T operator()(T a, T, T) const { return T{1} / a; }
};
struct Root {
  template <class T> T operator()(T a, T, T) const { return std::sqrt(a); }
};
struct ReciprocalRoot {
  template <class T> T operator()(T a, T, T) const {
    return static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
  }
};
struct Sine {
  template <class T> T operator()(T a, T, T) const { return static_cast<T>(std::sin(double{a})); }
};
struct Cosine {
  template <class T> T operator()(T a, T, T) const { return static_cast<T>(std::cos(double{a})); }
};
struct Log2 {
  template <class T> T operator()(T a, T, T) const { return static_cast<T>(std::log2(double{a})); }
};
struct Exp2 {
  template <class T> T operator()(T a, T, T) const { return static_cast<T>(std::exp2(double{a})); }
};
struct Tanh {
  template <class T> T operator()(T a, T, T) const { return static_cast<T>(std::tanh(double{a})); }
};

/// Zeros are ordered by sign, and a NaN loses against a number.
struct Min {
  template <class T> T operator()(T a, T b, T) const {
    if (a != a || b != b)
      return a != a ? b : a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  template <class T> T operator()(T a, T b, T) const {
    if (a != a || b != b)
      return a != a ? b : a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
struct MinNan {
  template <class T> T operator()(T a, T b, T c) const {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : Min()(a, b, c);
  }
};
struct MaxNan {
  template <class T> T operator()(T a, T b, T c) const {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : Max()(a, b, c);
  }
};

//===-- f32 and f64 ---------------------------------------------------------------------------===//

/// NaN results of f32 have one form, those of f64 are as the processor makes them.
float canonical(float value) { return value != value ? std::bit_cast<float>(0x7FFFFFFFu) : value; }
double canonical(double value) { return value; }

/// Registers of `Parts` values each.
template <class T, class F, unsigned Parts = 1>
void runFast(Warp &warp, const Op &op, uint32_t mask) {
  T *dst = warp.lanes<T>(op.dst);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b), *c = warp.lanes<T>(op.c);
  forLanes(mask, [=](unsigned lane) {
    for (unsigned i = Parts * lane; i < Parts * (lane + 1); ++i)
      dst[i] = canonical(F()(a[i], b[i], c[i]));
  });
}

template <class T> T flush(T value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T{0}, value) : value;
}

template <class T> T finish(T value, unsigned options) {
  if (options & kFlush)
    value = flush(value);
  if (options & kSaturate)
    value = value > 0 ? std::min(value, T{1}) : T{0}; // NaN too
  if (options & kRelu)
    value = value != value ? value : value > 0 ? value : T{0};
  return canonical(value);
}

int processorMode(unsigned options) {
  switch (options & kRoundMask) {
  case kRoundZero:
    return FE_TOWARDZERO;
  case kRoundDown:
    return FE_DOWNWARD;
  case kRoundUp:
    return FE_UPWARD;
  default:
    return FE_TONEAREST;
  }
}

template <class T, class F, unsigned Parts = 1>
void runSlow(Warp &warp, const Op &op, uint32_t mask) {
  T *dst = warp.lanes<T>(op.dst);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b), *c = warp.lanes<T>(op.c);
  for (unsigned i = 0; i < Parts * kWarpLanes; ++i) {
    if (!(mask >> i / Parts & 1))
      continue;
    // Volatile: the computation stays between the two calls.
    bool ftz = op.options & kFlush;
    volatile T x = ftz ? flush(a[i]) : a[i], y = ftz ? flush(b[i]) : b[i],
               z = ftz ? flush(c[i]) : c[i];
    fesetround(processorMode(op.options));
    volatile T result = F()(T{x}, T{y}, T{z});
    fesetround(FE_TONEAREST);
    dst[i] = finish(T{result}, op.options);
  }
}

/// The hardware's start of f64 divisions and roots: the upper half of the result's bits.
template <class F> void runUpperHalf(Warp &warp, const Op &op, uint32_t mask) {
  double *dst = warp.lanes<double>(op.dst);
  const double *a = warp.lanes<double>(op.a);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1) {
      double value = F()(flush(a[lane]), 0.0, 0.0);
      dst[lane] = std::bit_cast<double>(std::bit_cast<uint64_t>(flush(value)) & ~0xFFFFFFFFull);
    }
}

//===-- f16 and bf16 --------------------------------------------------------------------------===//

struct FmaToOdd {
  double operator()(double a, double b, double c) const {
    double product = a * b; // exact
    return std::isfinite(product) && std::isfinite(c) ? addToOdd(product, c) : product + c;
  }
};

template <bool Brain> double widenHalf(uint16_t bits) {
  return Brain ? bf16ToFloat(bits) : f16ToFloat(bits);
}

template <bool Brain, class F>
uint16_t oneHalf(uint16_t a, uint16_t b, uint16_t c, unsigned options) {
  double x = widenHalf<Brain>(a), y = widenHalf<Brain>(b), z = widenHalf<Brain>(c);
  auto input = [&](double value) {
    return !Brain && (options & kFlush) && std::abs(value) < 0x1p-14 ? std::copysign(0.0, value)
                                                                     : value;
  };
  double value = F()(input(x), input(y), input(z));
  if (options & kSaturate)
    value = value > 0 ? std::min(value, 1.0) : 0.0;
  if ((options & kRelu) && value < 0)
    value = 0;
  uint32_t bits = encode(value, Brain ? kBF16 : kF16, options);
  if (!Brain && (options & kFlush) && !(bits & 0x7C00))
    bits &= 0x8000;
  return static_cast<uint16_t>(bits);
}

template <bool Brain, bool Packed, class F> void runHalf(Warp &warp, const Op &op, uint32_t mask) {
  constexpr unsigned kParts = Packed ? 2 : 1;
  uint16_t *dst = warp.lanes<uint16_t>(op.dst);
  const uint16_t *a = warp.lanes<uint16_t>(op.a), *b = warp.lanes<uint16_t>(op.b),
                 *c = warp.lanes<uint16_t>(op.c);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      for (unsigned i = kParts * lane; i < kParts * (lane + 1); ++i)
        dst[i] = oneHalf<Brain, F>(a[i], b[i], c[i], op.options);
}

template <class F> Handler halfHandler(Type type) {
  switch (type) {
  case Type::F16:
    return runHalf<false, false, F>;
  case Type::F16x2:
    return runHalf<false, true, F>;
  case Type::BF16:
    return runHalf<true, false, F>;
  case Type::BF16x2:
    return runHalf<true, true, F>;
  default:
    return nullptr;
  }
}

template <bool Brain> struct Widen {
  float operator()(uint16_t a) const { return static_cast<float>(widenHalf<Brain>(a)); }
};

/// Operand `number`, a half, as f32: add.f32.bf16 and such take all but their last one so.
uint32_t widened(Decoder &decoder, size_t number, Type half) {
  if (half != Type::F16 && half != Type::BF16)
    decoder.fail(std::string("expected .f16 or .bf16, found .") + nameOf(half));
  uint32_t a = decoder.source(number, half), dst = decoder.scratch(4);
  Op &op = decoder.emit(half == Type::F16 ? run1<float, uint16_t, Widen<false>>
                                          : run1<float, uint16_t, Widen<true>>);
  op.a = a, op.dst = dst;
  return dst;
}

//===-- by type -------------------------------------------------------------------------------===//

template <class F, class Half = F> Handler handlerOf(Type type, bool fast) {
  if (type == Type::F32)
    return fast ? runFast<float, F> : runSlow<float, F>;
  if (type == Type::F64)
    return fast ? runFast<double, F> : runSlow<double, F>;
  return halfHandler<Half>(type);
}

/// Sums and products, which there are of pairs of f32, too.
template <class F, class Half = F> Handler sumOrProduct(Type type, bool fast) {
  if (type == Type::F32x2)
    return fast ? runFast<float, F, 2> : runSlow<float, F, 2>;
  return handlerOf<F, Half>(type, fast);
}

template <class F> Handler singleOnly(Type type) {
  return type == Type::F32 ? runSlow<float, F> : halfHandler<F>(type);
}

Handler arithmetic(const std::string &name, Type type, uint16_t options) {
  bool fast = (options & ~kNan) == 0;
  bool nan = options & kNan;
  if (name == "add")
    return sumOrProduct<Add>(type, fast);
  if (name == "sub")
    return sumOrProduct<Sub>(type, fast);
  if (name == "mul")
    return sumOrProduct<Mul>(type, fast);
  if (name == "fma")
    return sumOrProduct<Fma, FmaToOdd>(type, fast);
  if (name == "div")
    return handlerOf<Div>(type, fast);
  if (name == "min")
    return nan ? handlerOf<MinNan>(type, fast) : handlerOf<Min>(type, fast);
  if (name == "max")
    return nan ? handlerOf<MaxNan>(type, fast) : handlerOf<Max>(type, fast);
  if (name == "rcp")
    return handlerOf<Reciprocal>(type, fast);
  if (name == "sqrt")
    return handlerOf<Root>(type, fast);
  if (name == "rsqrt")
    return handlerOf<ReciprocalRoot>(type, false);
  if (name == "sin")
    return singleOnly<Sine>(type);
  if (name == "cos")
    return singleOnly<Cosine>(type);
  if (name == "lg2")
    return singleOnly<Log2>(type);
  if (name == "ex2")
    return singleOnly<Exp2>(type);
  if (name == "tanh")
    return singleOnly<Tanh>(type);
  return nullptr;
}

//===-- signs and classes ---------------------------------------------------------------------===//

/// Clears the bits of op.immediate, or flips them where op.count is 2.
template <class U> void runMaskBits(Warp &warp, const Op &op, uint32_t mask) {
  U *dst = warp.lanes<U>(op.dst);
  const U *a = warp.lanes<U>(op.a);
  bool flip = op.count == 2;
  U bits = static_cast<U>(op.immediate);
  forLanes(mask, [=](unsigned lane) { dst[lane] = flip ? a[lane] ^ bits : a[lane] & ~bits; });
}

/// The sign bits of a value of `type`.
uint64_t signBits(Type type) {
  switch (bytesOf(type)) {
  case 2:
    return 0x8000;
  case 8:
    return uint64_t{1} << 63;
  default:
    return type == Type::F32 ? 0x80000000 : 0x80008000;
  }
}

void decodeSign(Decoder &decoder, Type type, bool flip) {
  bool ftz = decoder.take("ftz");
  uint32_t a = decoder.source(1, type), dst = decoder.destination(0, type);
  if (ftz && type == Type::F32) { // -0 + a flushes and keeps signs
    uint32_t zero = decoder.constant(0x80000000, 4), flushed = decoder.scratch(4);
    Op &op = decoder.emit(runSlow<float, Add>);
    op.a = a, op.b = op.c = zero, op.dst = flushed, op.options = kFlush;
    a = flushed;
  }
  unsigned bytes = bytesOf(type);
  Op &op = decoder.emit(bytes == 2   ? runMaskBits<uint16_t>
                        : bytes == 4 ? runMaskBits<uint32_t>
                                     : runMaskBits<uint64_t>);
  op.a = a, op.dst = dst, op.count = flip ? 2 : 1;
  op.immediate = static_cast<int64_t>(signBits(type));
}

/// The sign of a on the magnitude of b.
template <class T> void runCopySign(Warp &warp, const Op &op, uint32_t mask) {
  T *dst = warp.lanes<T>(op.dst);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  forLanes(mask, [=](unsigned lane) { dst[lane] = std::copysign(b[lane], a[lane]); });
}

template <class T> void runClass(Warp &warp, const Op &op, uint32_t mask) {
  const T *a = warp.lanes<T>(op.a);
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    T value = a[lane];
    int kind = std::fpclassify(value);
    bool holds = false;
    switch (op.immediate) {
    case 0:
      holds = kind != FP_NAN && kind != FP_INFINITE;
      break;
    case 1:
      holds = kind == FP_INFINITE;
      break;
    case 2:
      holds = kind != FP_NAN;
      break;
    case 3:
      holds = kind == FP_NAN;
      break;
    case 4:
      holds = kind == FP_NORMAL;
      break;
    default:
      holds = kind == FP_SUBNORMAL;
    }
    bits |= static_cast<uint32_t>(holds) << lane;
  }
  writePredicates(warp, op, mask, bits);
}

void decodeClass(Decoder &decoder, Type type) {
  static const std::vector<std::string> names = {"finite",     "infinite", "number",
                                                 "notanumber", "normal",   "subnormal"};
  std::string name = decoder.takeOneOf(names);
  if (name.empty())
    decoder.fail("expected a class of numbers");
  uint32_t a = decoder.source(1, type);
  uint32_t dst = decoder.predicateDestination(decoder.operand(0));
  Op &op = decoder.emit(type == Type::F32 ? runClass<float> : runClass<double>);
  op.a = a, op.dst = dst;
  op.immediate = std::find(names.begin(), names.end(), name) - names.begin();
}

//===-- comparisons ---------------------------------------------------------------------------===//

template <int C, bool Unordered> struct Compare {
  template <class T> bool operator()(T a, T b) const {
    bool ordered = !(a != a || b != b);
    bool holds = C == 0   ? a == b
                 : C == 1 ? a < b || a > b
                 : C == 2 ? a < b
                 : C == 3 ? a <= b
                 : C == 4 ? a > b
                 : C == 5 ? a >= b
                 : C == 6 ? ordered
                          : false;
    return holds || (Unordered && !ordered);
  }
};
struct NotEqual {
  template <class T> bool operator()(T a, T b) const { return a != b; }
};

template <class F> struct Flushed {
  float operator()(float value) const { return flush(value); }
  bool operator()(float a, float b) const { return F()(flush(a), flush(b)); }
};
template <class F, bool Brain, bool Flush = false> struct OfHalves {
  static double widen(uint16_t bits) {
    bool zero = Flush && !(bits & 0x7C00);
    return widenHalf<Brain>(zero ? static_cast<uint16_t>(bits & 0x8000) : bits);
  }
  bool operator()(uint16_t a, uint16_t b) const { return F()(widen(a), widen(b)); }
};

template <class F> Handler compareOf(Type type, bool ftz) {
  switch (type) {
  case Type::F16:
    return ftz ? runCompare<uint16_t, OfHalves<F, false, true>>
               : runCompare<uint16_t, OfHalves<F, false>>;
  case Type::BF16:
    return runCompare<uint16_t, OfHalves<F, true>>;
  case Type::F16x2:
    return ftz ? runComparePairs<OfHalves<F, false, true>> : runComparePairs<OfHalves<F, false>>;
  case Type::BF16x2:
    return runComparePairs<OfHalves<F, true>>;
  case Type::F32:
    return ftz ? runCompare<float, Flushed<F>> : runCompare<float, F>;
  case Type::F64:
    return runCompare<double, F>;
  case Type::S16:
    return runCompare<int16_t, F>;
  case Type::S32:
    return runCompare<int32_t, F>;
  case Type::S64:
    return runCompare<int64_t, F>;
  case Type::B16:
  case Type::U16:
    return runCompare<uint16_t, F>;
  case Type::B32:
  case Type::U32:
    return runCompare<uint32_t, F>;
  case Type::B64:
  case Type::U64:
    return runCompare<uint64_t, F>;
  default:
    return nullptr;
  }
}

} // namespace

Handler compareHandler(const std::string &comparison, Type type) {
  bool ftz = comparison.size() > 4 && comparison.substr(comparison.size() - 4) == ".ftz";
  std::string name = ftz ? comparison.substr(0, comparison.size() - 4) : comparison;
  if (name == "eq")
    return compareOf<Compare<0, false>>(type, ftz);
  if (name == "ne")
    return isFloatType(type) ? compareOf<Compare<1, false>>(type, ftz)
                             : compareOf<NotEqual>(type, ftz);
  if (name == "lt" || name == "lo")
    return compareOf<Compare<2, false>>(type, ftz);
  if (name == "le" || name == "ls")
    return compareOf<Compare<3, false>>(type, ftz);
  if (name == "gt" || name == "hi")
    return compareOf<Compare<4, false>>(type, ftz);
  if (name == "ge" || name == "hs")
    return compareOf<Compare<5, false>>(type, ftz);
  if (!isFloatType(type))
    return nullptr;
  if (name == "equ")
    return compareOf<Compare<0, true>>(type, ftz);
  if (name == "neu")
    return compareOf<Compare<1, true>>(type, ftz);
  if (name == "ltu")
    return compareOf<Compare<2, true>>(type, ftz);
  if (name == "leu")
    return compareOf<Compare<3, true>>(type, ftz);
  if (name == "gtu")
    return compareOf<Compare<4, true>>(type, ftz);
  if (name == "geu")
    return compareOf<Compare<5, true>>(type, ftz);
  if (name == "num")
    return compareOf<Compare<6, false>>(type, ftz);
  return name == "nan" ? compareOf<Compare<7, true>>(type, ftz) : nullptr;
}

uint16_t Decoder::takeFloatOptions() {
  static const std::map<std::string, uint16_t> known = {
      {"rn", kRoundNearest}, {"rz", kRoundZero}, {"rm", kRoundDown}, {"rp", kRoundUp},
      {"ftz", kFlush},       {"sat", kSaturate}, {"NaN", kNan},      {"relu", kRelu}};
  uint16_t options = 0;
  for (auto &[name, bits] : known)
    if (take(name))
      options |= bits;
  return options;
}

bool decodeFloat(Decoder &decoder, const std::string &name, Type type) {
  if (!isFloatType(type) || type == Type::TF32)
    return false;
  bool isPair = type == Type::F32x2; // has sums and products alone
  if (!isPair && (name == "abs" || name == "neg"))
    return decodeSign(decoder, type, name == "neg"), true;
  if (!isPair && name == "testp")
    return decodeClass(decoder, type), true;
  if (!isPair && name == "copysign") {
    uint32_t a = decoder.source(1, type), b = decoder.source(2, type);
    uint32_t dst = decoder.destination(0, type);
    Op &op = decoder.emit(type == Type::F32 ? runCopySign<float> : runCopySign<double>);
    op.a = a, op.b = b, op.dst = dst;
    return true;
  }
  bool approximate = decoder.take("approx");
  if (name == "div")
    decoder.take("full");
  uint16_t options = decoder.takeFloatOptions();
  Handler run = arithmetic(name, type, options);
  if (approximate && type == Type::F64)
    run = name == "rcp"     ? runUpperHalf<Reciprocal>
          : name == "rsqrt" ? runUpperHalf<ReciprocalRoot>
                            : nullptr;
  if (!run)
    decoder.fail(name + " of ." + nameOf(type) + " is not known to the simulated device");
  size_t operands = decoder.operandCount() - 1;
  size_t expected = name == "fma" ? 3
                    : name == "add" || name == "sub" || name == "mul" || name == "div" ||
                            name == "min" || name == "max"
                        ? 2
                        : 1;
  if (operands != expected)
    decoder.fail(concat(name, " takes ", expected, " operands, found ", operands));
  Type narrow = type == Type::F32 && (name == "add" || name == "sub" || name == "fma")
                    ? decoder.takeTypeOrNone()
                    : Type::None;
  uint32_t slots[3];
  for (size_t i = 0; i < operands; ++i)
    slots[i] = narrow != Type::None && i + 1 < operands ? widened(decoder, i + 1, narrow)
                                                        : decoder.source(i + 1, type);
  uint32_t a = slots[0], b = operands > 1 ? slots[1] : a, c = operands > 2 ? slots[2] : a;
  uint32_t dst = decoder.destination(0, type);
  Op &op = decoder.emit(run);
  op.a = a, op.b = b, op.c = c, op.dst = dst, op.options = options;
  return true;
}

} // namespace stow::sim
