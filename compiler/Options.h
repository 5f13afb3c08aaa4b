// What the user asks of the compiler, as the command line gives it.
#pragma once

#include "codegen/Backend.h"
#include "compiler/NetworkLink.h"
#include "compiler/Offload.h"
#include "compiler/import/Import.h"
#include "passes/plan/Allowance.h"
#include "passes/plan/StepVariant.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/CommandLine.h"
#include "runtime/format/Card.h"
#include "runtime/format/Loss.h"
#include "runtime/format/Optimizer.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stow {

/// The numbers of an .npy file, or of an .npz with one array. Throws Error(BadInput).
std::vector<double> readNumbers(const std::string &path);

/// The forms a compilation can stop at and print.
enum class Form { Model, Step, Ordered, Placed, Program };

/// What --memory-budget limits.
enum class BudgetCovers { Arena, Process };

/// The sizes that one axis of a step's inputs may have: "batch", dimension 0 of all, or another by the name that the file has for it.
struct ShapeAxis {
  std::string name;
  std::vector<int64_t> extents; ///< falling
};

/// One shape of a step's inputs.
struct StepShape {
  std::string name;                       ///< "batch=8,sequence=128"
  std::map<std::string, int64_t> extents; ///< by axis, the batch included
};

struct CompileOptions {
  std::string modelPath;
  std::string outputPath;
  ProgramForm emit = ProgramForm::Executable;
  ImportOptions import;             ///< in the largest shape
  std::vector<ShapeAxis> shapeAxes; ///< as --shapes names them
  std::vector<StepShape> shapes; ///< all that they make, the largest first; empty: that of the file
  std::string
      worstPath; ///< data whose rows are to be told by the shape that they need; empty: none
  LossSpec loss;
  OptimizerSpec optimizer = parseOptimizer("sgd");
  int64_t accumulate =
      1;                ///< batches of a step; 0: as many as take the least time within the budget
  int64_t dataRows = 0; ///< samples that stay on the device; 0: the host brings each batch
  int64_t devices = 1;  ///< ranks that run a step together, each on `import.batch`
  /// Of commands that compare: the numbers of devices that --devices lists, where it lists several.
  std::vector<int64_t> deviceCounts;
  NetworkLink network;                    ///< between them
  bool inSegments = false;                ///< --checkpoint=sqrt; else as `recompute` says
  std::optional<Allowance> recompute;     ///< without a budget; absent: the usual one
  std::optional<ByteBudget> memoryBudget; ///< arena bytes, or percent of the arena without one
  bool budgetIsCard =
      false; ///< --memory-budget=card: the bytes are what finishOptions finds that it has
  BudgetCovers budgetCovers = BudgetCovers::Arena;
  OffloadOptions offload;
  std::optional<Bytes> reserve;       ///< for what else is on the card, if stated
  std::optional<Bytes> outside;       ///< what the process takes beside the arena, if stated
  std::string roofline;               ///< data sheet that weighs plans; empty: the target's
  std::string profile;                ///< "run", a file of measured costs, or empty: roofline
  std::string saveProfilePath;        ///< where measured costs go; empty: nowhere
  std::string saveProblemPath;        ///< the step as a schedule problem, as JSON; empty: none
  std::string remarksPath;            ///< a decision per value, as YAML; empty: none
  std::string lossOutput;             ///< output the loss reads; empty: the only one
  std::vector<ParameterGroup> groups; ///< of parameters; the first that matches wins
  std::vector<std::string> noDecay;   ///< kinds of parameters: norm, bias
  int64_t lossChunks = 1;             ///< chunks of rows of the head and its loss; 0: the planner's
  int64_t rowChunks = 1; ///< chunks of rows of chains between two products; 0: the planner's
  double clipNorm = 0;   ///< of all gradients together; 0: any
  double clipValue = 0;  ///< of an element of a gradient; 0: any
  /// Of the optimizer's state that may be, so much is stored in 8 bits; absent: the planner's.
  std::optional<int64_t> eightBitPercent = 0;
  /// As StepVariant has them.
  std::optional<int64_t> shardPercent = 0, weightShardPercent = 0;
  std::vector<std::string> inputGradients; ///< inputs whose gradient the step gives
  Precision precision = Precision::F32;
  std::string lossScale;             ///< with fp16: dynamic or delayed; empty: dynamic
  std::vector<std::string> keepWide; ///< patterns of nodes that stay in f32
  bool freezeBatchNorm = false;
  bool syncBatchNorm = false;           ///< by the statistics of all devices' samples
  std::vector<std::string> frozenTypes; ///< PATTERN:TYPE, or a type alone for all
  bool disableDropout = false;
  std::string target = kDefaultTarget; ///< where the program runs: codegen/Backend.h
  bool tf32 = false;                   ///< products of f32 values may be cut to TF32, on GPUs
  LibraryEpilogues epilogues = LibraryEpilogues::All; ///< of a GPU's libraries
  std::optional<Card> card;                           ///< that --card names; absent: the target's
  bool fit = false;        ///< a step that does not fit the card is an error
  std::string cudnnFolder; ///< that holds cuDNN's libraries; empty: where they usually lie
  int64_t threads = 0;     ///< 0: all cores of this machine
  std::string targetCpu = "native";
  Form stopAfter = Form::Program;
  bool timing = false;         ///< print seconds by stage
  bool endsEarly = false;      ///< Ctrl-C ends the search for a plan, not the process
  bool listParameters = false; ///< print what is trained, frozen and constant, and stop
};

/// What a plan may compute again for a smaller arena, without a budget and without segments.
Allowance allowanceOf(const CompileOptions &options);

/// Adds the flags of a compilation, which store into `options`.
void addCompileFlags(CommandLine &line, CompileOptions &options);

/// What --memory-budget leaves to others: --reserve, of a budget in bytes. One in percent is of the arena, and has nothing of a card in it.
Bytes reservedOf(const CompileOptions &options);

/// "the budget of ... covers ...", where that is `beside` more than the arena; else empty.
std::string coveredBeside(const CompileOptions &options, Bytes budget, Bytes beside);

/// Adds --card and --reserve.
void addCardFlag(CommandLine &line, CompileOptions &options);

/// Throws Error(BadInput) where one of them is given: of commands that speak of a card on their page alone.
void refuseCard(const CompileOptions &options);

/// Adds these and --fit: of commands that end with one plan.
void addCardFlags(CommandLine &line, CompileOptions &options);

/// Adds the word that names the model. Throws Error(BadInput) at a second one.
void addModelWord(CommandLine &line, CompileOptions &options);

/// A flag that is given and does not go with several devices yet; empty: none.
std::string flagAgainstDevices(const CompileOptions &options);

/// What the model is imported with in a shape.
ImportOptions importFor(const CompileOptions &options, int64_t shape);

/// Checks what the flags say together, and fills in what depends on this machine. Throws
/// Error(BadInput).
void finishOptions(CompileOptions &options);

} // namespace stow
