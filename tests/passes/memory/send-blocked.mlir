// RUN: stowage-opt %s --stow-send-states=kinds=all | FileCheck %s
// RUN: stowage-opt %s --stow-send-states=kinds=all --stow-bind-state --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed | FileCheck %s --check-prefix=PLACED

// State in blocks of channels travels as it is stored, padding included: 2 x 1 x 9 blocks of 8 x 8 elements.
// CHECK: stow.slow_state = tensor<12x8x3x3xf32, #stow.layout<"0,1,2,3;1:8;0:8">>
// CHECK: stow.slow_state = tensor<12x8x3x3xf32, #stow.layout<"0,1,2,3;1:8;0:8">>
// CHECK: stow.copy_in {{.*}} -> tensor<12x8x3x3xf32, #stow.layout<"0,1,2,3;1:8;0:8">>
// CHECK: stow.copy_in {{.*}} -> tensor<12x8x3x3xf32, #stow.layout<"0,1,2,3;1:8;0:8">>
// CHECK: stow.copy_out
// CHECK: stow.copy_out
// PLACED: stow.persistent_bytes = 0 : i64
// PLACED-SAME: stow.slow_bytes = 16384 : i64
!kernel = tensor<12x8x3x3xf32, #stow.layout<"0,1,2,3;1:8;0:8">>
module {
  func.func @train(%w: !kernel {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %g: !kernel {stow.name = "g", stow.kind = #stow.kind<input>},
                   %m: !kernel {stow.name = "w.m", stow.kind = #stow.kind<optimizer>})
      -> (!kernel {stow.state = "w"}, !kernel {stow.state = "w.m"}) attributes {stow.role = #stow.role<train>} {
    %w1, %m1 = stow.map %w, %g, %m {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 2>}
        : (!kernel, !kernel, !kernel) -> (!kernel, !kernel) {
    ^bb0(%p: f32, %d: f32, %a: f32):
      %0 = arith.addf %a, %d : f32
      %1 = arith.subf %p, %0 : f32
      stow.yield %1, %0 : f32, f32
    }
    return %w1, %m1 : !kernel, !kernel
  }
}
