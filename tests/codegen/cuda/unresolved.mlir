// RUN: not stowage-opt %s --stow-kernels-to-nvvm 2>&1 | FileCheck %s

// Tests that f64 math without a toolkit is an error that names the function, not a broken kernel.
// CHECK: kernels call functions of the CUDA toolkit's libdevice (__nv_exp); give the toolkit's path
func.func @wide(%x: tensor<64xf64>) {
  %y = stow.map %x : (tensor<64xf64>) -> tensor<64xf64> {
  ^bb0(%p: f64):
    %0 = math.exp %p : f64
    stow.yield %0 : f64
  }
  return
}
