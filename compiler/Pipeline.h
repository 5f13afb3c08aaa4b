// The compiler as a story: from a model file to the placed form.
#pragma once

#include "compiler/Options.h"
#include "runtime/format/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace stow {

/// Seconds by stage, in order.
class StageTimer {
public:
  /// Ends the current stage and starts `name`.
  void start(const std::string &name);
  void stop();
  const std::vector<std::pair<std::string, double>> &stages() const { return seconds; }

private:
  std::chrono::steady_clock::time_point since;
  std::vector<std::pair<std::string, double>> seconds;
  bool running = false;
};

struct CompiledPlan {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< the form asked for; Placed for Program
  Plan plan;                                ///< filled in from Placed on
};

/// Runs the pipeline up to `options.stopAfter` (Program stops at Placed: code is the caller's).
/// Throws Error after diagnostics have been printed.
CompiledPlan compileToPlan(mlir::MLIRContext &context, const CompileOptions &options,
                           StageTimer &timer);

} // namespace stow
