// Convolutions split along the rows of an image, for pieces smaller than an image.
//
// A strip of the result needs the rows of the input under its windows, and padding only at the
// image's edges:
//
//   output rows   |--0--|--1--|--2--|        kernel of 3, pad 1
//   input rows   p|--0---|                   pad before, none after
//                     |---1---|              none
//                           |---2--|p        pad after
//
// Rows are the first spatial dimension.
#pragma once

#include "runtime/format/Program.h"

#include <optional>

namespace stow::host {

/// How windows lie over the rows of a convolution's input.
struct RowWindows {
  /// Operands are numbered as in the command.
  RowWindows(const Command &command, size_t input, size_t weights, size_t output);

  int64_t extent, stride, padBegin; ///< of a window; between windows; before the first row
  int64_t inputRows, outputRows;

  /// Input rows that `rows` output rows need at most.
  int64_t inputOf(int64_t rows) const;
  /// Output rows whose windows touch `rows` input rows at most.
  int64_t outputOf(int64_t rows) const;
};

struct Strip {
  int64_t inputBegin, inputRows, outputBegin, outputRows, padBegin, padEnd;
};

/// The strip that computes output rows [begin, begin + rows). None where a convolution of its own
/// cannot say so: windows that lie in the padding altogether.
std::optional<Strip> stripOfOutput(const RowWindows &windows, int64_t begin, int64_t rows);

/// The strip that computes the gradient of input rows [begin, begin + rows); `begin` is a multiple
/// of the stride.
std::optional<Strip> stripOfInput(const RowWindows &windows, int64_t begin, int64_t rows);

/// Gives a command the padding of a strip.
void setPads(Command &command, const Strip &strip);

} // namespace stow::host
