// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=rmsprop" | FileCheck %s --check-prefix=RMSPROP
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=rmsprop:momentum=0.9,centered,alpha=0.5" | FileCheck %s --check-prefix=CENTERED
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adagrad:initial-accumulator=0.25" | FileCheck %s --check-prefix=ADAGRAD
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=lion:weight-decay=0.1" | FileCheck %s --check-prefix=LION
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adam:amsgrad" | FileCheck %s --check-prefix=AMSGRAD
// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adafactor" | FileCheck %s --check-prefix=ADAFACTOR
// RUN: not stowage-opt %s --stow-attach-optimizer="optimizer=lion:momentum=0.9" 2>&1 | FileCheck %s --check-prefix=SETTING
// RUN: not stowage-opt %s --stow-attach-optimizer="optimizer=adafactor:threshold=0.5" 2>&1 | FileCheck %s --check-prefix=THRESHOLD

// SETTING: optimizer lion has no setting "momentum"; known are lr, beta1, beta2, weight-decay
// THRESHOLD: optimizer adafactor: threshold: expected a number of at least 1, found 0.5

// Tests the update and the state of each optimizer. Adafactor keeps rows and columns of a matrix, and
// a number per element of a vector; its update reads the new averages.
// RMSPROP: stow.name = "w.square_avg"
// RMSPROP-NOT: "w.momentum_buffer"
// RMSPROP: stow.rmsprop %{{.*}} {alpha = 0.98999999999999999 : f64, centered = false, epsilon = 1.000000e-08 : f64, momentum = 0.000000e+00 : f64, stow.phase = #stow.phase<update>, weight_decay = 0.000000e+00 : f64}
// CENTERED: "w.square_avg"{{.*}}"w.momentum_buffer"{{.*}}"w.grad_avg"
// CENTERED: stow.rmsprop %{{.*}} {alpha = 5.000000e-01 : f64, centered = true
// ADAGRAD: stow.init = #stow.init<"constant", 2.500000e-01, 0.000000e+00>, stow.kind = #stow.kind<optimizer>, stow.name = "w.sum"
// ADAGRAD: stow.adagrad %{{.*}} {epsilon = 1.000000e-10 : f64, lr_decay = 0.000000e+00 : f64
// LION-NOT: stow.kind = #stow.kind<step>
// LION: stow.lion %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = 0.98999999999999999 : f64, stow.phase = #stow.phase<update>, weight_decay = 1.000000e-01 : f64}
// AMSGRAD: "w.exp_avg"{{.*}}"w.exp_avg_sq"{{.*}}"w.max_exp_avg_sq"
// ADAFACTOR: tensor<4x1xf32> {stow.init = #stow.init<"constant", 0.000000e+00, 0.000000e+00>, stow.kind = #stow.kind<optimizer>, stow.name = "w.row_var"}
// ADAFACTOR-SAME: tensor<1x6xf32> {{.*}}stow.name = "w.col_var"
// ADAFACTOR-SAME: tensor<6xf32> {{.*}}stow.name = "b.variance"
// ADAFACTOR: %[[RR:.*]] = stow.reduce_sum_squares %{{.*}} {axes = array<i64: 1>, keepdims = true, stow.phase = #stow.phase<backward>}
// ADAFACTOR: %[[ROWS:.*]] = stow.moving_average {{.*}} {exponent = -8.000000e-01 : f64, stow.phase = #stow.phase<update>}
// ADAFACTOR: stow.reduce_sum_squares %{{.*}} {axes = array<i64: 0>, keepdims = true, stow.phase = #stow.phase<backward>}
// ADAFACTOR: %[[COLUMNS:.*]] = stow.moving_average
// ADAFACTOR: stow.reduce_mean %[[ROWS]] {axes = array<i64: 0>
// ADAFACTOR: stow.mul %{{.*}}, %[[COLUMNS]]
// ADAFACTOR: stow.adafactor %{{.*}} {epsilon = 1.000000e-03 : f64, stow.phase = #stow.phase<update>, threshold = 1.000000e+00 : f64, weight_decay = 0.000000e+00 : f64}
func.func @train(%w: tensor<4x6xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
    %b: tensor<6xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>})
    -> (tensor<f32> {stow.name = "loss"}, tensor<4x6xf32> {stow.name = "w.grad", stow.gradient_of = "w"},
        tensor<6xf32> {stow.name = "b.grad", stow.gradient_of = "b"}) attributes {stow.role = #stow.role<train>} {
  %p = stow.mul %w, %b {stow.phase = #stow.phase<backward>} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %q = stow.reduce_sum %p {axes = array<i64: 0>, keepdims = false, stow.phase = #stow.phase<backward>} : (tensor<4x6xf32>) -> tensor<6xf32>
  %l = stow.reduce_sum %w {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x6xf32>) -> tensor<f32>
  return %l, %p, %q : tensor<f32>, tensor<4x6xf32>, tensor<6xf32>
}
