// What the library's implementations of a convolution are worth, as it was measured, and which one a call runs as.
//
//   benchmarks/kernels/prices.py   measures convolutions in all implementations that the library offers, and writes a table
//   runtime/host/prices/           a table for each set of instructions that was measured: rates by call and implementation
//   ratesOf()                      the rates of the call in the table that is most like one
//   fastest()                      takes the implementation, in the room that the call may have
//
// A call is like another one of the same kind and type whose channels fill the same vectors, as far as its extents are near. The choice
// follows from the call and the instructions in use alone, neither from a clock nor from the number of threads: a program runs
// everywhere as it was planned. Where no table is, or no call near, the library's first choice stands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stow::host {

enum class ConvolutionKind : uint8_t { Forward, GradInput, GradWeight };

/// A convolution of square images, with channels innermost.
struct PricedCall {
  ConvolutionKind kind;
  bool isBf16;
  int64_t images, inputs, outputs, window, stride, size, groups; ///< `size` of what it reads
};

struct Rate {
  std::string_view implementation; ///< as the library names it
  int gigaflops;                   ///< per second, on one thread

  bool operator==(const Rate &) const = default;
};

/// Rates of the call that is most like `call`, the fastest implementation first; empty where none is.
std::vector<Rate> ratesOf(const PricedCall &call);

/// While it lives, convolutions of the kind that this thread asks for run as `implementation`, where the library offers it.
class ImplementationScope {
public:
  ImplementationScope(ConvolutionKind kind, std::string implementation);
  ~ImplementationScope();
  ImplementationScope(const ImplementationScope &) = delete;
  ImplementationScope &operator=(const ImplementationScope &) = delete;

  /// The name that convolutions of the kind are to run as; null where nobody says.
  static const char *wanted(ConvolutionKind kind);

private:
  ConvolutionKind kind;
  std::string implementation;
  const ImplementationScope *outer;
};

} // namespace stow::host
