// Tests that a plan says of each further value of a buffer how it comes to lie there: an
// update writes over the weights, two inputs of a concat are written where they belong in it, a
// reshape of it is a view, and a softmax writes over that. The input of the model is copied.
// RUN: stowage plan %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --format=json | FileCheck %s
// CHECK: {"name":"w",{{.*}}"aliases":["map"],"alias_kinds":["in_place"],"alias_steps":[{{[0-9]+}}]
// CHECK: {"name":"learning_rate",{{.*}}"aliases":[],"recomputed"
// CHECK: {"name":"concat",{{.*}}"aliases":["map","map","reshape","softmax"],"alias_kinds":["part","part","view","in_place"],"alias_steps":[2,1,4,4]
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<64x8xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<8x16xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>,
                                         stow.init = #stow.init<"normal", 0.0, 0.3>})
      -> (tensor<64x4x10xf32> {stow.name = "out"}) attributes {stow.role = #stow.role<model>} {
    %h = stow.matmul %x, %w {transpose_a = false, transpose_b = false}
        : (tensor<64x8xf32>, tensor<8x16xf32>) -> tensor<64x16xf32>
    %e = stow.exp %h : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %s = stow.sin %h : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %y = stow.concat %e, %s, %x {axis = 1 : i64}
        : (tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x8xf32>) -> tensor<64x40xf32>
    %v = stow.reshape %y : (tensor<64x40xf32>) -> tensor<64x4x10xf32>
    %out = stow.softmax %v {axis = 2 : i64} : (tensor<64x4x10xf32>) -> tensor<64x4x10xf32>
    return %out : tensor<64x4x10xf32>
  }
}
