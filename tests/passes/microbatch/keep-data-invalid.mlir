// RUN: stowage-opt %s --stow-keep-data=rows=100 --verify-diagnostics

// Tests that inputs of another number of rows than the batch are refused.
module {
  // expected-error@below {{data on the device: expected inputs with one row for each sample of the batch, found "edges" of type 'tensor<2x40xi64>'; leave --data-on-device out}}
  func.func @train(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %edges: tensor<2x40xi64> {stow.name = "edges", stow.kind = #stow.kind<input>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %c = stow.count_valid %edges {element_type = f32, ignore_index = -100 : i64} : (tensor<2x40xi64>) -> tensor<f32>
    %s = stow.reduce_sum %x {axes = array<i64: 0, 1>, keepdims = false} : (tensor<8x4xf32>) -> tensor<f32>
    %l = stow.div %s, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
