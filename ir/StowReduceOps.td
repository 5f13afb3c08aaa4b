// Reductions and softmax.
#ifndef STOW_REDUCE_OPS_TD
#define STOW_REDUCE_OPS_TD

include "ir/StowBase.td"

class Stow_ReduceOp<string mnemonic, string what, list<Trait> traits = []>
    : Stow_InferredOp<mnemonic, !listconcat(traits, [Stow_Reduces, Stow_Full, Stow_HasGradient])> {
  let summary = what # " over dimensions";
  let description = what # " over `axes` (sorted, distinct); with `keepdims` they stay with extent "
                    "1. C1: axes sorted, distinct, inside the rank.\n\n```mlir\n%y = stow." #
                    mnemonic # " %x {axes = array<i64: 2, 3>, keepdims = true} : "
                    "(tensor<8x64x7x7xf32>) -> tensor<8x64x1x1xf32>\n```";
  let arguments = (ins Stow_FloatTensor:$x, DenseI64ArrayAttr:$axes, BoolAttr:$keepdims);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_ReduceSumOp : Stow_ReduceOp<"reduce_sum", "Sum", [Stow_WalksApart]>;
def Stow_ReduceMeanOp : Stow_ReduceOp<"reduce_mean", "Mean", [Stow_WalksApart]>;
def Stow_ReduceMaxOp : Stow_ReduceOp<"reduce_max", "Maximum", [Stow_WalksApart]>;
def Stow_ReduceSumSquaresOp : Stow_ReduceOp<"reduce_sum_squares", "Sum of squares">;

class Stow_SoftmaxLikeOp<string mnemonic, string formula, list<Trait> traits>
    : Stow_InferredOp<mnemonic, !listconcat(traits, [Stow_Full, Stow_Shares])> {
  let summary = formula # " along one dimension";
  let description = "C1: axis inside the rank.\n\n```mlir\n%y = stow." # mnemonic #
                    " %x {axis = 1 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>\n```";
  let arguments = (ins Stow_FloatTensor:$x, I64Attr:$axis);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_SoftmaxOp : Stow_SoftmaxLikeOp<"softmax", "Softmax", [Stow_HasGradient]>;
def Stow_LogSoftmaxOp : Stow_SoftmaxLikeOp<"log_softmax", "Logarithm of softmax",
                                           [Stow_HasGradient]>;

class Stow_SoftmaxLikeGradOp<string mnemonic, string formula>
    : Stow_InferredOp<mnemonic, [Stow_OfTraining, Stow_Full, Stow_Shares]> {
  let summary = formula;
  let description = formula # " from its output `y`.\n\n```mlir\n%dx = stow." # mnemonic #
                    " %dy, %y {axis = 1 : i64} : (tensor<8x10xf32>, tensor<8x10xf32>) -> "
                    "tensor<8x10xf32>\n```";
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$y, I64Attr:$axis);
  let results = (outs Stow_FloatTensor:$dx);
  let hasVerifier = 1;
}

def Stow_SoftmaxGradOp : Stow_SoftmaxLikeGradOp<"softmax_grad", "Gradient of softmax">;
def Stow_LogSoftmaxGradOp : Stow_SoftmaxLikeGradOp<"log_softmax_grad", "Gradient of log_softmax">;

#endif // STOW_REDUCE_OPS_TD
