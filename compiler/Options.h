// What the user asks of the compiler, as the command line gives it.
#pragma once

#include "compiler/import/Import.h"
#include "runtime/base/Bytes.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stow {

/// "adamw:lr=1e-3,weight-decay=0.01", taken apart.
struct OptimizerSpec {
  std::string name = "sgd"; ///< sgd, adam or adamw
  double learningRate = 0;
  std::map<std::string, std::string> settings; ///< as the attach-optimizer pass names them
  std::string text;                            ///< as given
};

/// Parses an optimizer. Defaults are PyTorch's, except that sgd's learning rate is 0.01.
/// Throws Error(BadInput) listing the known names and settings.
OptimizerSpec parseOptimizer(const std::string &text);

/// "cross-entropy:reduction=sum,ignore-index=255", taken apart.
struct LossSpec {
  std::string name = "cross-entropy"; ///< cross-entropy or mse
  std::map<std::string, std::string> settings;
};
LossSpec parseLoss(const std::string &text);

/// The forms a compilation can stop at and print.
enum class Form { Model, Step, Ordered, Placed, Program };

/// What a compilation writes: a program with the commands train, eval and plan, or a library with
/// the interface of runtime/include/stowage.h.
enum class Emit { Executable, Shared };

struct CompileOptions {
  std::string modelPath;
  std::string outputPath;
  Emit emit = Emit::Executable;
  ImportOptions import;
  LossSpec loss;
  OptimizerSpec optimizer = parseOptimizer("sgd");
  std::string checkpoint = "none";        ///< none or sqrt
  std::optional<ByteBudget> memoryBudget; ///< arena bytes, or percent of the arena without one
  std::string device = "cpu";             ///< whose costs recomputation is weighed by
  std::string profile;                    ///< "run", a file of measured costs, or empty: roofline
  std::string saveProfilePath;            ///< where measured costs go; empty: nowhere
  std::string saveProblemPath;            ///< the step as a schedule problem, as JSON; empty: none
  std::string remarksPath;                ///< a decision per value, as YAML; empty: none
  std::string lossOutput;                 ///< output the loss reads; empty: the only one
  bool freezeBatchNorm = false;
  bool disableDropout = false;
  int64_t threads = 0; ///< 0: all cores of this machine
  std::string targetCpu = "native";
  Form stopAfter = Form::Program;
  bool timing = false;         ///< print seconds by stage
  bool listParameters = false; ///< print what is trained, frozen and constant, and stop
};

/// Reads the flags of `stowage compile`, `plan` and `frontier`. Throws Error(BadInput).
CompileOptions parseCompileOptions(const std::vector<std::string> &arguments, bool wantsOutput);

/// The flags that parseCompileOptions reads, one line each.
std::string compileHelp(bool wantsOutput);

} // namespace stow
