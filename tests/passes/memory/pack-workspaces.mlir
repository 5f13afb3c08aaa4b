// RUN: stowage-opt %s --stow-pack-buffers="alignment=64 workspace-alignment=256" --stow-verify-placed | FileCheck %s

// Tests that workspaces alone begin at larger multiples: the state's 64 bytes are rounded up to 256 below what is packed, and x and the
// results, of 64 bytes each, lie side by side.
// CHECK: module attributes {stow.alignment = 64 : i64, stow.arena_bytes = 704 : i64, stow.form = "placed", stow.logical_bound_bytes = 512 : i64, stow.lower_bound_bytes = 512 : i64,
// CHECK-SAME: stow.persistent_bytes = 64 : i64, stow.workspace_alignment = 256 : i64}
// CHECK: stow.matmul {{.*}}stow.workspace = 300 : i64, stow.workspace_offset = 256 : i64
module {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.matmul %x, %w {transpose_a = false, transpose_b = false, stow.workspace = 300 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %a : tensor<4x4xf32>
  }
}
