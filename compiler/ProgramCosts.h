// What the kernels of a step take on a device that the compiler may lack, as a program measured them there.
//
//   ./model train --data=FILE --profile=times.json      on the GPU: commands, kernels by number, milliseconds
//   stowage plan model.onnx --profile=times.json        anywhere: the ops with these numbers take these times
//
// The program may be of another plan of the step: with other recomputations, in another order, with other engines. A
// command of several ops gives each the part of its time that it has by the data sheet. What the program had otherwise,
// joined or apart as a budget decides, has the data sheet's times.
#pragma once

#include "passes/order/CostModel.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stow {

class ProgramCosts {
public:
  /// Reads what ./model train --profile=FILE wrote, of all graphs of the step, on one of the devices of `target`. Throws Error(BadInput)
  /// with what is wrong.
  static ProgramCosts load(const std::string &path, const std::string &target);

  /// Notes the times on the ops of the step's graphs (stow.cost_ns): by number, the mean over the commands of the least that
  /// each took; `sheet` weighs parts and what was not measured. Throws Error(BadInput) at an op of another step.
  void annotate(mlir::ModuleOp prepared, const CostModel &sheet);

  /// "measured on NVIDIA H200, driver 13.0"; behind annotate() also how many kernels were not.
  std::string describe() const;

private:
  struct MeasuredCommand {
    std::vector<int64_t> kernels;
    std::string implementation; ///< of a call that can run in several ways
    double nanoseconds = 0;
  };

  std::string path, device, unmeasured;
  std::vector<MeasuredCommand> commands;
};

} // namespace stow
