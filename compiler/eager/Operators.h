// What autograd keeps of an operator's call, and what its backward allocates.
//
// The table follows PyTorch's tools/autograd/derivatives.yaml (2.15) and, for operators that are made of others
// (linear, matmul, dropout, scaled_dot_product_attention), what they call on the device.
#pragma once

#include "compiler/eager/Program.h"

#include <string_view>

namespace stow::eager {

/// What the first result of a call is.
enum class Result {
  New,     ///< a tensor of its own, row-major
  Alike,   ///< the same, in the order of the dimensions that the operands have
  View,    ///< the first operand's bytes, or where strides do not allow it a copy
  Part,    ///< some of the first operand's bytes
  Element, ///< of a list of parts
  Constant ///< a tensor of its own that no gradient reaches
};

struct Operator {
  std::string_view name;
  Result result = Result::New;
  /// Digits: the operands' numbers; r: the result; o: each operand that the other one's gradient needs.
  std::string_view saves = "";
  /// By operand, the last for all further ones. n: a tensor of its size; s: the result's gradient itself, or its sum where the
  /// operand was broadcast; v: a view of the result's gradient; -: none.
  std::string_view gradients = "n";
  /// Saved besides: statistics, indices, masks.
  Bytes (*saved)(const Program &, const Call &, Device) = nullptr;
};

/// The operator's row. One that the table does not have saves what it reads and its result.
const Operator &operatorOf(std::string_view name);

/// Its gradient for an operand, as Operator::gradients has it.
char gradientOf(const Operator &rule, size_t number);

} // namespace stow::eager
