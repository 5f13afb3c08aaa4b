// RUN: not stowage-opt %s --stow-pack-buffers=alignment=0 2>&1 | FileCheck %s
// RUN: not stowage-opt %s --stow-pack-buffers=alignment=-64 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not stowage-opt %s --stow-pack-buffers="alignment=64 workspace-alignment=96" 2>&1 | FileCheck %s --check-prefix=WORKSPACES

// Tests that an alignment that is none is refused.
// CHECK: error: alignment is 0 bytes; expected 1 or more
// NEGATIVE: error: alignment is -64 bytes; expected 1 or more
// WORKSPACES: error: the alignment of workspaces is 96 bytes; expected a multiple of 64
module {
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    return %x : tensor<4xf32>
  }
}
