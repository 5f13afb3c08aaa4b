// Losses. Cross-entropy is split so that each piece is one row kernel and saves one number a row.
#ifndef STOW_LOSS_OPS_TD
#define STOW_LOSS_OPS_TD

include "ir/StowBase.td"

def Stow_CrossEntropyRowsOp : Stow_InferredOp<"cross_entropy_rows", [Stow_Full, Stow_HasGradient]> {
  let summary = "Cross-entropy of each row against its class";
  let description = [{
    `lse = ln(sum(exp(logits)))` per row of `logits` [R,C], and `row_loss = sum_c t[c] w[c] (lse -
    logits[c])`, where t is 1 at the target, or with `label_smoothing` s, `1 - s + s / C` there and
    `s / C` elsewhere (torch.nn.functional.cross_entropy); w is the weight [C] of the classes, 1
    without one. Rows whose target is `ignore_index` get loss 0, other targets outside [0, C) NaN. C1: target has R
    elements; C2: weight has C elements; C3: 0 <= label_smoothing <= 1.
    ```mlir
    %l, %lse = stow.cross_entropy_rows %logits, %t {ignore_index = -100 : i64}
        : (tensor<128x10xf32>, tensor<128xi64>) -> (tensor<128xf32>, tensor<128xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$logits, Stow_IntTensor:$target,
                       Optional<Stow_FloatTensor>:$weight, I64Attr:$ignore_index,
                       DefaultValuedOptionalAttr<F64Attr, "0.0">:$label_smoothing);
  let results = (outs Stow_FloatTensor:$row_loss, Stow_FloatTensor:$lse);
  let hasVerifier = 1;
}

def Stow_CrossEntropyRowsGradOp : Stow_InferredOp<"cross_entropy_rows_grad", [Stow_OfTraining, Stow_Full, Stow_Shares]> {
  let summary = "Gradient of cross_entropy_rows";
  let description = [{
    `dlogits = (exp(logits - lse) * sum(t w) - t w) * drow` with t and w of cross_entropy_rows, 0
    for ignored rows; it may overwrite the logits. C1 to C3 as there.
    ```mlir
    %d = stow.cross_entropy_rows_grad %logits, %t, %lse, %drow {ignore_index = -100 : i64}
        : (tensor<128x10xf32>, tensor<128xi64>, tensor<128xf32>, tensor<128xf32>)
        -> tensor<128x10xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$logits, Stow_IntTensor:$target, Stow_FloatTensor:$lse,
                       Stow_FloatTensor:$drow, Optional<Stow_FloatTensor>:$weight,
                       I64Attr:$ignore_index,
                       DefaultValuedOptionalAttr<F64Attr, "0.0">:$label_smoothing);
  let results = (outs Stow_FloatTensor:$dlogits);
  let hasVerifier = 1;
}

def Stow_NllRowsOp : Stow_InferredOp<"nll_rows", [Stow_Full, Stow_HasGradient]> {
  let summary = "Negative log-likelihood of each row's class";
  let description = [{
    `row_loss = -x[target]` per row of logarithms of probabilities `x` [R,C]; rows whose target is
    `ignore_index` get loss 0, other targets outside [0, C) NaN. C1: target has R elements.
    ```mlir
    %l = stow.nll_rows %x, %t {ignore_index = -100 : i64}
        : (tensor<128x10xf32>, tensor<128xi64>) -> tensor<128xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_IntTensor:$target, I64Attr:$ignore_index);
  let results = (outs Stow_FloatTensor:$row_loss);
  let hasVerifier = 1;
}

def Stow_NllRowsGradOp : Stow_InferredOp<"nll_rows_grad", [Stow_OfTraining, Stow_Full]> {
  let summary = "Gradient of nll_rows";
  let description = [{
    `dx[c] = -drow` where c is the row's target, else 0; ignored rows are 0. C1: target and drow
    have R elements; C2: `classes` is positive.
    ```mlir
    %d = stow.nll_rows_grad %t, %drow {classes = 10 : i64, ignore_index = -100 : i64}
        : (tensor<128xi64>, tensor<128xf32>) -> tensor<128x10xf32>
    ```
  }];
  let arguments = (ins Stow_IntTensor:$target, Stow_FloatTensor:$drow, I64Attr:$classes,
                       I64Attr:$ignore_index);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_ClassWeightsOp : Stow_InferredOp<"class_weights", [Stow_Full]> {
  let summary = "Weight of each row's class";
  let description = [{
    `y = weight[target]`, 0 for targets that are `ignore_index` or lie outside the weights [C]; what
    a weighted mean over rows divides by is their sum. C1: target and weight have rank 1.
    ```mlir
    %w = stow.class_weights %t, %weight {ignore_index = -100 : i64}
        : (tensor<128xi64>, tensor<10xf32>) -> tensor<128xf32>
    ```
  }];
  let arguments = (ins Stow_IntTensor:$target, Stow_FloatTensor:$weight, I64Attr:$ignore_index);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_CountValidOp : Stow_InferredOp<"count_valid", [Stow_Full]> {
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
