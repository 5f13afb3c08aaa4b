// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that initial values, layouts and the words of functions, arguments and ops print and parse.
// CHECK-LABEL: func.func @attributes
// CHECK-SAME: tensor<4xf32> {stow.init = #stow.init<"constant", 0.000000e+00, 0.000000e+00>}
// CHECK-SAME: tensor<4xf32> {stow.init = #stow.init<"normal", -1.000000e+00, 2.000000e-01>}
// CHECK-SAME: tensor<4xf32> {stow.init = #stow.init<"uniform", -5.000000e-01, 5.000000e-01>}
// CHECK-SAME: tensor<8x64x2x2xf32, #stow.layout<"0,1,2,3;1:16">>
func.func @attributes(%a: tensor<4xf32> {stow.init = #stow.init<"constant", 0.0, 0.0>},
    %b: tensor<4xf32> {stow.init = #stow.init<"normal", -1.0, 0.2>},
    %c: tensor<4xf32> {stow.init = #stow.init<"uniform", -0.5, 0.5>},
    %d: tensor<8x64x2x2xf32, #stow.layout<"0,1,2,3;1:16">>) {
  return
}

// CHECK-LABEL: func.func @words
// CHECK-SAME: {stow.kind = #stow.kind<input>}
// CHECK-SAME: {stow.kind = #stow.kind<target>}
// CHECK-SAME: {stow.kind = #stow.kind<parameter>}
// CHECK-SAME: {stow.kind = #stow.kind<statistic>}
// CHECK-SAME: {stow.kind = #stow.kind<optimizer>}
// CHECK-SAME: {stow.kind = #stow.kind<learning_rate>}
// CHECK-SAME: {stow.kind = #stow.kind<step>}
// CHECK-SAME: {stow.kind = #stow.kind<seed>}
// CHECK-SAME: attributes {stow.role = #stow.role<train>}
// CHECK: stow.phase = #stow.phase<forward>
// CHECK: stow.phase = #stow.phase<backward>
// CHECK: stow.phase = #stow.phase<update>
func.func @words(%a0: tensor<f32> {stow.kind = #stow.kind<input>},
    %a1: tensor<f32> {stow.kind = #stow.kind<target>},
    %a2: tensor<f32> {stow.kind = #stow.kind<parameter>},
    %a3: tensor<f32> {stow.kind = #stow.kind<statistic>},
    %a4: tensor<f32> {stow.kind = #stow.kind<optimizer>},
    %a5: tensor<f32> {stow.kind = #stow.kind<learning_rate>},
    %a6: tensor<f32> {stow.kind = #stow.kind<step>},
    %a7: tensor<f32> {stow.kind = #stow.kind<seed>})
    attributes {stow.role = #stow.role<train>} {
  %0 = stow.neg %a0 {stow.phase = #stow.phase<forward>} : (tensor<f32>) -> tensor<f32>
  %1 = stow.neg %a0 {stow.phase = #stow.phase<backward>} : (tensor<f32>) -> tensor<f32>
  %2 = stow.neg %a0 {stow.phase = #stow.phase<update>} : (tensor<f32>) -> tensor<f32>
  return
}

// CHECK: func.func @model() attributes {stow.role = #stow.role<model>}
func.func @model() attributes {stow.role = #stow.role<model>} { return }

// CHECK: func.func @eval() attributes {stow.role = #stow.role<eval>}
func.func @eval() attributes {stow.role = #stow.role<eval>} { return }

// CHECK: func.func @accumulate() attributes {stow.role = #stow.role<accumulate>}
func.func @accumulate() attributes {stow.role = #stow.role<accumulate>} { return }

// CHECK: func.func @commit() attributes {stow.role = #stow.role<commit>}
func.func @commit() attributes {stow.role = #stow.role<commit>} { return }

// CHECK: func.func @measure() attributes {stow.role = #stow.role<measure>}
func.func @measure() attributes {stow.role = #stow.role<measure>} { return }
