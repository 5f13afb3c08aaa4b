// The memory plan: every buffer of a compiled program with its lifetime and its place in the arena.
//
// The plan is what the verifier checks, the reports print, and the executable carries. Time is
// program order: step t is the t-th command of a graph, lifetimes are half-open [begin, end).
//
//   offset
//     ^   +--------------------------+  arenaBytes
//     |   |  c   |        |  e       |
//     |   +------+   d    +----------+
//     |   |  b            |  f       |
//     |   +---------------+----------+  persistentBytes
//     |   |  parameters, optimizer   |  alive in [0, stepCount) of every graph
//     +---+--------------------------+--> time step
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/Layout.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// What a buffer holds, as reports group it. Padding and totals are derived.
enum class BufferKind : uint8_t {
  Parameter,        ///< trainable weights
  Statistic,        ///< non-trainable state: batch-norm running statistics, step counters
  Optimizer,        ///< momentum, Adam moments
  Input,            ///< the batch, targets, scalars fed per step
  Output,           ///< loss and model outputs read by the host
  Activation,       ///< produced by the forward graph, recomputed ones included
  Gradient,         ///< produced by the backward graph
  Workspace,        ///< library scratch of one command
  Accumulator,      ///< sums of gradients over the batches of a step
  Frozen,           ///< weights that are not trained
  FetchedWeight,    ///< weights, frozen or trained, while they are here, whose place is slow memory
  FetchedOptimizer, ///< the optimizer's state likewise
  DataSet,          ///< the samples of a run, of which a step reads its batch
};

inline constexpr size_t kBufferKinds = static_cast<size_t>(BufferKind::DataSet) + 1;

std::string_view nameOf(BufferKind kind); ///< "parameter", "optimizer", ...
BufferKind parseBufferKind(std::string_view name);

/// How a further value comes to lie in a buffer.
enum class AliasKind : uint8_t {
  InPlace, ///< written over the value that was there before it
  View,    ///< the same bytes under another shape, or a box of them; nothing is written
  Part,    ///< written into its own box of the buffer, which a larger value fills
};

std::string_view nameOf(AliasKind kind); ///< "in_place", "view", "part"
AliasKind parseAliasKind(std::string_view name);

/// A value that lies in the buffer of another one.
struct PlannedAlias {
  std::string name;
  std::optional<AliasKind> kind; ///< absent: a plan file that does not say it
  std::optional<int64_t> step;   ///< that writes it, or reads a view first; absent: not known
};

/// The part of a training step that a command belongs to.
enum class StepPhase : uint8_t { Forward, Backward, Update };

std::string_view nameOf(StepPhase phase); ///< "forward", "backward", "update"
StepPhase parseStepPhase(std::string_view name);

/// What a graph of a program does.
enum class GraphRole : uint8_t {
  Train,      ///< a whole training step
  Eval,       ///< the forward that evaluation runs
  Accumulate, ///< adds the gradients of one batch to sums that are state
  Commit,     ///< the last batch of such a step: updates the parameters
  Measure,    ///< one command alone, run for its time
};

std::string_view nameOf(GraphRole role); ///< "train", "eval", ...
/// "train", or "train@sequence=128" where a shape is named.
std::string graphName(GraphRole role, std::string_view shape);
GraphRole parseGraphRole(std::string_view name);

/// One buffer: a storage that may be shared by an in-place chain or by views.
struct PlannedBuffer {
  std::string name; ///< the user's name: tensor or node of the model file
  BufferKind kind = BufferKind::Activation;
  DType dtype = DType::F32;
  Shape shape;                       ///< logical shape of the first value stored here
  std::string source;                ///< model file and node that produced it, as locations print
  Bytes offset = 0;                  ///< from the arena's start
  Bytes size = 0;                    ///< bytes, padding of the layout included, alignment excluded
  Bytes logicalSize = 0;             ///< bytes of the elements alone
  int64_t begin = 0;                 ///< first step at which it is live
  int64_t end = 0;                   ///< first step after `begin` at which it is dead
  std::vector<PlannedAlias> aliases; ///< further values that lie here, in order of definition
  bool recomputed = false;           ///< a second computation of an earlier value
  std::string module;                ///< of the user's model, e.g. "layer1.0.conv1"; empty: unknown
  std::string layout;                ///< as formatLayout prints it; empty: row-major
  std::string reason;                ///< why it takes memory, as a sentence without its subject
  /// Seconds that computing it again would take if its operands were there; absent: not known, or
  /// nothing that can be computed again.
  std::optional<double> recomputeSeconds;
};

/// One command of a graph.
struct PlannedStep {
  std::string name;                  ///< operation and source node: "conv2d of /layer1/conv1/Conv"
  std::string op;                    ///< operation alone
  std::string source;                ///< model file and node, as locations print
  std::string module;                ///< of the user's model, as PlannedBuffer::module
  std::optional<StepPhase> phase;    ///< absent where nothing is computed
  double seconds = 0;                ///< as Plan::costSource has it; 0 = not known
  std::vector<int64_t> reads;        ///< numbers in GraphPlan::buffers, rising, each once
  std::vector<int64_t> writes;       ///< likewise; what is overwritten in place is read as well
  std::optional<int64_t> recomputes; ///< the step that this one repeats
  std::string implementation;        ///< of a library call that can run in several ways: the chosen

  /// "forward", "backward", "update", or nothing.
  std::string phaseName() const { return phase ? std::string(nameOf(*phase)) : ""; }
};

/// One copy between the arena and slow memory. It may pass at any time between its two commands; seconds are as
/// Plan::costSource and the bandwidths have it, from the graph's start.
struct PlannedCopy {
  std::string name; ///< of the tensor that travels
  bool isOut = true;
  int64_t buffer = 0;           ///< number in GraphPlan::buffers
  Bytes bytes = 0;              ///< of the tensor; what passes is whole blocks
  int64_t start = 0, await = 0; ///< commands
  double beginSeconds = 0;      ///< when it is predicted to begin
  double seconds = 0;           ///< that it takes on its lane; 0 = not known
};

/// What travels between the arena and slow memory in one run of a graph.
struct PlannedCopies {
  Bytes bytesOut = 0, bytesIn = 0;
  double hiddenSeconds = 0;           ///< that copies take while commands run
  double exposedSeconds = 0;          ///< that commands wait for copies
  Bytes slowPeakBytes = 0;            ///< most bytes of buffers that lie in slow memory at once
  std::vector<PlannedCopy> each = {}; ///< by start; empty in files of an older stowage
};

/// What the ranks of a step exchange in one run of a graph.
struct PlannedReductions {
  int64_t count = 0;
  Bytes bytes = 0;     ///< of what is added up, on each rank
  int64_t gathers = 0; ///< of parameters whose ranks update a shard each
  Bytes gatheredBytes = 0;
  Bytes sentBytes = 0; ///< by a rank, and as many come to it
  int64_t started = 0; ///< of them all, that run beside other commands until they are awaited
  /// Of a known network: what all take on it, one after the other, and what commands wait for them. Absent: not known.
  std::optional<double> seconds = {}, exposedSeconds = {};
};

/// The plan of one graph (training step or evaluation). Persistent buffers are listed in each.
struct GraphPlan {
  GraphRole role = GraphRole::Train;   ///< of no other graph of its shape
  int64_t stepCount = 0;               ///< commands
  std::vector<PlannedStep> steps;      ///< by command
  std::vector<int64_t> referenceSteps; ///< commands that run the library's slow reference code
  std::vector<PlannedBuffer> buffers;
  Bytes livePeakBytes = 0;   ///< max over steps of the sum of live sizes
  int64_t peakStep = 0;      ///< the first step at which that maximum is reached
  Bytes lowerBoundBytes = 0; ///< no placement of these lifetimes is smaller (alignment included)
  std::string shape = {};    ///< Plan::shapes by name; empty: the first, or the only one
  std::optional<PlannedCopies> copies = {};         ///< absent where nothing travels
  std::optional<PlannedReductions> reductions = {}; ///< absent where a rank needs no other

  std::string name() const { return graphName(role, shape); }
};

/// One of several shapes in which a step runs, as large as its batch needs it.
struct PlannedShape {
  std::string name;                       ///< "batch=8,sequence=128"
  std::map<std::string, int64_t> extents; ///< by axis
  Bytes arenaBytes = 0;                   ///< that its graphs use, state included
  double stepSeconds = 0;                 ///< of its step, recomputation included; 0 = not known
  double extraTimeFraction = 0;           ///< as Plan::extraTimeFraction
};

/// How many tensors of the model are trained, and how many are not.
struct TensorCounts {
  struct Count {
    int64_t tensors = 0;
    int64_t elements = 0;
  };
  Count trained, frozen;
  Count statistics;   ///< running means and variances
  Count constant;     ///< float tensors that are computed with; those of shapes do not count
  std::string source; ///< what decided: "the file's graph signature", ...; empty: not known
};

/// "62 tensors trained (11,689,512 elements), 40 statistics (9,600), 2 constant (7); by the
/// file's graph signature". Empty for a plan without a source.
std::string describe(const TensorCounts &counts);

/// The whole plan. All graphs share one arena and the persistent region at its bottom.
struct Plan {
  std::string model;
  int64_t batchesPerStep = 1; ///< runs of accumulate and, last, commit that make a step; 1: train
  int64_t devices = 1; ///< that run the step together, each with this plan, on a batch of its own
  Bytes arenaBytes = 0;
  Bytes persistentBytes = 0;
  Bytes alignment = 64;
  Bytes workspaceAlignment = 64;   ///< a multiple of it
  Bytes lowerBoundBytes = 0;       ///< max over graphs
  Bytes logicalBoundBytes = 0;     ///< the same if no layout padded a buffer
  Bytes livePeakBytes = 0;         ///< max over graphs of fullestBytes
  std::string status;              ///< "optimal", "within 1.2 % of optimal", "heuristic"
  double extraTimeFraction = 0;    ///< (recomputation + waits for copies) / a step without either
  double extraTimeBound = 0;       ///< proven: no schedule within the budget adds less; a fraction
  double stepSeconds = 0;          ///< of the training step, all of these included; 0 = not known
  std::string costSource;          ///< where these times come from: a device profile, or measured
  Bytes withoutRecomputeBytes = 0; ///< arena of the same graph with every value kept
  Bytes outsideArenaBytes = 0; ///< stated constant: libraries, code, thread stacks; 0 = not known
  Bytes slowBytes =
      0; ///< of slow memory, as packed: what the run takes of a disk, or pins of the host; 0: nothing travels
  std::string outsideNote;        ///< what is outside and where the figure comes from; may be empty
  TensorCounts tensors;           ///< of the model
  std::vector<std::string> notes; ///< sentences on what costs memory by the user's choice
  /// The largest first, which holds what any other does; empty where there is one shape. What the plan says of a
  /// step's time is that of the first; the arena is all graphs'.
  std::vector<PlannedShape> shapes;
  std::vector<GraphPlan> graphs; ///< the one that trains first
};

/// Bytes per kind at the arena's fullest moment, of the elements alone; the parts and both paddings
/// add up to arenaBytes.
struct Breakdown {
  Bytes parameters = 0, statistics = 0, optimizer = 0, inputs = 0, outputs = 0;
  Bytes activations = 0, gradients = 0, workspace = 0;
  Bytes accumulators = 0;                         ///< 0 where a step is one batch
  Bytes frozen = 0;                               ///< parameters that are not trained
  Bytes fetchedWeights = 0, fetchedOptimizer = 0; ///< 0 where no state lies in slow memory
  Bytes dataSet = 0;                              ///< 0 where the host brings each batch
  Bytes layoutPadding = 0;                        ///< what layouts add to the elements
  Bytes padding = 0; ///< alignment and packing gaps: arenaBytes minus all others
};
Breakdown breakdownAtPeak(const Plan &plan);

/// The graph of that role in a shape, or null.
const GraphPlan *findGraph(const Plan &plan, GraphRole role, std::string_view shape = {});

/// The graph that a step ends with, train or commit; null for a plan without one.
const GraphPlan *findStepGraph(const Plan &plan);

/// State that stays in the arena while `graph` runs, which does not know it: an optimizer's during an
/// evaluation.
std::vector<const PlannedBuffer *> stateOutside(const Plan &plan, const GraphPlan &graph);

/// What the arena holds at the peak of `graph`: its live peak and the state outside of it.
Bytes fullestBytes(const Plan &plan, const GraphPlan &graph);

/// The first graph with the largest `fullestBytes`; absent for a plan without graphs.
std::optional<size_t> peakGraph(const Plan &plan);

/// True for what stays from step to step or from batch to batch.
bool isState(BufferKind kind);

/// Largest first, ties by name, those alike in the order in which they come.
void sortBySize(std::vector<const PlannedBuffer *> &buffers);

/// Buffers live at `step` that take memory, largest first (ties by name, then by order in the plan).
std::vector<const PlannedBuffer *> liveAt(const GraphPlan &graph, int64_t step);

/// What the arena holds at the peak of `graph`, in the same order: `fullestBytes` in all.
std::vector<const PlannedBuffer *> liveAtPeak(const Plan &plan, const GraphPlan &graph);

/// Version of the JSON form: what readers refuse when it is not theirs.
inline constexpr int64_t kPlanFormat = 2;

/// The public JSON form, see docs/plan-format.md; the same plan gives the same bytes.
std::string toJson(const Plan &plan);
Plan planFromJson(std::string_view text); ///< throws Error(BadInput) with the key that is wrong

} // namespace stow
