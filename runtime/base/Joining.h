// How a result of a graph on a batch is made of those on its parts.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace stow {

/// Rows below each other in order, or the sum or mean of all.
enum class Joining : uint8_t { Rows, Sum, Mean };

inline std::string_view nameOf(Joining joining) {
  return joining == Joining::Rows ? "rows" : joining == Joining::Sum ? "sum" : "mean";
}

/// Throws Error(BadInput) for other words.
inline Joining parseJoining(const std::string &text) {
  for (Joining joining : {Joining::Rows, Joining::Sum, Joining::Mean})
    if (text == nameOf(joining))
      return joining;
  throw Error::badInput("unknown way of joining parts '" + text + "'; expected rows, sum or mean");
}

} // namespace stow
