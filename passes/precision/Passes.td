#ifndef STOW_PRECISION_PASSES_TD
#define STOW_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignPrecisionPass : Pass<"stow-assign-precision", "::mlir::ModuleOp"> {
  let summary = "Store in 16 bits what may be";
  let description = [{
    What: decides of every f32 value of every graph whether it is stored in the type `precision`
    (bf16 or f16), by the class of the op that writes it: `low` ops (matrix products, convolutions)
    write 16 bits; `widest` ops do where all of their operands of full size have 16 bits; `full` ops
    where a low op reads the value; `same` ops write what they read. A value that a low op reads is
    stored in 16 bits once, and all of its readers read that; it never exists twice. Always in f32:
    parameters, statistics, optimizer state; gradients of parameters and what updates read; sums
    and statistics of normalizations; single numbers; what is returned. Arithmetic is in f32 in all
    ops; low ops sum in f32.

    An op whose operand is stored otherwise than it takes it gets a cast: low ops those of f32
    operands, unless the target takes them as they are. Where it cannot write f32 either, what it
    writes for an update is cast behind it. A parameter is cast once for each phase that
    reads it, so that no copy waits from the forward for the backward. An input that low ops alone
    read is itself of type `precision`: it is converted when a batch is loaded.

    `keep` are patterns of node names: these ops read and write f32.

    Requires: the step form without layouts.
    Ensures: the step form; shapes, order and number of the ops but casts are as before.

    ```mlir
    %0 = stow.matmul %x, %w {...} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = stow.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
    // becomes with precision=bf16
    %c = stow.cast %w : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %0 = stow.matmul %x, %c {...} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
    %1 = stow.relu %0 : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
    ```
  }];
  let options = [
    Option<"precision", "precision", "std::string", /*default=*/"\"bf16\"", "bf16 or f16">,
    ListOption<"keep", "keep", "std::string", "Patterns of the names of nodes that stay in f32">,
  ];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_PRECISION_PASSES_TD
