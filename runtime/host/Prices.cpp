#include "runtime/host/Prices.h"

#include "runtime/host/Instructions.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace stow::host {
namespace {

/// What the library calls its implementations, in capitals and without signs between; in the order of `names`.
enum Implementation : uint8_t {
  BrgconvAvx512Core,
  BrgconvAvx512CoreBf16,
  Brgconv1x1Avx512Core,
  Brgconv1x1Avx512CoreBf16,
  JitAvx2,
  JitAvx512Core,
  Jit1x1Avx2,
  Jit1x1Avx512Core,
  JitBf16Avx512CoreBf16,
  JitBf161x1Avx512CoreBf16,
};

constexpr std::string_view names[] = {"brgconv:avx512_core",
                                      "brgconv:avx512_core_bf16",
                                      "brgconv_1x1:avx512_core",
                                      "brgconv_1x1:avx512_core_bf16",
                                      "jit:avx2",
                                      "jit:avx512_core",
                                      "jit_1x1:avx2",
                                      "jit_1x1:avx512_core",
                                      "jit_bf16:avx512_core_bf16",
                                      "jit_bf16_1x1:avx512_core_bf16"};

/// As a table has it, without addresses, which every process would have to write when it starts.
struct StoredRate {
  Implementation implementation;
  uint16_t gigaflops; ///< 0: no rate
};

struct StoredCall {
  PricedCall priced() const {
    return {kind, isBf16, images, inputs, outputs, window, stride, size, groups};
  }

  ConvolutionKind kind;
  bool isBf16;
  int16_t images, inputs, outputs, window, stride, size, groups;
};

struct PricedRow {
  StoredCall call;
  StoredRate rates[6];
};

constexpr auto Forward = ConvolutionKind::Forward, GradInput = ConvolutionKind::GradInput,
               GradWeight = ConvolutionKind::GradWeight;
constexpr bool F32 = false, Bf16 = true;

constexpr PricedRow avx512Bf16[] = {
#include "runtime/host/prices/avx512_core_bf16.inc"
};

std::span<const PricedRow> tableInUse() {
  if (instructions() == InstructionSet::Avx512Bf16)
    return avx512Bf16;
  return {};
}

/// Vectors have 16 or 8 lanes: what of the channels fills them.
int64_t filled(int64_t channels) {
  return channels % 16 == 0 ? 16 : channels % 8 == 0 ? 8 : channels < 8 ? channels : 1;
}

bool isAlike(const PricedCall &a, const PricedCall &b) {
  return a.kind == b.kind && a.isBf16 == b.isBf16 && a.groups == b.groups && a.window == b.window &&
         (a.stride == 1) == (b.stride == 1) &&
         filled(a.inputs / a.groups) == filled(b.inputs / b.groups) &&
         filled(a.outputs / a.groups) == filled(b.outputs / b.groups);
}

/// Doublings between two calls.
double distanceOf(const PricedCall &a, const PricedCall &b) {
  auto doublings = [](int64_t x, int64_t y) {
    return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
  };
  // Images are worth less: their number hardly changes what a pixel takes.
  return doublings(a.inputs, b.inputs) + doublings(a.outputs, b.outputs) +
         doublings(a.size, b.size) + 0.25 * doublings(a.images, b.images);
}

/// Between calls that are alike: a factor of four in one extent, or of two in two of them, and some images.
constexpr double mostDoublings = 3;

thread_local const ImplementationScope *innermost = nullptr;

} // namespace

std::vector<Rate> ratesOf(const PricedCall &call) {
  const PricedRow *nearest = nullptr;
  double least = mostDoublings;
  for (const PricedRow &row : tableInUse())
    if (const PricedCall known = row.call.priced(); isAlike(known, call))
      if (const double distance = distanceOf(known, call); distance < least) {
        nearest = &row;
        least = distance;
      }
  std::vector<Rate> rates;
  if (nearest)
    for (const StoredRate &rate : nearest->rates)
      if (rate.gigaflops > 0)
        rates.push_back({names[rate.implementation], rate.gigaflops});
  return rates;
}

ImplementationScope::ImplementationScope(ConvolutionKind kind, std::string implementation)
    : kind(kind), implementation(std::move(implementation)), outer(innermost) {
  innermost = this;
}

ImplementationScope::~ImplementationScope() { innermost = outer; }

const char *ImplementationScope::wanted(ConvolutionKind kind) {
  return innermost && innermost->kind == kind ? innermost->implementation.c_str() : nullptr;
}

} // namespace stow::host
