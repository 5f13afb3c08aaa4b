#include "ir/plan/schedule/Generate.h"

#include "ir/plan/Random.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cmath>

namespace stow::schedule {
namespace {

Random randomOf(uint64_t seed) { return Random(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du); }

std::string numbered(const char *stem, int64_t index) { return absl::StrCat(stem, index); }

} // namespace

Problem generate(uint64_t seed) {
  constexpr uint64_t everyEighth = 8;
  if (seed % everyEighth == 0)
    return generateConcatenation(seed);
  Random random = randomOf(seed);
  switch (random.integer(0, 4)) {
  case 0:
    return generateChainStep(seed, static_cast<int>(random.integer(1, 6)));
  case 1: {
    LayeredOptions options;
    options.opCount = static_cast<int>(random.integer(2, 14));
    options.width = 0.4;
    return generateLayered(seed, options);
  }
  case 2: {
    LayeredOptions options;
    options.opCount = static_cast<int>(random.integer(2, 7));
    options.width = 0.3;
    return trainingStep(generateLayered(seed, options));
  }
  default:
    return generateMixed(seed, static_cast<int>(random.integer(1, 14)));
  }
}

Problem generateMixed(uint64_t seed, int opCount) {
  Random random = randomOf(seed ^ 0x6d69786564u);
  Problem problem;
  problem.name = absl::StrCat("mixed-", seed);
  std::vector<ValueId> available; // values that may still be read
  int64_t sources = random.integer(0, 3);
  for (int64_t i = 0; i < sources; ++i)
    available.push_back(random.chance(0.6)
                            ? problem.addPinned(numbered("w", i), random.integer(0, 63))
                            : problem.addValue(numbered("x", i), random.integer(0, 63)));
  for (int i = 0; i < opCount; ++i) {
    std::vector<ValueId> inputs;
    int64_t reads = std::min<int64_t>(random.integer(0, 3), static_cast<int64_t>(available.size()));
    for (int64_t r = 0; r < reads; ++r) {
      // Half of the reads go to recent values, so that graphs are neither chains nor noise.
      size_t low = random.chance(0.5) && available.size() > 4 ? available.size() - 4 : 0;
      ValueId value = available[random.integer(low, available.size() - 1)];
      if (std::find(inputs.begin(), inputs.end(), value) == inputs.end())
        inputs.push_back(value);
    }
    const std::string name = numbered("op", i);
    OpId op = problem.addOp(name, random.integer(0, 15), inputs, {},
                            random.chance(0.2) ? random.integer(0, 40) : 0);
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
      int64_t count = random.chance(0.2) ? random.integer(0, 2) : 1;
      for (int64_t o = 0; o < count; ++o)
        outputs.push_back(problem.addValue(absl::StrCat(name, ".", o), random.integer(0, 63)));
      if (!inputs.empty() && !outputs.empty() && random.chance(0.3))
        problem.ops[op].mayOverwrite.push_back({outputs[0], inputs[0]});
    }
    problem.ops[op].outputs = outputs;
    if (random.chance(0.15))
      problem.ops[op].alternatives.push_back({random.integer(0, 15), random.integer(0, 40)});
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

Problem generateConcatenation(uint64_t seed) {
  Random random = randomOf(seed ^ 0x636f6e636174u);
  Problem problem;
  problem.name = absl::StrCat("concatenation-", seed);
  auto add = [&](const char *name, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    OpId op = problem.addOp(name, random.integer(1, 15), std::move(inputs), std::move(outputs),
                            random.chance(0.2) ? random.integer(0, 40) : 0);
    problem.ops[op].recomputable = random.chance(0.95);
  };
  const ValueId stem = problem.addValue("stem", random.integer(0, 31));
  add("stem", {}, {stem});
  std::vector<ValueId> parts = {problem.addValue("part0", random.integer(16, 63))};
  std::vector<ValueId> outputs = parts;
  if (random.chance(0.2)) // an output beside the concatenation
    outputs.push_back(problem.addValue("beside", random.integer(0, 31)));
  add("part0", {stem}, outputs);
  const int64_t more = random.integer(1, 2);
  for (int64_t i = 1; i <= more; ++i) {
    std::vector<ValueId> inputs = {random.chance(0.7) ? stem : parts.back()};
    if (inputs[0] == stem)
      inputs.push_back(parts[0]);
    parts.push_back(problem.addValueIn(numbered("part", i), problem.values[parts[0]].storage));
    add("part", inputs, {parts.back()});
  }
  auto some = [&](double chance) {
    std::vector<ValueId> chosen;
    for (ValueId part : parts)
      if (random.chance(chance))
        chosen.push_back(part);
    return chosen;
  };
  std::vector<ValueId> inputs = some(0.8);
  if (inputs.empty())
    inputs.push_back(stem);
  const ValueId next = problem.addValue("next", random.integer(0, 31));
  add("next", inputs, {next});
  ValueId last = problem.addValue("last", random.integer(0, 63));
  problem.addOp("crowded", random.integer(1, 15), {next}, {last}, random.integer(0, 63));
  const int64_t gradients = more == 1 ? random.integer(1, 2) : 1; // seven ops in all
  for (int64_t i = 0; i < gradients; ++i) {
    std::vector<ValueId> read = some(0.6);
    read.push_back(last);
    if (outputs.size() > 1 && random.chance(0.5))
      read.push_back(outputs[1]);
    last = problem.addValue(numbered("gradient", i), random.integer(0, 31));
    add("gradient", read, {last});
  }
  problem.values[last].keep = true;
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
  Random random = randomOf(seed ^ 0x636861696eu);
  std::vector<Cost> costs, backwardCosts;
  std::vector<Bytes> sizes;
  for (int i = 0; i < length; ++i) {
    costs.push_back(random.integer(1, 9));
    backwardCosts.push_back(random.integer(1, 18));
    sizes.push_back(random.integer(1, 9));
  }
  Problem problem = chainStep(costs, sizes, backwardCosts);
  problem.name = absl::StrCat("chain-", length, "-", seed);
  return problem;
}

Problem unitChainStep(int length) {
  Problem problem = chainStep(std::vector<Cost>(length, 1), std::vector<Bytes>(length, 1),
                              std::vector<Cost>(length, 1));
  problem.name = absl::StrCat("unit-chain-", length);
  return problem;
}

Lanes generateLanes(uint64_t seed, const Problem &problem) {
  Random random = randomOf(seed ^ 0x6c616e6573u);
  Bytes allBytes = 0;
  for (const Storage &storage : problem.storages)
    allBytes += storage.sizeBytes;
  const Cost time = std::max<Cost>(problem.leastTime(), 1);
  Lanes lanes;
  for (Link *link : {&lanes.out, &lanes.in}) {
    link->bandwidthBytes = std::max<Bytes>(allBytes * random.integer(1, 50), 1);
    link->perCost = time * 10;
    link->latency = random.chance(0.5) ? random.integer(0, time / 20 + 1) : 0;
  }
  lanes.slowBytes = random.chance(0.5) ? 4 * allBytes : allBytes / 4 * random.integer(1, 4);
  for (size_t i = 0; i < problem.storages.size(); ++i)
    if (random.chance(0.05))
      lanes.stay.push_back(static_cast<StorageId>(i));
  return lanes;
}

namespace {

Op copyOp(std::string name, OpLane lane, Cost cost, ValueId value) {
  Op op;
  op.name = std::move(name);
  op.lane = lane;
  (lane == OpLane::In ? op.outputs : op.inputs).push_back(value);
  op.alternatives = {{cost, 0}};
  op.recomputable = false;
  return op;
}

/// Behind op `at`, which makes something: fetch, update, send.
void addMoment(Random &random, Problem &problem, OpId at, int number, Bytes bytes) {
  const ValueId old = problem.addValue(numbered("moment", number), bytes);
  Op update;
  update.name = numbered("update", number);
  update.inputs = {old, problem.ops[at].outputs.front()};
  update.alternatives = {{random.integer(0, 4), 0}};
  update.recomputable = false;
  const bool isInPlace = random.chance(0.4);
  const ValueId next =
      isInPlace ? problem.addValueIn(numbered("next", number), problem.values[old].storage)
                : problem.addValue(numbered("next", number), bytes);
  update.outputs = {next};
  if (isInPlace)
    update.overwrites = {old};
  else if (random.chance(0.5))
    update.mayOverwrite = {{next, old}};
  const Op ops[] = {copyOp(numbered("fetch", number), OpLane::In, random.integer(0, 9), old),
                    update,
                    copyOp(numbered("send", number), OpLane::Out, random.integer(0, 9), next)};
  problem.ops.insert(problem.ops.begin() + at + 1, std::begin(ops), std::end(ops));
}

/// In front of op `at`: a fetch for it and for a later one.
void addFrozen(Random &random, Problem &problem, OpId at, int number, Bytes bytes) {
  const ValueId weight = problem.addValue(numbered("frozen", number), bytes);
  std::vector<OpId> later;
  for (size_t op = at + 1; op < problem.ops.size(); ++op)
    if (problem.ops[op].lane == OpLane::Compute)
      later.push_back(static_cast<OpId>(op));
  problem.ops[at].inputs.push_back(weight);
  if (!later.empty())
    problem.ops[later[random.below(later.size())]].inputs.push_back(weight);
  Op fetch = copyOp(numbered("fetch", number), OpLane::In, random.integer(0, 9), weight);
  fetch.recomputable = true;
  problem.ops.insert(problem.ops.begin() + at, std::move(fetch));
}

/// The same of a weight that is trained: behind its last reader an update replaces what lies there, and sends it.
void addTrained(Random &random, Problem &problem, OpId at, int number, Bytes bytes) {
  addFrozen(random, problem, at, number, bytes);
  const ValueId weight = problem.ops[at].outputs.front();
  const ValueId place = problem.addPinned(numbered("place", number), 0),
                replaced =
                    problem.addValueIn(numbered("replaced", number), problem.values[place].storage),
                next = problem.addValueIn(numbered("next", number), problem.values[weight].storage);
  problem.ops[at].inputs = {place};
  OpId last = at;
  for (size_t op = at; op < problem.ops.size(); ++op)
    if (std::ranges::find(problem.ops[op].inputs, weight) != problem.ops[op].inputs.end())
      last = static_cast<OpId>(op);
  Op update;
  update.name = numbered("update", number);
  update.inputs = {weight, place};
  if (!problem.ops[last].outputs.empty())
    update.inputs.push_back(problem.ops[last].outputs.front());
  update.outputs = {next, replaced};
  update.overwrites = {weight, place};
  update.alternatives = {{random.integer(0, 4), 0}};
  update.recomputable = false;
  const Op ops[] = {update,
                    copyOp(numbered("send", number), OpLane::Out, random.integer(0, 9), next)};
  problem.ops.insert(problem.ops.begin() + last + 1, std::begin(ops), std::end(ops));
}

} // namespace

Problem withTravellingState(uint64_t seed, const Problem &problem, int most) {
  Random random = randomOf(seed ^ 0x7374617465u);
  Problem result = problem;
  result.name += "-state";
  Bytes largest = 1;
  for (const Storage &storage : problem.storages)
    largest = std::max(largest, storage.sizeBytes);
  std::vector<ValueId> made;
  for (const Op &op : problem.ops)
    if (!op.outputs.empty())
      made.push_back(op.outputs.front());
  const int64_t count = made.empty() ? 0 : random.integer(1, most);
  for (int number = 0; number < count; ++number) {
    const OpId maker = *result.producers()[made[random.below(made.size())]];
    const Bytes bytes = random.integer(1, largest);
    if (random.chance(0.5))
      addMoment(random, result, maker, number, bytes);
    else if (random.chance(0.5))
      addTrained(random, result, maker, number, bytes);
    else
      addFrozen(random, result, maker, number, bytes);
  }
  return result;
}

Problem generateLayered(uint64_t seed, const LayeredOptions &options) {
  Random random = randomOf(seed ^ 0x6c617965726564u);
  Problem problem;
  problem.name = absl::StrCat("layered-", options.opCount, "-", seed);
  const double meanWidth = std::max(1.0, std::pow(options.opCount, options.width));
  const double nonLocalPerLocal = options.nonLocalFraction / (1 - options.nonLocalFraction);
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
          inputs.push_back(above[random.integer(0, above.size() - 1)]);
        const size_t local = inputs.size();
        for (size_t edge = 0; layers.size() > 1 && edge < local; ++edge) {
          if (!random.chance(nonLocalPerLocal))
            continue;
          const std::vector<ValueId> &far = layers[random.integer(0, layers.size() - 2)];
          ValueId value = far[random.integer(0, far.size() - 1)];
          if (std::find(inputs.begin() + local, inputs.end(), value) == inputs.end())
            inputs.push_back(value);
        }
      }
      // Sizes as in activations: many small, some large; costs loosely follow sizes.
      Bytes size = random.chance(0.3) ? random.integer(50, 100) : random.integer(1, 50);
      layer.push_back(problem.addValue(numbered("v", placed), size * 1024));
      problem.addOp(numbered("n", placed), size / 4 + random.integer(1, 25), inputs,
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

} // namespace stow::schedule
