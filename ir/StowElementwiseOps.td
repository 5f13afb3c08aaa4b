// Elementwise ops with NumPy broadcasting. All of them fuse into stow.map.
#ifndef STOW_ELEMENTWISE_OPS_TD
#define STOW_ELEMENTWISE_OPS_TD

include "ir/StowBase.td"

class Stow_UnaryOp<string mnemonic, string formula, Type operand = Stow_FloatTensor,
                   list<Trait> traits = []>
    : Stow_ElementwiseOp<mnemonic, !listconcat(traits, [Stow_HasGradient])> {
  let summary = "Elementwise " # formula;
  let description = "`y = " # formula # "`, elementwise.\n\n```mlir\n%y = stow." # mnemonic #
                    " %x : (tensor<4x8xf32>) -> tensor<4x8xf32>\n```";
  let arguments = (ins operand:$x);
  let results = (outs operand:$y);
}

class Stow_BinaryOp<string mnemonic, string formula, Type operand = Stow_NumberTensor,
                    list<Trait> traits = []>
    : Stow_ElementwiseOp<mnemonic, !listconcat(traits, [Stow_HasGradient])> {
  let summary = "Elementwise " # formula;
  let description = "`y = " # formula # "` after NumPy broadcasting; C1: shapes broadcast, C2: one "
                    "element type.\n\n```mlir\n%y = stow." # mnemonic #
                    " %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>\n```";
  let arguments = (ins operand:$a, operand:$b);
  let results = (outs operand:$y);
}

def Stow_NegOp : Stow_UnaryOp<"neg", "-x", Stow_NumberTensor>;
def Stow_AbsOp : Stow_UnaryOp<"abs", "|x|", Stow_NumberTensor>;
def Stow_SignOp : Stow_UnaryOp<"sign", "sign(x), 0 at 0", Stow_NumberTensor>;
def Stow_ExpOp : Stow_UnaryOp<"exp", "exp(x)", Stow_FloatTensor, [Stow_Full]>;
def Stow_LogOp : Stow_UnaryOp<"log", "ln(x)", Stow_FloatTensor, [Stow_Full]>;
def Stow_SqrtOp : Stow_UnaryOp<"sqrt", "sqrt(x)">;
def Stow_ReciprocalOp : Stow_UnaryOp<"reciprocal", "1 / x", Stow_FloatTensor, [Stow_Full]>;
def Stow_SigmoidOp : Stow_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def Stow_TanhOp : Stow_UnaryOp<"tanh", "tanh(x)">;
def Stow_ErfOp : Stow_UnaryOp<"erf", "erf(x)">;
def Stow_SoftplusOp : Stow_UnaryOp<"softplus", "ln(1 + exp(x))", Stow_FloatTensor, [Stow_Full]>;
def Stow_SinOp : Stow_UnaryOp<"sin", "sin(x)">;
def Stow_CosOp : Stow_UnaryOp<"cos", "cos(x)">;
def Stow_AtanOp : Stow_UnaryOp<"atan", "arctan(x)">;
def Stow_HardSwishOp : Stow_UnaryOp<"hard_swish", "x * min(max(x / 6 + 1 / 2, 0), 1)">;

def Stow_AddOp : Stow_BinaryOp<"add", "a + b"> { let hasFolder = 1; }
def Stow_SubOp : Stow_BinaryOp<"sub", "a - b"> { let hasFolder = 1; }
def Stow_MulOp : Stow_BinaryOp<"mul", "a * b"> { let hasFolder = 1; }
// Quotients of integers are rounded towards zero; a quotient by 0 is 0.
def Stow_DivOp : Stow_BinaryOp<"div", "a / b"> { let hasFolder = 1; }
def Stow_MaximumOp : Stow_BinaryOp<"maximum", "max(a, b)">;
def Stow_MinimumOp : Stow_BinaryOp<"minimum", "min(a, b)">;
def Stow_PowOp : Stow_BinaryOp<"pow", "a to the power b", Stow_FloatTensor,
                               [Stow_Full]>;

def Stow_RoundOp : Stow_ElementwiseOp<"round", [Stow_HasGradient]> {
  let summary = "Round to a whole number";
  let description = [{
    To the nearest whole number (`even`: halves go to the even one), or the next one downwards
    (`floor`), upwards (`ceil`) or towards zero (`zero`). Its derivative is 0: nothing flows back.
    C1: `mode` is one of the four.
    ```mlir
    %y = stow.round %x {mode = "floor"} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, StrAttr:$mode);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_CompareOp : Stow_ElementwiseOp<"compare"> {
  let summary = "Compare two tensors, one byte per element";
  let description = [{
    The mask of `a predicate b` after NumPy broadcasting, where the predicate is eq, ne, lt, le, gt or
    ge. Integers are signed. A comparison with NaN is false, but for ne, which is true: `ne x, x` finds
    NaN. C1: shapes broadcast; C2: one element type; C3: a known predicate, eq or ne for masks.
    ```mlir
    %m = stow.compare %tokens, %pad {predicate = "ne"}
        : (tensor<2x8xi64>, tensor<i64>) -> tensor<2x8xi1>
    ```
  }];
  let arguments = (ins Stow_Tensor:$a, Stow_Tensor:$b, StrAttr:$predicate);
  let results = (outs Stow_MaskTensor:$mask);
  let hasVerifier = 1;
}

def Stow_ReluOp : Stow_ElementwiseOp<"relu", [Stow_HasSavedChoice]> {
  let summary = "Rectified linear unit";
  let description = [{
    `y = max(x, 0)`. The backward needs only the sign: it may save the output, a one-byte mask or
    the input.
    ```mlir
    %y = stow.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_PositiveMaskOp : Stow_ElementwiseOp<"positive_mask", [Stow_OfTraining]> {
  let summary = "Where x > 0, one byte per element";
  let description = [{
    ```mlir
    %m = stow.positive_mask %x : (tensor<4x8xf32>) -> tensor<4x8xi1>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x);
  let results = (outs Stow_MaskTensor:$mask);
}

def Stow_ReluGradOp : Stow_ElementwiseOp<"relu_grad", [Stow_OfTraining]> {
  let summary = "Gradient of relu";
  let description = [{
    `dx = dy` where `saved` is positive (a float tensor: relu's output or input) or set (a mask),
    else 0. C1: `saved` has dy's shape.
    ```mlir
    %dx = stow.relu_grad %dy, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_Tensor:$saved);
  let results = (outs Stow_FloatTensor:$dx);
  let hasVerifier = 1;
}

def Stow_LeakyReluOp : Stow_ElementwiseOp<"leaky_relu", [Stow_HasGradient]> {
  let summary = "Leaky rectified linear unit";
  let description = [{
    `y = x` where `x > 0`, else `alpha * x`.
    ```mlir
    %y = stow.leaky_relu %x {alpha = 0.01 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, F64Attr:$alpha);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_LeakyReluGradOp : Stow_ElementwiseOp<"leaky_relu_grad", [Stow_OfTraining]> {
  let summary = "Gradient of leaky_relu";
  let description = [{
    `dx = dy` where `x > 0`, else `alpha * dy`.
    ```mlir
    %dx = stow.leaky_relu_grad %dy, %x {alpha = 0.01 : f64}
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, F64Attr:$alpha);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_ThresholdedReluOp : Stow_ElementwiseOp<"thresholded_relu", [Stow_HasGradient]> {
  let summary = "Identity above a threshold";
  let description = [{
    `y = x` where `x > alpha`, else 0. The gradient is a range_grad.
    ```mlir
    %y = stow.thresholded_relu %x {alpha = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, F64Attr:$alpha);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_EluOp : Stow_ElementwiseOp<"elu", [Stow_HasGradient]> {
  let summary = "Exponential linear unit";
  let description = [{
    `y = x` where `x > 0`, else `alpha * (exp(x) - 1)`.
    ```mlir
    %y = stow.elu %x {alpha = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, F64Attr:$alpha);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_EluGradOp : Stow_ElementwiseOp<"elu_grad", [Stow_OfTraining]> {
  let summary = "Gradient of elu from its output";
  let description = [{
    `dx = dy` where `y > 0`, else `dy * (y + alpha)`.
    ```mlir
    %dx = stow.elu_grad %dy, %y {alpha = 1.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$y, F64Attr:$alpha);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_HardSigmoidOp : Stow_ElementwiseOp<"hard_sigmoid", [Stow_HasGradient]> {
  let summary = "Piecewise linear sigmoid";
  let description = [{
    `y = min(max(alpha * x + beta, 0), 1)`.
    ```mlir
    %y = stow.hard_sigmoid %x {alpha = 0.2 : f64, beta = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, F64Attr:$alpha, F64Attr:$beta);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_ClipOp : Stow_ElementwiseOp<"clip", [Stow_HasGradient]> {
  let summary = "Clamp to an interval";
  let description = [{
    `y = min(max(x, low), high)`; C1: low <= high.
    ```mlir
    %y = stow.clip %x {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, F64Attr:$low, F64Attr:$high);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_RangeGradOp : Stow_ElementwiseOp<"range_grad", [Stow_OfTraining]> {
  let summary = "Pass a gradient inside an interval";
  let description = [{
    `dx = dy * slope` where `low < x < high` (with `closed`: `low <= x <= high`), else 0: the
    gradient of clip (closed, as PyTorch's hardtanh-free clamp) and of hard_sigmoid (open).
    ```mlir
    %dx = stow.range_grad %dy, %x {low = 0.0 : f64, high = 6.0 : f64, slope = 1.0 : f64, closed = true}
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x, F64Attr:$low, F64Attr:$high,
                       F64Attr:$slope, BoolAttr:$closed);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_HardSwishGradOp : Stow_ElementwiseOp<"hard_swish_grad", [Stow_OfTraining]> {
  let summary = "Gradient of hard_swish";
  let description = [{
    `dx = 0` where `x <= -3`, `dy` where `x >= 3`, else `dy * (x / 3 + 1 / 2)`.
    ```mlir
    %dx = stow.hard_swish_grad %dy, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$x);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_SelectGradOp : Stow_ElementwiseOp<"select_grad", [Stow_OfTraining]> {
  let summary = "Gradient of maximum and minimum for one side";
  let description = [{
    `dx = dy` where `a > b`, `dy / 2` where `a == b`, else 0 (PyTorch's rule for ties). For minimum
    the operands are swapped.
    ```mlir
    %da = stow.select_grad %dy, %a, %b
        : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_FloatTensor:$a, Stow_FloatTensor:$b);
  let results = (outs Stow_FloatTensor:$dx);
}

def Stow_SelectOp : Stow_ElementwiseOp<"select", [Stow_HasGradient]> {
  let summary = "Choose between two tensors by a mask";
  let description = [{
    `y = a` where `condition` holds, else `b`, after NumPy broadcasting; each gradient is 0 where the
    other operand was chosen, so that a NaN or an infinity there does not spread. C1: shapes
    broadcast, C2: a and b have one element type.
    ```mlir
    %y = stow.select %mask, %a, %b
        : (tensor<8x8xi1>, tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
    ```
  }];
  let arguments = (ins Stow_MaskTensor:$condition, Stow_Tensor:$a, Stow_Tensor:$b);
  let results = (outs Stow_Tensor:$y);
}

def Stow_CastOp : Stow_Op<"cast", [Stow_IsElementwise, Stow_Shares, Stow_HasGradient]> {
  let summary = "Convert the element type";
  let description = [{
    Rounds to nearest even between floats; i8 has no sign, other integers have. C1: same shape.
    ```mlir
    %y = stow.cast %x : (tensor<4xf32>) -> tensor<4xbf16>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x);
  let results = (outs Stow_Tensor:$y);
  let hasVerifier = 1;
}

def Stow_DropoutOp : Stow_InferredOp<"dropout"> {
  let summary = "Dropout of the model form";
  let description = [{
    Marks where the training step drops elements with probability `ratio`. The training graph gets
    dropout_training instead, the evaluation graph the input itself.
    ```mlir
    %y = stow.dropout %x {ratio = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, F64Attr:$ratio);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_DropoutTrainingOp : Stow_ElementwiseOp<"dropout_training", [Stow_OfTraining, Stow_HasGradient]> {
  let summary = "Drop elements by a counter-based random number";
  let description = [{
    Element i, counted row-major whatever the layout, is kept and scaled by `1 / (1 - ratio)` when
    `w < floor((1 - ratio) * 2^32)`, compared as unsigned integers, else it becomes 0. `w` is the
    first output word of Philox4x32-10 (Salmon et al., SC 2011) with the counter words
    (lo32(i), hi32(i), lo32(stream), hi32(stream)) and the key words (lo32(seed), hi32(seed)).
    The same seed gives the same elements, so recomputing it, and its gradient (the same op on dy),
    are exact. `stream` tells the dropouts of a graph apart.
    ```mlir
    %y = stow.dropout_training %x, %seed {ratio = 0.5 : f64, stream = 3 : i64}
        : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_IntTensor:$seed, F64Attr:$ratio, I64Attr:$stream);
  let results = (outs Stow_FloatTensor:$y);
}

def Stow_RandomOp : Stow_Op<"random"> {
  let summary = "Random numbers of the model form";
  let description = [{
    A tensor of independent random numbers: `uniform` in [a, b), `normal` with mean a and standard
    deviation b, or `bernoulli`, 1 with probability a and else 0. `stream` tells the ops of a model
    apart. Both graphs get stow.draw instead; in the evaluation graph its seed is 0, and a bernoulli
    becomes its mean a, so that what it switches off in training is scaled as it is on average.
    C1: a known distribution; a uniform range is not empty, no deviation is negative, a probability
    lies in [0, 1].
    ```mlir
    %r = stow.random {distribution = "normal", a = 0.0 : f64, b = 1.0 : f64, stream = 0 : i64}
        : () -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins StrAttr:$distribution, F64Attr:$a, F64Attr:$b, I64Attr:$stream);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_DrawOp : Stow_Op<"draw", [Stow_IsElementwise]> {
  let summary = "Random numbers by counter";
  let description = [{
    Element i, counted row-major whatever the layout, is made of the first two output words of
    Philox4x32-10 with the counter and key of stow.dropout_training: the same seed gives the same
    elements, so that recomputing it is exact. `uniform`: `a + (b - a) * floor(w0 / 2^8) / 2^24`;
    `bernoulli`: `w0 < floor(a * 2^32)`, compared as unsigned integers; `normal`: `a + b * sqrt(-2 ln
    u) * cos(2 pi v)` with `u = (floor(w0 / 2^8) + 1) / 2^24`, `v = floor(w1 / 2^8) / 2^24` (Box and
    Muller 1958). C1 as for stow.random.
    ```mlir
    %r = stow.draw %seed {distribution = "uniform", a = 0.0 : f64, b = 1.0 : f64, stream = 3 : i64}
        : (tensor<i64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Stow_IntTensor:$seed, StrAttr:$distribution, F64Attr:$a, F64Attr:$b,
                       I64Attr:$stream);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

#endif // STOW_ELEMENTWISE_OPS_TD
