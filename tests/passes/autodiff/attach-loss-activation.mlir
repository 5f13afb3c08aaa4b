// RUN: stowage-opt %s --stow-attach-loss="loss=bce-with-logits output=y" 2>&1 | FileCheck %s
// RUN: stowage-opt %s --stow-attach-loss="loss=nll output=z" 2>&1 | FileCheck %s --check-prefix=NLL
// RUN: stowage-opt %s --stow-attach-loss="loss=cross-entropy output=p" 2>&1 | FileCheck %s --check-prefix=SOFTMAX

// Tests that a sigmoid before bce-with-logits and a softmax before cross-entropy are taken off, also
// behind a reshape, with a remark and a note for the evaluation; and that the likelihood of a
// log_softmax is the cross-entropy of its operand.
// CHECK: remark: sigmoid before bce-with-logits is left out of the training graph: the loss applies it
// CHECK: stow.output_activation = "sigmoid"
// CHECK: func.func @train(%[[X:[a-z0-9]+]]: tensor<8x4xf32>
// CHECK-NOT: stow.sigmoid
// CHECK: stow.reshape %[[X]] : (tensor<8x4xf32>) -> tensor<32xf32>
// NLL-NOT: stow.output_activation
// NLL: func.func @train(%[[X:[a-z0-9]+]]: tensor<8x4xf32>
// NLL: stow.cross_entropy_rows %[[X]]
// NLL-NOT: stow.log_softmax
// SOFTMAX: remark: softmax before cross-entropy is left out
// SOFTMAX: stow.output_activation = "softmax"
module {
  func.func @train(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
      -> (tensor<32xf32> {stow.name = "y"}, tensor<8x4xf32> {stow.name = "z"}, tensor<8x4xf32> {stow.name = "p"}) attributes {stow.role = #stow.role<train>} {
    %s = stow.sigmoid %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %y = stow.reshape %s : (tensor<8x4xf32>) -> tensor<32xf32>
    %z = stow.log_softmax %x {axis = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %p = stow.softmax %x {axis = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %y, %z, %p : tensor<32xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}
