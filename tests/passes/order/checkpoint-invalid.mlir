// RUN: not stowage-opt %s --stow-checkpoint=mode=cube 2>&1 | FileCheck %s

// Tests that a mode that is none is refused with the known ones.
// CHECK: error: unknown checkpoint mode "cube"; expected none or sqrt
module {
  func.func @train() attributes {stow.role = #stow.role<train>} {
    return
  }
}
