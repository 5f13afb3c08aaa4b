// RUN: not stowage-opt %s --stow-bind-state --stow-schedule=budget=128 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not stowage-opt %s --stow-schedule=budget=1024 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not stowage-opt %s --stow-bind-state --stow-schedule=budget=-5 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not stowage-opt %s --stow-bind-state "--stow-schedule=budget=1024 bytes-per-second=0" 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not stowage-opt %s --stow-bind-state --stow-schedule=checkpoint=cube 2>&1 | FileCheck %s --check-prefix=MODE

// Tests that a budget below every order is refused with the smallest peak: two values and what they
// were added to, 3 * 64 bytes, the sum lying on an operand.
// SMALL: error: no order within 128 bytes found; the smallest peak found is 192 bytes, none is below 192
// FORM: error: expects stow.form = "ordered"; run stow-bind-state first
// MODE: error: unknown checkpoint mode "cube"; expected none or sqrt
// BUDGET: error: expects a budget and device figures above zero
module {
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = stow.softmax_grad %a, %b {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d = stow.softmax_grad %c, %x {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %d : tensor<4x4xf32>
  }
}
