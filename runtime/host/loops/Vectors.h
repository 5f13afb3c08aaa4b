// Vectors of floats, and tensors of f32 or 16-bit elements that are read and written as such.
//
// Everything here is inlined into functions that are compiled for one instruction set, so that
// vectors never cross a call.
#pragma once

#include "runtime/host/Float16.h"
#include "runtime/host/Instructions.h"

#include <type_traits>

#define STOW_INLINE __attribute__((always_inline)) inline

namespace stow::host {

/// True where this process computes with functions compiled for AVX2 and FMA.
inline bool usesAvx2() { return instructions() >= InstructionSet::Avx2; }

/// The same for AVX-512 with its shorter vectors.
inline bool usesAvx512() { return instructions() >= InstructionSet::Avx512; }

/// `define(suffix, target, vector)` for each instruction set that loops over F8 or F16 are compiled for, and
/// of functions so named the one for the instructions in use.
#if defined(__x86_64__)
#define STOW_FOR_INSTRUCTION_SETS(define)                                                          \
  define(Plain, , F8) define(Avx2, __attribute__((target("avx2,fma,f16c"))), F8)                   \
      define(Avx512, __attribute__((target("avx512f,avx512vl,avx2,fma"))), F16)
#define STOW_FOR_INSTRUCTIONS(name)                                                                \
  (usesAvx512() ? name##Avx512 : usesAvx2() ? name##Avx2 : name##Plain)
#else
#define STOW_FOR_INSTRUCTION_SETS(define) define(Plain, , F8)
#define STOW_FOR_INSTRUCTIONS(name) name##Plain
#endif

typedef float F8 __attribute__((vector_size(32)));
typedef float F16 __attribute__((vector_size(64)));
typedef double D8 __attribute__((vector_size(64)));
typedef double D16 __attribute__((vector_size(128)));

/// For each vector of floats: the same in double, and both at any address; its bits, as numbers
/// without and with sign, and as many of 16 bits at any address.
template <typename T> struct Kind;
template <> struct Kind<float> {
  using Wide = double;
  using Stored = float;
  using StoredWide = double;
};
template <> struct Kind<F8> {
  using Wide = D8;
  typedef float Stored __attribute__((vector_size(32), aligned(4), may_alias));
  typedef double StoredWide __attribute__((vector_size(64), aligned(8), may_alias));
  typedef uint32_t Bits __attribute__((vector_size(32)));
  typedef int32_t Signed __attribute__((vector_size(32)));
  typedef uint16_t Half __attribute__((vector_size(16)));
  typedef uint16_t StoredHalf __attribute__((vector_size(16), aligned(2), may_alias));
};
template <> struct Kind<F16> {
  using Wide = D16;
  typedef float Stored __attribute__((vector_size(64), aligned(4), may_alias));
  typedef double StoredWide __attribute__((vector_size(128), aligned(8), may_alias));
  typedef uint32_t Bits __attribute__((vector_size(64)));
  typedef int32_t Signed __attribute__((vector_size(64)));
  typedef uint16_t Half __attribute__((vector_size(32)));
  typedef uint16_t StoredHalf __attribute__((vector_size(32), aligned(2), may_alias));
};

template <typename T> using Wide = typename Kind<T>::Wide;
template <typename T> constexpr int64_t lanesOf = sizeof(T) / sizeof(float);

template <typename T> STOW_INLINE const auto &at(const float *address) {
  return *reinterpret_cast<const typename Kind<T>::Stored *>(address);
}
template <typename T> STOW_INLINE auto &at(float *address) {
  return *reinterpret_cast<typename Kind<T>::Stored *>(address);
}
template <typename T> STOW_INLINE auto &wideAt(double *address) {
  return *reinterpret_cast<typename Kind<T>::StoredWide *>(address);
}

template <typename T> STOW_INLINE void toDouble(const T &from, Wide<T> &to) {
  if constexpr (std::is_same_v<T, float>)
    to = from;
  else
    to = __builtin_convertvector(from, Wide<T>);
}
template <typename T> STOW_INLINE void toFloat(const Wide<T> &from, T &to) {
  if constexpr (std::is_same_v<T, float>)
    to = static_cast<float>(from);
  else
    to = __builtin_convertvector(from, T);
}

/// As many elements of `type`, bf16 or f16, as T has floats: widenBf16 and widenF16 of each.
template <typename T> STOW_INLINE void load16(DType type, const uint16_t *address, T &to) {
  if constexpr (std::is_same_v<T, float>) {
    to = type == DType::BF16 ? widenBf16(*address) : widenF16(*address);
  } else {
    using Bits = typename Kind<T>::Bits;
    using Signed = typename Kind<T>::Signed;
    typename Kind<T>::Half stored =
        *reinterpret_cast<const typename Kind<T>::StoredHalf *>(address);
    Bits bits = __builtin_convertvector(stored, Bits);
    if (type == DType::BF16) {
      to = (T)(bits << 16);
      return;
    }
    Bits magnitude = (bits & 0x7fff) << 13;
    Bits special = (Bits)((Signed)magnitude >= (0x7c00 << 13)) & 0x7f800000;
    to = (T)((Bits)((T)magnitude * 0x1p112f) | special | (bits & 0x8000) << 16);
  }
}

/// narrowBf16 or narrowF16 of each float.
template <typename T> STOW_INLINE void store16(DType type, const T &from, uint16_t *address) {
  if constexpr (std::is_same_v<T, float>) {
    *address = type == DType::BF16 ? narrowBf16(from) : narrowF16(from);
  } else {
    using Bits = typename Kind<T>::Bits;
    using Signed = typename Kind<T>::Signed;
    using Half = typename Kind<T>::Half;
    Bits bits = (Bits)from, magnitude = bits & 0x7fffffff, result;
    Signed compared = (Signed)magnitude, isNan = compared > 0x7f800000;
    if (type == DType::BF16) {
      Bits rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
      result = isNan ? (bits >> 16 | 0x40) : rounded;
    } else {
      Bits normal = ((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - (112 << 10);
      Bits subnormal = (Bits)((T)magnitude + 0.5f) - 0x3f000000;
      Bits infinity = (Bits{} | 0x7c00), nan = (magnitude >> 13 & 0x1ff) | 0x7e00;
      result = compared < 0x38800000 ? subnormal : normal;
      result = compared >= 0x477ff000 ? infinity : result;
      result = (isNan ? nan : result) | (bits >> 16 & 0x8000);
    }
    *reinterpret_cast<typename Kind<T>::StoredHalf *>(address) =
        __builtin_convertvector(result, Half);
  }
}

/// The elements of an f32 tensor.
struct Floats {
  float *address;
  STOW_INLINE Floats operator+(int64_t elements) const { return {address + elements}; }
  template <typename T> STOW_INLINE void load(int64_t i, T &value) const {
    value = at<T>(address + i);
  }
  template <typename T> STOW_INLINE void store(int64_t i, const T &value) const {
    at<T>(address + i) = value;
  }
};

/// The elements of an f32, bf16 or f16 tensor. The type is the same for all of a loop, so that the
/// branches on it cost next to nothing beside the memory.
struct AnyFloats {
  DType type;
  char *address;
  STOW_INLINE AnyFloats operator+(int64_t elements) const {
    return {type, address + elements * sizeOf(type)};
  }
  template <typename T> STOW_INLINE void load(int64_t i, T &value) const {
    if (type == DType::F32)
      value = at<T>(reinterpret_cast<const float *>(address) + i);
    else
      load16(type, reinterpret_cast<const uint16_t *>(address) + i, value);
  }
  template <typename T> STOW_INLINE void store(int64_t i, const T &value) const {
    if (type == DType::F32)
      at<T>(reinterpret_cast<float *>(address) + i) = value;
    else
      store16(type, value, reinterpret_cast<uint16_t *>(address) + i);
  }
};

} // namespace stow::host
