// Optimizer updates with PyTorch's semantics. New state overwrites the old in place.
#ifndef STOW_OPTIMIZER_OPS_TD
#define STOW_OPTIMIZER_OPS_TD

include "ir/StowBase.td"

class Stow_UpdateOp<string mnemonic>
    : Stow_Op<mnemonic, [Stow_UpdatesState, Stow_OfTraining, Stow_Full, Stow_IsElementwise, Stow_Shares, Stow_NotRecomputable]> {
}

// Of the parameter's group: its learning rate is `learning_rate * lr_scale`.
defvar Stow_RateScale = DefaultValuedOptionalAttr<F64Attr, "1.0">;

// With it a step may be skipped: a learning rate of NaN, for moving_average a step of 0, leaves parameter
// and state as they are, bit for bit. Loss scaling skips steps whose gradients are not finite.
defvar Stow_Skippable = UnitAttr;

def Stow_SgdOp : Stow_UpdateOp<"sgd"> {
  let summary = "Stochastic gradient descent";
  let description = [{
    `g = grad + weight_decay * p; m = momentum * m + g; p = p - lr * (nesterov ? g + momentum * m : m)`
    (torch.optim.SGD, dampening 0); without a momentum operand `p = p - lr * g`. lr is `learning_rate
    * lr_scale` in all updates. C1: momentum operand and result go together; C2: all tensors have p's
    shape; C3: nesterov needs momentum.
    ```mlir
    %p1, %m1 = stow.sgd %p, %g, %lr, %m {momentum = 0.9 : f64, weight_decay = 0.0 : f64,
        nesterov = false} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>)
        -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$parameter, Stow_FloatTensor:$gradient,
                       Stow_FloatTensor:$learning_rate, Optional<Stow_FloatTensor>:$velocity,
                       F64Attr:$momentum, F64Attr:$weight_decay, BoolAttr:$nesterov,
                       Stow_RateScale:$lr_scale,
                       Stow_Skippable:$skippable);
  let results = (outs Stow_FloatTensor:$new_parameter, Optional<Stow_FloatTensor>:$new_velocity);
  let hasVerifier = 1;
}

def Stow_AdamOp : Stow_UpdateOp<"adam"> {
  let summary = "Adam and AdamW";
  let description = [{
    torch.optim.Adam, or AdamW with `decoupled`: `m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g; p = p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) +
    epsilon)`; weight decay is added to g, or with `decoupled` `p = p * (1 - lr * weight_decay)`
    first. `step` is t, counted from 1. With a `largest_moment` (amsgrad) the root is of the largest
    v so far. C1: all tensors have p's shape; C2: its operand and result go together.
    ```mlir
    %p1, %m1, %v1 = stow.adam %p, %g, %lr, %t, %m, %v {beta1 = 0.9 : f64, beta2 = 0.999 : f64,
        epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64, decoupled = true}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>)
        -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$parameter, Stow_FloatTensor:$gradient,
                       Stow_FloatTensor:$learning_rate, Stow_IntTensor:$step,
                       Stow_FloatTensor:$first_moment, Stow_FloatTensor:$second_moment,
                       Optional<Stow_FloatTensor>:$largest_moment,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon, F64Attr:$weight_decay,
                       BoolAttr:$decoupled, Stow_RateScale:$lr_scale,
                       Stow_Skippable:$skippable);
  let results = (outs Stow_FloatTensor:$new_parameter, Stow_FloatTensor:$new_first_moment,
                      Stow_FloatTensor:$new_second_moment,
                      Optional<Stow_FloatTensor>:$new_largest_moment);
  let hasVerifier = 1;
}

def Stow_RmspropOp : Stow_UpdateOp<"rmsprop"> {
  let summary = "RMSprop";
  let description = [{
    torch.optim.RMSprop: `g = grad + weight_decay * p; v = alpha * v + (1 - alpha) * g * g;
    d = sqrt(v) + epsilon`, or with `centered` `a = a + (1 - alpha) * (g - a); d = sqrt(v - a * a) +
    epsilon`; `p = p - lr * g / d`, or with a momentum above 0 `m = momentum * m + g / d; p = p - lr *
    m`. `state` is v, then m with a momentum, then a with `centered`. C1: as many states as that,
    operands and results; C2: all tensors have p's shape.
    ```mlir
    %p1, %v1 = stow.rmsprop %p, %g, %lr, %v {alpha = 0.99 : f64, centered = false,
        epsilon = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>)
        -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$parameter, Stow_FloatTensor:$gradient,
                       Stow_FloatTensor:$learning_rate, Variadic<Stow_FloatTensor>:$state,
                       F64Attr:$alpha, F64Attr:$momentum, F64Attr:$epsilon, F64Attr:$weight_decay,
                       BoolAttr:$centered, Stow_RateScale:$lr_scale,
                       Stow_Skippable:$skippable);
  let results = (outs Stow_FloatTensor:$new_parameter, Variadic<Stow_FloatTensor>:$new_state);
  let hasVerifier = 1;
}

def Stow_AdagradOp : Stow_UpdateOp<"adagrad"> {
  let summary = "Adagrad";
  let description = [{
    torch.optim.Adagrad: `g = grad + weight_decay * p; s = s + g * g; p = p - lr / (1 + (t - 1) *
    lr_decay) * g / (sqrt(s) + epsilon)`. `step` is t, counted from 1. C1: all tensors have p's shape.
    ```mlir
    %p1, %s1 = stow.adagrad %p, %g, %lr, %t, %s {epsilon = 1.0e-10 : f64, lr_decay = 0.0 : f64,
        weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>,
        tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$parameter, Stow_FloatTensor:$gradient,
                       Stow_FloatTensor:$learning_rate, Stow_IntTensor:$step,
                       Stow_FloatTensor:$sum, F64Attr:$lr_decay, F64Attr:$epsilon,
                       F64Attr:$weight_decay, Stow_RateScale:$lr_scale,
                       Stow_Skippable:$skippable);
  let results = (outs Stow_FloatTensor:$new_parameter, Stow_FloatTensor:$new_sum);
  let hasVerifier = 1;
}

def Stow_LionOp : Stow_UpdateOp<"lion"> {
  let summary = "Lion: the sign of a momentum";
  let description = [{
    Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, as its authors' code:
    `p = p * (1 - lr * weight_decay); p = p - lr * sign(beta1 * m + (1 - beta1) * grad);
    m = beta2 * m + (1 - beta2) * grad`. C1: all tensors have p's shape.
    ```mlir
    %p1, %m1 = stow.lion %p, %g, %lr, %m {beta1 = 0.9 : f64, beta2 = 0.99 : f64,
        weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>)
        -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$parameter, Stow_FloatTensor:$gradient,
                       Stow_FloatTensor:$learning_rate, Stow_FloatTensor:$velocity, F64Attr:$beta1,
                       F64Attr:$beta2, F64Attr:$weight_decay, Stow_RateScale:$lr_scale,
                       Stow_Skippable:$skippable);
  let results = (outs Stow_FloatTensor:$new_parameter, Stow_FloatTensor:$new_velocity);
  let hasVerifier = 1;
}

def Stow_MovingAverageOp : Stow_UpdateOp<"moving_average"> {
  let summary = "Moving average whose weight falls with the step";
  let description = [{
    `average = average + (x - average) * t^exponent`: the second moments of torch.optim.Adafactor.
    `step` is t, counted from 1, so that the first value replaces the initial one. C1: average and x
    have one type; C2: exponent <= 0.
    ```mlir
    %v1 = stow.moving_average %v, %x, %t {exponent = -0.8 : f64}
        : (tensor<4x1xf32>, tensor<4x1xf32>, tensor<i64>) -> tensor<4x1xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$average, Stow_FloatTensor:$x, Stow_IntTensor:$step,
                       F64Attr:$exponent, Stow_Skippable:$skippable);
  let results = (outs Stow_FloatTensor:$new_average);
  let hasVerifier = 1;
}

def Stow_AdafactorOp : Stow_UpdateOp<"adafactor"> {
  let summary = "Last part of Adafactor: a step as long as the parameter and the update allow";
  let description = [{
    The end of torch.optim.Adafactor. `update` is the gradient over the root of its second moment's
    estimate; rms(x) is `sqrt(sum(x * x) / n)`, n the number of elements, from the sums of squares of
    parameter and update: `p = p * (1 - lr * weight_decay) - min(lr, 1 / sqrt(t)) * max(epsilon,
    rms(p)) * update / max(1, rms(update) / threshold)`. `step` is t, counted from 1. C1: all tensors
    have p's shape; C2: sums of squares are scalars.
    ```mlir
    %p1 = stow.adafactor %p, %u, %lr, %t, %pp, %uu {epsilon = 1.0e-3 : f64, threshold = 1.0 : f64,
        weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>,
        tensor<f32>, tensor<f32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$parameter, Stow_FloatTensor:$update,
                       Stow_FloatTensor:$learning_rate, Stow_IntTensor:$step,
                       Stow_FloatTensor:$parameter_squares, Stow_FloatTensor:$update_squares,
                       F64Attr:$epsilon, F64Attr:$threshold, F64Attr:$weight_decay,
                       Stow_RateScale:$lr_scale,
                       Stow_Skippable:$skippable);
  let results = (outs Stow_FloatTensor:$new_parameter);
  let hasVerifier = 1;
}

#endif // STOW_OPTIMIZER_OPS_TD
