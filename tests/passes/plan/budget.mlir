// RUN: stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --memory-budget=516 --stop-after=placed | FileCheck %s --check-prefix=ALL
// RUN: stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --memory-budget=515 --stop-after=placed | FileCheck %s --check-prefix=LESS
// RUN: stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --memory-budget=340 --stop-after=placed | FileCheck %s --check-prefix=LEAST
// RUN: not stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --memory-budget=200 --stop-after=placed 2>&1 | FileCheck %s --check-prefix=NONE

// Tests plans of a chain of values of 64 bytes that the backward reads. Behind w, x and the target,
// which becomes the gradient, five of them and the loss's squares are live at the turn: 8 * 64 bytes,
// and 4 for the learning rate.
// ALL: stow.arena_bytes = 516 : i64
// ALL-NOT: stow.recompute

// One buffer less costs one op, in front of its reader.
// LESS: stow.arena_bytes = 452 : i64
// LESS-LABEL: func.func @train
// LESS: stow.softmax_grad
// LESS: %[[AGAIN:.*]] = stow.softmax %{{.*}}stow.phase = #stow.phase<backward>, stow.recompute}
// LESS-NEXT: stow.softmax_grad %{{.*}}, %[[AGAIN]]
// LESS-NOT: stow.recompute
// LESS-LABEL: func.func @eval

// What is computed again from the start brings its view along, and the weight that it reads is
// updated behind it.
// LEAST: func.func @train(%[[X:[^:]*]]: tensor<8x2xf32> {{.*}}, %[[W:[^:]*]]: tensor<2x2xf32>
// LEAST: stow.matmul %[[X]], %[[W]]
// LEAST: %[[PRODUCT:.*]] = stow.matmul %[[X]], %[[W]] {{.*}}stow.recompute
// LEAST-NEXT: %[[VIEW:.*]] = stow.reshape %[[PRODUCT]]
// LEAST-NEXT: stow.softmax %[[VIEW]] {{.*}}stow.recompute
// LEAST: stow.map %[[W]],
// LEAST-NOT: stow.recompute

// NONE: error: STOW1001: the step does not fit the memory budget
// NONE-NEXT: budget {{ *}}200 B
// NONE-NEXT: smallest achievable {{ *}}324 B
// NONE-NEXT: proven lower bound {{ *}}260 B
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<8x2xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<2x2xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<8x2xf32>, tensor<2x2xf32>) -> tensor<8x2xf32>
    %v = stow.reshape %p : (tensor<8x2xf32>) -> tensor<4x4xf32>
    %h1 = stow.softmax %v {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h2 = stow.softmax %h1 {axis = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h3 = stow.softmax %h2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h4 = stow.softmax %h3 {axis = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %h4 : tensor<4x4xf32>
  }
}
