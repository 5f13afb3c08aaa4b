#include "compiler/import/EagerProgram.h"

#include "runtime/base/Error.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace stow::onnx {
namespace {

/// Operators of ONNX that are one of ATen.
const std::map<std::string, std::string> &atenNames() {
  static const std::map<std::string, std::string> names = {{"Abs", "abs"},
                                                           {"Add", "add"},
                                                           {"AveragePool", "avg_pool2d"},
                                                           {"BatchNormalization", "batch_norm"},
                                                           {"Cast", "_to_copy"},
                                                           {"Clip", "clamp"},
                                                           {"Concat", "cat"},
                                                           {"Constant", "full"},
                                                           {"ConstantOfShape", "full"},
                                                           {"Conv", "convolution"},
                                                           {"ConvTranspose", "convolution"},
                                                           {"Cos", "cos"},
                                                           {"Div", "div"},
                                                           {"Dropout", "dropout"},
                                                           {"Elu", "elu"},
                                                           {"Equal", "eq"},
                                                           {"Erf", "erf"},
                                                           {"Exp", "exp"},
                                                           {"Expand", "expand"},
                                                           {"Flatten", "flatten"},
                                                           {"Gather", "index_select"},
                                                           {"Gelu", "gelu"},
                                                           {"Gemm", "linear"},
                                                           {"GlobalAveragePool", "mean"},
                                                           {"Greater", "gt"},
                                                           {"GroupNormalization", "group_norm"},
                                                           {"HardSigmoid", "hardsigmoid"},
                                                           {"HardSwish", "hardswish"},
                                                           {"Identity", "alias"},
                                                           {"LayerNormalization", "layer_norm"},
                                                           {"LeakyRelu", "leaky_relu"},
                                                           {"Less", "lt"},
                                                           {"Log", "log"},
                                                           {"LogSoftmax", "log_softmax"},
                                                           {"MatMul", "matmul"},
                                                           {"MaxPool", "max_pool2d"},
                                                           {"Mul", "mul"},
                                                           {"Neg", "neg"},
                                                           {"Pad", "constant_pad_nd"},
                                                           {"Pow", "pow"},
                                                           {"Range", "arange"},
                                                           {"Reciprocal", "reciprocal"},
                                                           {"ReduceMax", "amax"},
                                                           {"ReduceMean", "mean"},
                                                           {"ReduceSum", "sum"},
                                                           {"Relu", "relu"},
                                                           {"Reshape", "view"},
                                                           {"Resize", "upsample_nearest2d"},
                                                           {"Shape", "full"},
                                                           {"Sigmoid", "sigmoid"},
                                                           {"Sin", "sin"},
                                                           {"Slice", "slice"},
                                                           {"Softmax", "softmax"},
                                                           {"Softplus", "softplus"},
                                                           {"Split", "split"},
                                                           {"Sqrt", "sqrt"},
                                                           {"Squeeze", "squeeze"},
                                                           {"Sub", "sub"},
                                                           {"Tanh", "tanh"},
                                                           {"Transpose", "permute"},
                                                           {"Unsqueeze", "unsqueeze"},
                                                           {"Where", "where"}};
  return names;
}

/// "linear" of "aten.linear.default".
std::string nameOfOperation(const std::string &operation) {
  const std::vector<std::string> parts = absl::StrSplit(operation, '.');
  return parts.size() > 1 ? parts[parts.size() - 2] : operation;
}

/// Whole numbers among the arguments, which names do not count to: "args = (%view, 1, [2, -1], 0.5)" has 1, 2 and -1.
std::vector<int64_t> wholeNumbers(const std::string &fxNode) {
  std::vector<int64_t> numbers;
  const size_t begin = fxNode.find("args = ("), end = fxNode.rfind("kwargs");
  if (begin == std::string::npos)
    return numbers;
  const std::string text =
      fxNode.substr(begin + 8, end == std::string::npos ? end : end - begin - 8);
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" ,()[]"), absl::SkipEmpty())) {
    const bool isNumber =
        word.find_first_not_of("-0123456789") == absl::string_view::npos && word != "-";
    if (isNumber && word.size() < 18)
      numbers.push_back(std::stoll(std::string(word)));
  }
  return numbers;
}

/// The operator of a call: of ATen's or another's, of Python's that take a part of a list, or that compute with whole numbers.
std::string nameOfCall(const std::string &fxNode) {
  if (fxNode.find("getitem](") != std::string::npos)
    return "getitem";
  const std::string operation = operationOf(fxNode);
  return operation.empty() || fxNode.find("target=operator.") != std::string::npos
             ? "scalar"
             : nameOfOperation(operation);
}

/// The rate of attention's dropout: its fifth argument.
double dropoutOf(const std::string &fxNode) {
  if (fxNode.find("aten.scaled_dot_product_attention") == std::string::npos)
    return 0;
  std::string text = argumentOf(fxNode, 4);
  constexpr std::string_view key = "dropout_p: ";
  if (const size_t at = fxNode.find(key); at != std::string::npos)
    text = fxNode.substr(at + key.size(), fxNode.find_first_of(",}", at) - at - key.size());
  double rate = 0;
  return absl::SimpleAtod(text, &rate) ? rate : 0;
}

class Reader {
public:
  Reader(const Model &model, const BatchShapes &shapes, const std::set<std::string> &trained)
      : model(model), shapes(shapes), trained(trained) {}

  eager::Program read(const LossSpec &loss, const std::string &lossOutput) {
    group();
    countReaders();
    addState();
    for (const Group &group : groups)
      addCall(group);
    addLoss(loss, lossOutput);
    program.isInHalves = model.signature && !model.signature->types.empty();
    return std::move(program);
  }

private:
  /// The nodes of one operation.
  struct Group {
    std::vector<const Node *> nodes;
  };

  void group() {
    std::map<std::string, size_t> known;
    for (const Node &node : model.nodes) {
      const bool isNoted = !node.fxNode.empty();
      auto [at, isNew] =
          isNoted ? known.emplace(node.fxNode, groups.size()) : std::pair(known.end(), true);
      if (isNew)
        groups.emplace_back();
      groups[isNew ? groups.size() - 1 : at->second].nodes.push_back(&node);
    }
  }

  /// Who reads a tensor: the results of a group are what others read.
  void countReaders() {
    for (size_t i = 0; i < groups.size(); ++i)
      for (const Node *node : groups[i].nodes)
        for (const std::string &name : node->inputs)
          readers[name].insert(i);
    for (const std::string &name : model.outputs)
      readers[name].insert(groups.size());
  }

  /// The module's own parameters and buffers, also those that no node reads, and the batch.
  void addState() {
    using Kind = eager::Tensor::Kind;
    for (const Input &input : model.inputs) {
      const auto *entry = model.signature ? model.signature->find(input.name) : nullptr;
      const bool isState = entry && entry->kind != GraphSignature::Kind::UserInput;
      add(input.name, trained.count(input.name) ? Kind::Parameter
                      : isState                 ? Kind::State
                                                : Kind::Input);
    }
    for (const auto &[name, tensor] : model.initializers) {
      const auto *entry = model.signature ? model.signature->find(name) : nullptr;
      if (trained.count(name))
        add(name, Kind::Parameter);
      else if (entry || !model.signature)
        add(name, Kind::State);
    }
  }

  std::optional<size_t> add(const std::string &name, eager::Tensor::Kind kind) {
    if (auto known = numbers.find(name); known != numbers.end())
      return known->second;
    const auto shape = shapes.shapes.find(name);
    const auto width = shapes.widths.find(name);
    if (shape == shapes.shapes.end() || width == shapes.widths.end())
      return std::nullopt;
    const bool isHalf = model.signature && model.signature->types.count(name);
    numbers.emplace(name, program.tensors.size());
    program.tensors.push_back({name, shape->second, isHalf ? 2 : width->second, kind});
    return program.tensors.size() - 1;
  }

  /// The tensors among the arguments, in the operation's order; what the exporter calls otherwise comes last.
  std::vector<size_t> readsOf(const Group &group) const {
    std::vector<size_t> reads;
    std::set<std::string> own;
    for (const Node *node : group.nodes)
      own.insert(node->outputs.begin(), node->outputs.end());
    auto read = [&](const std::string &name, bool isRepeated) {
      const auto found = numbers.find(name);
      if (found != numbers.end() && !own.count(name) &&
          (isRepeated || std::ranges::find(reads, found->second) == reads.end()))
        reads.push_back(found->second);
    };
    const std::string &noted = group.nodes.front()->fxNode;
    for (const std::string &argument : argumentsOf(noted)) {
      const auto *entry = model.signature ? model.signature->findArgument(argument) : nullptr;
      read(entry && !entry->target.empty() ? entry->target : argument, true);
    }
    for (const Node *node : group.nodes)
      for (const std::string &name : node->inputs)
        read(name, noted.empty());
    return reads;
  }

  void addCall(const Group &group) {
    const Node &first = *group.nodes.front();
    eager::Call call;
    if (!first.fxNode.empty()) {
      call.op = nameOfCall(first.fxNode);
      call.rate = dropoutOf(first.fxNode);
      call.dimensions = wholeNumbers(first.fxNode);
    } else {
      const auto known = atenNames().find(first.type);
      call.op = known == atenNames().end() ? first.type : known->second;
      if (auto permutation = first.attributes.find("perm"); permutation != first.attributes.end())
        call.dimensions = permutation->second.ints;
    }
    call.reads = readsOf(group);
    for (const Node *node : group.nodes)
      for (const std::string &name : node->outputs)
        if (node->type != "Constant" && isReadOutside(name, group))
          addResult(call, name);
    if (call.results.empty())
      return;
    if (call.op == "split" || call.op == "unbind" || call.op == "chunk" ||
        call.op == "split_with_sizes")
      addParts(std::move(call));
    else
      program.calls.push_back(std::move(call));
  }

  bool isReadOutside(const std::string &name, const Group &group) const {
    const auto found = readers.find(name);
    const auto number = static_cast<size_t>(&group - groups.data());
    return found != readers.end() &&
           std::ranges::any_of(found->second, [&](size_t reader) { return reader != number; });
  }

  void addResult(eager::Call &call, const std::string &name) {
    if (const auto tensor = add(name, eager::Tensor::Kind::Result)) {
      call.results.push_back(*tensor);
      // A list has no shape: it is what its parts are of.
      if (isList(call.op) && program.tensors[*tensor].width == 0 && !call.reads.empty()) {
        program.tensors[*tensor].shape = program.tensors[call.reads.front()].shape;
        program.tensors[*tensor].width = program.tensors[call.reads.front()].width;
      }
    }
  }

  static bool isList(const std::string &op) {
    return op == "split" || op == "unbind" || op == "chunk" || op == "split_with_sizes";
  }

  /// A list of parts, and each of them where the file has no list.
  void addParts(eager::Call call) {
    const eager::Tensor &whole = program.tensors[call.reads.front()];
    if (call.results.size() == 1 && program.tensors[call.results.front()].shape == whole.shape) {
      program.calls.push_back(std::move(call));
      return;
    }
    const std::vector<size_t> parts = std::exchange(call.results, {program.tensors.size()});
    program.tensors.push_back(
        {whole.name + " in parts", whole.shape, whole.width, eager::Tensor::Kind::Result});
    const size_t list = call.results.front();
    program.calls.push_back(std::move(call));
    for (size_t part : parts)
      program.calls.push_back({"getitem", {list}, {part}, {}});
  }

  size_t addTensor(const std::string &name, const Shape &shape, int64_t width,
                   eager::Tensor::Kind kind) {
    program.tensors.push_back({name, shape, width, kind});
    return program.tensors.size() - 1;
  }

  void addLoss(const LossSpec &loss, const std::string &lossOutput) {
    using Kind = LossSpec::Kind;
    using eager::Tensor;
    std::string output = loss.kind == Kind::Output ? loss.output : lossOutput;
    for (const std::string &name : model.outputs)
      if (output.empty() && !(model.signature && model.signature->nextValues.count(name)))
        output = name;
    const auto found = numbers.find(output);
    if (found == numbers.end())
      throw Error::badInput("no output \"" + output + "\"");
    size_t value = found->second;
    program.loss = value;
    if (loss.kind == Kind::Output)
      return;
    const Shape shape = program.tensors[value].shape;
    const int64_t width = program.tensors[value].width;
    Shape rows = shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t axis = loss.classAxis < 0 ? loss.classAxis + rank : loss.classAxis;
    if (loss.readsClasses() && axis >= 0 && axis < rank)
      rows.erase(rows.begin() + axis);
    const size_t target =
        addTensor("target", rows, loss.readsClasses() ? 8 : width, Tensor::Kind::Input);
    if (loss.kind == Kind::CrossEntropy) {
      const size_t logarithms = addTensor("log_softmax", shape, width, Tensor::Kind::Result);
      program.calls.push_back({"log_softmax", {value}, {logarithms}, {}});
      value = logarithms;
    }
    program.loss = addTensor("loss", {}, width, Tensor::Kind::Result);
    program.calls.push_back(
        {loss.readsClasses() ? "nll_loss" : "mse_loss", {value, target}, {program.loss}, {}});
  }

  const Model &model;
  const BatchShapes &shapes;
  const std::set<std::string> &trained;
  std::vector<Group> groups;
  std::map<std::string, std::set<size_t>>
      readers; ///< groups by tensor; their number for the model's outputs
  std::map<std::string, size_t> numbers;
  eager::Program program;
};

} // namespace

eager::Program eagerProgram(const Model &model, const BatchShapes &shapes,
                            const std::set<std::string> &trained, const LossSpec &loss,
                            const std::string &lossOutput) {
  return Reader(model, shapes, trained).read(loss, lossOutput);
}

} // namespace stow::onnx
