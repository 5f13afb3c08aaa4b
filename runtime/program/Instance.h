// A model that a host program holds: one arena, its state, and where its training stands.
//
// The executable's commands read data files and keep a run's books; an instance is what remains
// when the host does both itself. Steps, evaluation and saves are those of the executable.
#pragma once

#include "runtime/program/Executor.h"
#include "runtime/program/Metrics.h"
#include "runtime/program/RankGroup.h"
#include "runtime/program/Restore.h"
#include "runtime/program/Samples.h"
#include "runtime/program/TrainingStep.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stow {

/// A dense row-major array of the host.
struct HostArray {
  const void *data = nullptr;
  ElementType type;
  Shape shape;
};

/// Where parameters have their first values from, if not from the program.
struct FirstWeights {
  std::string path; ///< as WeightFiles takes it; empty: from the program
  WeightAliases aliases;
};

class Instance {
public:
  /// Allocates the arena and initializes the state. Throws Error. Of a program for several devices it joins the ranks of the launch
  /// (RankGroup::ofProcess), and state starts as on rank 0; step(), reset(), save() and load() are then collective, and wait for others as RankGroup::setTimeout says.
  Instance(const Program &program, ProgramImage image, uint64_t seed, ExecutorOptions options,
           FirstWeights weights = {}, std::optional<int64_t> timeout = {});

  const Program &program() const { return executor.program(); }

  /// Of the largest shape, where a step has several.
  const std::vector<const GraphInput *> &stepInputs() const { return training().inputs; }
  const std::vector<const GraphInput *> &evalInputs() const {
    return evaluations.front().feed.inputs;
  }
  /// Of the shape of the last step.
  const std::vector<GraphOutput> &stepOutputs() const { return graph(trainings[shape]).outputs; }
  /// Of a whole batch, in whatever parts it is evaluated; of several shapes that of the largest.
  const std::vector<GraphOutput> &evalOutputs() const { return evaluations.front().outputs; }
  /// What the last evaluation gave: of several shapes as large as its arrays were, before the first as evalOutputs().
  const std::vector<GraphOutput> &evaluated() const { return lastOutputs; }

  /// Copies a batch in, trains on it and returns its loss. `arrays` are in the order of
  /// stepInputs(). Of several shapes the smallest that holds the batch is taken, which is padded to it: with labels that do not count,
  /// and zeros elsewhere. Throws Error(BadInput) naming the input that does not fit; the state is as
  /// before then.
  double step(std::span<const HostArray> arrays);

  /// Runs the evaluation on a batch and copies each output to its row-major buffer, if given, which has room for that of evalOutputs(). Of
  /// several shapes it runs in the smallest that holds the batch, and in dimensions that follow its sizes an output has those of the batch.
  void evaluate(std::span<const HostArray> arrays, std::span<void *const> outputs);

  /// Loss and accuracy of the evaluation graph on any number of samples, as the executable measures
  /// them (Evaluator). `arrays` are in the order of stepInputs(), all with the same number of rows.
  /// A loss that the model computes is that of whole batches; rows that fill none are left out.
  Metrics measure(std::span<const HostArray> arrays);

  /// Copies an output of the last step: the loss, or the gradient of an input. An evaluation since
  /// then may have overwritten it.
  void readStepOutput(size_t index, void *rowMajor) const;

  void readState(size_t index, void *rowMajor) const;
  /// Converts the type. Throws Error(BadInput) when shapes differ or types do not convert.
  void writeState(size_t index, const HostArray &array);
  /// First values again, those of weights read again.
  void reset(uint64_t seed);

  void save(const std::string &path) const; ///< of several devices rank 0 writes
  void load(const std::string &path, Restore what);

  /// This process among those that train together.
  int64_t rank() const { return team.rank(); }
  /// Collective: the numbers of all ranks, by rank, in a row.
  void gather(std::span<const double> own, std::span<double> all) { team.gather(own, all); }
  /// Collective: running statistics become those of rank 0, which are the ones that are saved.
  void shareStatistics() { team.shareStatistics(executor); }

  /// The shape of the last step.
  size_t stepShape() const { return shape; }

  double learningRate() const { return settings.learningRate; }
  void setLearningRate(double rate);
  int64_t stepCount() const { return settings.step; }
  void setStepCount(int64_t steps);

private:
  /// A graph's sample inputs and the arrays of the call at hand, which its feeder refers to.
  struct Feed {
    /// Of the graphs that run in turn, each on `rowsPerRun` rows of a call.
    Feed(const Program &program, const std::vector<size_t> &graphs, int64_t rowsPerRun,
         const Fitting *fitting);
    size_t graph;                   ///< the last one
    std::vector<GraphInput> places; ///< of its sample inputs, with the rows of a call
    std::vector<const GraphInput *> inputs;
    Samples samples;
    std::vector<int64_t> rows;   ///< of the batch at hand
    std::vector<Feeder> feeders; ///< by batch
  };

  const GraphProgram &graph(const Feed &feed) const { return program().graphs[feed.graph]; }
  enum class RowCount {
    Fixed, ///< those of the feed
    Any,   ///< the same in all arrays
  };
  const Feed &training() const { return trainings.front(); }
  const Fitting *fit() const { return fitting ? &*fitting : nullptr; }
  /// The smallest shape that holds a batch.
  size_t shapeFor(std::span<const HostArray> arrays) const;
  /// Checks the arrays of a call and notes them.
  void takeArrays(Feed &feed, std::span<const HostArray> arrays, RowCount count);
  /// What the arrays of the last call need in each axis of the shapes.
  Extents extentsOf(const Feed &feed) const;
  /// Brings so many rows of the arrays in, those of batch number `batch`.
  void feedBatch(Feed &feed, size_t batch, size_t rows);
  /// Of the arrays of the call at hand.
  static int64_t rowsOf(const Feed &feed);
  /// The evaluation in a shape.
  struct Evaluation {
    Feed feed;
    std::vector<GraphOutput> outputs; ///< of a whole batch
  };
  static Evaluation evaluationOf(const Program &program, size_t shape, const Fitting *fitting);
  /// Copies output `index` of the evaluation of a part to its place among those of a batch, `lastOutputs`.
  void takeOutput(const Evaluation &evaluation, size_t index, size_t part, void *rowMajor);
  /// Adds what `stored` has of output `index` to that of the parts before, and leaves there, after the last, what they are together.
  void addPart(const GraphOutput &output, size_t index, size_t part, size_t parts);

  void compareSettings() const; ///< with those of the other ranks

  mutable RankGroup team;
  mutable Executor executor;            ///< reading is a call of the device, too
  const std::optional<Fitting> fitting; ///< where a step has several shapes
  const ShapeChoice shapes;
  std::vector<Feed> trainings;         ///< by shape
  std::vector<Evaluation> evaluations; ///< by shape
  size_t shape = 0;
  std::vector<GraphOutput> lastOutputs;
  std::vector<uint64_t>
      stored; ///< an output of a part in row-major order, 8-byte words for alignment
  std::vector<std::vector<double>> partSums; ///< by output, of the parts so far; rows have none
  TrainingStep trainingStep;
  StepSettings settings;
  FirstWeights firstWeights;
};

} // namespace stow
