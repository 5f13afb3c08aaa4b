// RUN: stowage-opt %s --stow-attach-loss --split-input-file --verify-diagnostics

// Tests that several outputs need a choice, and that the choices are listed.
// expected-error @+1 {{the model has 2 float outputs ("main", "aux"); choose one with --loss-output=NAME}}
func.func @train(%x: tensor<8x10xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<8x10xf32> {stow.name = "main"}, tensor<8x10xf32> {stow.name = "aux"}) attributes {stow.role = #stow.role<train>} {
  return %x, %x : tensor<8x10xf32>, tensor<8x10xf32>
}

// -----

// Tests that cross-entropy needs classes.
// expected-error @+1 {{cross-entropy expects an output [N,C] or [N,C,d...] with the classes along dimension 1, found 'tensor<8xf32>'; class-axis names another dimension}}
func.func @train(%x: tensor<8xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  return %x : tensor<8xf32>
}

// -----

// Tests that of a number the message names the loss that takes it as it is.
// expected-error @+1 {{found 'tensor<f32>'; --loss=output:NAME minimizes a number that the model computes itself}}
func.func @train(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<f32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  return %x : tensor<f32>
}

// -----

// Tests that a single class, which softmax gives all, is warned of.
// expected-warning @+1 {{cross-entropy over one class, of an output 'tensor<8x1xf32>', is 0 whatever the model computes}}
func.func @train(%x: tensor<8x1xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<8x1xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  return %x : tensor<8x1xf32>
}

// -----

// Tests that a model without a float output is refused.
// expected-error @+1 {{the model has no float output a loss could read}}
func.func @train(%x: tensor<8xi64> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<8xi64> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  return %x : tensor<8xi64>
}

// -----

// Tests that the remark says where a softmax was taken off.
func.func @train(%x: tensor<8x10xf32> {stow.name = "x", stow.kind = #stow.kind<parameter>})
    -> (tensor<8x10xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
  // expected-remark @+1 {{softmax before cross-entropy is left out of the training graph}}
  %y = stow.softmax %x {axis = 1 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>
  return %y : tensor<8x10xf32>
}
