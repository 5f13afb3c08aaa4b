// Training steps in which norms, activations, residual sums and gates are written over what they
// read, forward and backward, and gradients of one value are added up in place.
#include "ir/plan/schedule/Generate.h"

#include "ir/plan/Random.h"
#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

namespace stow::schedule {
namespace {

/// What an op's backward reads beside the gradient. Of a storage that is overwritten the last
/// version is left: a backward that needs more cannot be had.
enum class Saves { Nothing, Inputs, Output };

/// Builds the forward op by op and derives the backward from it.
class InPlaceStep {
public:
  Problem problem;

  /// An op with an output of its own.
  ValueId fresh(const std::string &kind, Cost cost, std::vector<ValueId> inputs, Bytes bytes,
                Saves saves) {
    const std::string name = numbered(kind);
    const ValueId output = problem.addValue(name, bytes);
    problem.addOp(name, cost, inputs, {output});
    tape.push_back({std::move(inputs), output, {}, cost, saves});
    return output;
  }

  /// An op that writes over `value` and reads `others` beside it.
  ValueId over(const std::string &kind, Cost cost, ValueId value,
               const std::vector<ValueId> &others, Saves saves) {
    const std::string name = numbered(kind);
    const ValueId output = problem.addValueIn(name, problem.values[value].storage);
    std::vector<ValueId> inputs = {value};
    inputs.insert(inputs.end(), others.begin(), others.end());
    const OpId op = problem.addOp(name, cost, std::move(inputs), {output});
    problem.ops[op].overwrites = {value};
    tape.push_back({others, output, value, cost, saves});
    return output;
  }

  /// The loss of `last` and every gradient.
  Problem finish(const std::string &name, ValueId last) {
    gradientOf.resize(problem.values.size());
    contribute(last, "loss", 1, {last});
    for (size_t i = tape.size(); i-- > 0;)
      backward(tape[i]);
    problem.name = name;
    return std::move(problem);
  }

private:
  struct Step {
    std::vector<ValueId> inputs; ///< without what is overwritten
    ValueId output = 0;
    std::optional<ValueId> overwritten;
    Cost cost = 0;
    Saves saves = Saves::Nothing;
  };

  std::string numbered(const std::string &kind) const {
    return absl::StrCat(kind, problem.ops.size());
  }

  /// What is left of the storage of `value` when the forward is done.
  ValueId survivor(ValueId value) const {
    for (const Step &step : tape)
      if (step.overwritten == value)
        value = step.output;
    return value;
  }

  void contribute(ValueId value, const std::string &name, Cost cost, std::vector<ValueId> inputs) {
    ValueId gradient = problem.addValue(name, problem.sizeOf(value));
    problem.addOp(name, cost, std::move(inputs), {gradient});
    if (std::optional<ValueId> sum = gradientOf[value])
      gradient = write(name + ".sum", 1 + cost / 8, *sum, {gradient});
    gradientOf[value] = gradient;
  }

  /// The next version of `gradient`.
  ValueId write(const std::string &name, Cost cost, ValueId gradient, std::vector<ValueId> inputs) {
    const ValueId next = problem.addValueIn(name, problem.values[gradient].storage);
    inputs.insert(inputs.begin(), gradient);
    const OpId op = problem.addOp(name, cost, std::move(inputs), {next});
    problem.ops[op].overwrites = {gradient};
    return next;
  }

  void backward(const Step &step) {
    if (!gradientOf[step.output]) // nothing that the loss reads
      return;
    const ValueId gradient = *gradientOf[step.output];
    const std::string name = problem.values[step.output].name + ".grad";
    std::vector<ValueId> saved;
    if (step.saves == Saves::Output)
      saved = {survivor(step.output)};
    if (step.saves == Saves::Inputs)
      for (ValueId input : step.inputs)
        saved.push_back(survivor(input));
    const Cost cost = 1 + 2 * step.cost / static_cast<Cost>(step.inputs.size() + 1);
    for (ValueId input : step.inputs) {
      std::vector<ValueId> reads = {gradient};
      for (ValueId value : saved)
        if (std::find(reads.begin(), reads.end(), value) == reads.end())
          reads.push_back(value);
      contribute(input, absl::StrCat(name, input), cost, std::move(reads));
    }
    // A sum passes its gradient on; other ops write theirs over it.
    if (step.overwritten)
      gradientOf[*step.overwritten] =
          step.saves == Saves::Nothing ? gradient : write(name, cost, gradient, saved);
  }

  std::vector<Step> tape;
  std::vector<std::optional<ValueId>> gradientOf; ///< per forward value
};

/// Shapes and costs of layers on top of that; batch 16, float32, costs in kFLOP.
class InPlaceNetwork {
public:
  struct Tensor {
    std::optional<ValueId> value; ///< absent: the data, which is not counted
    int64_t channels = 3, side = 128;
  };

  Tensor conv(const Tensor &x, int64_t channels, int64_t kernel = 3, int64_t stride = 1) {
    Tensor out{{}, channels, x.side / stride};
    const Cost cost = 2 * elements(out) * kernel * kernel * x.channels / 1000;
    return emit("conv", out, cost, {x}, Saves::Inputs);
  }
  Tensor pool(const Tensor &x) {
    return emit("pool", {{}, x.channels, x.side / 2}, elements(x) / 1000, {x}, Saves::Nothing);
  }
  Tensor upsample(const Tensor &x) {
    return emit("upsample", {{}, x.channels, x.side * 2}, 4 * elements(x) / 1000, {x},
                Saves::Nothing);
  }
  Tensor concat(const std::vector<Tensor> &parts) {
    Tensor out = parts.front();
    for (size_t i = 1; i < parts.size(); ++i)
      out.channels += parts[i].channels;
    return emit("concat", out, elements(out) / 1000, parts, Saves::Nothing);
  }
  Tensor norm(const Tensor &x) {
    return emit("norm", x, 8 * elements(x) / 1000, {x}, Saves::Inputs);
  }
  Tensor overwrite(const char *kind, const Tensor &x) {
    return {step.over(kind, 4 * elements(x) / 1000, *x.value, {}, Saves::Output), x.channels,
            x.side};
  }
  Tensor addOver(const Tensor &x, const Tensor &y) {
    return {step.over("add", elements(x) / 1000, *x.value, {*y.value}, Saves::Nothing), x.channels,
            x.side};
  }
  /// Convolution, norm and activation, the latter two in place.
  Tensor layer(const Tensor &x, int64_t channels, int64_t kernel = 3, int64_t stride = 1) {
    return overwrite("relu", overwrite("norm", conv(x, channels, kernel, stride)));
  }

  InPlaceStep step;

private:
  static int64_t elements(const Tensor &x) { return 16 * x.channels * x.side * x.side; }
  Tensor emit(const char *kind, Tensor out, Cost cost, const std::vector<Tensor> &inputs,
              Saves saves) {
    std::vector<ValueId> reads;
    for (const Tensor &x : inputs)
      if (x.value)
        reads.push_back(*x.value);
    out.value = step.fresh(kind, cost, std::move(reads), 4 * elements(out), saves);
    return out;
  }
};

using Tensor = InPlaceNetwork::Tensor;

Tensor chain(InPlaceNetwork &net, int depth) {
  Tensor x;
  for (int i = 0; i < depth; ++i)
    x = net.layer(x, 32 + 8 * (i % 3), 3, i > 0 && i % 6 == 0 && x.side > 8 ? 2 : 1);
  return x;
}

Tensor residual(InPlaceNetwork &net, int depth) {
  Tensor x = net.layer({}, 64);
  for (int i = 0; i < depth; ++i) {
    const bool isWider = i > 0 && i % 3 == 0 && x.side > 8;
    const int64_t channels = isWider ? 2 * x.channels : x.channels, stride = isWider ? 2 : 1;
    const Tensor skip = isWider ? net.overwrite("norm", net.conv(x, channels, 1, stride)) : x;
    const Tensor inner = net.layer(net.layer(x, channels / 4, 1, stride), channels / 4);
    const Tensor y = net.overwrite("norm", net.conv(inner, channels, 1));
    x = net.overwrite("relu", net.addOver(y, skip));
  }
  return x;
}

/// Norms in front of convolutions read what others read too, so that only activations overwrite.
Tensor dense(InPlaceNetwork &net, int depth) {
  std::vector<Tensor> parts = {net.layer({}, 32)};
  for (int i = 0; i < depth; ++i) {
    if (i > 0 && i % 4 == 0 && parts.front().side > 8)
      parts = {net.pool(net.layer(net.concat(parts), 32, 1))};
    const Tensor joined = parts.size() > 1 ? net.concat(parts) : parts.front();
    const Tensor inner = net.layer(net.overwrite("relu", net.norm(joined)), 64, 1);
    parts.push_back(net.conv(inner, 16));
  }
  return net.layer(net.concat(parts), 32, 1);
}

Tensor unet(InPlaceNetwork &net, int depth) {
  auto layers = [&](Tensor x, int64_t channels) {
    for (int i = 0; i < 5; ++i)
      x = net.layer(x, channels);
    return x;
  };
  Tensor x;
  std::vector<Tensor> encoder;
  int64_t channels = 16;
  for (int i = 0; i < depth; ++i, channels *= 2) {
    x = layers(x, channels);
    encoder.push_back(x);
    x = net.pool(x);
  }
  x = layers(x, channels);
  for (int i = depth; i-- > 0;) {
    x = net.concat({net.upsample(x), encoder[i]});
    x = layers(x, encoder[i].channels);
  }
  return net.conv(x, 4, 1);
}

/// An LSTM whose gates and cells are written over the sums that they are computed from.
Problem recurrent(int steps) {
  InPlaceStep step;
  const Bytes state = 64 * 512 * 4;
  const Cost matmul = 6700, stream = 130;
  std::optional<ValueId> hidden, cell;
  for (int t = 0; t < steps; ++t) {
    const std::vector<ValueId> reads = hidden ? std::vector{*hidden} : std::vector<ValueId>();
    ValueId gate[4];
    for (ValueId &one : gate)
      one = step.over("gate", 2 * stream,
                      step.fresh("sum", hidden ? matmul : matmul / 2, reads, state, Saves::Inputs),
                      {}, Saves::Output);
    ValueId next = step.fresh("input", 3 * stream, {gate[0], gate[1]}, state, Saves::Inputs);
    if (cell)
      next = step.over("cell", 4 * stream, next,
                       {step.fresh("kept", 3 * stream, {gate[2], *cell}, state, Saves::Inputs)},
                       Saves::Nothing);
    cell = next;
    const ValueId squashed = step.fresh("tanh", 2 * stream, {next}, state, Saves::Output);
    hidden = step.fresh("hidden", 3 * stream, {squashed, gate[3]}, state, Saves::Inputs);
  }
  return step.finish(absl::StrCat("inplace-recurrent-", steps), *hidden);
}

} // namespace

Problem inPlaceStep(const std::string &family, int depth) {
  if (family == "recurrent")
    return recurrent(depth);
  InPlaceNetwork net;
  Tensor last;
  if (family == "chain")
    last = chain(net, depth);
  else if (family == "residual")
    last = residual(net, depth);
  else if (family == "dense")
    last = dense(net, depth);
  else if (family == "unet")
    last = unet(net, depth);
  else
    throw Error::badInput("unknown family \"" + family +
                          "\"; expected chain, residual, dense, unet or recurrent");
  return net.step.finish(absl::StrCat("inplace-", family, "-", depth), *last.value);
}

Problem generateInPlace(uint64_t seed, int layers) {
  Random random(seed * 0x9e3779b97f4a7c15u + 0x696e706cu);
  InPlaceStep step;
  std::vector<ValueId> done; // read by whoever comes later
  for (int i = 0; i < layers; ++i) {
    std::vector<ValueId> reads;
    if (!done.empty())
      reads.push_back(done.back());
    if (done.size() > 1 && random.chance(0.3))
      reads.push_back(done[random.below(done.size() - 1)]);
    ValueId value = step.fresh("conv", random.integer(4, 30), reads, random.integer(8, 63),
                               random.chance(0.8) ? Saves::Inputs : Saves::Nothing);
    const int64_t overwrites = random.integer(0, 3);
    for (int64_t k = 0; k < overwrites; ++k) {
      if (random.chance(0.15)) // reads a version that is overwritten next
        done.push_back(step.fresh("pool", random.integer(1, 4), {value}, random.integer(1, 15),
                                  Saves::Nothing));
      if (!done.empty() && random.chance(0.25))
        value = step.over("add", random.integer(1, 3), value, {done[random.below(done.size())]},
                          Saves::Nothing);
      else
        value = step.over("norm", random.integer(1, 6), value, {}, Saves::Output);
    }
    done.push_back(value);
  }
  return step.finish(absl::StrCat("inplace-", layers, "-", seed), done.back());
}

} // namespace stow::schedule
