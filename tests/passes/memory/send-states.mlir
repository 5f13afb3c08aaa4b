// RUN: stowage-opt %s --stow-send-states | FileCheck %s
// RUN: stowage-opt %s --stow-send-states=percent=60 | FileCheck %s --check-prefix=SOME
// RUN: stowage-opt %s --stow-send-states=percent=0 | FileCheck %s --check-prefix=NONE
// RUN: stowage-opt %s --stow-send-states --stow-bind-state --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s --check-prefix=PLACED

// The state of w and that of u are fetched for their updates, and their new values are sent and returned. What is smaller than a block
// stays, and so does what two ops read.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<0xi8> {{{.*}}stow.name = "w.m", stow.slow_state = tensor<2x1024xf32>}
// CHECK-SAME: %{{.*}}: tensor<8xf32> {{{.*}}stow.name = "small.m"}
// CHECK-SAME: %{{.*}}: tensor<1024xf32> {{{.*}}stow.name = "read.m"}
// CHECK-SAME: %[[N:[a-z0-9]+]]: tensor<0xi8> {{{.*}}stow.name = "u.m", stow.slow_state = tensor<1024xf32>}
// CHECK: %[[C:.*]] = stow.copy_in %[[M]] {stow.phase = #stow.phase<update>} : (tensor<0xi8>) -> tensor<2x1024xf32>
// CHECK: %[[OLD:.*]] = stow.await_in %[[M]], %[[C]]
// CHECK: %[[NEW:.*]]:2 = stow.map %{{.*}}, %{{.*}}, %[[OLD]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 2>}
// CHECK: %[[T:.*]] = stow.copy_out %[[NEW]]#1
// CHECK: stow.await_out %[[T]], %[[NEW]]#1
// CHECK: stow.copy_in %[[N]]
// CHECK: return %[[NEW]]#0, %[[T]]

// The larger one alone makes up 60 % of the bytes.
// SOME-COUNT-1: stow.copy_in
// SOME-NOT: stow.copy_in

// NONE-NOT: stow.slow_state
// NONE-NOT: stow.copy_in

// In the arena lie the parameters, what stays, and one fetched tensor at a time; in slow memory both, each at its place for good.
// PLACED: stow.persistent_bytes = 16448 : i64
// PLACED-SAME: stow.slow_bytes = 12288 : i64
// PLACED: stow.name = "w.m", stow.offset = {{[0-9]+}} : i64, stow.slow_offset = 0 : i64, stow.slow_state
// PLACED: stow.name = "u.m", stow.offset = {{[0-9]+}} : i64, stow.slow_offset = 8192 : i64, stow.slow_state
// PLACED: stow.copy_out {{.*}}stow.slow_offset = 0 : i64
// PLACED: stow.copy_out {{.*}}stow.slow_offset = 8192 : i64
module {
  func.func @train(%w: tensor<2x1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %g: tensor<2x1024xf32> {stow.name = "g", stow.kind = #stow.kind<input>},
                   %u: tensor<1024xf32> {stow.name = "u", stow.kind = #stow.kind<parameter>},
                   %h: tensor<1024xf32> {stow.name = "h", stow.kind = #stow.kind<input>},
                   %m: tensor<2x1024xf32> {stow.name = "w.m", stow.kind = #stow.kind<optimizer>},
                   %s: tensor<8xf32> {stow.name = "small.m", stow.kind = #stow.kind<optimizer>},
                   %r: tensor<1024xf32> {stow.name = "read.m", stow.kind = #stow.kind<optimizer>},
                   %n: tensor<1024xf32> {stow.name = "u.m", stow.kind = #stow.kind<optimizer>})
      -> (tensor<2x1024xf32> {stow.state = "w"}, tensor<2x1024xf32> {stow.state = "w.m"}, tensor<8xf32> {stow.state = "small.m"},
          tensor<1024xf32> {stow.state = "read.m"}, tensor<1024xf32> {stow.state = "u"}, tensor<1024xf32> {stow.state = "u.m"}, tensor<1024xf32> {stow.name = "q"})
      attributes {stow.role = #stow.role<train>} {
    %w1, %m1 = stow.map %w, %g, %m {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 2>}
        : (tensor<2x1024xf32>, tensor<2x1024xf32>, tensor<2x1024xf32>) -> (tensor<2x1024xf32>, tensor<2x1024xf32>) {
    ^bb0(%p: f32, %d: f32, %a: f32):
      %0 = arith.addf %a, %d : f32
      %1 = arith.subf %p, %0 : f32
      stow.yield %1, %0 : f32, f32
    }
    %s1 = stow.map %s {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>} : (tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: f32):
      %0 = arith.addf %a, %a : f32
      stow.yield %0 : f32
    }
    %u0, %n1 = stow.map %u, %h, %n {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 2>}
        : (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
    ^bb0(%p: f32, %d: f32, %a: f32):
      %0 = arith.addf %a, %d : f32
      %1 = arith.subf %p, %0 : f32
      stow.yield %1, %0 : f32, f32
    }
    %q = stow.map %r {stow.phase = #stow.phase<update>} : (tensor<1024xf32>) -> tensor<1024xf32> {
    ^bb0(%a: f32):
      %0 = arith.mulf %a, %a : f32
      stow.yield %0 : f32
    }
    %r1 = stow.map %r {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>} : (tensor<1024xf32>) -> tensor<1024xf32> {
    ^bb0(%a: f32):
      %0 = arith.addf %a, %a : f32
      stow.yield %0 : f32
    }
    return %w1, %m1, %s1, %r1, %u0, %n1, %q : tensor<2x1024xf32>, tensor<2x1024xf32>, tensor<8xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}
