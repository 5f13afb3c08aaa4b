// Elementwise functions that few models call and the standard's operators only approximate.
#ifndef STOW_FUNCTION_OPS_TD
#define STOW_FUNCTION_OPS_TD

include "ir/StowBase.td"

class Stow_FunctionOp<string mnemonic, list<Trait> traits = []>
    : Stow_InferredOp<mnemonic,
                      !listconcat(traits, [Stow_IsElementwise, Stow_Shares, Stow_HasGradient])> {
}

class Stow_FunctionOf1Op<string mnemonic, string formula>
    : Stow_FunctionOp<mnemonic, [Stow_Full]> {
  let summary = "Elementwise " # formula;
  let description = "`y = " # formula # "`, elementwise; near 0 without what the sum loses.\n\n"
                    "```mlir\n%y = stow." # mnemonic #
                    " %x : (tensor<4x8xf32>) -> tensor<4x8xf32>\n```";
  let arguments = (ins Stow_FloatTensor:$x);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_Expm1Op : Stow_FunctionOf1Op<"expm1", "exp(x) - 1">;
def Stow_Log1pOp : Stow_FunctionOf1Op<"log1p", "ln(1 + x)">;

def Stow_HardTanhOp : Stow_FunctionOp<"hard_tanh"> {
  let summary = "Clamp to an interval, whose bounds pass no gradient";
  let description = [{
    `y = min(max(x, low), high)`, as stow.clip, but the gradient passes between the bounds alone, as through
    PyTorch's hardtanh and relu6. C1: low <= high.
    ```mlir
    %y = stow.hard_tanh %x {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, F64Attr:$low, F64Attr:$high);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_Atan2Op : Stow_FunctionOp<"atan2"> {
  let summary = "Angle of a point in the plane";
  let description = [{
    The angle from the positive x axis to the point (b, a), in [-pi, pi], after NumPy broadcasting: the
    arctangent of `a / b` in the point's quadrant, with the sign of a where that is 0. C1: shapes broadcast,
    C2: one element type.
    ```mlir
    %y = stow.atan2 %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$a, Stow_FloatTensor:$b);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_BinaryCrossEntropyOp : Stow_FunctionOp<"binary_cross_entropy", [Stow_Full]> {
  let summary = "Cross-entropy of a probability against a target in [0, 1]";
  let description = [{
    `y = -(t max(ln p, -100) + (1 - t) max(ln(1 - p), -100))` after NumPy broadcasting, as
    torch.nn.functional.binary_cross_entropy: finite for every p in [0, 1]. The gradient by p is
    `(p - t) / max(p (1 - p), 1e-12)`. C1: shapes broadcast, C2: one element type.
    ```mlir
    %y = stow.binary_cross_entropy %p, %t
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$p, Stow_FloatTensor:$t);
  let results = (outs Stow_FloatTensor:$y);
}

#endif // STOW_FUNCTION_OPS_TD
