module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<2x8x8x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<8x1x3x3xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.1>},
      %p: tensor<4x8x1x1xf32> {stow.name = "p", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<2x4x8x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 8 : i64}
        : (tensor<2x8x8x8xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x8x8xf32>
    %1 = stow.conv2d %0, %p {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<2x8x8x8xf32>, tensor<4x8x1x1xf32>) -> tensor<2x4x8x8xf32>
    return %1 : tensor<2x4x8x8xf32>
  }
}
