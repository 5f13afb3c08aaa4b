#include "runtime/program/Evaluator.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <numeric>

namespace stow {

namespace {

const GraphProgram &trainGraph(const Program &program, size_t shape = 0) {
  return program.graphs[stepGraphIndex(program, 0, shape)];
}

bool countsClasses(const LossSpec &loss) { return loss.readsClasses() || loss.probabilities; }

ClassLayout classesOf(const Program &program, const LossSpec &loss, size_t shape = 0) {
  const Shape &output = modelOutput(program, shape).place.shape;
  Shape target = targetInput(trainGraph(program, shape)).place.shape;
  if (loss.probabilities) { // a distribution per position: without the classes' dimension
    auto rank = static_cast<int64_t>(target.size());
    target.erase(target.begin() + (loss.classAxis + rank) % rank);
  }
  if (!target.empty())
    target.front() /= program.partsOf(shape);
  std::optional<ClassLayout> layout = classLayout(output, target, loss.classAxis);
  if (!layout)
    throw Error::badInput("the model's output " + shapeText(output) +
                          " holds no class scores for targets of shape " + shapeText(target));
  return *layout;
}

const Array &targetArray(const Program &program, const Samples &samples) {
  return samples.byInput.at(targetInput(trainGraph(program)).name);
}

} // namespace

const GraphInput &targetInput(const GraphProgram &graph) {
  const GraphInput *target = nullptr;
  for (const GraphInput &input : graph.inputs) {
    if (input.role != InputRole::Target)
      continue;
    if (target)
      throw Error::badInput("graph '" + graph.name() + "' has two target inputs, '" + target->name +
                            "' and '" + input.name + "'; expected one");
    target = &input;
  }
  if (!target)
    throw Error::badInput("graph '" + graph.name() + "' has no target input");
  return *target;
}

const GraphOutput &modelOutput(const Program &program, size_t shape) {
  const GraphProgram &graph = program.graphs[graphIndex(program, GraphRole::Eval, shape)];
  const std::string &name = program.lossOutput.empty() ? "output" : program.lossOutput;
  auto found = std::ranges::find(graph.outputs, name, &GraphOutput::name);
  if (found == graph.outputs.end() && program.lossOutput.empty())
    found = graph.outputs.begin();
  if (found == graph.outputs.end())
    throw Error::badInput("graph '" + graph.name() + "' gives no model output" +
                          (program.lossOutput.empty() ? "" : " '" + name + "'"));
  return *found;
}

void checkTargets(const Program &program, const Samples &samples) {
  const LossSpec &loss = program.loss;
  if (loss.readsClasses())
    checkLabels(targetArray(program, samples), classesOf(program, loss).classes, loss.ignoreIndex);
  else if (loss.probabilities || (loss.kind == LossSpec::Kind::KullbackLeibler && !loss.logTarget))
    checkProbabilities(targetArray(program, samples));
}

bool evaluatesTogether(const Program &program) {
  return std::ranges::any_of(program.graphs, [](const GraphProgram &graph) {
    return graph.role == GraphRole::Eval &&
           std::ranges::any_of(graph.commands,
                               [](const Command &command) { return isOfRanks(command.op); });
  });
}

Evaluator::Evaluator(Executor &executor, const Samples &samples, NonFinite nonFinite)
    : executor(executor), loss(executor.program().loss), fitting(fittingOf(executor.program())),
      choice(executor.program()), counts(executor.program().shapeCount()) {
  const Program &program = executor.program();
  if (fitting)
    rowExtents = choice.extentsOfRows(samples);
  if (!rowExtents.empty())
    needed = rowExtents.front();
  if (loss.kind != LossSpec::Kind::Output)
    target = &targetArray(program, samples);
  shapes.reserve(program.shapeCount());
  for (size_t shape = 0; shape < program.shapeCount(); ++shape)
    shapes.push_back(inShape(shape, samples, nonFinite));
  for (const InShape &in : shapes) { // one that runs in parts may have less than a smaller one
    auto grow = [](auto &room, int64_t size) {
      room.resize(std::max(room.size(), static_cast<size_t>(size)));
    };
    if (loss.readsClasses())
      grow(labels, in.layout.positions);
    else if (target)
      grow(targetRow, in.rowOutputs);
    grow(stored, (in.elements * sizeOf(in.output->place.dtype) + 7) / 8);
    grow(outputs, in.elements);
    grow(partRows, in.rows);
  }
}

Evaluator::InShape Evaluator::inShape(size_t shape, const Samples &samples,
                                      NonFinite nonFinite) const {
  const Program &program = executor.program();
  const size_t graph = graphIndex(program, GraphRole::Eval, shape);
  const Fitting *fit = fitting ? &*fitting : nullptr;
  InShape in{graph,
             &modelOutput(program, shape),
             Feeder(program.graphs[graph], samples, nonFinite, fit),
             std::nullopt,
             {},
             program.samplesPerEvaluation(shape),
             0,
             0};
  const Shape &output = in.output->place.shape;
  in.elements = elementCount(output);
  in.rowOutputs = in.elements / in.rows;
  if (target && fit)
    in.targets.emplace(*target, targetInput(trainGraph(program, shape)), nonFinite, fit);
  if (countsClasses(loss))
    in.layout = classesOf(program, loss, shape);
  if (!loss.readsClasses() && target &&
      (in.rowOutputs * in.rows != in.elements ||
       in.rowOutputs != (in.targets ? in.targets->elements() : target->rowElements())))
    throw Error::badInput("the model's output " + shapeText(output) + " does not compare with " +
                          target->place + " " + describe(*target));
  return in;
}

void Evaluator::requireRows(int64_t rows) const {
  int64_t batch = executor.program().batch;
  if (loss.kind == LossSpec::Kind::Output && rows < batch)
    throw Error::badInput(concat("the model's own loss is that of a batch of ", batch, "; ", rows,
                                 " rows to evaluate are too few"));
}

size_t Evaluator::shapeOf(std::span<const int64_t> rows) {
  if (rowExtents.empty())
    return 0;
  needed = rowExtents[static_cast<size_t>(rows.front())];
  for (int64_t row : rows)
    ShapeChoice::include(needed, rowExtents[static_cast<size_t>(row)]);
  return choice.smallestWithRoom(static_cast<int64_t>(rows.size()), needed);
}

void Evaluator::runPart(InShape &in, std::span<const int64_t> rows, Profile *profile) {
  partRows.assign(rows.begin(), rows.end());
  partRows.resize(static_cast<size_t>(in.rows), rows.front());
  if (profile)
    profile->beginStep();
  in.feeder.write(executor, partRows);
  executor.run(in.graph, profile);
  executor.readTensor(in.output->place, stored.data());
  toDoubles(in.output->place.dtype, reinterpret_cast<const char *>(stored.data()), outputs.data(),
            in.elements);
  undoActivation(executor.program().outputActivation,
                 std::span(outputs).first(static_cast<size_t>(in.elements)));
}

Metrics Evaluator::run(std::span<const int64_t> rows, std::span<Profile *const> profiles) {
  Metrics metrics;
  const Program &program = executor.program();
  const auto batch = static_cast<size_t>(program.batch);
  bool isOwn = loss.kind == LossSpec::Kind::Output;
  size_t end = isOwn ? rows.size() - rows.size() % batch : rows.size();
  for (size_t start = 0; start < end; start += batch) {
    const std::span<const int64_t> ofBatch = rows.subspan(start, std::min(batch, end - start));
    const size_t shape = shapeOf(ofBatch);
    InShape &in = shapes[shape];
    ++counts[shape];
    double ownParts = 0;
    for (size_t first = 0; first < ofBatch.size(); first += static_cast<size_t>(in.rows)) {
      const auto valid = std::min(static_cast<size_t>(in.rows), ofBatch.size() - first);
      Profile *profile = profiles.empty() ? nullptr : profiles[shape];
      runPart(in, ofBatch.subspan(first, valid), profile);
      if (isOwn)
        ownParts += ownLoss(in);
      else
        for (size_t i = 0; i < valid; ++i)
          addRow(metrics, in, static_cast<int64_t>(i), ofBatch[first + i]);
      if (profile)
        profile->endStep();
    }
    if (isOwn)
      metrics.addBatch(addsParts(in) ? ownParts
                                     : ownParts / static_cast<double>(program.partsOf(shape)),
                       program.batch);
  }
  return metrics;
}

int64_t Evaluator::runsOf(int64_t rows) const {
  const int64_t batch = executor.program().batch, each = shapes.front().rows;
  const auto partsOf = [each](int64_t count) { return (count + each - 1) / each; };
  const bool isOwn = loss.kind == LossSpec::Kind::Output;
  return rows / batch * partsOf(batch) + (isOwn ? 0 : partsOf(rows % batch));
}

void Evaluator::runAlong(int64_t row, int64_t runs) {
  for (; runs > 0; --runs)
    runPart(shapes.front(), std::span(&row, 1), nullptr);
}

bool Evaluator::addsParts(const InShape &in) const {
  const Joining joining = in.output->joining;
  return joining == Joining::Sum ||
         (joining == Joining::Rows && loss.reduction == LossSpec::Reduction::Sum);
}

double Evaluator::ownLoss(const InShape &in) const {
  const double sum = std::accumulate(outputs.begin(), outputs.begin() + in.elements, 0.0);
  return loss.reduction == LossSpec::Reduction::Sum ? sum : sum / static_cast<double>(in.elements);
}

void Evaluator::addRow(Metrics &metrics, InShape &in, int64_t partRow, int64_t row) {
  std::span<const double> result(outputs.data() + partRow * in.rowOutputs,
                                 static_cast<size_t>(in.rowOutputs));
  const ElementType type =
      in.targets ? elementTypeOf(targetInput(trainGraph(executor.program())).place.dtype)
                 : target->type;
  const char *elements = in.targets ? in.targets->row(row) : target->row(row);
  if (loss.readsClasses()) {
    const std::span<int64_t> ofRow(labels.data(), static_cast<size_t>(in.layout.positions));
    convertElements(type, elements, DType::I64, reinterpret_cast<char *>(ofRow.data()),
                    in.layout.positions);
    metrics.addClassified(loss, in.layout, result, ofRow);
    return;
  }
  const std::span<double> ofRow(targetRow.data(), static_cast<size_t>(in.rowOutputs));
  convertElements(type, elements, DType::F64, reinterpret_cast<char *>(ofRow.data()),
                  in.rowOutputs);
  if (loss.probabilities)
    metrics.addDistributed(loss, in.layout, result, ofRow);
  else
    metrics.addValues(loss, result, ofRow);
}

} // namespace stow
