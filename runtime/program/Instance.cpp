#include "runtime/program/Instance.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/program/Checkpoint.h"
#include "runtime/program/Evaluator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>

namespace stow {

namespace {

Array arrayFor(const GraphInput &input, const void *data, const ElementType &type,
               const Shape &shape) {
  Array array;
  array.name = input.name;
  array.place = "input '" + input.name + "'";
  array.type = type;
  array.shape = shape;
  auto bytes = static_cast<size_t>(elementCount(shape) * type.bytes);
  array.bytes = {static_cast<const char *>(data), bytes};
  return array;
}

/// Makes outputs of a part those of a batch of so many.
void joinRows(std::vector<GraphOutput> &outputs, int64_t parts) {
  for (GraphOutput &output : outputs)
    if (output.joining == Joining::Rows && !output.place.shape.empty())
      output.place.shape.front() *= parts;
}

/// Copies the box at the beginning of a row-major array.
void copyBox(const char *from, std::span<const int64_t> whole, std::span<const int64_t> box,
             Bytes width, char *to) {
  if (whole.empty() || std::ranges::equal(whole, box)) {
    std::copy_n(from, std::accumulate(whole.begin(), whole.end(), width, std::multiplies<>()), to);
    return;
  }
  auto bytesOf = [&](std::span<const int64_t> sizes) {
    return std::accumulate(sizes.begin() + 1, sizes.end(), width, std::multiplies<>());
  };
  for (int64_t i = 0; i < box.front(); ++i)
    copyBox(from + i * bytesOf(whole), whole.subspan(1), box.subspan(1), width,
            to + i * bytesOf(box));
}

} // namespace

Instance::Feed::Feed(const Program &program, const std::vector<size_t> &graphs, int64_t rowsPerRun,
                     const Fitting *fitting)
    : graph(graphs.back()) {
  for (const GraphInput *input : sampleInputs(program.graphs[graph])) {
    places.push_back(*input);
    Shape &shape = places.back().place.shape;
    if (shape.empty() || shape[0] != rowsPerRun)
      samples.whole.insert(input->name);
    else
      shape[0] *= static_cast<int64_t>(graphs.size());
  }
  for (const GraphInput &input : places) {
    inputs.push_back(&input);
    samples.byInput.emplace(
        input.name, arrayFor(input, nullptr, elementTypeOf(input.place.dtype), input.place.shape));
  }
  samples.rowCount = rowsPerRun * static_cast<int64_t>(graphs.size());
  rows = allRows(rowsPerRun);
  feeders.reserve(graphs.size());
  for (size_t index : graphs)
    feeders.emplace_back(program.graphs[index], samples, NonFinite::Refused, fitting);
}

/// The graphs of a step by batch.
static std::vector<size_t> stepGraphs(const Program &program, size_t shape) {
  std::vector<size_t> graphs;
  for (int64_t batch = 0; batch < program.batchesPerStep; ++batch)
    graphs.push_back(stepGraphIndex(program, batch, shape));
  return graphs;
}

Instance::Evaluation Instance::evaluationOf(const Program &program, size_t shape,
                                            const Fitting *fitting) {
  const size_t graph = graphIndex(program, GraphRole::Eval, shape);
  const int64_t parts = program.partsOf(shape);
  Evaluation made = {Feed(program, std::vector<size_t>(static_cast<size_t>(parts), graph),
                          program.samplesPerEvaluation(shape), fitting),
                     program.graphs[graph].outputs};
  joinRows(made.outputs, parts);
  return made;
}

/// With the ranks that a library of several devices needs.
static ExecutorOptions optionsOn(RankGroup &team, ExecutorOptions options,
                                 std::optional<int64_t> timeout) {
  team.setTimeout(timeout);
  options.ranks = team.engine();
  return options;
}

Instance::Instance(const Program &program, ProgramImage image, uint64_t seed,
                   ExecutorOptions options, FirstWeights weights, std::optional<int64_t> timeout)
    : team(RankGroup::ofProcess(program)),
      executor(program, image, optionsOn(team, options, timeout)),
      fitting(fittingOf(executor.program())), shapes(executor.program()), trainingStep(executor),
      firstWeights(std::move(weights)) {
  trainings.reserve(executor.program().shapeCount()); // feeders refer to what stands beside them
  evaluations.reserve(executor.program().shapeCount());
  for (size_t one = 0; one < executor.program().shapeCount(); ++one) {
    trainings.emplace_back(executor.program(), stepGraphs(executor.program(), one),
                           executor.program().batchOf(one), fit());
    evaluations.push_back(evaluationOf(executor.program(), one, fit()));
  }
  lastOutputs = evalOutputs();
  settings.learningRate = program.optimizer.learningRate;
  settings.rank = team.rank();
  team.compareProgram(program);
  reset(seed);
}

void Instance::takeArrays(Feed &feed, std::span<const HostArray> arrays, RowCount count) {
  const bool isFixed = count == RowCount::Fixed;
  if (arrays.size() != feed.inputs.size())
    throw Error::badInput(
        concat("expected ", feed.inputs.size(), " arrays (",
               joined(feed.inputs | std::views::transform(&GraphInput::name), ", "), "), found ",
               arrays.size()));
  std::optional<int64_t> rows;
  if (isFixed)
    rows = feed.samples.rowCount;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const GraphInput &input = *feed.inputs[i];
    const HostArray &given = arrays[i];
    Array &array = feed.samples.byInput.at(input.name);
    array = arrayFor(input, given.data, given.type, given.shape);
    if (!given.data && !array.bytes.empty())
      throw Error::badInput(array.place + " has no data");
    const bool isWhole = feed.samples.whole.contains(input.name);
    if (!isWhole && !array.shape.empty() && !rows)
      rows = array.rowCount();
    if (!isWhole && (array.shape.empty() || array.rowCount() != *rows))
      throw Error::badInput(
          concat(array.place, ": expected ", isFixed ? "a batch of " : "", rows.value_or(1),
                 isFixed ? "" : " rows, as another input has", ", found ", describe(array),
                 isFixed ? "; the batch is fixed when the model is compiled" : ""));
    checkSample(array, input, fit());
    if (isWhole && !input.place.shape.empty() && array.rowCount() != input.place.shape[0])
      throw Error::badInput(concat(array.place, ": expected ", input.place.shape[0],
                                   " rows, found ", describe(array)));
  }
}

void Instance::feedBatch(Feed &feed, size_t batch, size_t rows) {
  std::iota(feed.rows.begin(), feed.rows.end(), static_cast<int64_t>(batch * feed.rows.size()));
  feed.feeders[batch].write(executor, std::span(feed.rows).first(rows));
}

Extents Instance::extentsOf(const Feed &feed) const {
  std::map<std::string, Shape> sizes;
  for (const auto &[name, array] : feed.samples.byInput)
    sizes[name] = array.shape;
  return shapes.extentsOf(sizes);
}

size_t Instance::shapeFor(std::span<const HostArray> arrays) const {
  if (!fitting || arrays.size() != training().inputs.size())
    return 0; // and what is wrong is said of that
  std::map<std::string, Shape> sizes;
  int64_t rows = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const GraphInput &input = *training().inputs[i];
    sizes[input.name] = arrays[i].shape;
    if (!training().samples.whole.contains(input.name) && !arrays[i].shape.empty())
      rows = arrays[i].shape.front();
  }
  const int64_t parts = program().batchesPerStep;
  if (rows % parts != 0)
    throw Error::badInput(
        concat("expected rows for ", parts, " batches of one size, found ", rows));
  return shapes.smallestFor(rows / parts, shapes.extentsOf(sizes));
}

double Instance::step(std::span<const HostArray> arrays) {
  const size_t chosen = shapeFor(arrays);
  Feed &feed = trainings[chosen];
  takeArrays(feed, arrays, fitting ? RowCount::Any : RowCount::Fixed);
  checkTargets(program(), feed.samples);
  double loss = 0;
  const size_t rows = std::min(feed.rows.size(), static_cast<size_t>(rowsOf(feed)));
  for (size_t batch = 0; batch < feed.feeders.size(); ++batch) {
    feedBatch(feed, batch, rows);
    trainingStep.start(settings, nullptr, static_cast<int64_t>(batch), chosen);
    loss = trainingStep.finish();
  }
  shape = chosen;
  ++settings.step;
  return loss;
}

int64_t Instance::rowsOf(const Feed &feed) {
  auto sampled = std::ranges::find_if(feed.places, [&](const GraphInput &input) {
    return !feed.samples.whole.contains(input.name);
  });
  return sampled == feed.places.end() ? feed.samples.rowCount
                                      : feed.samples.byInput.at(sampled->name).rowCount();
}

void Instance::evaluate(std::span<const HostArray> arrays, std::span<void *const> outputs) {
  const std::vector<GraphOutput> &places = evalOutputs();
  if (outputs.size() != places.size())
    throw Error::badInput(
        concat("expected buffers for ", places.size(), " outputs, found ", outputs.size()));
  takeArrays(evaluations.front().feed, arrays, RowCount::Fixed);
  const Extents needed = extentsOf(evaluations.front().feed);
  const size_t chosen = shapes.smallestWithRoom(program().batch, needed);
  Evaluation &evaluation = evaluations[chosen];
  lastOutputs = evaluation.outputs;
  for (size_t i = 0; fitting && i < lastOutputs.size(); ++i)
    lastOutputs[i].place.shape = shapes.evaluatedOf(i, chosen, needed);
  joinRows(lastOutputs, fitting ? program().partsOf(chosen) : 1);
  Feed &feed = evaluation.feed;
  for (auto &[name, array] : feed.samples.byInput) // to each of which a feeder refers
    array = evaluations.front().feed.samples.byInput.at(name);
  for (size_t part = 0; part < feed.feeders.size(); ++part) {
    feedBatch(feed, part, feed.rows.size());
    executor.run(feed.graph);
    for (size_t i = 0; i < places.size(); ++i)
      if (outputs[i])
        takeOutput(evaluation, i, part, outputs[i]);
  }
}

Metrics Instance::measure(std::span<const HostArray> arrays) {
  Feed &feed = trainings.front();
  takeArrays(feed, arrays, RowCount::Any);
  if (fitting) // rows are not cut, whatever counts in them
    shapes.requireHeld(extentsOf(feed));
  checkTargets(program(), feed.samples);
  const int64_t rows = rowsOf(feed);
  if (rows == 0)
    throw Error::badInput("expected at least one row to evaluate, found none");
  return Evaluator(executor, feed.samples, NonFinite::Allowed).run(allRows(rows));
}

void Instance::takeOutput(const Evaluation &evaluation, size_t index, size_t part, void *rowMajor) {
  const GraphOutput &output = graph(evaluation.feed).outputs[index];
  const Shape &whole = output.place.shape;
  const size_t parts = evaluation.feed.feeders.size();
  const bool isRows = parts == 1 || output.joining == Joining::Rows;
  Shape box = lastOutputs[index].place.shape;
  if (output.joining == Joining::Rows && !box.empty())
    box.front() /= static_cast<int64_t>(parts);
  const Bytes width = sizeOf(output.place.dtype);
  char *to = static_cast<char *>(rowMajor) +
             (isRows ? static_cast<Bytes>(part) * elementCount(box) * width : 0);
  if (isRows && box == whole)
    return executor.readTensor(output.place, to);
  stored.resize(static_cast<size_t>(elementCount(whole) * width + 7) / 8);
  executor.readTensor(output.place, stored.data());
  if (!isRows)
    addPart(output, index, part, parts);
  if (isRows || part + 1 == parts)
    copyBox(reinterpret_cast<const char *>(stored.data()), whole, box, width, to);
}

void Instance::addPart(const GraphOutput &output, size_t index, size_t part, size_t parts) {
  const int64_t count = elementCount(output.place.shape);
  std::vector<double> values(static_cast<size_t>(count));
  toDoubles(output.place.dtype, reinterpret_cast<const char *>(stored.data()), values.data(),
            count);
  if (part == 0)
    partSums.resize(lastOutputs.size());
  std::vector<double> &sums = partSums[index];
  if (part == 0)
    sums.assign(values.size(), 0);
  for (size_t i = 0; i < values.size(); ++i)
    sums[i] += values[i];
  if (part + 1 < parts)
    return;
  if (output.joining == Joining::Mean)
    for (double &sum : sums)
      sum /= static_cast<double>(parts);
  convertElements(elementTypeOf(DType::F64), reinterpret_cast<const char *>(sums.data()),
                  output.place.dtype, reinterpret_cast<char *>(stored.data()), count);
}

void Instance::readStepOutput(size_t index, void *rowMajor) const {
  executor.readTensor(stepOutputs().at(index).place, rowMajor);
}

void Instance::readState(size_t index, void *rowMajor) const {
  executor.readTensor(program().state.at(index).place, rowMajor);
}

void Instance::writeState(size_t index, const HostArray &array) {
  const StateTensor &tensor = program().state.at(index);
  const Operand &place = tensor.place;
  if (!isNumbersOf(tensor, array.type, array.shape) &&
      (array.shape != place.shape || !isConvertible(array.type, place.dtype))) {
    auto text = [](const std::string &type, const Shape &shape) {
      return concat(type, "[", joined(shape, ","), "]");
    };
    throw Error::badInput("'" + tensor.name + "': expected " +
                          text(std::string(nameOf(place.dtype)), place.shape) + ", found " +
                          text(nameOf(array.type), array.shape));
  }
  stow::writeState(executor, tensor, array.type, static_cast<const char *>(array.data));
}

void Instance::reset(uint64_t seed) {
  if (firstWeights.path.empty()) {
    executor.initializeState(seed);
  } else {
    const WeightFiles files(firstWeights.path);
    const Restoration restoration(program(), files, Restore::Parameters, firstWeights.aliases);
    executor.initializeState(seed, [&](size_t position) { return restoration.covers(position); });
    restoration.apply(executor);
  }
  settings.seed = seed;
  settings.step = 0;
  compareSettings();
  team.shareState(executor);
}

void Instance::compareSettings() const {
  team.compareSettings(std::array{settings.seed, static_cast<uint64_t>(settings.step),
                                  std::bit_cast<uint64_t>(settings.learningRate)});
}

void Instance::save(const std::string &path) const {
  RunState run;
  run.step = settings.step;
  run.seed = settings.seed;
  run.rows = program().samplesPerStep(); // how many there are in all is the host's business
  run.rate.base = settings.learningRate;
  run.rate.totalSteps = settings.step;
  run.rate.decayEpochs = 1;
  run.rate.stepsPerEpoch = 1;
  compareSettings();
  ShardedState *const shards = team.shardsOf(executor);
  team.save(
      [&] { CheckpointWriter(executor, path, CheckpointWriter::What::Run, shards).save(run); });
}

void Instance::load(const std::string &path, Restore what) {
  const WeightFiles files(path);
  std::optional<RunState> run;
  if (what == Restore::Everything)
    run = readRunState(files.file(), program(), SavedBatch::Any);
  restoreState(executor, files, what, firstWeights.aliases);
  team.compareState(executor);
  if (!run)
    return;
  settings = {run->step, run->seed, run->rate.base, team.rank()};
  compareSettings();
}

void Instance::setLearningRate(double rate) {
  if (!std::isfinite(rate) || rate < 0)
    throw Error::badInput(
        concat("expected a learning rate of at least 0, found ", std::to_string(rate)));
  settings.learningRate = rate;
}

void Instance::setStepCount(int64_t steps) {
  if (steps < 0)
    throw Error::badInput(concat("expected a step count of at least 0, found ", steps));
  settings.step = steps;
}

} // namespace stow
