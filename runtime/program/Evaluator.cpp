#include "runtime/program/Evaluator.h"

#include "runtime/base/Error.h"

#include <algorithm>

namespace stow {

namespace {

std::string shapeText(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

const GraphProgram &trainGraph(const Program &program) {
  return program.graphs[graphIndex(program, "train")];
}

ClassLayout classesOf(const Program &program) {
  const Shape &output = modelOutput(program.graphs[graphIndex(program, "eval")]).place.shape;
  const Shape &target = targetInput(trainGraph(program)).place.shape;
  std::optional<ClassLayout> layout =
      classLayout(output, target, parseLoss(program.loss).classAxis);
  if (!layout)
    throw Error::badInput("the model's output " + shapeText(output) +
                          " holds no class scores for targets of shape " + shapeText(target));
  return *layout;
}

const Array &targetArray(const Program &program, const Samples &samples) {
  return samples.byInput.at(targetInput(trainGraph(program)).name);
}

} // namespace

size_t graphIndex(const Program &program, const std::string &name) {
  auto found = std::ranges::find(program.graphs, name, &GraphProgram::name);
  if (found == program.graphs.end())
    throw Error::badInput("the program has no '" + name + "' graph");
  return static_cast<size_t>(found - program.graphs.begin());
}

const GraphInput &targetInput(const GraphProgram &graph) {
  const GraphInput *target = nullptr;
  for (const GraphInput &input : graph.inputs) {
    if (input.role != InputRole::Target)
      continue;
    if (target)
      throw Error::badInput("graph '" + graph.name + "' has two target inputs, '" + target->name +
                            "' and '" + input.name + "'; expected one");
    target = &input;
  }
  if (!target)
    throw Error::badInput("graph '" + graph.name + "' has no target input");
  return *target;
}

const GraphOutput &modelOutput(const GraphProgram &graph) {
  auto found = std::ranges::find(graph.outputs, "output", &GraphOutput::name);
  if (found == graph.outputs.end())
    found = std::ranges::find_if(graph.outputs,
                                 [](const GraphOutput &output) { return output.name != "loss"; });
  if (found == graph.outputs.end())
    throw Error::badInput("graph '" + graph.name + "' gives no model output");
  return *found;
}

void checkTargets(const Program &program, const Samples &samples) {
  LossSpec loss = parseLoss(program.loss);
  if (loss.kind == LossSpec::Kind::CrossEntropy)
    checkLabels(targetArray(program, samples), classesOf(program).classes, loss.ignoreIndex);
}

Evaluator::Evaluator(Executor &executor, const Samples &samples, NonFinite nonFinite)
    : executor(executor), graph(graphIndex(executor.program(), "eval")),
      loss(parseLoss(executor.program().loss)),
      feeder(executor.program().graphs[graph], samples, nonFinite),
      output(modelOutput(executor.program().graphs[graph])),
      target(targetArray(executor.program(), samples)) {
  int64_t batch = executor.program().batch;
  int64_t total = elementCount(output.place.shape);
  rowOutputs = total / batch;
  if (loss.kind == LossSpec::Kind::CrossEntropy) {
    layout = classesOf(executor.program());
    labels.resize(layout.positions);
  } else {
    if (rowOutputs * batch != total || rowOutputs != target.rowElements())
      throw Error::badInput("the model's output " + shapeText(output.place.shape) +
                            " does not compare with " + target.place + " " + describe(target));
    targetRow.resize(rowOutputs);
  }
  stored.resize(static_cast<size_t>(total * sizeOf(output.place.dtype) + 7) / 8);
  outputs.resize(total);
}

Metrics Evaluator::run(std::span<const int64_t> rows, Profile *profile) {
  Metrics metrics;
  auto batch = static_cast<size_t>(executor.program().batch);
  for (size_t start = 0; start < rows.size(); start += batch) {
    if (profile)
      profile->beginStep();
    size_t valid = std::min(batch, rows.size() - start);
    for (size_t i = 0; i < batch; ++i)
      feeder.write(executor, static_cast<int64_t>(i), rows[start + (i < valid ? i : 0)]);
    executor.run(graph, profile);
    executor.readTensor(output.place, stored.data());
    toDoubles(output.place.dtype, reinterpret_cast<const char *>(stored.data()), outputs.data(),
              static_cast<int64_t>(outputs.size()));
    for (size_t i = 0; i < valid; ++i)
      addRow(metrics, static_cast<int64_t>(i), rows[start + i]);
    if (profile)
      profile->endStep();
  }
  return metrics;
}

void Evaluator::addRow(Metrics &metrics, int64_t batchRow, int64_t row) {
  std::span<const double> result(outputs.data() + batchRow * rowOutputs,
                                 static_cast<size_t>(rowOutputs));
  if (loss.kind == LossSpec::Kind::CrossEntropy) {
    convertElements(target.type, target.row(row), DType::I64,
                    reinterpret_cast<char *>(labels.data()), static_cast<int64_t>(labels.size()));
    metrics.addClassified(layout, result, labels, loss.ignoreIndex);
  } else {
    convertElements(target.type, target.row(row), DType::F64,
                    reinterpret_cast<char *>(targetRow.data()), rowOutputs);
    metrics.addRegression(result, targetRow);
  }
}

} // namespace stow
