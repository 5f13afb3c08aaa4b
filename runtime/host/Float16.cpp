#include "runtime/host/Float16.h"

#include "runtime/host/Instructions.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stow::host {
namespace {

// Loops that the compiler turns into vectors of the instruction set they are inlined into.
#define STOW_INLINE __attribute__((always_inline)) inline

STOW_INLINE void widenBf16Loop(const uint16_t *source, float *target, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    target[i] = widenBf16(source[i]);
}
STOW_INLINE void narrowBf16Loop(const float *source, uint16_t *target, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    target[i] = narrowBf16(source[i]);
}

#if defined(__x86_64__)

__attribute__((target("avx2,f16c"))) void widenAvx2(DType from, const uint16_t *source,
                                                    float *target, int64_t count) {
  if (from == DType::BF16)
    return widenBf16Loop(source, target, count);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                     reinterpret_cast<const __m128i *>(source + i))));
  for (; i < count; ++i)
    target[i] = widenF16(source[i]);
}

__attribute__((target("avx2,f16c"))) void narrowAvx2(DType to, const float *source,
                                                     uint16_t *target, int64_t count) {
  if (to == DType::BF16)
    return narrowBf16Loop(source, target, count);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(target + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < count; ++i)
    target[i] = narrowF16(source[i]);
}

#endif

} // namespace

void widen(DType from, const uint16_t *source, float *target, int64_t count) {
#if defined(__x86_64__)
  if (instructions() >= InstructionSet::Avx2)
    return widenAvx2(from, source, target, count);
#endif
  if (from == DType::BF16)
    return widenBf16Loop(source, target, count);
  for (int64_t i = 0; i < count; ++i)
    target[i] = widenF16(source[i]);
}

void narrow(DType to, const float *source, uint16_t *target, int64_t count) {
#if defined(__x86_64__)
  if (instructions() >= InstructionSet::Avx2)
    return narrowAvx2(to, source, target, count);
#endif
  if (to == DType::BF16)
    return narrowBf16Loop(source, target, count);
  for (int64_t i = 0; i < count; ++i)
    target[i] = narrowF16(source[i]);
}

} // namespace stow::host
