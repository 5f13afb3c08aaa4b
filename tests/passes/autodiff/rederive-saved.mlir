// RUN: stowage-opt %s --stow-rederive-saved --split-input-file | FileCheck %s

// Tests values one operation away from a saved one: 1 + t is computed again from t, which the backward
// reads later, and so is x * x; the value with two sources, t * u, stays saved.
// CHECK-LABEL: func.func @train
// CHECK: %[[X:.*]] = stow.exp
// CHECK: %[[T:.*]] = stow.tanh
// CHECK: %[[TU:.*]] = stow.mul %[[T]], %[[X]]
// CHECK: %[[G:.*]] = stow.add %[[T]], %{{.*}} {stow.phase = "backward"}
// CHECK-NEXT: %[[D0:.*]] = stow.mul %[[G]], %[[TU]] {stow.phase = "backward"}
// CHECK-NEXT: %[[H:.*]] = stow.add %[[T]], %{{.*}} {stow.phase = "backward"}
// CHECK-NEXT: %[[D1:.*]] = stow.mul %[[D0]], %[[H]] {stow.phase = "backward"}
// CHECK-NEXT: %[[D2:.*]] = stow.mul %[[D1]], %[[TU]] {stow.phase = "backward"}
// CHECK-NEXT: %[[D3:.*]] = stow.mul %[[D2]], %[[T]] {stow.phase = "backward"}
// CHECK-NEXT: %[[S:.*]] = stow.mul %[[X]], %[[X]] {stow.phase = "backward"}
// CHECK-NEXT: %[[D4:.*]] = stow.mul %[[D3]], %[[S]] {stow.phase = "backward"}
// CHECK-NEXT: stow.mul %[[D4]], %[[X]] {stow.phase = "backward"}
func.func @train(%a: tensor<4xf32>) -> tensor<4xf32> {
  %one = stow.constant dense<1.0> : tensor<f32>
  %x = stow.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  %s = stow.mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = stow.tanh %s : (tensor<4xf32>) -> tensor<4xf32>
  %tu = stow.mul %t, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = stow.add %t, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %d0 = stow.mul %g, %tu {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d1 = stow.mul %d0, %g {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d2 = stow.mul %d1, %tu {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d3 = stow.mul %d2, %t {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d4 = stow.mul %d3, %s {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d5 = stow.mul %d4, %x {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %d5 : tensor<4xf32>
}

// -----

// Tests that a source that would have to live longer changes nothing, nor one of fewer elements, nor
// a value that only the forward reads.
// CHECK-LABEL: func.func @train
// CHECK: %[[G:.*]] = stow.add
// CHECK: %[[B:.*]] = stow.add
// CHECK-NOT: stow.add
func.func @train(%t: tensor<4xf32>, %r: tensor<1xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %one = stow.constant dense<1.0> : tensor<4xf32>
  %g = stow.add %t, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = stow.add %r, %one : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = stow.neg %z : (tensor<4xf32>) -> tensor<4xf32>
  %d1 = stow.mul %f, %t {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d2 = stow.mul %d1, %g {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d3 = stow.mul %d2, %b {stow.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d4 = stow.mul %d3, %r {stow.phase = "backward"} : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %d4 : tensor<4xf32>
}
