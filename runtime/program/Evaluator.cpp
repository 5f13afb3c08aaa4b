#include "runtime/program/Evaluator.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <numeric>

namespace stow {

namespace {

const GraphProgram &trainGraph(const Program &program) {
  return program.graphs[stepGraphIndex(program)];
}

bool countsClasses(const LossSpec &loss) { return loss.readsClasses() || loss.probabilities; }

ClassLayout classesOf(const Program &program, const LossSpec &loss) {
  const Shape &output = modelOutput(program).place.shape;
  Shape target = targetInput(trainGraph(program)).place.shape;
  if (loss.probabilities) { // a distribution per position: without the classes' dimension
    auto rank = static_cast<int64_t>(target.size());
    target.erase(target.begin() + (loss.classAxis + rank) % rank);
  }
  if (!target.empty())
    target.front() /= program.evaluationParts;
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

const GraphOutput &modelOutput(const Program &program) {
  const GraphProgram &graph = program.graphs[graphIndex(program, GraphRole::Eval)];
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

Evaluator::Evaluator(Executor &executor, const Samples &samples, NonFinite nonFinite)
    : executor(executor), graph(graphIndex(executor.program(), GraphRole::Eval)),
      loss(executor.program().loss), fitting(fittingOf(executor.program())),
      feeder(executor.program().graphs[graph], samples, nonFinite, fitting ? &*fitting : nullptr),
      output(modelOutput(executor.program())) {
  int64_t batch = executor.program().samplesPerEvaluation();
  int64_t total = elementCount(output.place.shape);
  rowOutputs = total / batch;
  if (loss.kind != LossSpec::Kind::Output)
    target = &targetArray(executor.program(), samples);
  if (target && fitting)
    targets.emplace(*target, targetInput(trainGraph(executor.program())), nonFinite, &*fitting);
  if (countsClasses(loss))
    layout = classesOf(executor.program(), loss);
  if (loss.readsClasses()) {
    labels.resize(layout.positions);
  } else if (target) {
    if (rowOutputs * batch != total ||
        rowOutputs != (targets ? targets->elements() : target->rowElements()))
      throw Error::badInput("the model's output " + shapeText(output.place.shape) +
                            " does not compare with " + target->place + " " + describe(*target));
    targetRow.resize(rowOutputs);
  }
  stored.resize(static_cast<size_t>(total * sizeOf(output.place.dtype) + 7) / 8);
  outputs.resize(total);
  batchRows.resize(batch);
}

void Evaluator::requireRows(int64_t rows) const {
  int64_t batch = executor.program().batch;
  if (loss.kind == LossSpec::Kind::Output && rows < batch)
    throw Error::badInput(concat("the model's own loss is that of a batch of ", batch, "; ", rows,
                                 " rows to evaluate are too few"));
}

Metrics Evaluator::run(std::span<const int64_t> rows, Profile *profile) {
  Metrics metrics;
  const Program &program = executor.program();
  const auto batch = static_cast<size_t>(program.samplesPerEvaluation());
  bool isOwn = loss.kind == LossSpec::Kind::Output;
  size_t end = isOwn ? rows.size() - rows.size() % static_cast<size_t>(program.batch) : rows.size();
  double ownParts = 0;
  for (size_t start = 0; start < end; start += batch) {
    if (profile)
      profile->beginStep();
    size_t valid = std::min(batch, rows.size() - start);
    for (size_t i = 0; i < batch; ++i)
      batchRows[i] = rows[start + (i < valid ? i : 0)];
    feeder.write(executor, batchRows);
    executor.run(graph, profile);
    executor.readTensor(output.place, stored.data());
    toDoubles(output.place.dtype, reinterpret_cast<const char *>(stored.data()), outputs.data(),
              static_cast<int64_t>(outputs.size()));
    undoActivation(executor.program().outputActivation, outputs);
    if (isOwn) {
      ownParts += ownLoss();
      if ((start + batch) % static_cast<size_t>(program.batch) == 0) {
        metrics.addBatch(addsParts() ? ownParts
                                     : ownParts / static_cast<double>(program.evaluationParts),
                         program.batch);
        ownParts = 0;
      }
    } else
      for (size_t i = 0; i < valid; ++i)
        addRow(metrics, static_cast<int64_t>(i), rows[start + i]);
    if (profile)
      profile->endStep();
  }
  return metrics;
}

bool Evaluator::addsParts() const {
  return output.joining == Joining::Sum ||
         (output.joining == Joining::Rows && loss.reduction == LossSpec::Reduction::Sum);
}

double Evaluator::ownLoss() const {
  double sum = std::accumulate(outputs.begin(), outputs.end(), 0.0);
  return loss.reduction == LossSpec::Reduction::Sum ? sum
                                                    : sum / static_cast<double>(outputs.size());
}

void Evaluator::addRow(Metrics &metrics, int64_t batchRow, int64_t row) {
  std::span<const double> result(outputs.data() + batchRow * rowOutputs,
                                 static_cast<size_t>(rowOutputs));
  const ElementType type =
      targets ? elementTypeOf(targetInput(trainGraph(executor.program())).place.dtype)
              : target->type;
  const char *elements = targets ? targets->row(row) : target->row(row);
  if (loss.readsClasses()) {
    convertElements(type, elements, DType::I64, reinterpret_cast<char *>(labels.data()),
                    static_cast<int64_t>(labels.size()));
    metrics.addClassified(loss, layout, result, labels);
    return;
  }
  convertElements(type, elements, DType::F64, reinterpret_cast<char *>(targetRow.data()),
                  rowOutputs);
  if (loss.probabilities)
    metrics.addDistributed(loss, layout, result, targetRow);
  else
    metrics.addValues(loss, result, targetRow);
}

} // namespace stow
