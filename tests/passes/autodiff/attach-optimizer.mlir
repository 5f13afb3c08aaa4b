// RUN: stowage-opt %s --stow-attach-optimizer --split-input-file | FileCheck %s
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=sgd:momentum=0.9,nesterov,weight-decay=0.01" --split-input-file | FileCheck %s --check-prefix=MOMENTUM
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adamw:weight-decay=0.05,beta1=0.8,beta2=0.99,epsilon=1e-6" --split-input-file | FileCheck %s --check-prefix=ADAMW
// RUN: not stowage-opt %s --stow-attach-optimizer="optimizer=sgd:nesterov" 2>&1 | FileCheck %s --check-prefix=NESTEROV
// RUN: not stowage-opt %s --stow-attach-optimizer="optimizer=hessian" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not stowage-opt %s --stow-attach-optimizer="optimizer=adam:beta1=1.0" 2>&1 | FileCheck %s --check-prefix=BETA

// NESTEROV: nesterov needs a momentum above 0
// UNKNOWN: unknown optimizer "hessian"; known are sgd, adam, adamw, rmsprop, adagrad, lion, adafactor
// BETA: optimizer adam: beta1: expected a number in [0, 1), found 1

// Tests that the update stands after the gradient (the product) and after the last reader of the
// weight, which reads it through a view, but before unrelated later ops; state follows.
// CHECK: module attributes {stow.form = "step"}
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w"}
// CHECK-SAME: %[[LR:[a-z0-9]+]]: tensor<f32> {stow.kind = #stow.kind<learning_rate>, stow.name = "learning_rate"}
// CHECK-SAME: -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "w"})
// CHECK: %[[DW:.*]] = stow.mul %[[X]], %[[X]]
// CHECK: %[[V:.*]] = stow.reshape %[[W]]
// CHECK-NEXT: %[[L:.*]] = stow.reduce_sum %[[V]]
// CHECK-NEXT: %[[NEW:.*]] = stow.sgd %[[W]], %[[DW]], %[[LR]] {momentum = 0.000000e+00 : f64, nesterov = false, stow.phase = #stow.phase<update>, weight_decay = 0.000000e+00 : f64}
// CHECK-NEXT: %[[LATE:.*]] = stow.add
// CHECK-NEXT: return %[[LATE]], %[[NEW]]
// MOMENTUM: %[[M:[a-z0-9]+]]: tensor<4xf32> {stow.init = #stow.init<"constant", 0.000000e+00, 0.000000e+00>, stow.kind = #stow.kind<optimizer>, stow.name = "w.momentum"}
// MOMENTUM-SAME: tensor<4xf32> {stow.state = "w"}, tensor<4xf32> {stow.state = "w.momentum"})
// MOMENTUM: stow.sgd %{{.*}}, %{{.*}}, %{{.*}}, %[[M]] {momentum = 9.000000e-01 : f64, nesterov = true, stow.phase = #stow.phase<update>, weight_decay = 1.000000e-02 : f64}
// ADAMW: %[[STEP:[a-z0-9]+]]: tensor<i64> {stow.kind = #stow.kind<step>, stow.name = "step"}
// ADAMW-SAME: stow.name = "w.exp_avg"}
// ADAMW-SAME: stow.name = "w.exp_avg_sq"}
// ADAMW-SAME: {stow.state = "w"}, tensor<4xf32> {stow.state = "w.exp_avg"}, tensor<4xf32> {stow.state = "w.exp_avg_sq"})
// ADAMW: stow.adam %{{.*}}, %{{.*}}, %{{.*}}, %[[STEP]], %{{.*}}, %{{.*}} {beta1 = 8.000000e-01 : f64, beta2 = 0.98999999999999999 : f64, decoupled = true, epsilon = 9.9999999999999995E-7 : f64, stow.phase = #stow.phase<update>, weight_decay = 5.000000e-02 : f64}
module {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.name = "w.grad", stow.gradient_of = "w"}) attributes {stow.role = #stow.role<train>} {
    %g = stow.mul %x, %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %v = stow.reshape %w : (tensor<4xf32>) -> tensor<2x2xf32>
    %l = stow.reduce_sum %v {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x2xf32>) -> tensor<f32>
    %late = stow.add %l, %l : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %late, %g : tensor<f32>, tensor<4xf32>
  }
}
