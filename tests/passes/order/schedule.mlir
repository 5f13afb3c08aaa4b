// RUN: stowage-opt %s --stow-bind-state --stow-schedule=budget=448 --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s --check-prefix=ALL
// RUN: stowage-opt %s --stow-bind-state --stow-schedule=budget=384 --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s

// Tests a chain of six values of 64 bytes, all read by the backward. The first lies on x, so that
// six and the gradient are live at the turn: 7 * 64 = 448 bytes keep everything. One buffer less
// costs one op: the value computed again dies under the next one, and its reader gets the clone.
// ALL: stow.arena_bytes = 448 : i64
// ALL-NOT: stow.recompute
// CHECK: stow.arena_bytes = 384 : i64
// CHECK-LABEL: func.func @train
// CHECK: stow.softmax_grad
// CHECK: %[[AGAIN:.*]] = stow.softmax %{{.*}}stow.phase = #stow.phase<backward>, stow.recompute}
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[AGAIN]]
// CHECK-NOT: stow.recompute
// CHECK: return
module {
  func.func @train(%h0: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d7: tensor<4x4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %h1 = stow.softmax %h0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h2 = stow.softmax %h1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h3 = stow.softmax %h2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h4 = stow.softmax %h3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h5 = stow.softmax %h4 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h6 = stow.softmax %h5 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %d6 = stow.softmax_grad %d7, %h6 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d5 = stow.softmax_grad %d6, %h5 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d4 = stow.softmax_grad %d5, %h4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d3 = stow.softmax_grad %d4, %h3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d2 = stow.softmax_grad %d3, %h2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d1 = stow.softmax_grad %d2, %h1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %d1 : tensor<4x4xf32>
  }
}
