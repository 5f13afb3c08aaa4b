// Losses. Cross-entropy is split so that each piece is one row kernel and saves one number a row.
#ifndef STOW_LOSS_OPS_TD
#define STOW_LOSS_OPS_TD

include "ir/StowBase.td"

def Stow_CrossEntropyRowsOp : Stow_InferredOp<"cross_entropy_rows", [Stow_HasGradient]> {
  let summary = "Cross-entropy of each row against its class";
  let description = [{
    `row_loss = lse - logits[target]` and `lse = ln(sum(exp(logits)))` per row of `logits` [R,C];
    rows whose target is `ignore_index` get loss 0. C1: target has R elements.
    ```mlir
    %l, %lse = stow.cross_entropy_rows %logits, %t {ignore_index = -100 : i64}
        : (tensor<128x10xf32>, tensor<128xi64>) -> (tensor<128xf32>, tensor<128xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$logits, Stow_IntTensor:$target, I64Attr:$ignore_index);
  let results = (outs Stow_FloatTensor:$row_loss, Stow_FloatTensor:$lse);
  let hasVerifier = 1;
}

def Stow_CrossEntropyRowsGradOp : Stow_InferredOp<"cross_entropy_rows_grad", [Stow_Overwrites]> {
  let summary = "Gradient of cross_entropy_rows";
  let description = [{
    `dlogits = (exp(logits - lse) - onehot(target)) * drow`, 0 for ignored rows; it may overwrite the
    logits.
    ```mlir
    %d = stow.cross_entropy_rows_grad %logits, %t, %lse, %drow {ignore_index = -100 : i64}
        : (tensor<128x10xf32>, tensor<128xi64>, tensor<128xf32>, tensor<128xf32>)
        -> tensor<128x10xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$logits, Stow_IntTensor:$target, Stow_FloatTensor:$lse,
                       Stow_FloatTensor:$drow, I64Attr:$ignore_index);
  let results = (outs Stow_FloatTensor:$dlogits);
  let hasVerifier = 1;
}

def Stow_CountValidOp : Stow_InferredOp<"count_valid"> {
  let summary = "Number of targets that are not ignored";
  let description = [{
    A scalar f32 (f64 for f64 graphs): what a mean over rows divides by.
    ```mlir
    %n = stow.count_valid %t {ignore_index = -100 : i64, element_type = f32}
        : (tensor<128xi64>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Stow_IntTensor:$target, I64Attr:$ignore_index, TypeAttr:$element_type);
  let results = (outs Stow_FloatTensor:$count);
}

#endif // STOW_LOSS_OPS_TD
