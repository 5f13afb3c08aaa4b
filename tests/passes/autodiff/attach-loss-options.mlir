// RUN: stowage-opt %s --stow-attach-loss="output=aux" | FileCheck %s
// RUN: not stowage-opt %s --stow-attach-loss="output=other" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not stowage-opt %s --stow-attach-loss="loss=hinge" 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not stowage-opt %s --stow-attach-loss="reduction=max" 2>&1 | FileCheck %s --check-prefix=REDUCTION

// Tests that the option output picks the loss's input, and that wrong options are named.
// CHECK: stow.cross_entropy_rows %arg1
// OTHER: has no float output called "other"
// LOSS: unknown loss "hinge"; expected cross-entropy or mse
// REDUCTION: unknown reduction "max"; expected mean or sum
func.func @train(%x: tensor<8x10xf32> {stow.name = "x", stow.kind = "parameter"}, %z: tensor<8x5xf32> {stow.name = "z", stow.kind = "parameter"})
    -> (tensor<8x10xf32> {stow.name = "main"}, tensor<8x5xf32> {stow.name = "aux"}) {
  return %x, %z : tensor<8x10xf32>, tensor<8x5xf32>
}
