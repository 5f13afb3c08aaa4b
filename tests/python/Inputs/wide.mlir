// A perceptron whose activations are most of its step, and which no convolution is part of.
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<512x128xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
                   %w0: tensor<512x128xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w0", stow.init = dense<0.01> : tensor<512x128xf32>},
                   %b0: tensor<512xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b0", stow.init = dense<0.0> : tensor<512xf32>},
                   %w1: tensor<512x512xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w1", stow.init = dense<0.02> : tensor<512x512xf32>},
                   %b1: tensor<512xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b1", stow.init = dense<0.0> : tensor<512xf32>},
                   %w2: tensor<128x512xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w2", stow.init = dense<0.03> : tensor<128x512xf32>},
                   %b2: tensor<128xf32> {stow.kind = #stow.kind<parameter>, stow.name = "b2", stow.init = dense<0.0> : tensor<128xf32>}) -> (tensor<512x128xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.matmul %x, %w0, %b0 {transpose_a = false, transpose_b = true} : (tensor<512x128xf32>, tensor<512x128xf32>, tensor<512xf32>) -> tensor<512x512xf32>
    %1 = stow.relu %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
    %2 = stow.matmul %1, %w1, %b1 {transpose_a = false, transpose_b = true} : (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512xf32>) -> tensor<512x512xf32>
    %3 = stow.relu %2 : (tensor<512x512xf32>) -> tensor<512x512xf32>
    %4 = stow.matmul %3, %w2, %b2 {transpose_a = false, transpose_b = true} : (tensor<512x512xf32>, tensor<128x512xf32>, tensor<128xf32>) -> tensor<512x128xf32>
    return %4 : tensor<512x128xf32>
  }
}
