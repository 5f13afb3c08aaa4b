// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that attention prints and parses: alone, with a mask and a seed, with heads that share keys, within documents.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x6x5x4xf32>, %k: tensor<2x6x7x4xf32>, %v: tensor<2x6x7x3xf32>, %m: tensor<5x7xi1>, %s: tensor<i64>, %kv: tensor<2x2x7x4xf32>, %dq: tensor<2x1x5xi32>, %dk: tensor<7xi32>) {
  // CHECK: %[[Y:.*]], %[[L:.*]] = stow.attention %{{.*}}, %{{.*}}, %{{.*}} {diagonal = 2 : i64, ratio = 0.000000e+00 : f64, scale = 5.000000e-01 : f64, stream = 0 : i64, zero_rows = false} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>) -> (tensor<2x6x5x3xf32>, tensor<2x6x5x2xf32>)
  %y, %l = stow.attention %q, %k, %v {diagonal = 2 : i64, ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>) -> (tensor<2x6x5x3xf32>, tensor<2x6x5x2xf32>)
  // CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} seed %{{.*}} {ratio = 1.000000e-01 : f64
  %y1, %l1 = stow.attention %q, %k, %v mask %m seed %s {ratio = 0.1 : f64, scale = 0.5 : f64, stream = 3 : i64, zero_rows = true} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>, tensor<5x7xi1>, tensor<i64>) -> (tensor<2x6x5x3xf32>, tensor<2x6x5x2xf32>)
  // CHECK: stow.attention %{{.*}}, %{{.*}}, %{{.*}} seed %{{.*}} {
  %y2, %l2 = stow.attention %q, %kv, %kv seed %s {ratio = 0.1 : f64, scale = 0.5 : f64, stream = 3 : i64, zero_rows = true} : (tensor<2x6x5x4xf32>, tensor<2x2x7x4xf32>, tensor<2x2x7x4xf32>, tensor<i64>) -> (tensor<2x6x5x4xf32>, tensor<2x6x5x2xf32>)
  // CHECK: stow.attention_gradient %{{.*}}, %{{.*}}, %{{.*}}, %[[Y]], %[[L]], %[[Y]] mask %{{.*}} {
  // CHECK-SAME: -> (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>)
  %g0, %g1, %g2 = stow.attention_gradient %q, %k, %v, %y, %l, %y mask %m {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>, tensor<2x6x5x3xf32>, tensor<2x6x5x2xf32>, tensor<2x6x5x3xf32>, tensor<5x7xi1>) -> (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>)
  // CHECK: %[[Y3:.*]], %[[L3:.*]] = stow.attention %{{.*}}, %{{.*}}, %{{.*}} documents %[[OFQ:[^ ]*]], %[[OFK:[^ ]*]] {ratio
  %y3, %l3 = stow.attention %q, %k, %v documents %dq, %dk {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>, tensor<2x1x5xi32>, tensor<7xi32>) -> (tensor<2x6x5x3xf32>, tensor<2x6x5x2xf32>)
  // CHECK: stow.attention_gradient %{{.*}}, %{{.*}}, %{{.*}}, %[[Y3]], %[[L3]], %[[Y3]] mask %{{.*}} documents %[[OFQ]], %[[OFK]] seed %{{.*}} {
  %dq1, %dk1, %dv1 = stow.attention_gradient %q, %k, %v, %y3, %l3, %y3 mask %m documents %dq, %dk seed %s {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>, tensor<2x6x5x3xf32>, tensor<2x6x5x2xf32>, tensor<2x6x5x3xf32>, tensor<5x7xi1>, tensor<2x1x5xi32>, tensor<7xi32>, tensor<i64>) -> (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x3xf32>)
  return
}
