// Instructions against the host's arithmetic, 32 lanes of values each.
#include "runtime/base/Concat.h"
#include "tests/gpu/Ptx.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <random>

using namespace stow::sim;
using stow::append;
using stow::concat;

namespace {

/// Runs `instruction` on each element: operands in the registers a, b, c, result in e, all of type R.
template <class R, class T>
std::vector<R> apply(const std::string &instruction, const std::vector<T> &a,
                     const std::vector<T> &b, const std::vector<T> &c) {
  auto file = [](size_t bytes) { return bytes == 2 ? "%h" : bytes == 4 ? "%r" : "%d"; };
  auto name = [&](size_t bytes, int number) { return concat(file(bytes), number); };
  std::string in = std::to_string(8 * sizeof(T)), out = std::to_string(8 * sizeof(R));
  std::string text = instruction;
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  };
  replace("$a", name(sizeof(T), 10)), replace("$b", name(sizeof(T), 11));
  replace("$c", name(sizeof(T), 12)), replace("$e", name(sizeof(R), 13));
  std::string load, scale = concat("mul.wide.u32 %d1, %r0, ", sizeof(T), ";\n");
  for (int i = 0; i < 3; ++i)
    append(load, "add.s64 %d2, %in", i, ", %d1;\nld.global.b", in, " ", name(sizeof(T), 10 + i),
           ", [%d2];\n");
  std::string store =
      concat("mul.wide.u32 %d1, %r0, ", sizeof(R), ";\nadd.s64 %d2, %out, %d1;\nst.global.b", out,
             " [%d2], ", name(sizeof(R), 13), ";\nret;");
  Device device;
  uint64_t result = device.upload(std::vector<R>(a.size()));
  device.run(kernelOf(scale + load + text + "\n" + store),
             {device.upload(a), device.upload(b), device.upload(c), result},
             {static_cast<uint32_t>(a.size()), 1, 1});
  return device.download<R>(result, a.size());
}

/// Values with all the corners of a type.
template <class T> std::vector<T> corners(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (int i = 0; i < 64; ++i)
    values.push_back(static_cast<T>(random()));
  const T known[] = {
      0,  1, static_cast<T>(-1), std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), 2,
      31, 33};
  std::copy(std::begin(known), std::end(known), values.begin() + (seed % 3) * 8);
  return values;
}

template <class T> std::vector<T> floats(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (int i = 0; i < 64; ++i)
    values.push_back(static_cast<T>(std::ldexp(static_cast<double>(random()) / 0x1p63 - 1,
                                               static_cast<int>(random() % 20) - 10)));
  const T known[] = {0,
                     static_cast<T>(-0.0),
                     1,
                     -1,
                     std::numeric_limits<T>::infinity(),
                     std::numeric_limits<T>::denorm_min(),
                     std::numeric_limits<T>::max(),
                     std::numeric_limits<T>::quiet_NaN()};
  std::copy(std::begin(known), std::end(known), values.begin() + (seed % 3) * 8);
  return values;
}

template <class R, class T, class F>
void expectEach(const std::string &instruction, const std::vector<T> &a, const std::vector<T> &b,
                const std::vector<T> &c, F expected) {
  SCOPED_TRACE(instruction);
  auto found = apply<R, T>(instruction, a, b, c);
  for (size_t i = 0; i < a.size(); ++i) {
    R wanted = static_cast<R>(expected(a[i], b[i], c[i]));
    if constexpr (std::is_floating_point_v<R>)
      if (std::isnan(wanted) && std::isnan(found[i]))
        continue;
    ASSERT_EQ(0, memcmp(&found[i], &wanted, sizeof(R)))
        << "of " << +a[i] << ", " << +b[i] << ", " << +c[i] << ": found " << +found[i]
        << ", expected " << +wanted;
  }
}

template <class T, class F> void integers(const std::string &instruction, F expected) {
  expectEach<T, T>(instruction, corners<T>(1), corners<T>(2), corners<T>(3), expected);
}
template <class T, class F> void reals(const std::string &instruction, F expected) {
  expectEach<T, T>(instruction, floats<T>(1), floats<T>(2), floats<T>(3), expected);
}

//===-- integers ------------------------------------------------------------------------------===//

TEST(Integers, Sums) {
  integers<uint32_t>("add.u32 $e, $a, $b;", [](auto a, auto b, auto) { return a + b; });
  integers<uint64_t>("sub.s64 $e, $a, $b;", [](auto a, auto b, auto) { return a - b; });
  integers<uint16_t>("add.u16 $e, $a, $b;", [](auto a, auto b, auto) { return uint16_t(a + b); });
  integers<int32_t>("add.sat.s32 $e, $a, $b;", [](auto a, auto b, auto) {
    return std::clamp<int64_t>(int64_t(a) + b, INT32_MIN, INT32_MAX);
  });
  integers<uint32_t>("neg.s32 $e, $a;", [](auto a, auto, auto) { return 0 - a; });
  integers<uint32_t>("abs.s32 $e, $a;", [](auto a, auto, auto) { return a >> 31 ? 0 - a : a; });
}

TEST(Integers, SumsWithCarry) {
  // Two words of 64 bits as four of 32.
  expectEach<uint64_t, uint64_t>(
      R"(mov.b64 {%r10, %r11}, $a; mov.b64 {%r12, %r13}, $b;
         add.cc.u32 %r14, %r10, %r12; addc.u32 %r15, %r11, %r13; mov.b64 $e, {%r14, %r15};)",
      corners<uint64_t>(1), corners<uint64_t>(2), corners<uint64_t>(3),
      [](auto a, auto b, auto) { return a + b; });
  expectEach<uint64_t, uint64_t>(
      R"(mov.b64 {%r10, %r11}, $a; mov.b64 {%r12, %r13}, $b;
         sub.cc.u32 %r14, %r10, %r12; subc.u32 %r15, %r11, %r13; mov.b64 $e, {%r14, %r15};)",
      corners<uint64_t>(1), corners<uint64_t>(2), corners<uint64_t>(3),
      [](auto a, auto b, auto) { return a - b; });
}

TEST(Integers, Products) {
  integers<uint32_t>("mul.lo.s32 $e, $a, $b;", [](auto a, auto b, auto) { return a * b; });
  integers<int32_t>("mul.hi.s32 $e, $a, $b;",
                    [](auto a, auto b, auto) { return int64_t(a) * b >> 32; });
  integers<uint32_t>("mul.hi.u32 $e, $a, $b;",
                     [](auto a, auto b, auto) { return uint64_t(a) * b >> 32; });
  integers<uint64_t>("mul.hi.u64 $e, $a, $b;", [](auto a, auto b, auto) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
  });
  integers<uint64_t>("mad.lo.s64 $e, $a, $b, $c;",
                     [](auto a, auto b, auto c) { return a * b + c; });
  expectEach<int64_t, int32_t>("mul.wide.s32 $e, $a, $b;", corners<int32_t>(1), corners<int32_t>(2),
                               corners<int32_t>(3),
                               [](auto a, auto b, auto) { return int64_t(a) * b; });
  expectEach<uint32_t, uint16_t>("mul.wide.u16 $e, $a, $b;", corners<uint16_t>(1),
                                 corners<uint16_t>(2), corners<uint16_t>(3),
                                 [](auto a, auto b, auto) { return uint32_t(a) * b; });
  integers<uint32_t>("dp4a.u32.u32 $e, $a, $b, $c;", [](auto a, auto b, auto c) {
    for (int i = 0; i < 32; i += 8)
      c += (a >> i & 255) * (b >> i & 255);
    return c;
  });
}

TEST(Integers, Quotients) {
  integers<int32_t>("div.s32 $e, $a, $b;",
                    [](auto a, auto b, auto) { return b == 0 ? int64_t(-1) : int64_t(a) / b; });
  integers<uint64_t>("rem.u64 $e, $a, $b;",
                     [](auto a, auto b, auto) { return b == 0 ? a : a % b; });
  integers<int64_t>("min.s64 $e, $a, $b;", [](auto a, auto b, auto) { return std::min(a, b); });
  integers<uint16_t>("max.u16 $e, $a, $b;", [](auto a, auto b, auto) { return std::max(a, b); });
}

TEST(Integers, Bits) {
  integers<uint32_t>("and.b32 $e, $a, $b;", [](auto a, auto b, auto) { return a & b; });
  integers<uint64_t>("xor.b64 $e, $a, $b;", [](auto a, auto b, auto) { return a ^ b; });
  integers<uint16_t>("not.b16 $e, $a;", [](auto a, auto, auto) { return uint16_t(~a); });
  integers<uint32_t>("lop3.b32 $e, $a, $b, $c, 0xE8;",
                     [](auto a, auto b, auto c) { return (a & b) | (a & c) | (b & c); });
  integers<uint32_t>("shl.b32 $e, $a, $b;",
                     [](auto a, auto b, auto) { return b > 31 ? 0 : a << b; });
  integers<int32_t>("shr.s32 $e, $a, $b;", [](auto a, auto b, auto) {
    return a >> (static_cast<uint32_t>(b) > 31 ? 31 : b);
  });
  integers<uint32_t>("shf.l.wrap.b32 $e, $a, $b, $c;", [](auto a, auto b, auto c) {
    c &= 31;
    return c ? b << c | a >> (32 - c) : b;
  });
  integers<uint32_t>("shf.r.clamp.b32 $e, $a, $b, $c;", [](auto a, auto b, auto c) {
    c = std::min(c, 32u);
    return c == 0 ? a : c == 32 ? b : a >> c | b << (32 - c);
  });
  integers<uint32_t>("popc.b32 $e, $a;", [](auto a, auto, auto) { return std::popcount(a); });
  integers<uint32_t>("clz.b32 $e, $a;", [](auto a, auto, auto) { return std::countl_zero(a); });
  integers<uint32_t>("brev.b32 $e, $a;", [](auto a, auto, auto) {
    uint32_t r = 0;
    for (int i = 0; i < 32; ++i)
      r |= (a >> i & 1) << (31 - i);
    return r;
  });
  integers<uint32_t>("prmt.b32 $e, $a, $b, 0x5410;",
                     [](auto a, auto b, auto) { return (a & 0xFFFF) | b << 16; });
  integers<uint32_t>("bfe.u32 $e, $a, 5, 9;", [](auto a, auto, auto) { return a >> 5 & 511; });
  integers<int32_t>("bfe.s32 $e, $a, 5, 9;",
                    [](auto a, auto, auto) { return int32_t(uint32_t(a) << 18) >> 23; });
  integers<uint32_t>("bfi.b32 $e, $a, $b, 8, 4;",
                     [](auto a, auto b, auto) { return (b & ~0xF00u) | (a & 15) << 8; });
  integers<uint32_t>("bfind.u32 $e, $a;",
                     [](auto a, auto, auto) { return a ? 31 - std::countl_zero(a) : ~0u; });
}

TEST(Integers, Comparisons) {
  integers<int32_t>("setp.lt.s32 %p1, $a, $b; selp.b32 $e, $a, $b, %p1;",
                    [](auto a, auto b, auto) { return a < b ? a : b; });
  integers<uint32_t>(
      "setp.ge.u32 %p1|%p2, $a, $b; @%p2 bra X; mov.b32 $e, 7; bra Y;\nX: mov.b32 $e, 9;\nY:",
      [](auto a, auto b, auto) { return a >= b ? 7 : 9; });
  integers<int64_t>(
      "setp.gt.s64 %p1, $a, 0; setp.ne.and.s64 %p2, $b, $c, !%p1; selp.b64 $e, $b, $c, %p2;",
      [](auto a, auto b, auto c) { return b != c && !(a > 0) ? b : c; });
  integers<uint32_t>("set.eq.u32.u32 $e, $a, $b;",
                     [](auto a, auto b, auto) { return a == b ? ~0u : 0; });
}

TEST(Integers, LoadsWithHints) {
  integers<uint32_t>("mul.wide.u32 %d3, %r0, 4; add.s64 %d4, %in1, %d3; "
                     "ld.global.nc.L1::evict_last.L2::128B.b32 $e, [%d4];",
                     [](auto, auto b, auto) { return b; });
}

//===-- floats --------------------------------------------------------------------------------===//

TEST(Floats, Nearest) {
  reals<float>("add.rn.f32 $e, $a, $b;", [](auto a, auto b, auto) { return a + b; });
  reals<double>("sub.f64 $e, $a, $b;", [](auto a, auto b, auto) { return a - b; });
  reals<float>("mul.f32 $e, $a, $b;", [](auto a, auto b, auto) { return a * b; });
  reals<float>("fma.rn.f32 $e, $a, $b, $c;",
               [](auto a, auto b, auto c) { return std::fma(a, b, c); });
  reals<double>("fma.rn.f64 $e, $a, $b, $c;",
                [](auto a, auto b, auto c) { return std::fma(a, b, c); });
  reals<float>("div.rn.f32 $e, $a, $b;", [](auto a, auto b, auto) { return a / b; });
  reals<float>("sqrt.rn.f32 $e, $a;", [](auto a, auto, auto) { return std::sqrt(a); });
  reals<double>("rcp.rn.f64 $e, $a;", [](auto a, auto, auto) { return 1 / a; });
}

TEST(Floats, OtherRoundings) {
  const std::pair<const char *, int> modes[] = {
      {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  for (auto [name, mode] : modes) {
    auto rounded = [mode = mode](auto compute) {
      fesetround(mode);
      volatile auto result = compute();
      fesetround(FE_TONEAREST);
      return result;
    };
    std::string suffix = std::string(".") + name + ".f32 $e, $a, $b";
    // The exact sum and product of floats in 80 or more bits, rounded once by the cast.
    reals<float>("add" + suffix + ";", [&](float a, float b, float) {
      volatile float x = a, y = b;
      return rounded([&] { return x + y; });
    });
    reals<float>("fma" + suffix + ", $c;", [&](float a, float b, float c) {
      volatile float x = a, y = b, z = c;
      return rounded([&] { return std::fma(x, y, z); });
    });
    reals<float>("div" + suffix + ";", [&](float a, float b, float) {
      volatile float x = a, y = b;
      return rounded([&] { return x / y; });
    });
  }
}

TEST(Floats, FlushAndSaturate) {
  auto flush = [](float v) {
    return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v;
  };
  reals<float>("mul.ftz.f32 $e, $a, 0f00800000;", [&](auto a, auto, auto) {
    return flush(flush(a) * std::numeric_limits<float>::min());
  });
  reals<float>("add.sat.f32 $e, $a, $b;", [](auto a, auto b, auto) {
    float sum = a + b;
    return sum > 0 ? std::min(sum, 1.0f) : 0.0f;
  });
}

TEST(Floats, MinMaxAndSigns) {
  reals<float>("min.f32 $e, $a, $b;", [](auto a, auto b, auto) {
    return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b);
  });
  reals<float>("max.NaN.f32 $e, $a, $b;", [](auto a, auto b, auto) {
    return std::isnan(a) || std::isnan(b) ? NAN
           : a == b                       ? (std::signbit(a) ? b : a)
                                          : std::fmax(a, b);
  });
  reals<float>("copysign.f32 $e, $a, $b;",
               [](auto a, auto b, auto) { return std::copysign(b, a); });
  reals<double>("neg.f64 $e, $a;", [](auto a, auto, auto) { return -a; });
  reals<float>("abs.f32 $e, $a;", [](auto a, auto, auto) { return std::abs(a); });
}

TEST(Floats, UnorderedComparisons) {
  reals<float>("setp.ltu.f32 %p1, $a, $b; selp.f32 $e, $a, $b, %p1;",
               [](auto a, auto b, auto) { return !(a >= b) ? a : b; });
  reals<float>("setp.ne.f32 %p1, $a, $b; selp.f32 $e, 0f3F800000, 0f00000000, %p1;",
               [](auto a, auto b, auto) { return a < b || a > b ? 1.0f : 0.0f; });
  reals<double>("setp.nan.f64 %p1, $a, $b; selp.f64 $e, $c, $a, %p1;",
                [](auto a, auto b, auto c) { return std::isnan(a) || std::isnan(b) ? c : a; });
}

TEST(Floats, Approximations) {
  std::vector<float> a = {0.5f, 1, 2, 3.25f, 0.001f, 40, 7, 0.75f};
  const std::tuple<const char *, double (*)(double)> functions[] = {
      {"ex2.approx.f32", [](double x) { return std::exp2(x); }},
      {"lg2.approx.f32", [](double x) { return std::log2(x); }},
      {"sin.approx.f32", [](double x) { return std::sin(x); }},
      {"cos.approx.f32", [](double x) { return std::cos(x); }},
      {"tanh.approx.f32", [](double x) { return std::tanh(x); }},
      {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }},
      {"sqrt.approx.f32", [](double x) { return std::sqrt(x); }},
      {"rcp.approx.ftz.f32", [](double x) { return 1 / x; }}};
  for (auto [name, exact] : functions) {
    auto found = apply<float, float>(std::string(name) + " $e, $a;", a, a, a);
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(found[i], exact(a[i]), 1e-6 * std::abs(exact(a[i]))) << name << " of " << a[i];
  }
}

//===-- halves --------------------------------------------------------------------------------===//

/// A half's value by its definition; the rounding below is by search, nothing like the executor's.
double valueOf(uint16_t bits, bool brain) {
  int mantissa = brain ? 7 : 10, bias = brain ? 127 : 15;
  int exponent = (bits & 0x7FFF) >> mantissa, top = brain ? 255 : 31;
  double fraction = bits & ((1 << mantissa) - 1), sign = bits >> 15 ? -1 : 1;
  if (exponent == top)
    return fraction ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

/// The half nearest to a long double, ties to even.
uint16_t nearestHalf(long double value, bool brain) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  long double size = std::abs(value);
  uint16_t low = 0, high = brain ? 0x7F80 : 0x7C00; // low <= size < high
  if (std::isinf(size))
    return sign | high;
  while (high - low > 1) {
    uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (valueOf(middle, brain) <= size ? low : high) = middle;
  }
  long double above = std::isinf(valueOf(high, brain))
                          ? 2 * valueOf(low, brain) - valueOf(static_cast<uint16_t>(low - 1), brain)
                          : valueOf(high, brain);
  long double half = (valueOf(low, brain) + above) / 2;
  bool up = size > half || (size == half && (low & 1));
  return sign | (up ? high : low);
}

TEST(Halves, OneRounding) {
  for (bool brain : {false, true}) {
    std::string type = brain ? ".bf16" : ".f16";
    std::mt19937 random(brain);
    std::vector<uint16_t> a, b, c;
    while (a.size() < 512) {
      auto draw = [&] {
        return static_cast<uint16_t>(random() % 0x3000 + 0x2400 + (random() & 0x8000));
      };
      a.push_back(draw()), b.push_back(draw()), c.push_back(draw());
    }
    auto value = [&](uint16_t bits) { return static_cast<long double>(valueOf(bits, brain)); };
    auto near = [&](long double exact) { return nearestHalf(exact, brain); };
    expectEach<uint16_t, uint16_t>("add.rn" + type + " $e, $a, $b;", a, b, c,
                                   [&](auto x, auto y, auto) { return near(value(x) + value(y)); });
    expectEach<uint16_t, uint16_t>("mul.rn" + type + " $e, $a, $b;", a, b, c,
                                   [&](auto x, auto y, auto) { return near(value(x) * value(y)); });
    expectEach<uint16_t, uint16_t>(
        "fma.rn" + type + " $e, $a, $b, $c;", a, b, c,
        [&](auto x, auto y, auto z) { return near(value(x) * value(y) + value(z)); });
    expectEach<uint16_t, uint16_t>("neg" + type + " $e, $a;", a, b, c, [](auto x, auto, auto) {
      return static_cast<uint16_t>(x ^ 0x8000);
    });
    expectEach<uint16_t, uint16_t>(
        "setp.lt" + type + " %p1, $a, $b; selp.b16 $e, $a, $b, %p1;", a, b, c,
        [&](auto x, auto y, auto) { return value(x) < value(y) ? x : y; });
  }
}

TEST(Halves, Pairs) {
  std::vector<uint32_t> a, b;
  std::mt19937 random(5);
  for (int i = 0; i < 128; ++i) {
    auto draw = [&] { return random() % 0x2000 + 0x3000; };
    a.push_back(draw() << 16 | draw()), b.push_back(draw() << 16 | draw());
  }
  for (bool brain : {false, true}) {
    auto part = [&](uint32_t x, uint32_t y, int shift) -> uint32_t {
      return nearestHalf(
          static_cast<long double>(valueOf(static_cast<uint16_t>(x >> shift), brain)) *
                  valueOf(static_cast<uint16_t>(y >> shift), brain) +
              valueOf(static_cast<uint16_t>(x >> shift), brain),
          brain);
    };
    expectEach<uint32_t, uint32_t>(
        std::string("fma.rn.") + (brain ? "bf16x2" : "f16x2") + " $e, $a, $b, $a;", a, b, b,
        [&](auto x, auto y, auto) { return part(x, y, 16) << 16 | part(x, y, 0); });
  }
}

TEST(Halves, PairsCompared) {
  std::vector<uint32_t> a, b;
  std::mt19937 random(7);
  // Of few exponents, so that some are equal; zeros, subnormals, infinities and NaN of both signs.
  const uint16_t known[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x7C00, 0x7C01, 0x7F80, 0xFF80, 0x7FC0};
  auto draw = [&]() -> uint32_t {
    return random() % 3 ? known[random() % std::size(known)] : random() % 4 * 0x8080;
  };
  for (int i = 0; i < 512; ++i)
    a.push_back(draw() << 16 | draw()), b.push_back(draw() << 16 | draw());
  struct Comparison {
    const char *name;
    bool (*holds)(double, double);
  };
  auto less = [](double x, double y) { return x < y; };
  const Comparison comparisons[] = {
      {"lt", less},
      {"gt", [](double x, double y) { return x > y; }},
      {"ge", [](double x, double y) { return x >= y; }},
      {"eq", [](double x, double y) { return x == y; }},
      {"ne", [](double x, double y) { return x < y || x > y; }},
      {"neu", [](double x, double y) { return x != y; }},
      {"leu", [](double x, double y) { return !(x > y); }},
      {"num", [](double x, double y) { return !std::isnan(x) && !std::isnan(y); }},
      {"nan", [](double x, double y) { return std::isnan(x) || std::isnan(y); }}};
  for (bool brain : {false, true}) {
    std::string type = brain ? ".bf16x2" : ".f16x2";
    auto part = [&](auto holds, uint32_t x, uint32_t y, int half) -> bool {
      return holds(valueOf(static_cast<uint16_t>(x >> (16 * half)), brain),
                   valueOf(static_cast<uint16_t>(y >> (16 * half)), brain));
    };
    // 1 where it holds of the lower halves, 2 of the upper ones.
    const std::string bits = " selp.b32 %r10, 1, 0, %p1; selp.b32 %r11, 2, 0, %p2; "
                             "or.b32 $e, %r10, %r11;";
    for (auto [name, holds] : comparisons) {
      expectEach<uint32_t, uint32_t>(concat("setp.", name, type, " %p1|%p2, $a, $b;", bits), a, b,
                                     b, [&, holds = holds](auto x, auto y, auto) {
                                       return part(holds, x, y, 0) + 2 * part(holds, x, y, 1);
                                     });
      expectEach<uint32_t, uint32_t>(concat("set.", name, ".u32", type, " $e, $a, $b;"), a, b, b,
                                     [&, holds = holds](auto x, auto y, auto) {
                                       return (part(holds, x, y, 0) ? 0xFFFF : 0) |
                                              (part(holds, x, y, 1) ? 0xFFFF0000 : 0);
                                     });
    }
    // Both are joined with the third predicate as they are.
    expectEach<uint32_t, uint32_t>(
        "setp.gt.s32 %p3, $b, 0; setp.lt.xor" + type + " %p1|%p2, $a, $b, %p3;" + bits, a, b, b,
        [&](auto x, auto y, auto) {
          bool third = static_cast<int32_t>(y) > 0;
          return (part(less, x, y, 0) != third) + 2 * (part(less, x, y, 1) != third);
        });
    uint32_t one = brain ? 0x3F80 : 0x3C00;
    expectEach<uint32_t, uint32_t>(
        "set.lt" + type + type + " $e, $a, $b;", a, b, b, [&](auto x, auto y, auto) {
          return (part(less, x, y, 0) ? one : 0) | (part(less, x, y, 1) ? one << 16 : 0);
        });
    EXPECT_THROW((apply<uint32_t, uint32_t>("setp.lt" + type + " %p1, $a, $b;" + bits, a, b, b)),
                 PtxError);
  }
  // Subnormals of f16 are zeros with .ftz.
  expectEach<uint32_t, uint32_t>(
      "set.gt.ftz.u32.f16x2 $e, $a, $b;", a, b, b, [&](auto x, auto y, auto) {
        auto value = [](uint32_t pair, int half) {
          double whole = valueOf(static_cast<uint16_t>(pair >> (16 * half)), false);
          return std::abs(whole) < 0x1p-14 ? 0 : whole;
        };
        return (value(x, 0) > value(y, 0) ? 0xFFFF : 0) |
               (value(x, 1) > value(y, 1) ? 0xFFFF0000 : 0);
      });
}

TEST(Halves, Sets) {
  std::vector<uint16_t> a = {0x0000, 0x3C00, 0xBC00, 0x7E00}, b = {0x8000, 0x3800, 0x3C00, 0x3C00};
  auto holds = [](uint16_t x, uint16_t y) { return valueOf(x, false) >= valueOf(y, false); };
  expectEach<uint16_t, uint16_t>("set.ge.u16.f16 $e, $a, $b;", a, b, b,
                                 [&](auto x, auto y, auto) { return holds(x, y) ? 0xFFFF : 0; });
  expectEach<uint16_t, uint16_t>("set.ge.f16.f16 $e, $a, $b;", a, b, b,
                                 [&](auto x, auto y, auto) { return holds(x, y) ? 0x3C00 : 0; });
  expectEach<uint32_t, uint16_t>("set.ge.s32.f16 $e, $a, $b;", a, b, b,
                                 [&](auto x, auto y, auto) { return holds(x, y) ? ~0u : 0; });
}

TEST(Halves, SumsInSingles) {
  std::mt19937 random(9);
  std::vector<uint32_t> a, b, c; // halves in the lower bits
  for (float value : floats<float>(2)) {
    a.push_back(random()), b.push_back(random() % 0x3000 + 0x2000);
    c.push_back(std::bit_cast<uint32_t>(value));
  }
  for (bool brain : {false, true}) {
    std::string type = brain ? ".f32.bf16" : ".f32.f16";
    auto expect = [&](const std::string &instruction, auto exact) {
      expectEach<uint32_t, uint32_t>(
          "cvt.u16.u32 %h1, $a; cvt.u16.u32 %h2, $b; " + instruction, a, b, c,
          [&](uint32_t x, uint32_t y, uint32_t z) -> uint32_t {
            auto half = [&](uint32_t bits) {
              return static_cast<float>(valueOf(static_cast<uint16_t>(bits), brain));
            };
            float result = exact(half(x), half(y), std::bit_cast<float>(z));
            return std::isnan(result) ? 0x7FFFFFFF : std::bit_cast<uint32_t>(result);
          });
    };
    expect("add.rn" + type + " $e, %h1, $c;", [](float x, float, float z) { return x + z; });
    expect("sub" + type + " $e, %h1, $c;", [](float x, float, float z) { return x - z; });
    expect("fma.rn" + type + " $e, %h1, %h2, $c;",
           [](float x, float y, float z) { return std::fma(x, y, z); });
  }
}

//===-- pairs of other types ------------------------------------------------------------------===//

TEST(Pairs, Integers) {
  auto pairs = [](const std::string &instruction, auto one) {
    integers<uint32_t>(instruction, [&](uint32_t a, uint32_t b, uint32_t) {
      auto half = [&](int shift) -> uint32_t {
        return static_cast<uint16_t>(
            one(static_cast<uint16_t>(a >> shift), static_cast<uint16_t>(b >> shift)));
      };
      return half(16) << 16 | half(0);
    });
  };
  pairs("add.u16x2 $e, $a, $b;", [](uint16_t a, uint16_t b) { return a + b; });
  pairs("add.s16x2 $e, $a, $b;", [](int16_t a, int16_t b) { return a + b; });
  pairs("min.u16x2 $e, $a, $b;", [](uint16_t a, uint16_t b) { return a < b ? a : b; });
  pairs("max.s16x2 $e, $a, $b;", [](int16_t a, int16_t b) { return a < b ? b : a; });
  pairs("min.relu.s16x2 $e, $a, $b;", [](int16_t a, int16_t b) {
    int16_t least = a < b ? a : b;
    return least < 0 ? 0 : least;
  });
}

TEST(Pairs, Singles) {
  // Two f32 in a register of 64 bits: this element's and the next one's.
  auto pairs = [](const std::string &instruction, auto one) {
    std::vector<uint64_t> operands[3];
    for (unsigned i = 0; i < 3; ++i) {
      std::vector<float> values = floats<float>(i + 1);
      for (size_t j = 0; j < values.size(); ++j)
        operands[i].push_back(std::bit_cast<uint32_t>(values[j]) |
                              uint64_t{std::bit_cast<uint32_t>(values[(j + 1) % values.size()])}
                                  << 32);
    }
    expectEach<uint64_t, uint64_t>(
        instruction, operands[0], operands[1], operands[2],
        [&](uint64_t a, uint64_t b, uint64_t c) {
          auto half = [&](int shift) -> uint64_t {
            auto value = [&](uint64_t bits) {
              return std::bit_cast<float>(static_cast<uint32_t>(bits >> shift));
            };
            float result = one(value(a), value(b), value(c));
            return std::isnan(result) ? 0x7FFFFFFF : std::bit_cast<uint32_t>(result);
          };
          return half(32) << 32 | half(0);
        });
  };
  pairs("add.rn.f32x2 $e, $a, $b;", [](float a, float b, float) { return a + b; });
  pairs("sub.rn.f32x2 $e, $a, $b;", [](float a, float b, float) { return a - b; });
  pairs("mul.f32x2 $e, $a, $b;", [](float a, float b, float) { return a * b; });
  pairs("fma.rn.f32x2 $e, $a, $b, $c;",
        [](float a, float b, float c) { return std::fma(a, b, c); });
  auto flush = [](float v) {
    return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v;
  };
  pairs("add.rn.ftz.f32x2 $e, $a, $b;",
        [&](float a, float b, float) { return flush(flush(a) + flush(b)); });
  pairs("mul.rz.f32x2 $e, $a, $b;", [](float a, float b, float) {
    volatile float x = a, y = b;
    fesetround(FE_TOWARDZERO);
    volatile float result = x * y;
    fesetround(FE_TONEAREST);
    return float{result};
  });
  EXPECT_THROW(pairs("max.f32x2 $e, $a, $b;", [](float a, float, float) { return a; }), PtxError);
}

//===-- conversions ---------------------------------------------------------------------------===//

TEST(Conversions, Integers) {
  expectEach<uint64_t, uint32_t>("cvt.u64.u32 $e, $a;", corners<uint32_t>(1), corners<uint32_t>(1),
                                 corners<uint32_t>(1), [](auto a, auto, auto) { return a; });
  expectEach<int64_t, uint32_t>("cvt.s64.s8 $e, $a;", corners<uint32_t>(1), corners<uint32_t>(1),
                                corners<uint32_t>(1),
                                [](auto a, auto, auto) { return static_cast<int8_t>(a); });
  integers<int32_t>("cvt.sat.s16.s32 $e, $a;",
                    [](auto a, auto, auto) { return std::clamp(a, -32768, 32767); });
  integers<uint32_t>("cvt.u8.u32 $e, $a;", [](auto a, auto, auto) { return a & 255; });
}

TEST(Conversions, FloatsToIntegers) {
  auto a = floats<float>(1);
  for (auto [name, round] : {std::pair<const char *, double (*)(double)>{"rni", std::nearbyint},
                             {"rzi", std::trunc},
                             {"rmi", std::floor},
                             {"rpi", std::ceil}})
    expectEach<int32_t, float>(std::string("cvt.") + name + ".s32.f32 $e, $a;", a, a, a,
                               [round = round](float x, float, float) -> int32_t {
                                 if (std::isnan(x))
                                   return 0;
                                 return static_cast<int32_t>(
                                     std::clamp(round(x), -2147483648.0, 2147483647.0));
                               });
  expectEach<float, float>("cvt.rni.f32.f32 $e, $a;", a, a, a,
                           [](float x, float, float) { return std::nearbyint(x); });
}

TEST(Conversions, IntegersToFloats) {
  integers<int32_t>("cvt.rn.f32.s32 $e, $a;", [](int32_t a, auto, auto) {
    return std::bit_cast<int32_t>(static_cast<float>(a));
  });
  integers<uint64_t>("cvt.rn.f64.u64 $e, $a;", [](uint64_t a, auto, auto) {
    return std::bit_cast<uint64_t>(static_cast<double>(a));
  });
  expectEach<uint32_t, uint64_t>(
      "cvt.rn.f32.u64 $e, $a;", corners<uint64_t>(1), corners<uint64_t>(1), corners<uint64_t>(1),
      [](uint64_t a, auto, auto) { return std::bit_cast<uint32_t>(static_cast<float>(a)); });
}

TEST(Conversions, ToHalvesAndBack) {
  auto a = floats<float>(2);
  a.insert(a.end(), {0x1p-24f, 0x1p-25f, 65504, 65519, 65520, 1.0009766f, 0x1.ffep-15f});
  for (bool brain : {false, true}) {
    std::string type = brain ? "bf16" : "f16";
    expectEach<uint16_t, float>(
        "cvt.rn." + type + ".f32 $e, $a;", a, a, a,
        [&](float x, float, float) { return std::isnan(x) ? 0x7FFF : nearestHalf(x, brain); });
    expectEach<uint16_t, float>(
        "cvt.rz." + type + ".f32 $e, $a;", a, a, a, [&](float x, float, float) -> uint16_t {
          if (std::isnan(x))
            return 0x7FFF;
          uint16_t bits = nearestHalf(x, brain); // toward zero: one less where that is too far
          bool infinite = std::isinf(valueOf(bits, brain)) && !std::isinf(x);
          return std::abs(valueOf(bits, brain)) > std::abs(x) || infinite ? bits - 1 : bits;
        });
    std::vector<uint16_t> halves;
    for (uint32_t bits = 0; bits < 65536; bits += 67)
      halves.push_back(static_cast<uint16_t>(bits));
    expectEach<float, uint16_t>("cvt.f32." + type + " $e, $a;", halves, halves, halves,
                                [&](uint16_t x, auto, auto) { return valueOf(x, brain); });
  }
  std::vector<float> b = floats<float>(3);
  b.resize(a.size(), 1.5f);
  expectEach<uint32_t, float>("cvt.rn.bf16x2.f32 $e, $a, $b;", a, b, b,
                              [](float x, float y, float) {
                                auto half = [](float v) -> uint32_t {
                                  return std::isnan(v) ? 0x7FFF : nearestHalf(v, true);
                                };
                                return half(x) << 16 | half(y);
                              });
}

} // namespace
