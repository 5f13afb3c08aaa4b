// RUN: stowage-opt %s --stow-send-states=kinds=frozen | FileCheck %s
// RUN: stowage-opt %s --stow-send-states | FileCheck %s --check-prefix=NONE
// RUN: stowage-opt %s --stow-send-states=kinds=all --stow-bind-state --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s --check-prefix=PLACED
// RUN: not stowage-opt %s --stow-send-states=kinds=weights 2>&1 | FileCheck %s --check-prefix=KINDS

// KINDS: kinds is "weights"; expected optimizer, parameters, frozen or all
// NONE-NOT: stow.slow_state

// The frozen matrix is fetched once in front of its first reader, in the evaluation as well, and nothing is sent. Its view stands where it is
// read, so that the fetch need not come before. What is smaller than a block stays, and so does what is returned.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<0xi8> {{{.*}}stow.name = "w", stow.slow_state = tensor<64x64xf32>}
// CHECK-SAME: %{{.*}}: tensor<64xf32> {{{.*}}stow.name = "small"}
// CHECK-SAME: %{{.*}}: tensor<64x64xf32> {{{.*}}stow.name = "returned"}
// CHECK-NEXT: %[[A:.*]] = stow.map
// CHECK: %[[C:.*]] = stow.copy_in %[[W]] : (tensor<0xi8>) -> tensor<64x64xf32>
// CHECK-NEXT: %[[THERE:.*]] = stow.await_in %[[W]], %[[C]]
// CHECK-NEXT: %[[V:.*]] = stow.reshape %[[THERE]]
// CHECK-NEXT: stow.map %[[A]], %[[V]]
// CHECK: stow.map %{{.*}}, %[[THERE]] {stow.phase = #stow.phase<backward>}
// CHECK-NOT: stow.copy_in
// CHECK-NOT: stow.copy_out
// CHECK-LABEL: @eval(
// CHECK: stow.copy_in
// CHECK-NOT: stow.copy_out

// Its place is the same in both graphs.
// PLACED: stow.persistent_bytes = 16640 : i64
// PLACED-SAME: stow.slow_bytes = 16384 : i64
// PLACED-LABEL: @train(
// PLACED: stow.name = "w", stow.offset = {{[0-9]+}} : i64, stow.slow_offset = 0 : i64
// PLACED-LABEL: @eval(
// PLACED: stow.name = "w", stow.offset = {{[0-9]+}} : i64, stow.slow_offset = 0 : i64
module {
  func.func @train(%x: tensor<4096xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<64x64xf32> {stow.name = "w", stow.kind = #stow.kind<frozen>},
                   %s: tensor<64xf32> {stow.name = "small", stow.kind = #stow.kind<frozen>},
                   %r: tensor<64x64xf32> {stow.name = "returned", stow.kind = #stow.kind<frozen>})
      -> (tensor<4096xf32> {stow.name = "y"}, tensor<64x64xf32> {stow.name = "z"}, tensor<64x64xf32> {stow.name = "same"})
      attributes {stow.role = #stow.role<train>} {
    %v = stow.reshape %w : (tensor<64x64xf32>) -> tensor<4096xf32>
    %a = stow.map %x : (tensor<4096xf32>) -> tensor<4096xf32> {
    ^bb0(%p: f32):
      %0 = arith.addf %p, %p : f32
      stow.yield %0 : f32
    }
    %y = stow.map %a, %v : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.mulf %p, %q : f32
      stow.yield %0 : f32
    }
    %m = stow.reshape %y : (tensor<4096xf32>) -> tensor<64x64xf32>
    %z = stow.map %m, %w {stow.phase = #stow.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.mulf %p, %q : f32
      stow.yield %0 : f32
    }
    return %y, %z, %r : tensor<4096xf32>, tensor<64x64xf32>, tensor<64x64xf32>
  }
  func.func @eval(%x: tensor<64x64xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                  %w: tensor<64x64xf32> {stow.name = "w", stow.kind = #stow.kind<frozen>})
      -> (tensor<64x64xf32> {stow.name = "y"})
      attributes {stow.role = #stow.role<eval>} {
    %y = stow.map %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.mulf %p, %q : f32
      stow.yield %0 : f32
    }
    return %y : tensor<64x64xf32>
  }
}
