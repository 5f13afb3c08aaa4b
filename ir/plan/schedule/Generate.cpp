#include "ir/plan/schedule/Generate.h"

#include <algorithm>
#include <cmath>

namespace stow::schedule {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): small, well mixed, the same on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {}
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in [low, high], both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }
  /// Sum of twelve uniforms: close enough to a standard normal, and exact on every machine.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += unit();
    return sum;
  }

private:
  uint64_t state;
};

std::string numbered(const char *stem, int64_t index) { return stem + std::to_string(index); }

} // namespace

Problem generate(uint64_t seed) {
  Random random(seed);
  switch (random.between(0, 4)) {
  case 0:
    return generateChainStep(seed, static_cast<int>(random.between(1, 6)));
  case 1: {
    LayeredOptions options;
    options.opCount = static_cast<int>(random.between(2, 14));
    options.width = 0.4;
    return generateLayered(seed, options);
  }
  case 2: {
    LayeredOptions options;
    options.opCount = static_cast<int>(random.between(2, 7));
    options.width = 0.3;
    return trainingStep(generateLayered(seed, options));
  }
  default:
    return generateMixed(seed, static_cast<int>(random.between(1, 14)));
  }
}

Problem generateMixed(uint64_t seed, int opCount) {
  Random random(seed ^ 0x6d69786564u);
  Problem problem;
  problem.name = "mixed-" + std::to_string(seed);
  std::vector<ValueId> available; // values that may still be read
  int64_t sources = random.between(0, 3);
  for (int64_t i = 0; i < sources; ++i)
    available.push_back(random.chance(0.6)
                            ? problem.addPinned(numbered("w", i), random.between(0, 63))
                            : problem.addValue(numbered("x", i), random.between(0, 63)));
  for (int i = 0; i < opCount; ++i) {
    std::vector<ValueId> inputs;
    int64_t reads = std::min<int64_t>(random.between(0, 3), static_cast<int64_t>(available.size()));
    for (int64_t r = 0; r < reads; ++r) {
      // Half of the reads go to recent values, so that graphs are neither chains nor noise.
      size_t low = random.chance(0.5) && available.size() > 4 ? available.size() - 4 : 0;
      ValueId value = available[random.between(low, available.size() - 1)];
      if (std::find(inputs.begin(), inputs.end(), value) == inputs.end())
        inputs.push_back(value);
    }
    const std::string name = numbered("op", i);
    OpId op = problem.addOp(name, random.between(0, 15), inputs, {},
                            random.chance(0.2) ? random.between(0, 40) : 0);
    std::vector<ValueId> outputs, destroyed;
    if (!inputs.empty() && random.chance(0.12)) { // a view
      outputs.push_back(problem.addValueIn(name + ".view", problem.values[inputs[0]].storage));
      if (random.chance(0.7))
        problem.ops[op].alternatives = {{0, 0}};
    } else if (!inputs.empty() && random.chance(0.12)) { // the next version of its first input
      StorageId storage = problem.values[inputs[0]].storage;
      outputs.push_back(problem.addValueIn(name + ".next", storage));
      for (ValueId input : inputs)
        if (problem.values[input].storage == storage)
          problem.ops[op].overwrites.push_back(input);
      for (ValueId value : available)
        if (problem.values[value].storage == storage)
          destroyed.push_back(value);
    } else {
      int64_t count = random.chance(0.2) ? random.between(0, 2) : 1;
      for (int64_t o = 0; o < count; ++o)
        outputs.push_back(problem.addValue(name + "." + std::to_string(o), random.between(0, 63)));
      if (!inputs.empty() && !outputs.empty() && random.chance(0.3))
        problem.ops[op].mayOverwrite.push_back({outputs[0], inputs[0]});
    }
    problem.ops[op].outputs = outputs;
    if (random.chance(0.15))
      problem.ops[op].alternatives.push_back({random.between(0, 15), random.between(0, 40)});
    if (random.chance(0.1))
      problem.ops[op].recomputable = false;
    for (ValueId value : destroyed)
      available.erase(std::find(available.begin(), available.end(), value));
    available.insert(available.end(), outputs.begin(), outputs.end());
  }
  for (ValueId value : available)
    if (random.chance(0.08))
      problem.values[value].keep = true;
  return problem;
}

namespace {

/// Forward ops f_0..f_{n-1} (f_0 reads nothing), loss, backward b_{n-1}..b_0.
Problem chainStep(const std::vector<Cost> &costs, const std::vector<Bytes> &sizes,
                  const std::vector<Cost> &backwardCosts) {
  Problem problem;
  const int length = static_cast<int>(costs.size());
  std::vector<ValueId> outputs;
  for (int i = 0; i < length; ++i) {
    std::vector<ValueId> inputs;
    if (i)
      inputs = {outputs.back()};
    outputs.push_back(problem.addValue(numbered("a", i), sizes[i]));
    problem.addOp(numbered("f", i), costs[i], inputs, {outputs.back()});
  }
  std::optional<ValueId> gradient;
  for (int i = length; i-- > 0;) {
    std::vector<ValueId> inputs;
    if (i)
      inputs.push_back(outputs[i - 1]);
    inputs.push_back(gradient ? *gradient : outputs[i]);
    gradient = problem.addValue(numbered("g", i), i ? sizes[i - 1] : 0);
    problem.addOp(numbered("b", i), backwardCosts[i], inputs, {*gradient});
  }
  return problem;
}

} // namespace

Problem generateChainStep(uint64_t seed, int length) {
  Random random(seed ^ 0x636861696eu);
  std::vector<Cost> costs, backwardCosts;
  std::vector<Bytes> sizes;
  for (int i = 0; i < length; ++i) {
    costs.push_back(random.between(1, 9));
    backwardCosts.push_back(random.between(1, 18));
    sizes.push_back(random.between(1, 9));
  }
  Problem problem = chainStep(costs, sizes, backwardCosts);
  problem.name = "chain-" + std::to_string(length) + "-" + std::to_string(seed);
  return problem;
}

Problem unitChainStep(int length) {
  Problem problem = chainStep(std::vector<Cost>(length, 1), std::vector<Bytes>(length, 1),
                              std::vector<Cost>(length, 1));
  problem.name = "unit-chain-" + std::to_string(length);
  return problem;
}

Problem generateLayered(uint64_t seed, const LayeredOptions &options) {
  Random random(seed ^ 0x6c617965726564u);
  Problem problem;
  problem.name = "layered-" + std::to_string(options.opCount) + "-" + std::to_string(seed);
  const double meanWidth = std::max(1.0, std::pow(options.opCount, options.width));
  std::vector<std::vector<ValueId>> layers;
  int placed = 0;
  while (placed < options.opCount) {
    double drawn = meanWidth * (1 + options.widthVariability * random.normal());
    int width = std::clamp(static_cast<int>(std::lround(drawn)), 1, options.opCount - placed);
    std::vector<ValueId> layer;
    for (int i = 0; i < width; ++i, ++placed) {
      std::vector<ValueId> inputs;
      if (!layers.empty()) {
        const std::vector<ValueId> &above = layers.back();
        for (ValueId value : above)
          if (random.chance(options.edgeDensity))
            inputs.push_back(value);
        if (inputs.empty())
          inputs.push_back(above[random.between(0, above.size() - 1)]);
        if (layers.size() > 1 && random.chance(options.nonLocalFraction)) {
          const std::vector<ValueId> &far = layers[random.between(0, layers.size() - 2)];
          inputs.push_back(far[random.between(0, far.size() - 1)]);
        }
      }
      // Sizes as in activations: many small, some large; costs loosely follow sizes.
      Bytes size = random.chance(0.3) ? random.between(50, 100) : random.between(1, 50);
      layer.push_back(problem.addValue(numbered("v", placed), size * 1024));
      problem.addOp(numbered("n", placed), size / 4 + random.between(1, 25), inputs,
                    {layer.back()});
    }
    layers.push_back(std::move(layer));
  }
  return problem;
}

Problem trainingStep(const Problem &forward, int64_t backwardCost) {
  Problem problem = forward;
  problem.name += "-train";
  const size_t count = forward.ops.size();
  std::vector<std::vector<size_t>> readers(count);
  std::vector<std::optional<OpId>> producers = forward.producers();
  for (size_t v = 0; v < count; ++v)
    for (ValueId input : forward.ops[v].inputs)
      if (producers[input])
        readers[*producers[input]].push_back(v);
  std::vector<ValueId> sinks;
  for (size_t v = 0; v < count; ++v)
    if (readers[v].empty())
      sinks.push_back(forward.ops[v].outputs.at(0));
  ValueId loss = problem.addValue("loss", 4);
  problem.addOp("loss", 1, sinks, {loss});
  std::vector<ValueId> gradients(count, 0);
  for (size_t v = count; v-- > 0;) {
    const Op &op = forward.ops[v];
    std::vector<ValueId> inputs = {op.outputs.at(0)};
    if (readers[v].empty())
      inputs.push_back(loss);
    for (size_t reader : readers[v]) {
      inputs.push_back(forward.ops[reader].outputs.at(0));
      inputs.push_back(gradients[reader]);
    }
    gradients[v] = problem.addValue(op.name + "_gradient", forward.sizeOf(op.outputs[0]));
    problem.addOp(op.name + "_backward", backwardCost * op.alternatives[0].cost, inputs,
                  {gradients[v]});
  }
  return problem;
}

namespace {

/// Builds a GPT training step: the forward notes what its backward needs on a tape, the backward
/// walks the tape from its end.
class GptStep {
public:
  GptStep(int64_t batch, int64_t sequence, int64_t width)
      : rows(batch * sequence), sequence(sequence), width(width), activation(rows * width * half) {}

  Problem build(int layers);

private:
  struct Saved {
    OpId op;
    ValueId input, second, output;
    std::optional<ValueId> weight;
  };

  // Costs: nanoseconds at 100 TFLOP/s or 1 TB/s, whichever is longer.
  static Cost matmulCost(int64_t m, int64_t n, int64_t k) { return 2 * m * n * k / 100000; }
  static Cost streamCost(Bytes bytes) { return bytes / 1000; }

  ValueId emit(const std::string &name, Cost cost, ValueId a, std::optional<ValueId> b, Bytes bytes,
               std::optional<ValueId> weight);
  ValueId addBlock(const std::string &prefix, ValueId stream);
  void contribute(ValueId value, Cost cost, std::vector<ValueId> inputs, const std::string &name);
  void update(ValueId weight, ValueId gradient);
  void differentiate(const Saved &saved);

  static constexpr int64_t half = 2; ///< bytes of a bf16
  static constexpr int64_t vocabulary = 50257;
  int64_t rows, sequence, width;
  Bytes activation;
  Problem problem;
  std::vector<Saved> tape;
  std::vector<std::optional<ValueId>> gradientOf; ///< by value of the forward
  ValueId embedding = 0;
  std::optional<ValueId> headGradient; ///< of the embedding as the head's weight
};

ValueId GptStep::emit(const std::string &name, Cost cost, ValueId a, std::optional<ValueId> b,
                      Bytes bytes, std::optional<ValueId> weight) {
  std::vector<ValueId> inputs = {a};
  if (b)
    inputs.push_back(*b);
  if (weight)
    inputs.push_back(*weight);
  ValueId out = problem.addValue(name, bytes);
  OpId op = problem.addOp(name, cost, inputs, {out});
  tape.push_back({op, a, b.value_or(-1), out, weight});
  return out;
}

/// One transformer block on `stream`; returns the stream behind it.
ValueId GptStep::addBlock(const std::string &prefix, ValueId stream) {
  auto weight = [&](const char *name, int64_t elements) {
    return problem.addPinned(prefix + name, elements * half);
  };
  auto linear = [&](const char *name, ValueId x, int64_t in, int64_t out) {
    return emit(prefix + name, matmulCost(rows, out, in), x, {}, rows * out * half,
                weight(name, in * out));
  };
  auto elementwise = [&](const char *name, ValueId x) {
    Bytes bytes = problem.sizeOf(x);
    return emit(prefix + name, streamCost(2 * bytes), x, {}, bytes, {});
  };
  auto norm = [&](const char *name, ValueId x) {
    return emit(prefix + name, streamCost(2 * activation), x, {}, activation, weight(name, width));
  };
  auto add = [&](const char *name, ValueId x, ValueId y) {
    return emit(prefix + name, streamCost(3 * activation), x, y, activation, {});
  };
  ValueId norm1 = norm("ln1", stream);
  ValueId q = linear("q", norm1, width, width), k = linear("k", norm1, width, width),
          v = linear("v", norm1, width, width);
  ValueId attention = problem.addValue(prefix + "attention", activation);
  OpId attentionOp = problem.addOp(prefix + "attention", 2 * matmulCost(rows, sequence, width),
                                   {q, k, v}, {attention});
  tape.push_back({attentionOp, q, k, attention, {}});
  ValueId project = linear("project", attention, width, width);
  ValueId sum = add("add1", stream, elementwise("dropout1", project));
  ValueId up = linear("up", norm("ln2", sum), width, 4 * width);
  ValueId down = linear("down", elementwise("gelu", up), 4 * width, width);
  return add("add2", sum, elementwise("dropout2", down));
}

/// One gradient per value; a second contribution is added in place.
void GptStep::contribute(ValueId value, Cost cost, std::vector<ValueId> inputs,
                         const std::string &name) {
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

void GptStep::update(ValueId weight, ValueId gradient) {
  const std::string name = problem.values[weight].name;
  Bytes bytes = problem.sizeOf(weight);
  ValueId state = problem.addPinned(name + ".state", 6 * bytes);
  ValueId nextWeight = problem.addValueIn(name + ".next", problem.values[weight].storage);
  ValueId nextState = problem.addValueIn(name + ".state.next", problem.values[state].storage);
  OpId op = problem.addOp(name + ".update", streamCost(14 * bytes), {weight, state, gradient},
                          {nextWeight, nextState});
  problem.ops[op].overwrites = {weight, state};
  problem.ops[op].recomputable = false;
}

/// The backward of one op of the tape, and the update of its weight.
void GptStep::differentiate(const Saved &saved) {
  const std::string name = problem.ops[saved.op].name;
  const Cost cost = problem.ops[saved.op].alternatives[0].cost;
  const ValueId gradient = *gradientOf[saved.output];
  if (problem.ops[saved.op].inputs.size() == 3 && !saved.weight) { // attention
    const std::vector<ValueId> parts = problem.ops[saved.op].inputs;
    for (ValueId part : parts)
      contribute(part, cost, {parts[0], parts[1], parts[2], saved.output, gradient},
                 problem.values[part].name + ".grad");
    return;
  }
  if (saved.weight) {
    ValueId weightGradient = problem.addValue(name + ".wgrad", problem.sizeOf(*saved.weight));
    problem.addOp(name + ".wgrad", cost, {saved.input, gradient}, {weightGradient});
    contribute(saved.input, cost, {gradient, *saved.weight}, name + ".dgrad");
    if (*saved.weight == embedding)
      headGradient = weightGradient;
    else
      update(*saved.weight, weightGradient);
    return;
  }
  bool residual = saved.second >= 0;
  contribute(saved.input, cost,
             residual ? std::vector<ValueId>{gradient}
                      : std::vector<ValueId>{saved.input, gradient},
             name + ".grad");
  if (residual)
    contribute(saved.second, cost, {gradient}, name + ".grad2");
}

Problem GptStep::build(int layers) {
  problem.name = "gpt-" + std::to_string(layers);
  ValueId tokens = problem.addValue("tokens", rows * 4);
  embedding = problem.addPinned("embedding", vocabulary * width * half);
  const ValueId first = problem.addValue("x0", activation);
  problem.addOp("embed", streamCost(2 * activation), {tokens, embedding}, {first});

  ValueId stream = first;
  for (int layer = 0; layer < layers; ++layer)
    stream = addBlock("h" + std::to_string(layer) + ".", stream);
  const Bytes logitBytes = rows * vocabulary * half;
  ValueId logits =
      emit("logits", matmulCost(rows, vocabulary, width), stream, {}, logitBytes, embedding);
  ValueId lossGradient = problem.addValue("logits.grad", logitBytes);
  OpId loss = problem.addOp("loss", streamCost(2 * logitBytes), {logits, tokens}, {lossGradient});
  problem.ops[loss].mayOverwrite = {{lossGradient, logits}};

  gradientOf.resize(problem.values.size());
  gradientOf[logits] = lossGradient;
  for (size_t i = tape.size(); i-- > 0;)
    differentiate(tape[i]);

  // The embedding is the head's weight too: both gradients meet in one storage.
  ValueId sum = problem.addValueIn("embedding.grad", problem.values[*headGradient].storage);
  OpId op = problem.addOp("embed.grad", streamCost(3 * activation),
                          {*headGradient, *gradientOf[first], tokens}, {sum});
  problem.ops[op].overwrites = {*headGradient};
  update(embedding, sum);
  return std::move(problem);
}

} // namespace

} // namespace stow::schedule
