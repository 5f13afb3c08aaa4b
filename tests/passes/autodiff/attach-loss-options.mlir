// RUN: stowage-opt %s --stow-attach-loss="output=aux" | FileCheck %s
// RUN: not stowage-opt %s --stow-attach-loss="output=other" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not stowage-opt %s --stow-attach-loss="loss=hinge" 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not stowage-opt %s --stow-attach-loss="loss=cross-entropy:reduction=max output=main" 2>&1 | FileCheck %s --check-prefix=REDUCTION
// RUN: not stowage-opt %s --stow-attach-loss="loss=cross-entropy:reduction=batchmean output=main" 2>&1 | FileCheck %s --check-prefix=BATCHMEAN
// RUN: not stowage-opt %s --stow-attach-loss="loss=cross-entropy:weight=[1,2,3] output=main" 2>&1 | FileCheck %s --check-prefix=WEIGHT
// RUN: not stowage-opt %s --stow-attach-loss="loss=bce-with-logits:pos-weight=[1,2,3] output=main" 2>&1 | FileCheck %s --check-prefix=POSITIVE
// RUN: not stowage-opt %s --stow-attach-loss="loss=output:main" 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: stowage-opt %s --stow-attach-loss="loss=cross-entropy output=words" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: stowage-opt %s --stow-attach-loss="loss=cross-entropy:class-axis=-1 output=words" 2>&1 | FileCheck %s --check-prefix=LAST

// Tests that the option output picks the loss's input, and that wrong options are named.
// CHECK: stow.cross_entropy_rows %arg1
// OTHER: the model has no float output called "other"; there are "main", "aux"
// LOSS: unknown loss "hinge"; known are cross-entropy, nll, bce-with-logits, kl-div, mse, l1, smooth-l1, huber, output:NAME
// REDUCTION: loss cross-entropy: reduction: expected mean or sum, found 'max'
// BATCHMEAN: loss cross-entropy: reduction: expected mean or sum, found 'batchmean'
// WEIGHT: loss cross-entropy has 3 weight numbers for an output 'tensor<8x10xf32>' with 10 classes
// POSITIVE: loss bce-with-logits has 3 pos-weight numbers for an output 'tensor<8x10xf32>' with 10 in its last dimension
// OWN: output "main" is 'tensor<8x10xf32>', a loss is one number; add reduction=mean or reduction=sum
// AXIS: remark: cross-entropy reads dimension 1 of 'tensor<8x6x20xf32>' as the classes, as PyTorch does; class-axis=-1 names the last dimension
// AXIS: "target"
// LAST-NOT: remark
func.func @train(%x: tensor<8x10xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>}, %z: tensor<8x5xf32> {stow.name = "z", stow.kind = #stow.kind<parameter>},
                 %w: tensor<8x6x20xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
    -> (tensor<8x10xf32> {stow.name = "main"}, tensor<8x5xf32> {stow.name = "aux"}, tensor<8x6x20xf32> {stow.name = "words"}) attributes {stow.role = #stow.role<train>} {
  return %x, %z, %w : tensor<8x10xf32>, tensor<8x5xf32>, tensor<8x6x20xf32>
}
