// A compiled program: commands against arena offsets. This is all an executable carries besides its
// kernels; it is stored as JSON inside the ELF (codegen writes it, runtime/program runs it).
//
// Symbols of the object file that codegen emits and the runtime's main links against:
//
//   extern "C" const char     stow_program_json[];      not terminated
//   extern "C" const uint64_t stow_program_json_size;
//   extern "C" const char     stow_constants[];         initial values, see StateTensor::init
//   extern "C" const uint64_t stow_constants_size;
//   extern "C" const StowKernelFn stow_kernels[];       indexed by Command::kernel
//   extern "C" const uint64_t stow_kernel_count;
//
// A kernel runs the tasks [begin, end) of its command; tasks are independent, results do not depend
// on how they are split. `arguments[i]` is the address of operand i.
#pragma once

#include "runtime/base/Concat.h"
#include "runtime/base/Joining.h"
#include "runtime/base/Quantization.h"
#include "runtime/format/CommandOp.h"
#include "runtime/format/Loss.h"
#include "runtime/format/Optimizer.h"
#include "runtime/format/Plan.h"

#include <map>

extern "C" typedef void (*StowKernelFn)(int64_t begin, int64_t end, char *const *arguments);

namespace stow {

/// A tensor in the arena as a command sees it.
struct Operand {
  Bytes offset = 0;
  DType dtype = DType::F32;
  Shape shape;
  Layout layout;
};

/// How a state tensor gets its first value. Seeds are derived from the run's --seed and the name,
/// so that adding a parameter does not change the others.
struct Init {
  enum class Kind : uint8_t { Data, Constant, Normal, Uniform };
  Kind kind = Kind::Constant;
  double a = 0;            ///< Constant: the value; Normal: mean; Uniform: low
  double b = 0;            ///< Normal: standard deviation; Uniform: high
  uint64_t dataOffset = 0; ///< Data: row-major elements in stow_constants
};

/// Of places in slow memory, and what a buffer there is rounded up to: a page, and the largest block of a disk
/// in use.
inline constexpr Bytes kSlowAlignment = 4096;

/// The most that passes at once between the host and state in slow memory.
inline constexpr Bytes kSlowPieceBytes = Bytes{1} << 20;

/// Where offsets into slow memory begin, behind those into the arena: the place of state that lies there.
constexpr Bytes slowBeginOf(Bytes arenaBytes) { return alignUp(arenaBytes, kSlowAlignment); }

/// Persistent state: parameters, statistics, optimizer moments.
struct StateTensor {
  std::string name;
  BufferKind kind = BufferKind::Parameter;
  /// In the arena; or, of state that commands fetch and send, in slow memory, row-major and at a multiple of
  /// kSlowAlignment from slowBeginOf() on.
  Operand place;
  Init init;
  bool saved = true;                             ///< written by --save and restored by --resume
  std::optional<QuantizedTensor> quantized = {}; ///< what the bytes at `place` stand for
  /// Of tied weights, those beside `name` that the module has for this tensor.
  std::vector<std::string> otherNames = {};
  /// The shape of the tensor of which each of the program's devices has a shard (runtime/base/Shards.h), the vector at `place`; of f32.
  std::optional<Shape> shardOf = {};
};

/// What the host writes before each run of a graph.
enum class InputRole : uint8_t {
  Data,         ///< a named array of the data set, one row per sample
  Target,       ///< labels or regression targets
  LearningRate, ///< f32 scalar
  Step,         ///< i64 scalar: optimizer step number, from 1
  Seed,         ///< i64 scalar: random counter base of this step, drives dropout
  Rows,         ///< i64: numbers of the samples of the batch, of a data set that is kept
};

struct GraphInput {
  std::string name;
  InputRole role = InputRole::Data;
  Operand place;
  int64_t indexedRows = 0;  ///< rows of the smallest table these values index; 0: they are none
  int64_t labelClasses = 0; ///< classes of the loss in the model that reads these; 0: they are none
  int64_t ignoredLabel = 0; ///< with labelClasses: the label that does not count
  /// Where a device may put what this input reads next while the graph still runs: as many bytes, free
  /// from command GraphProgram::nextFrom on.
  std::optional<Bytes> nextOffset = {};
  /// Of labels that reach a loss in the model unchanged, though perhaps moved: the one that does not count.
  std::optional<int64_t> padding = {};
  /// Where samples are kept on the device: the most there may be, at `place` one behind the other as its shape has them; Rows
  /// say which are the batch.
  std::optional<int64_t> keptRows = {};

  /// All of it: of samples that are kept more than those of a batch.
  Operand whole() const {
    Operand all = place;
    if (keptRows)
      all.shape.front() = *keptRows;
    return all;
  }
};

struct GraphOutput {
  std::string name; ///< "loss", or the model's output name
  Operand place;
  Joining joining = Joining::Rows; ///< of eval's parts
};

/// One launch. runtime/format/CommandOp.h has the meaning of operands and attributes.
struct Command {
  CommandOp op = CommandOp::Kernel;
  std::string name;    ///< the user's node, for reports and errors
  int64_t kernel = -1; ///< of a Kernel: index into stow_kernels
  int64_t tasks = 0;   ///< of a Kernel: number of independent tasks
  std::string kind;    ///< what it computes, for reports: "conv2d_grad_weight", "map", ...
  StepPhase phase = StepPhase::Forward; ///< for reports
  double flops = 0;                     ///< floating-point operations; 0 = none or unknown
  double bytes = 0;                     ///< bytes read and written; 0 = unknown
  std::vector<Command>
      parts; ///< of a sequence: kernels and calls, run one after the other; of a product_map: kernels
  std::vector<Operand> operands;
  std::map<std::string, std::vector<int64_t>> ints; ///< e.g. "strides", "pads"
  std::map<std::string, double> floats;             ///< e.g. "epsilon"
  Bytes workspaceOffset = 0;
  Bytes workspaceBytes = 0;
  std::vector<Operand> dying; ///< operands dead after this command: what --poison overwrites

  /// "'dnnl.matmul' of node 'fc'", for errors.
  std::string title() const { return concat("'", nameOf(op), "' of node '", name, "'"); }

  /// "backward", "update", or nothing: the forward needs no mention.
  std::string phaseName() const {
    return phase == StepPhase::Forward ? "" : std::string(nameOf(phase));
  }
};

struct GraphProgram {
  GraphRole role = GraphRole::Train; ///< of one graph of a shape; Measure of any number
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  std::vector<Command> commands;
  /// The command behind whose predecessor the places of all nextOffset are free until the graph is run
  /// again; there if and only if an input has one.
  std::optional<size_t> nextFrom = {};
  std::string shape = {}; ///< Program::shapes by name; empty: the first, or the only one

  std::string name() const { return graphName(role, shape); }
};

/// One of several shapes of a step, whose graphs share state and arena.
struct ProgramShape {
  std::string name;            ///< as PlannedShape::name
  int64_t batch = 1;           ///< samples of one run of its step's graph
  int64_t evaluationParts = 1; ///< as Program::evaluationParts
};

struct Program {
  int64_t version = 1;
  std::string target = "host"; ///< the device it was compiled for, as --target names it
  std::string model;
  int64_t batch = 1;           ///< samples of one run of a step's graph
  int64_t batchesPerStep = 1;  ///< runs of accumulate and, last, commit that make a step; 1: train
  int64_t devices = 1;         ///< ranks that run a step together, each on a batch of its own
  int64_t evaluationParts = 1; ///< runs of eval, on equal parts, that a batch takes
  int64_t threads = 1;         ///< workspaces are planned for this many threads
  std::vector<std::string>
      kernels; ///< names in the code for a GPU, by Command::kernel; empty: host
  LossSpec loss;
  std::string lossOutput; ///< the model's output that the loss reads; empty: the first
  OutputActivation outputActivation = OutputActivation::None; ///< of that output
  OptimizerSpec optimizer;                                    ///< its rate: default of --lr
  std::vector<StateTensor> state;
  /// The largest first, the one of `batch`; empty where there is one shape.
  std::vector<ProgramShape> shapes;
  /// With several shapes: a batch of fewer samples may be filled up with labels that do not count.
  bool fillsBatches = false;
  /// Size of the slow memory to which buffers travel, a multiple of kSlowAlignment; 0: nothing travels.
  Bytes slowBytes = 0;
  /// Where the slow memory is a file: the folder that it was planned for, which a run may replace; empty:
  /// a run has to say it.
  std::string slowFolder = {};
  std::vector<GraphProgram> graphs; ///< runtime/program finds them by their roles and shapes
  Plan plan;

  int64_t samplesPerStep() const { return batch * batchesPerStep * devices; } ///< of all devices
  size_t shapeCount() const { return shapes.empty() ? 1 : shapes.size(); }
  /// Samples of one run in a shape.
  int64_t batchOf(size_t shape) const { return shape == 0 ? batch : shapes[shape].batch; }
  int64_t partsOf(size_t shape) const {
    return shape == 0 ? evaluationParts : shapes[shape].evaluationParts;
  }
  /// Samples of one run of the evaluation in a shape.
  int64_t samplesPerEvaluation(size_t shape = 0) const { return batchOf(shape) / partsOf(shape); }
};

/// The number of the graph of that role in shape number `shape`; throws Error(BadInput) when the program has none.
size_t graphIndex(const Program &program, GraphRole role, size_t shape = 0);

/// The number of the graph that runs on batch `number` of a step, counted from 0. Throws as graphIndex.
size_t stepGraphIndex(const Program &program, int64_t number = 0, size_t shape = 0);

/// Whether collectives run beside other commands until they are awaited.
bool startsExchanges(const Program &program);

std::string toJson(const Program &program);
/// Throws Error(BadInput) with the key that is wrong.
Program programFromJson(std::string_view text);

} // namespace stow
