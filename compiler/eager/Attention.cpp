#include "compiler/eager/Attention.h"

#include "compiler/eager/Operators.h"

#include <algorithm>
#include <utility>

namespace stow::eager {
namespace {

/// The calls of at::_scaled_dot_product_attention_math.
class Expansion {
public:
  Expansion(Program &program, const Call &call)
      : program(program), call(call), isNarrow(program.tensors[call.reads[0]].width < 4) {}

  void run() {
    const size_t query = widened(call.reads[0]), key = widened(call.reads[1]),
                 value = widened(call.reads[2]);
    const Shape shape = program.tensors[query].shape;
    Shape turned = program.tensors[key].shape;
    const size_t scaledQuery = add("mul", {query}, shape), scaledKey = add("mul", {key}, turned);
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    const size_t keys = add("transpose", {scaledKey}, turned, {-2, -1});
    Shape square = shape;
    square.back() = turned.back();
    size_t weights = add("matmul", {scaledQuery, keys}, square);
    if (call.reads.size() > 3)
      weights = add("add", {weights, call.reads[3]}, square);
    weights = add("softmax", {weights}, square);
    if (call.rate > 0)
      weights = add("dropout", {weights}, square);
    if (!isNarrow) {
      program.calls.push_back({"matmul", {weights, value}, call.results, {}});
      return;
    }
    const size_t product =
        add("matmul", {weights, value}, program.tensors[call.results.front()].shape);
    program.calls.push_back({"_to_copy", {product}, call.results, {}});
  }

private:
  size_t add(std::string op, std::vector<size_t> reads, const Shape &shape,
             std::vector<int64_t> dimensions = {}) {
    program.tensors.push_back({op, shape,
                               std::max<int64_t>(program.tensors[call.reads[0]].width, 4),
                               Tensor::Kind::Result});
    program.calls.push_back(
        {std::move(op), std::move(reads), {program.tensors.size() - 1}, std::move(dimensions)});
    return program.tensors.size() - 1;
  }

  /// Operands in 16 bits are turned into float32 first.
  size_t widened(size_t operand) {
    return isNarrow ? add("_to_copy", {operand}, Shape(program.tensors[operand].shape)) : operand;
  }

  Program &program;
  const Call &call;
  const bool isNarrow;
};

} // namespace

Program withAttentionExpanded(const Program &program, Device device) {
  if (device == Device::Cuda)
    return program;
  Program expanded = program;
  expanded.calls.clear();
  std::vector<bool> hasGradient(program.tensors.size());
  for (size_t i = 0; i < program.tensors.size(); ++i)
    hasGradient[i] = program.tensors[i].kind == Tensor::Kind::Parameter;
  for (const Call &call : program.calls) {
    const Operator &rule = operatorOf(call.op);
    for (size_t n = 0; n < call.reads.size(); ++n)
      if (hasGradient[call.reads[n]] && gradientOf(rule, n) != '-' &&
          rule.result != Result::Constant)
        hasGradient[call.results.front()] = true;
    const bool isAttention = call.op == "scaled_dot_product_attention" && call.reads.size() >= 3;
    if (isAttention && (call.rate > 0 || (call.reads.size() > 3 && hasGradient[call.reads[3]])))
      Expansion(expanded, call).run();
    else
      expanded.calls.push_back(call);
  }
  return expanded;
}

} // namespace stow::eager
