// Optimizer updates with PyTorch's semantics. New state overwrites the old in place.
#ifndef STOW_OPTIMIZER_OPS_TD
#define STOW_OPTIMIZER_OPS_TD

include "ir/StowBase.td"

class Stow_UpdateOp<string mnemonic>
    : Stow_Op<mnemonic, [Stow_IsElementwise, Stow_UpdatesState, Stow_NotRecomputable]> {
}

def Stow_SgdOp : Stow_UpdateOp<"sgd"> {
  let summary = "Stochastic gradient descent";
  let description = [{
    `g = grad + weight_decay * p; m = momentum * m + g; p = p - lr * (nesterov ? g + momentum * m : m)`
    (torch.optim.SGD, dampening 0); without a momentum operand `p = p - lr * g`. C1: momentum operand
    and result go together; C2: all tensors have p's shape; C3: nesterov needs momentum.
    ```mlir
    %p1, %m1 = stow.sgd %p, %g, %lr, %m {momentum = 0.9 : f64, weight_decay = 0.0 : f64,
        nesterov = false} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>)
        -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$parameter, Stow_FloatTensor:$gradient,
                       Stow_FloatTensor:$learning_rate, Optional<Stow_FloatTensor>:$velocity,
                       F64Attr:$momentum, F64Attr:$weight_decay, BoolAttr:$nesterov);
  let results = (outs Stow_FloatTensor:$new_parameter, Optional<Stow_FloatTensor>:$new_velocity);
  let hasVerifier = 1;
}

def Stow_AdamOp : Stow_UpdateOp<"adam"> {
  let summary = "Adam and AdamW";
  let description = [{
    torch.optim.Adam, or AdamW with `decoupled`: `m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g; p = p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) +
    epsilon)`; weight decay is added to g, or with `decoupled` `p = p * (1 - lr * weight_decay)`
    first. `step` is t, counted from 1. C1: all tensors have p's shape.
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
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon, F64Attr:$weight_decay,
                       BoolAttr:$decoupled);
  let results = (outs Stow_FloatTensor:$new_parameter, Stow_FloatTensor:$new_first_moment,
                      Stow_FloatTensor:$new_second_moment);
  let hasVerifier = 1;
}

#endif // STOW_OPTIMIZER_OPS_TD
