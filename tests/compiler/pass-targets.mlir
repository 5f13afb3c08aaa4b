// Passes that ask a device ask that of --target, the host without it. Only a GPU's tensor cores want logits in whole vectors.
// RUN: stowage-opt %s --stow-pad-logits | FileCheck %s --check-prefix=HOST
// RUN: stowage-opt %s --target=host --stow-pad-logits | FileCheck %s --check-prefix=HOST
// RUN: stowage-opt %s --target=h200 --stow-pad-logits | FileCheck %s --check-prefix=GPU
// RUN: not stowage-opt %s --target=cuda:h1000 --stow-pad-logits 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}h1000{{.*}}h100

// HOST-LABEL: @train
// HOST-NOT: stow.concat
// GPU-LABEL: @train
// GPU: stow.concat %arg1
module {
  func.func @train(%x: tensor<512x1024xbf16>, %w: tensor<1001x1024xbf16>, %t: tensor<512xi64>, %dl: tensor<512xf32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) attributes {stow.role = #stow.role<train>} {
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<512x1024xbf16>, tensor<1001x1024xbf16>) -> tensor<512x1001xbf16>
    %l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>) -> (tensor<512xf32>, tensor<512xf32>)
    %d = stow.cross_entropy_rows_grad %y, %t, %lse, %dl {ignore_index = -100 : i64} : (tensor<512x1001xbf16>, tensor<512xi64>, tensor<512xf32>, tensor<512xf32>) -> tensor<512x1001xbf16>
    %dx = stow.matmul %d, %w {transpose_a = false, transpose_b = false} : (tensor<512x1001xbf16>, tensor<1001x1024xbf16>) -> tensor<512x1024xbf16>
    return %l, %dx : tensor<512xf32>, tensor<512x1024xbf16>
  }
}
