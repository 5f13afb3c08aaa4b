// RUN: stowage-opt %s --stow-attach-loss="loss=cross-entropy:label-smoothing=0.1,weight=[1,2,0.5,4]" | FileCheck %s --check-prefix=CLASSES
// RUN: stowage-opt %s --stow-attach-loss="loss=cross-entropy:probabilities" | FileCheck %s --check-prefix=SHARES
// RUN: stowage-opt %s --stow-attach-loss="loss=nll:weight=[1,2,0.5,4],reduction=sum" | FileCheck %s --check-prefix=NLL
// RUN: stowage-opt %s --stow-attach-loss="loss=bce-with-logits:pos-weight=[3]" | FileCheck %s --check-prefix=BCE
// RUN: stowage-opt %s --stow-attach-loss="loss=kl-div:reduction=batchmean" | FileCheck %s --check-prefix=KL
// RUN: stowage-opt %s --stow-attach-loss="loss=kl-div:log-target" | FileCheck %s --check-prefix=KLLOG
// RUN: stowage-opt %s --stow-attach-loss="loss=l1" | FileCheck %s --check-prefix=L1
// RUN: stowage-opt %s --stow-attach-loss="loss=smooth-l1:beta=0.5" | FileCheck %s --check-prefix=SMOOTH
// RUN: stowage-opt %s --stow-attach-loss="loss=huber:delta=0.5" | FileCheck %s --check-prefix=HUBER
// RUN: stowage-opt %s --stow-attach-loss="loss=output:y,reduction=sum" | FileCheck %s --check-prefix=OWN

// Tests the ops and arguments of each loss. Class weights become a constant of the state that is not
// saved, and the mean divides by the weight of the targets.
// CLASSES: %[[W:[a-z0-9]+]]: tensor<4xf32> {stow.init = dense<[1.000000e+00, 2.000000e+00, 5.000000e-01, 4.000000e+00]> : tensor<4xf32>, stow.kind = #stow.kind<statistic>, stow.name = "loss.weight", stow.unsaved}
// CLASSES-SAME: %[[T:[a-z0-9]+]]: tensor<8xi64> {stow.kind = #stow.kind<target>, stow.name = "target"}
// CLASSES: %[[L:.*]], %{{.*}} = stow.cross_entropy_rows %{{.*}}, %[[T]], %[[W]] {ignore_index = -100 : i64, label_smoothing = 1.000000e-01 : f64}
// CLASSES: %[[S:.*]] = stow.reduce_sum %[[L]]
// CLASSES: %[[R:.*]] = stow.class_weights %[[T]], %[[W]] {ignore_index = -100 : i64}
// CLASSES: %[[N:.*]] = stow.reduce_sum %[[R]]
// CLASSES: stow.div %[[S]], %[[N]]
// SHARES: tensor<8x4xf32> {stow.kind = #stow.kind<target>, stow.name = "target"}
// SHARES: stow.log_softmax
// SHARES: stow.reduce_mean %{{.*}} {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
// NLL: %[[L:.*]] = stow.nll_rows
// NLL: %[[R:.*]] = stow.class_weights
// NLL: stow.mul %[[L]], %[[R]]
// NLL-NOT: stow.div
// BCE: tensor<8x4xf32> {stow.kind = #stow.kind<target>, stow.name = "target"}
// BCE-NOT: stow.unsaved
// BCE: stow.softplus
// BCE: stow.reduce_mean %{{.*}} {axes = array<i64: 0, 1>, keepdims = false}
// KL: stow.log
// KL: %[[S:.*]] = stow.reduce_sum
// KL: %[[E:.*]] = stow.constant dense<1.250000e-01>
// KL: stow.mul %[[S]], %[[E]]
// KLLOG: stow.exp
// KLLOG: stow.reduce_mean
// L1: stow.abs
// L1: stow.reduce_mean
// SMOOTH: stow.clip %{{.*}} {high = 5.000000e-01 : f64, low = -5.000000e-01 : f64}
// SMOOTH: dense<2.000000e+00>
// SMOOTH: stow.reduce_mean
// HUBER: stow.clip %{{.*}} {high = 5.000000e-01 : f64, low = -5.000000e-01 : f64}
// HUBER-NOT: dense<2.000000e+00>
// HUBER: stow.reduce_mean
// OWN-NOT: "target"
// OWN: stow.reduce_sum %{{.*}} {axes = array<i64: 0, 1>, keepdims = false} : (tensor<8x4xf32>) -> tensor<f32>
func.func @train(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<8x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  %y = stow.neg %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
