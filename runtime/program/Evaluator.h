// Runs the evaluation graph over a set of samples.
#pragma once

#include "runtime/program/Executor.h"
#include "runtime/program/Metrics.h"
#include "runtime/program/Samples.h"

#include <optional>
#include <span>
#include <vector>

namespace stow {

/// The Target input of a graph; throws Error(BadInput) unless there is exactly one.
const GraphInput &targetInput(const GraphProgram &graph);

/// The output of the evaluation graph that the loss reads: the one the program names, or the one
/// called "output", otherwise the first. Throws Error(BadInput) when there is none.
const GraphOutput &modelOutput(const Program &program);

/// Throws Error(BadInput) naming array and row when a class label is out of range, or a target that
/// must be a probability is below 0. Does nothing for other losses.
void checkTargets(const Program &program, const Samples &samples);

class Evaluator {
public:
  /// Takes the memory it needs. `samples` outlives the evaluator and holds an array for each sample
  /// input of the training graph.
  Evaluator(Executor &executor, const Samples &samples, NonFinite nonFinite = NonFinite::Refused);

  /// Throws Error(BadInput) when `rows` samples are too few: a loss that the model computes is that
  /// of a whole batch.
  void requireRows(int64_t rows) const;

  /// Loss and accuracy over the samples `rows`. The last batch is filled up with its first row,
  /// whose repetitions do not count; where the model computes the loss it is left out instead.
  /// Allocates nothing.
  /// A step of `profile`, which is one of the evaluation graph, is one run of it: a batch or a part of one.
  Metrics run(std::span<const int64_t> rows, Profile *profile = nullptr);

  Executor &executorOf() { return executor; }

private:
  void addRow(Metrics &metrics, int64_t batchRow, int64_t row);
  double ownLoss() const;
  /// True where the loss of a batch is the sum of its parts', false where it is their mean.
  bool addsParts() const;

  Executor &executor;
  size_t graph;
  const LossSpec &loss;
  const std::optional<Fitting>
      fitting; ///< where the program's step has several shapes; evaluation runs in the largest
  Feeder feeder;
  std::optional<RowReader> targets; ///< of targets that may be of other sizes
  const GraphOutput &output;
  const Array *target = nullptr; ///< null where the model computes the loss
  ClassLayout layout;
  int64_t rowOutputs;             ///< output elements per sample
  std::vector<int64_t> batchRows; ///< of the batch at hand
  std::vector<uint64_t> stored;   ///< the output in row-major order, 8-byte words for alignment
  std::vector<double> outputs;    ///< of one batch
  std::vector<int64_t> labels;    ///< of one sample
  std::vector<double> targetRow;  ///< of one sample
};

} // namespace stow
