// RUN: stowage-opt %s --stow-fuse-elementwise --stow-bind-state --stow-schedule=budget=4096 --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s --check-prefix=ALL
// RUN: stowage-opt %s --stow-fuse-elementwise --stow-bind-state --stow-schedule=budget=2304 --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s

// Tests what surrounds a value that is computed again: its view is made again too, and the weight
// it reads is updated behind it. Kept, the product (1024 bytes) lies beside two more in the middle.
// ALL: stow.arena_bytes = 3204 : i64
// ALL-NOT: stow.recompute
// CHECK: stow.arena_bytes = 2180 : i64
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[^:]*]]: tensor<16x1xf32>
// CHECK-SAME: %[[W:[^:]*]]: tensor<1x16xf32>
// CHECK: stow.matmul %[[X]], %[[W]]
// CHECK: %[[AGAIN:.*]] = stow.matmul %[[X]], %[[W]] {{.*}}stow.recompute
// CHECK-NEXT: %[[VIEW:.*]] = stow.reshape %[[AGAIN]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[VIEW]]
// CHECK-NOT: stow.recompute
// CHECK: stow.map %[[W]],
module {
  func.func @train(%x: tensor<16x1xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<1x16xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>}) -> (tensor<1x16xf32> {stow.name = "w", stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<16x1xf32>, tensor<1x16xf32>) -> tensor<16x16xf32>
    %v = stow.reshape %a : (tensor<16x16xf32>) -> tensor<8x32xf32>
    %b = stow.softmax %v {axis = 1 : i64} : (tensor<8x32xf32>) -> tensor<8x32xf32>
    %c = stow.softmax %b {axis = 0 : i64} : (tensor<8x32xf32>) -> tensor<8x32xf32>
    %d = stow.softmax_grad %b, %c {axis = 0 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %g = stow.softmax_grad %d, %v {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %h = stow.reshape %g {stow.phase = #stow.phase<backward>} : (tensor<8x32xf32>) -> tensor<16x16xf32>
    %r = stow.matmul %x, %h {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<16x1xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
    %n = stow.sgd %w, %r, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<1x16xf32>, tensor<1x16xf32>, tensor<f32>) -> tensor<1x16xf32>
    return %n : tensor<1x16xf32>
  }
}
