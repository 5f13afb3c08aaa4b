// A placed step run on this machine, for what its commands take where they stand.
//
//   placed step  --build, load-->  program  --a warm-up and three steps-->  nanoseconds per op
//
// A kernel alone, run again and again, finds its operands in the caches. In the step it finds there
// what the commands just before it left.
#pragma once

#include "codegen/Backend.h"
#include "ir/plan/schedule/Problem.h"
#include "runtime/device/Device.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <string>

namespace stow {

/// Nanoseconds by launching op of the step's graphs, at least 1.
using StepNanoseconds = llvm::DenseMap<mlir::Operation *, schedule::Cost>;

/// Runs the step of `placed`, which holds no other graphs, on `threads` threads: least of three
/// steps per command. On one thread processor time counts, which other work on the machine leaves
/// as it is, else the clock. Inputs are ordinary numbers, and indices within their tables; the
/// learning rate is 0. None where the machine has less memory than the arena needs. Throws Error
/// when the program cannot be compiled.
std::optional<StepNanoseconds> runStep(mlir::ModuleOp placed, int64_t threads,
                                       const Backend &backend);

/// By what fraction the step of `placed` takes longer than that of `whole`, which keeps every value: steps
/// of both run in turns, timed and fed as by runStep, seven or more that count. Graphs that are no part of the step
/// do not matter. What travels goes to `slowFolder`. None where the machine has less memory than both arenas need.
std::optional<double> extraTimeByRuns(mlir::ModuleOp whole, mlir::ModuleOp placed, int64_t threads,
                                      const Backend &backend, const std::string &slowFolder);

/// Removes the graphs that are no part of the step.
void keepStepAlone(mlir::ModuleOp module);

/// Ordinary numbers in every float at `place` (slow ones, denormals and NaN, must not be measured);
/// in the others numbers from 0 to below `indices`.
void fillForMeasuring(Device &device, const Operand &place, int64_t indices = 1);

} // namespace stow
