#ifndef STOW_ORDER_PASSES_TD
#define STOW_ORDER_PASSES_TD

include "mlir/Pass/PassBase.td"

def CheckpointPass : Pass<"stow-checkpoint", "::mlir::ModuleOp"> {
  let summary = "Recompute forward segments in the backward";
  let description = [{
    `mode=sqrt` keeps only some of the values that separate the forward graph, those crossed by a
    single tensor (Chen et al. 2016, for any graph: its articulation points), and computes what lies
    between them again just before the backward needs it. All segmentations by equal shares of the
    saved bytes are tried, from one segment to 64, and improved by moving single boundaries; the one
    with the smallest peak of the whole step wins, fewer recomputed operations deciding among equals.
    Recomputed ops are the same ops on the same operands, so results are equal bit for bit. `mode=none`
    keeps everything.

    Requires: the step form, fused, with layouts and workspaces.
    Ensures: the ordered form; clones carry `stow.recompute`.

    ```mlir
    %y = stow.conv2d %x, %w ...              // forward
    ...
    %y2 = stow.conv2d %x, %w {stow.phase = "backward", stow.recompute} ...
    ```
  }];
  let options = [Option<"mode", "mode", "std::string", "\"none\"", "none or sqrt">];
  let dependentDialects = ["::stow::StowDialect"];
  let statistics = [Statistic<"recomputed", "recomputed", "ops computed a second time">];
}

#endif // STOW_ORDER_PASSES_TD
