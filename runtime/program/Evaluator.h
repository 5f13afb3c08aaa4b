// Runs the evaluation over a set of samples, each batch in the smallest shape that holds it.
#pragma once

#include "runtime/program/Executor.h"
#include "runtime/program/Metrics.h"
#include "runtime/program/Samples.h"
#include "runtime/program/ShapeChoice.h"

#include <optional>
#include <span>
#include <vector>

namespace stow {

/// The Target input of a graph; throws Error(BadInput) unless there is exactly one.
const GraphInput &targetInput(const GraphProgram &graph);

/// The output of a shape's evaluation graph that the loss reads: the one the program names, or the one
/// called "output", otherwise the first. Throws Error(BadInput) when there is none.
const GraphOutput &modelOutput(const Program &program, size_t shape = 0);

/// Throws Error(BadInput) naming array and row when a class label is out of range, or a target that
/// must be a probability is below 0. Does nothing for other losses.
void checkTargets(const Program &program, const Samples &samples);

/// True where ranks work together in the evaluation, so that all run it as often.
bool evaluatesTogether(const Program &program);

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
  /// A batch of fewer rows than the largest shape may also run in a shape of fewer samples, but where the model computes the loss.
  /// `profiles`, one for each shape's evaluation graph, or none: a step of one is one run of the graph, on a batch or a part of one.
  Metrics run(std::span<const int64_t> rows, std::span<Profile *const> profiles = {});

  /// How often the graph runs for so many samples; of a program with one shape.
  int64_t runsOf(int64_t rows) const;

  /// Runs it so much more often, on a sample that does not count.
  void runAlong(int64_t row, int64_t runs);

  /// How many batches ran in each shape so far.
  std::span<const int64_t> batchesByShape() const { return counts; }

  Executor &executorOf() { return executor; }

private:
  /// The evaluation in a shape.
  struct InShape {
    size_t graph;
    const GraphOutput *output;
    Feeder feeder;
    std::optional<RowReader> targets; ///< of targets that may be of other sizes
    ClassLayout layout;
    int64_t rows;       ///< samples of a run
    int64_t elements;   ///< of the output of a run
    int64_t rowOutputs; ///< output elements per sample
  };

  InShape inShape(size_t shape, const Samples &samples, NonFinite nonFinite) const;
  /// The smallest shape for the batch `rows`.
  size_t shapeOf(std::span<const int64_t> rows);
  /// Runs a part of a batch and leaves what it gives in `outputs`.
  void runPart(InShape &in, std::span<const int64_t> rows, Profile *profile);
  void addRow(Metrics &metrics, InShape &in, int64_t partRow, int64_t row);
  /// Of the part that ran last.
  double ownLoss(const InShape &in) const;
  /// True where the loss of a batch is the sum of its parts', false where it is their mean.
  bool addsParts(const InShape &in) const;

  Executor &executor;
  const LossSpec &loss;
  const std::optional<Fitting> fitting; ///< where the program's step has several shapes
  const ShapeChoice choice;
  std::vector<Extents> rowExtents; ///< by row; empty for one shape
  Extents needed;                  ///< of the batch at hand
  const Array *target = nullptr;   ///< null where the model computes the loss
  std::vector<InShape> shapes;
  std::vector<int64_t> counts;   ///< batches by shape
  std::vector<int64_t> partRows; ///< of the part at hand
  std::vector<uint64_t> stored;  ///< the output in row-major order, 8-byte words for alignment
  std::vector<double> outputs;   ///< of a part
  std::vector<int64_t> labels;   ///< of one sample
  std::vector<double> targetRow; ///< of one sample
};

} // namespace stow
