// Whole training steps: a GPT with optimizer updates, and an unrolled recurrent network.
#include "ir/plan/schedule/Generate.h"

#include <absl/strings/str_cat.h>

namespace stow::schedule {
namespace {

/// Builds a GPT step op by op. Costs are nanoseconds at 100 TFLOP/s or 1 TB/s; activations are
/// bf16.
class GptStep {
public:
  GptStep(int layers, int64_t batch, int64_t sequence, int64_t width)
      : rows(batch * sequence), sequence(sequence), width(width),
        activation(batch * sequence * width * half) {
    problem.name = absl::StrCat("gpt-", layers);
    tokens = problem.addValue("tokens", rows * 4);
    embedding = problem.addPinned("embedding", vocabulary * width * half);
    embedded = stream = problem.addValue("x0", activation);
    problem.addOp("embed", streamCost(2 * activation), {tokens, embedding}, {stream});
    for (int layer = 0; layer < layers; ++layer)
      forwardBlock(absl::StrCat("h", layer, "."));
    loss();
    for (size_t i = tape.size(); i-- > 0;)
      backward(tape[i]);
    updateEmbedding();
  }

  Problem problem;

private:
  static constexpr int64_t half = 2, vocabulary = 50257;

  /// A forward op and what its backward needs.
  struct Saved {
    OpId op = 0;
    ValueId input = 0, output = 0;
    std::optional<ValueId> second, weight;
    bool attention = false;
  };

  static Cost streamCost(Bytes bytes) { return bytes / 1000; }
  static Cost matmulCost(int64_t m, int64_t n, int64_t k) { return 2 * m * n * k / 100000; }

  ValueId emit(const std::string &name, Cost cost, ValueId input, std::optional<ValueId> second,
               Bytes bytes, std::optional<ValueId> weight) {
    std::vector<ValueId> inputs = {input};
    if (second)
      inputs.push_back(*second);
    if (weight)
      inputs.push_back(*weight);
    ValueId output = problem.addValue(name, bytes);
    OpId op = problem.addOp(name, cost, std::move(inputs), {output});
    tape.push_back({op, input, output, second, weight, false});
    return output;
  }

  ValueId linear(const std::string &name, ValueId input, int64_t in, int64_t out) {
    ValueId weight = problem.addPinned(name + ".weight", in * out * half);
    return emit(name, matmulCost(rows, out, in), input, {}, rows * out * half, weight);
  }

  ValueId norm(const std::string &name, ValueId input) {
    ValueId weight = problem.addPinned(name + ".weight", width * half);
    return emit(name, streamCost(2 * activation), input, {}, activation, weight);
  }

  ValueId pointwise(const std::string &name, ValueId input) {
    Bytes bytes = problem.sizeOf(input);
    return emit(name, streamCost(2 * bytes), input, {}, bytes, {});
  }

  ValueId add(const std::string &name, ValueId a, ValueId b) {
    return emit(name, streamCost(3 * activation), a, b, activation, {});
  }

  void forwardBlock(const std::string &p) {
    ValueId x = norm(p + "ln1", stream);
    ValueId q = linear(p + "q", x, width, width), k = linear(p + "k", x, width, width),
            v = linear(p + "v", x, width, width);
    ValueId attention = problem.addValue(p + "attention", activation);
    OpId op = problem.addOp(p + "attention", 2 * matmulCost(rows, sequence, width), {q, k, v},
                            {attention});
    tape.push_back({op, q, attention, k, {}, true});
    ValueId dropped = pointwise(p + "dropout1", linear(p + "project", attention, width, width));
    stream = add(p + "add1", stream, dropped);
    x = norm(p + "ln2", stream);
    x = pointwise(p + "gelu", linear(p + "up", x, width, 4 * width));
    x = pointwise(p + "dropout2", linear(p + "down", x, 4 * width, width));
    stream = add(p + "add2", stream, x);
  }

  void loss() {
    const Bytes bytes = rows * vocabulary * half;
    ValueId logits =
        emit("logits", matmulCost(rows, vocabulary, width), stream, {}, bytes, embedding);
    ValueId gradient = problem.addValue("logits.grad", bytes);
    OpId op = problem.addOp("loss", streamCost(2 * bytes), {logits, tokens}, {gradient});
    problem.ops[op].mayOverwrite = {{gradient, logits}};
    gradientOf.resize(problem.values.size());
    gradientOf[logits] = gradient;
  }

  /// A contribution to the gradient of `value`; a second one is added in place.
  void contribute(ValueId value, Cost cost, std::vector<ValueId> inputs, const std::string &name) {
    ValueId gradient = problem.addValue(name, problem.sizeOf(value));
    problem.addOp(name, cost, std::move(inputs), {gradient});
    if (gradientOf[value]) {
      ValueId sum = problem.addValue(name + ".sum", problem.sizeOf(value));
      OpId op = problem.addOp(name + ".sum", streamCost(3 * problem.sizeOf(value)),
                              {*gradientOf[value], gradient}, {sum});
      problem.ops[op].mayOverwrite = {{sum, *gradientOf[value]}, {sum, gradient}};
      gradient = sum;
    }
    gradientOf[value] = gradient;
  }

  void backward(const Saved &saved) {
    const std::string name = problem.ops[saved.op].name;
    const Cost cost = problem.ops[saved.op].alternatives[0].cost;
    const ValueId gradient = *gradientOf[saved.output];
    if (saved.attention) {
      const std::vector<ValueId> parts = problem.ops[saved.op].inputs;
      for (ValueId part : parts)
        contribute(part, cost, {parts[0], parts[1], parts[2], saved.output, gradient},
                   problem.values[part].name + ".grad");
    } else if (saved.weight) {
      ValueId weightGradient = problem.addValue(name + ".wgrad", problem.sizeOf(*saved.weight));
      problem.addOp(name + ".wgrad", cost, {saved.input, gradient}, {weightGradient});
      contribute(saved.input, cost, {gradient, *saved.weight}, name + ".dgrad");
      if (*saved.weight == embedding)
        embeddingGradient = weightGradient; // read once more by the embedding's own gradient
      else
        update(*saved.weight, weightGradient);
    } else if (saved.second) { // a residual addition passes its gradient on
      contribute(saved.input, cost, {gradient}, name + ".grad");
      contribute(*saved.second, cost, {gradient}, name + ".grad2");
    } else {
      contribute(saved.input, cost, {saved.input, gradient}, name + ".grad");
    }
  }

  /// The optimizer overwrites a weight and its state; it runs once.
  void update(ValueId weight, ValueId gradient) {
    const std::string name = problem.values[weight].name;
    const Bytes bytes = problem.sizeOf(weight);
    ValueId state = problem.addPinned(name + ".state", 6 * bytes);
    ValueId nextWeight = problem.addValueIn(name + ".next", problem.values[weight].storage);
    ValueId nextState = problem.addValueIn(name + ".state.next", problem.values[state].storage);
    OpId op = problem.addOp(name + ".update", streamCost(14 * bytes), {weight, state, gradient},
                            {nextWeight, nextState});
    problem.ops[op].overwrites = {weight, state};
    problem.ops[op].recomputable = false;
  }

  void updateEmbedding() {
    ValueId sum = problem.addValueIn("embedding.grad", problem.values[embeddingGradient].storage);
    OpId op = problem.addOp("embed.grad", streamCost(3 * activation),
                            {embeddingGradient, *gradientOf[embedded], tokens}, {sum});
    problem.ops[op].overwrites = {embeddingGradient};
    update(embedding, sum);
  }

  const int64_t rows, sequence, width;
  const Bytes activation;
  ValueId tokens = 0, embedding = 0, embedded = 0, stream = 0, embeddingGradient = 0;
  std::vector<Saved> tape;
  std::vector<std::optional<ValueId>> gradientOf; ///< per forward value
};

/// An LSTM unrolled over time. Its weight gradient is accumulated in place.
class RecurrentStep {
public:
  RecurrentStep(int steps, int64_t batch, int64_t width)
      : state(batch * width * 4), matmul(1 + 2 * batch * width * width / 10000) {
    problem.name = absl::StrCat("recurrent-", steps);
    weight = problem.addPinned("weight", 4 * width * width * 4);
    data = problem.addPinned("data", steps * state);
    hidden = problem.addPinned("h0", state);
    cell = problem.addPinned("c0", state);
    for (int t = 0; t < steps; ++t)
      forward(absl::StrCat("t", t, "."));
    hiddenGradient = emit("loss", streamCost(2 * state), {hidden}, state);
    for (int t = steps; t-- > 0;)
      backward(absl::StrCat("t", t, "."), tape[t]);
    update();
  }

  Problem problem;

private:
  struct Step {
    ValueId hidden, cell, previousHidden, previousCell, gate[4], squashed;
  };

  static Cost streamCost(Bytes bytes) { return 1 + bytes / 1000; }

  ValueId emit(const std::string &name, Cost cost, std::vector<ValueId> inputs, Bytes bytes) {
    ValueId value = problem.addValue(name, bytes);
    problem.addOp(name, cost, std::move(inputs), {value});
    return value;
  }

  void forward(const std::string &p) {
    static constexpr const char *gates[] = {"i", "f", "g", "o"};
    Step step{};
    step.previousHidden = hidden;
    step.previousCell = cell;
    for (int g = 0; g < 4; ++g) {
      ValueId sum = emit(p + gates[g] + ".sum", matmul, {hidden, data, weight}, state);
      step.gate[g] = emit(p + gates[g], streamCost(2 * state), {sum}, state);
      problem.ops.back().mayOverwrite = {{step.gate[g], sum}};
    }
    cell = emit(p + "cell", streamCost(5 * state), {cell, step.gate[0], step.gate[1], step.gate[2]},
                state);
    step.squashed = emit(p + "tanh", streamCost(2 * state), {cell}, state);
    hidden = emit(p + "hidden", streamCost(3 * state), {step.squashed, step.gate[3]}, state);
    step.hidden = hidden;
    step.cell = cell;
    tape.push_back(step);
  }

  void backward(const std::string &p, const Step &step) {
    ValueId output = emit(p + "o.grad", streamCost(4 * state),
                          {hiddenGradient, step.squashed, step.gate[3]}, state);
    std::vector<ValueId> reads = {hiddenGradient, step.squashed, step.gate[3]};
    if (cellGradient)
      reads.push_back(*cellGradient);
    ValueId total = emit(p + "cell.total", streamCost(5 * state), reads, state);
    auto gateGradient = [&](const char *name, ValueId a, ValueId b) {
      return emit(p + name, streamCost(4 * state), {total, a, b}, state);
    };
    ValueId input = gateGradient("i.grad", step.gate[0], step.gate[2]);
    ValueId candidate = gateGradient("g.grad", step.gate[0], step.gate[2]);
    ValueId forget = gateGradient("f.grad", step.gate[1], step.previousCell);
    cellGradient = emit(p + "cell.grad", streamCost(3 * state), {total, step.gate[1]}, state);
    hiddenGradient =
        emit(p + "hidden.grad", 4 * matmul, {output, input, candidate, forget, weight}, state);
    accumulate(p, {step.previousHidden, data, output, input, candidate, forget});
  }

  void accumulate(const std::string &p, std::vector<ValueId> inputs) {
    if (!weightGradient) {
      weightGradient =
          emit(p + "weight.grad", 4 * matmul, std::move(inputs), problem.sizeOf(weight));
      return;
    }
    inputs.push_back(*weightGradient);
    ValueId next = problem.addValueIn(p + "weight.grad", problem.values[*weightGradient].storage);
    OpId op = problem.addOp(p + "weight.grad", 4 * matmul, std::move(inputs), {next});
    problem.ops[op].overwrites = {*weightGradient};
    weightGradient = next;
  }

  void update() {
    ValueId next = problem.addValueIn("weight.next", problem.values[weight].storage);
    OpId op = problem.addOp("update", streamCost(3 * problem.sizeOf(weight)),
                            {weight, *weightGradient}, {next});
    problem.ops[op].overwrites = {weight};
    problem.ops[op].recomputable = false;
  }

  const Bytes state;
  const Cost matmul;
  ValueId weight = 0, data = 0, hidden = 0, cell = 0, hiddenGradient = 0;
  std::optional<ValueId> cellGradient, weightGradient;
  std::vector<Step> tape;
};

} // namespace

Problem gptStep(int layers, int64_t batch, int64_t sequence, int64_t width) {
  return GptStep(layers, batch, sequence, width).problem;
}

Problem recurrentStep(int steps, int64_t batch, int64_t width) {
  return RecurrentStep(steps, batch, width).problem;
}

} // namespace stow::schedule
