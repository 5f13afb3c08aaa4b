// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that initial values and layouts print and parse.
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
