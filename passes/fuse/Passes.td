#ifndef STOW_FUSE_PASSES_TD
#define STOW_FUSE_PASSES_TD

include "mlir/Pass/PassBase.td"

def FuseElementwisePass : Pass<"stow-fuse-elementwise", "::mlir::ModuleOp"> {
  let summary = "Turn chains of elementwise ops into single kernels";
  let description = [{
    Every elementwise op becomes a stow.map; splat constants become immediates. A map whose only
    reader is another map over the same elements is merged into it, and so are scalars computed for
    it, so that the value between them never exists in memory. A forward value that the backward
    reads stays a result. Merging never crosses from the forward to the backward, except into
    optimizer updates, and never moves a read of state past the update of that state. Nor does it
    carry values past other kernels when more of their bytes would stay alive than the merging
    removes: the sums of a shared weight's gradients stay one by one. A constant that another op
    reads becomes a map without operands.

    Requires: the step form with layouts; stow.constant as stow-hoist-constants leaves them.
    Ensures: no elementwise op of the dialect and no stow.constant remain.

    ```mlir
    %0 = stow.add %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = stow.relu %0 : (tensor<8xf32>) -> tensor<8xf32>
    // becomes
    %1 = stow.map %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%p: f32, %q: f32):
      %2 = arith.addf %p, %q : f32
      %zero = arith.constant 0.0 : f32
      %3 = arith.maximumf %2, %zero : f32
      stow.yield %3 : f32
    }
    ```
  }];
  let dependentDialects = ["::stow::StowDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let statistics = [Statistic<"maps", "maps", "kernels left">,
                    Statistic<"bytesSaved", "bytes-saved", "bytes of values that no longer exist">];
}

#endif // STOW_FUSE_PASSES_TD
