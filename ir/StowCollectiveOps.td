// What the ranks of a step do together.
#ifndef STOW_COLLECTIVE_OPS_TD
#define STOW_COLLECTIVE_OPS_TD

include "ir/StowBase.td"

def Stow_AllReduceOp : Stow_Op<"all_reduce", [Stow_Full, Stow_OfTraining, Stow_HasFlops, Stow_Shares,
                                              Stow_NotRecomputable]> {
  let summary = "The sum of a value over all ranks";
  let description = [{
    `y = ((0 + x of rank 0) + x of rank 1) + ...`, the same bits on every rank, element by element of what is stored. All ranks run
    the same graph, and so the same reductions in the same order; none is left out or runs twice. C1: `ranks` is 2 or more; C2: x is of
    f32, and y of its type.
    ```mlir
    %y = stow.all_reduce %x {ranks = 2 : i64} : (tensor<16x10xf32>) -> tensor<16x10xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, I64Attr:$ranks);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

#endif // STOW_COLLECTIVE_OPS_TD
