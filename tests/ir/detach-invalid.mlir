// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// in_training C1: one type in training and in evaluation.
func.func @case(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // expected-error @+2 {{expects one type in training and in evaluation, found 'tensor<4xf32>' and 'tensor<5xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stow.in_training %a, %b : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}
