// RUN: stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --stop-after=placed | FileCheck %s --check-prefix=USUAL
// RUN: stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --recompute=none --stop-after=placed | FileCheck %s --check-prefix=NONE
// RUN: stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --recompute=none --stop-after=placed | FileCheck %s --check-prefix=NONE
// RUN: stowage compile %s --loss=mse --optimizer=sgd:lr=0.1 --threads=1 --recompute=0.01%% --stop-after=placed | FileCheck %s --check-prefix=NONE

// Tests what a plan without a budget computes again in a little of its time: here the outputs of layer norms, whose inputs
// are the residual stream and kept for the norms' own gradients. Each runs again in front of its last reader, a weight's
// gradient. That of the peak, where the backward begins, is kept.
// USUAL: stow.arena_bytes = 54538308 : i64
// USUAL-LABEL: func.func @train
// USUAL-COUNT-4: stow.layer_norm %
// USUAL: stow.layer_norm_grad
// USUAL: %[[AGAIN:.*]], %{{.*}}, %{{.*}} = stow.layer_norm %{{.*}}stow.phase = #stow.phase<backward>, stow.recompute}
// USUAL-NEXT: stow.matmul %[[AGAIN]], %{{.*}}transpose_a = true
// USUAL-COUNT-2: stow.layer_norm {{.*}}stow.recompute}
// USUAL-NOT: stow.recompute
// NONE: stow.arena_bytes = 67145796 : i64
// NONE-NOT: stow.recompute
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<1024x1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %s: tensor<1024xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>},
                   %w0: tensor<1024x1024xf32> {stow.name = "w0", stow.kind = #stow.kind<parameter>},
                   %w1: tensor<1024x1024xf32> {stow.name = "w1", stow.kind = #stow.kind<parameter>},
                   %w2: tensor<1024x1024xf32> {stow.name = "w2", stow.kind = #stow.kind<parameter>},
                   %w3: tensor<1024x1024xf32> {stow.name = "w3", stow.kind = #stow.kind<parameter>},
                   %w4: tensor<1024x1024xf32> {stow.name = "w4", stow.kind = #stow.kind<parameter>}) -> (tensor<1024x1024xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %h0 = stow.matmul %x, %w0 {transpose_a = false, transpose_b = false} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %n0:3 = stow.layer_norm %h0, %s {epsilon = 1.0e-5 : f64} : (tensor<1024x1024xf32>, tensor<1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024xf32>, tensor<1024xf32>)
    %p0 = stow.matmul %n0#0, %w1 {transpose_a = false, transpose_b = false} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %h1 = stow.add %h0, %p0 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %n1:3 = stow.layer_norm %h1, %s {epsilon = 1.0e-5 : f64} : (tensor<1024x1024xf32>, tensor<1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024xf32>, tensor<1024xf32>)
    %p1 = stow.matmul %n1#0, %w2 {transpose_a = false, transpose_b = false} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %h2 = stow.add %h1, %p1 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %n2:3 = stow.layer_norm %h2, %s {epsilon = 1.0e-5 : f64} : (tensor<1024x1024xf32>, tensor<1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024xf32>, tensor<1024xf32>)
    %p2 = stow.matmul %n2#0, %w3 {transpose_a = false, transpose_b = false} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %h3 = stow.add %h2, %p2 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %n3:3 = stow.layer_norm %h3, %s {epsilon = 1.0e-5 : f64} : (tensor<1024x1024xf32>, tensor<1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024xf32>, tensor<1024xf32>)
    %p3 = stow.matmul %n3#0, %w4 {transpose_a = false, transpose_b = false} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %h4 = stow.add %h3, %p3 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %h4 : tensor<1024x1024xf32>
  }
}
