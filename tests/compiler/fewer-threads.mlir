// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 not stowage plan %s --loss=mse --threads=8 --memory-budget=400KiB 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 stowage plan %s --loss=mse --threads=1 --memory-budget=400KiB
// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 stowage explain %s --loss=mse --threads=8 | FileCheck %s --check-prefix=EXPLAIN
// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 stowage explain %s --loss=mse --threads=1 | FileCheck %s --check-prefix=SINGLE

// Tests scratch that every thread has of its own: a refusal says on how many threads the budget fits, `explain` what
// half of them take. Half the batch gains little of it. Groups of 5 channels: with 8 the call has no such scratch.
// REFUSED: STOW1001
// REFUSED: workspace: conv2d
// REFUSED: fewer threads: --threads={{[123]}} instead of 8
// REFUSED-NEXT: gains {{.*}} changes results? no
// EXPLAIN: other ways to less
// EXPLAIN: 1. half the threads: --threads=4 instead of 8
// EXPLAIN-NEXT: gains 140.00 KiB
// EXPLAIN: half the batch
// SINGLE-NOT: half the threads
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<2x15x28x28xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
                   %w: tensor<15x5x3x3xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w", stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<2x15x28x28xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %c = stow.conv2d %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 3 : i64}
        : (tensor<2x15x28x28xf32>, tensor<15x5x3x3xf32>) -> tensor<2x15x28x28xf32>
    return %c : tensor<2x15x28x28xf32>
  }
}
