// Convolutions, with what may be done to them before they are written, and their gradients in plain loops, in double.
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace stow::sim {

/// A tensor in memory, 4 or 5 dimensions, with the distance in elements between neighbours.
struct ConvolutionTensor {
  DType type = DType::F32;
  std::vector<int64_t> shape, strides;
  int64_t alignment = 1; ///< bytes
  int64_t id = 0;
  bool isVirtual = false; ///< in no memory, between operations of a graph

  int64_t elements() const;
  /// Bytes from the first element to behind the last.
  uint64_t bytes() const;
};

enum class ConvolutionResult { Y, X, Weight };

/// Where y is the result, it is of x * weight + added + bias, or the maximum of that and 0.
struct ConvolutionWork {
  ConvolutionResult result = ConvolutionResult::Y;
  ConvolutionTensor x, weight, y;
  std::optional<ConvolutionTensor> added, bias;
  bool hasRelu = false;
  std::vector<int64_t> strides, dilations, padsBefore, padsAfter; ///< by spatial dimension

  /// What is wrong with it, as the library would say; empty where nothing is.
  const char *complaint() const;
};

/// Computes the result from the others; sums in double, rounded once.
void convolve(const ConvolutionWork &work, void *x, void *weight, void *y,
              const void *added = nullptr, const void *bias = nullptr);

} // namespace stow::sim
