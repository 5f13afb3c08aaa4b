// What the kernels of a step take on this machine, measured where the step runs them.
//
//   train graph            measured                          train graph again
//   %1 = conv2d %x, %w     step: 1.24 ms, 1.16 ms, ..        %1 = conv2d {stow.cost_ns = 1200000}
//   %2 = map %1            0.31 ms                           %2 = map    {stow.cost_ns = 310000}
//   %3 = conv2d %2, %w     (the same as %1)                  %3 = conv2d {stow.cost_ns = 1200000}
//
// The step is compiled with everything kept and run for a few steps (StepRun.h); ops that are the
// same on the same shapes and layouts are one kernel, which takes what they take in the mean. A step
// that does not fit the machine, or that several devices run, has its kernels measured one by one: each becomes a graph of its own
// that is packed and compiled as in the step and run in an arena that holds its operands, results
// and workspace.
#pragma once

#include "codegen/Backend.h"
#include "ir/plan/schedule/Problem.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace stow {

/// Nanoseconds of one execution by kernel, of one step or of several: those of all shapes of a batch.
class MeasuredCosts {
public:
  /// Measures every kernel of the training graph of `prepared` (step form, fused, with layouts and
  /// workspaces) on `threads` threads, but those that another step has had measured: one run to warm up, then the least of at least
  /// three. Takes about as long as a handful of steps. Throws Error when a kernel cannot be compiled or the
  /// machine lacks the memory for the step and for its largest kernel.
  void measure(mlir::ModuleOp prepared, int64_t threads, const Backend &backend);

  /// Reads what save() wrote. Throws Error(BadInput), also when it was measured on another number
  /// of threads.
  static MeasuredCosts load(const std::string &path, int64_t threads);

  /// Writes a JSON file; docs/memory-budget.md has its keys. Throws Error(BadInput).
  void save(const std::string &path) const;

  /// Notes the costs on the ops of the training graph (stow.cost_ns). Throws Error(BadInput) at an
  /// op that was not measured.
  void annotate(mlir::ModuleOp prepared) const;

  /// "measured on skylake-avx512, 2 threads", "measured kernel by kernel on .." for a step that does
  /// not fit or is for several devices.
  std::string describe() const;

private:
  /// Where the machine has the memory for the step with everything kept.
  void timeInStep(mlir::ModuleOp prepared, const Backend &backend);

  /// What has no time so far: all kernels of a step that did not run; else those whose parts are all
  /// placed where they belong, so that the step does not run them.
  void timeAlone(mlir::ModuleOp prepared, const Backend &backend);

  struct Kernel {
    std::string op;   ///< what it computes
    std::string node; ///< the first node of the model it belongs to
    schedule::Cost nanoseconds = 0;
  };

  std::string processor;
  int64_t threads = 0;
  bool isInStep = true;                  ///< all steps so far
  std::map<std::string, Kernel> kernels; ///< by key: a hash of op, attributes and types
};

} // namespace stow
