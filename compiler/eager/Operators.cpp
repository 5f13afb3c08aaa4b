#include "compiler/eager/Operators.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace stow::eager {
namespace {

const Tensor &operand(const Program &program, const Call &call) {
  return program.tensors[call.reads.front()];
}

const Tensor &result(const Program &program, const Call &call) {
  return program.tensors[call.results.front()];
}

/// Mean and the reciprocal of the deviation of each channel.
Bytes channelStatistics(const Program &program, const Call &call, Device) {
  const Shape &shape = operand(program, call).shape;
  return shape.size() < 2 ? 0 : 2 * 4 * shape[1];
}

/// The same of each row.
Bytes rowStatistics(const Program &program, const Call &call, Device) {
  const Shape &shape = operand(program, call).shape;
  return shape.empty() ? 0 : 2 * 4 * elementCount(shape) / std::max<int64_t>(shape.back(), 1);
}

/// The same of each group; their number is the last of the whole numbers.
Bytes groupStatistics(const Program &program, const Call &call, Device) {
  const Shape &shape = operand(program, call).shape;
  return shape.empty() || call.dimensions.empty() ? 0 : 2 * 4 * shape[0] * call.dimensions.back();
}

/// The place of each maximum, as an int64.
Bytes indices(const Program &program, const Call &call, Device) {
  return 8 * elementCount(result(program, call).shape);
}

/// On a GPU a byte of each element; on a CPU a factor of the input's type.
Bytes dropped(const Program &program, const Call &call, Device device) {
  const Tensor &x = operand(program, call);
  return elementCount(x.shape) * (device == Device::Cuda ? 1 : x.width);
}

/// The logarithm of each row's sum of exponentials.
Bytes rowSums(const Program &program, const Call &call, Device) {
  const Shape &shape = operand(program, call).shape;
  return shape.empty() ? 0 : 4 * elementCount(shape) / std::max<int64_t>(shape.back(), 1);
}

/// What each layer and direction of an LSTM keeps beside the last layer's output. On a CPU it is oneDNN's workspace, by measurement (PyTorch
/// 2.15): 15 hidden states a step, 16 values of padding a row, 10 states. On a GPU cuDNN's reserve, which nobody has measured, is
/// taken for gates, cells and states.
Bytes recurrentWorkspace(const Program &program, const Call &call, Device device) {
  if (call.reads.size() < 3)
    return 0;
  const Tensor &x = operand(program, call);
  const Shape &state =
      program.tensors[call.reads[1]].shape; // layers and directions, samples, hidden
  if (state.size() != 3 || x.shape.size() != 3 || state[1] == 0)
    return 0;
  const int64_t steps = elementCount(x.shape) / (x.shape.back() * state[1]);
  const int64_t values = state[1] * state[2], output = steps * values;
  const int64_t directions = result(program, call).shape.back() / state[2],
                layers = state[0] / directions;
  const int64_t kept =
      device == Device::Cpu ? 15 * output + 16 * steps * state[1] + 10 * values : 6 * output;
  const int64_t joined = directions > 1 ? (layers - 1) * directions * output : 0;
  const int64_t outputs = state[0] * output - (directions > 1 ? 0 : output);
  return x.width * (state[0] * kept + outputs + joined);
}

constexpr auto New = Result::New, Alike = Result::Alike, View = Result::View, Part = Result::Part,
               Constant = Result::Constant;

/// By name, for a search.
constexpr Operator kOperators[] = {
    {"_log_softmax", Alike, "r"},
    {"_native_batch_norm_legit_functional", Alike, "01", "nnn-", channelStatistics},
    {"_softmax", Alike, "r"},
    {"_to_copy", Alike, "", "n"},
    {"_unsafe_view", View, "", "v"},
    {"abs", Alike, "0"},
    {"adaptive_avg_pool2d", New, "0"},
    {"add", Alike, "", "s"},
    {"addmm", New, "12", "snn"},
    {"alias", View, "", "v"},
    {"amax", New, "0r"},
    {"amin", New, "0r"},
    {"arange", Constant, "", "-"},
    {"as_strided", View, "", "n"},
    {"avg_pool2d", New, "0"},
    {"batch_norm", Alike, "01", "nnn-", channelStatistics},
    {"bernoulli", Constant, "", "-"},
    {"bitwise_and", Constant, "", "-"},
    {"bmm", New, "01"},
    {"cat", New, "", "v"},
    {"clamp", Alike, "0"},
    {"clone", View, "", "v"},
    {"constant_pad_nd", New, "", "n"},
    {"contiguous", View, "", "v"},
    {"conv1d", New, "01", "nnn"},
    {"conv2d", New, "01", "nnn"},
    {"conv3d", New, "01", "nnn"},
    {"conv_transpose2d", New, "01", "nnn"},
    {"convert_element_type", Alike, "", "n"},
    {"convolution", New, "01", "nnn"},
    {"cos", Alike, "0"},
    {"cross_entropy_loss", New, "", "n"},
    {"cumsum", Alike, "", "n"},
    {"detach", View, "", "-"},
    {"div", Alike, "1", "n"},
    {"dropout", Alike, "", "n", dropped},
    {"elu", Alike, "0"},
    {"embedding", New, "1", "n-"},
    {"empty", Constant, "", "-"},
    {"eq", Constant, "", "-"},
    {"erf", Alike, "0"},
    {"exp", Alike, "r"},
    {"expand", View, "", "s"},
    {"fill", Constant, "", "-"},
    {"flatten", View, "", "v"},
    {"full", Constant, "", "-"},
    {"full_like", Constant, "", "-"},
    {"gather", New, "1", "n-"},
    {"ge", Constant, "", "-"},
    {"gelu", Alike, "0"},
    {"getitem", Result::Element, "", "v"},
    {"group_norm", Alike, "01", "nnn", groupStatistics},
    {"gt", Constant, "", "-"},
    {"hardsigmoid", Alike, "0"},
    {"hardswish", Alike, "0"},
    {"hardtanh", Alike, "0"},
    {"index", New, "1", "n-"},
    {"index_select", New, "1", "n-"},
    {"instance_norm", Alike, "01", "nnn-", channelStatistics},
    {"layer_norm", Alike, "012", "nnn", rowStatistics},
    {"le", Constant, "", "-"},
    {"leaky_relu", Alike, "0"},
    {"linear", New, "01", "nnn"},
    {"log", Alike, "0"},
    {"log_softmax", Alike, "r"},
    {"logical_and", Constant, "", "-"},
    {"logical_not", Constant, "", "-"},
    {"lstm", New, "0r", "n", recurrentWorkspace},
    {"lt", Constant, "", "-"},
    {"masked_fill", Alike, "1", "n-"},
    {"matmul", New, "01"},
    {"max_pool2d", New, "0", "n", indices},
    {"max_pool2d_with_indices", New, "0", "n", indices},
    {"maximum", Alike, "01"},
    {"mean", New, "", "n"},
    {"minimum", Alike, "01"},
    {"mm", New, "01"},
    {"mse_loss", New, "01", "n-"},
    {"mul", Alike, "o", "n"},
    {"native_batch_norm", Alike, "01", "nnn-", channelStatistics},
    {"native_dropout", Alike, "", "n", dropped},
    {"native_group_norm", Alike, "01", "nnn", groupStatistics},
    {"native_layer_norm", Alike, "012", "nnn", rowStatistics},
    {"ne", Constant, "", "-"},
    {"neg", Alike, "", "n"},
    {"new_ones", Constant, "", "-"},
    {"new_zeros", Constant, "", "-"},
    {"nll_loss", New, "01", "n-"},
    {"ones", Constant, "", "-"},
    {"ones_like", Constant, "", "-"},
    {"pad", New, "", "n"},
    {"permute", View, "", "v"},
    {"pow", Alike, "0"},
    {"reciprocal", Alike, "r"},
    {"relu", Alike, "r"},
    {"reshape", View, "", "v"},
    {"roll", New, "", "n"},
    {"rsqrt", Alike, "r"},
    {"rsub", Alike, "", "n"},
    {"scalar", Constant, "", "-"},
    {"scalar_tensor", Constant, "", "-"},
    {"scaled_dot_product_attention", Alike, "0123r", "nnn-", rowSums},
    {"select", Part, "", "n"},
    {"sigmoid", Alike, "r"},
    {"silu", Alike, "0"},
    {"sin", Alike, "0"},
    {"slice", Part, "", "n"},
    {"slice_scatter", New, "", "n"},
    {"softmax", Alike, "r"},
    {"softplus", Alike, "0"},
    {"split", Part, "", "n"},
    {"split_with_sizes", Part, "", "n"},
    {"sqrt", Alike, "r"},
    {"squeeze", View, "", "v"},
    {"stack", New, "", "v"},
    {"sub", Alike, "", "s"},
    {"sum", New, "", "v"},
    {"sym_size", Constant, "", "-"},
    {"t", View, "", "v"},
    {"tanh", Alike, "r"},
    {"transpose", View, "", "v"},
    {"tril", Constant, "", "-"},
    {"triu", Constant, "", "-"},
    {"unbind", Part, "", "n"},
    {"unflatten", View, "", "v"},
    {"unsqueeze", View, "", "v"},
    {"upsample_bilinear2d", New, "", "n"},
    {"upsample_nearest2d", New, "", "n"},
    {"var", New, "0"},
    {"view", View, "", "v"},
    {"where", Alike, "0", "-n"},
    {"zeros", Constant, "", "-"},
    {"zeros_like", Constant, "", "-"},
};
static_assert(std::ranges::is_sorted(kOperators, {}, &Operator::name));

constexpr Operator kUnknown{"", Result::New, "01r", "n"};

} // namespace

char gradientOf(const Operator &rule, size_t number) {
  return rule.gradients[std::min(number, rule.gradients.size() - 1)];
}

const Operator &operatorOf(std::string_view name) {
  const auto *found = std::ranges::lower_bound(kOperators, name, {}, &Operator::name);
  return found != std::end(kOperators) && found->name == name ? *found : kUnknown;
}

std::vector<std::string> unknownOperators(const Program &program) {
  std::set<std::string> names;
  for (const Call &call : program.calls)
    if (operatorOf(call.op).name.empty())
      names.insert(call.op);
  return {names.begin(), names.end()};
}

} // namespace stow::eager
