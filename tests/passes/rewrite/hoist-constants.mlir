// RUN: stowage-opt %s --stow-hoist-constants --split-input-file | FileCheck %s

// Tests that a constant with different elements becomes a statistic that holds them and is no part
// of a saved model, numbered by itself: its 8 bytes get a place in the arena.
// CHECK-LABEL: func.func @model
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2xf32> {stow.init = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>, stow.kind = #stow.kind<statistic>, stow.name = "constant_0", stow.unsaved}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<2xf32> {stow.init = dense<[3.000000e+00, 4.000000e+00]> : tensor<2xf32>, stow.kind = #stow.kind<statistic>, stow.name = "constant_1", stow.unsaved}
// CHECK-NOT: stow.constant
// CHECK: %[[S:.*]] = stow.add %[[X]], %[[A]]
// CHECK-NEXT: stow.mul %[[S]], %[[B]]
func.func @model(%x: tensor<2xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<2xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
  %a = stow.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = stow.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %s = stow.add %x, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = stow.mul %s, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// Tests that a splat read by elementwise ops only stays: kernels hold it as an immediate.
// CHECK-LABEL: func.func @model
// CHECK-SAME: (%{{[a-z0-9]+}}: tensor<2xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}) ->
// CHECK: stow.constant dense<5.000000e-01> : tensor<f32>
func.func @model(%x: tensor<2xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<2xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
  %c = stow.constant dense<0.5> : tensor<f32>
  %y = stow.mul %x, %c : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %z = stow.add %y, %c : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %z : tensor<2xf32>
}

// -----

// Tests that a splat becomes state as soon as one reader is a library call or the caller.
// CHECK-LABEL: func.func @model
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x2xf32> {stow.init = dense<1.000000e+00> : tensor<2x2xf32>, stow.kind = #stow.kind<statistic>, stow.name = "constant_0", stow.unsaved}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<2xf32> {stow.init = dense<7.000000e+00> : tensor<2xf32>
// CHECK: %[[Y:.*]] = stow.matmul %{{.*}}, %[[A]]
// CHECK-NEXT: stow.add %[[Y]], %[[A]]
// CHECK: return %{{.*}}, %[[B]]
func.func @model(%x: tensor<2x2xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<2x2xf32> {stow.name = "y"}, tensor<2xf32> {stow.name = "z"}) attributes {stow.role = #stow.role<model>} {
  %a = stow.constant dense<1.0> : tensor<2x2xf32>
  %b = stow.constant dense<7.0> : tensor<2xf32>
  %y = stow.matmul %x, %a {transpose_a = false, transpose_b = false} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = stow.add %y, %a : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %s, %b : tensor<2x2xf32>, tensor<2xf32>
}

// -----

// Tests that whole numbers of a weight that arrived quantized are a frozen parameter of its name, and another reader's a copy without.
// CHECK-LABEL: func.func @model
// CHECK-SAME: {stow.init = dense<1> : tensor<2xi8>, stow.kind = #stow.kind<frozen>, stow.name = "w", stow.unsaved}
// CHECK-SAME: {stow.init = dense<2> : tensor<2xi8>, stow.kind = #stow.kind<frozen>, stow.name = "constant_0", stow.unsaved}
// CHECK-NOT: stow.constant
func.func @model(%x: tensor<2xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<2xi8> {stow.name = "y"}, tensor<2xi8> {stow.name = "z"}) attributes {stow.role = #stow.role<model>} {
  %a = stow.constant {stow.name = "w"} dense<1> : tensor<2xi8>
  %b = stow.constant {stow.name = "w"} dense<2> : tensor<2xi8>
  return %a, %b : tensor<2xi8>, tensor<2xi8>
}
