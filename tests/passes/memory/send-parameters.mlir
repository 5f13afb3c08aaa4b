// RUN: stowage-opt %s --stow-send-states=kinds=parameters | FileCheck %s
// RUN: stowage-opt %s --stow-send-states | FileCheck %s --check-prefix=NONE
// RUN: stowage-opt %s --stow-send-states="kinds=all percent=50" | FileCheck %s --check-prefix=LAST
// RUN: stowage-opt %s --stow-send-states=kinds=parameters --stow-bind-state --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s --check-prefix=PLACED

// NONE-NOT: tensor<0xi8> {{{.*}}stow.name = "w"

// The optimizer's state goes first: of the same bytes it travels less.
// LAST: tensor<64x64xf32> {{{.*}}stow.name = "w"}
// LAST-SAME: tensor<0xi8> {{{.*}}stow.name = "w.m"

// A trained matrix is fetched once in front of its first reader, and its new value, which the update writes over what was fetched, is sent and
// returned. The evaluation fetches it as well, and sends nothing. What no op updates in place stays.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<0xi8> {{{.*}}stow.name = "w", stow.slow_state = tensor<64x64xf32>}
// CHECK-SAME: %{{.*}}: tensor<64x64xf32> {{{.*}}stow.name = "w.m"}
// CHECK-SAME: %{{.*}}: tensor<4096xf32> {{{.*}}stow.name = "copied"}
// CHECK-NEXT: %[[A:.*]] = stow.map
// CHECK: %[[C:.*]] = stow.copy_in %[[W]] : (tensor<0xi8>) -> tensor<64x64xf32>
// CHECK-NEXT: %[[THERE:.*]] = stow.await_in %[[W]], %[[C]]
// CHECK-NEXT: %[[V:.*]] = stow.reshape %[[THERE]]
// CHECK-NEXT: stow.map %[[A]], %[[V]]
// CHECK-NOT: stow.copy_in
// CHECK: %[[NEW:.*]]:2 = stow.map %[[THERE]], %{{.*}} {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 1>}
// CHECK: %[[T:.*]] = stow.copy_out %[[NEW]]#0
// CHECK-NEXT: stow.await_out %[[T]], %[[NEW]]#0
// CHECK: return %{{.*}}, %[[T]], %[[NEW]]#1
// CHECK-LABEL: @eval(
// CHECK: stow.copy_in
// CHECK-NOT: stow.copy_out

// Its place is the same in both graphs, and its buffer dies behind its copy out.
// PLACED: stow.slow_bytes = 16384 : i64
// PLACED-LABEL: @train(
// PLACED: stow.name = "w", stow.offset = {{[0-9]+}} : i64, stow.slow_offset = 0 : i64
// PLACED: stow.copy_out {{.*}}stow.slow_offset = 0 : i64
// PLACED-LABEL: @eval(
// PLACED: stow.name = "w", stow.offset = {{[0-9]+}} : i64, stow.slow_offset = 0 : i64
module {
  func.func @train(%x: tensor<4096xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<64x64xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %m: tensor<64x64xf32> {stow.name = "w.m", stow.kind = #stow.kind<optimizer>},
                   %k: tensor<4096xf32> {stow.name = "copied", stow.kind = #stow.kind<parameter>})
      -> (tensor<4096xf32> {stow.name = "y"}, tensor<64x64xf32> {stow.state = "w"}, tensor<64x64xf32> {stow.state = "w.m"},
          tensor<4096xf32> {stow.state = "copied"})
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
    %k1 = stow.map %k {stow.phase = #stow.phase<update>} : (tensor<4096xf32>) -> tensor<4096xf32> {
    ^bb0(%p: f32):
      %0 = arith.addf %p, %p : f32
      stow.yield %0 : f32
    }
    %w1, %m1 = stow.map %w, %m {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 1>}
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.addf %q, %p : f32
      %1 = arith.subf %p, %0 : f32
      stow.yield %1, %0 : f32, f32
    }
    return %y, %w1, %m1, %k1 : tensor<4096xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<4096xf32>
  }
  func.func @eval(%x: tensor<64x64xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                  %w: tensor<64x64xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
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
