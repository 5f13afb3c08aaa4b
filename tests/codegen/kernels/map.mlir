// RUN: stowage-opt %s --stow-emit-kernels --canonicalize --cse | FileCheck %s

// Tests that a bias over channels-last activations becomes rows of 64 contiguous channels, and that
// the bias needs no gather: it is read as a vector once per chunk.
// CHECK-LABEL: func.func @k0_map(
// CHECK-SAME:    %[[BEGIN:.*]]: index, %[[END:.*]]: index, %[[X:.*]]: memref<25088xf32>,
// CHECK-SAME:    %[[B:.*]]: memref<64xf32>, %[[Y:.*]]: memref<25088xf32>)
// CHECK-SAME:    stow.tasks = 4
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %c16
// CHECK:               vector.load %[[X]]
// CHECK:               vector.load %[[B]][%[[I]]]
// CHECK:               arith.addf %{{.*}} : vector<16xf32>
// CHECK:               vector.store %{{.*}}, %[[Y]]
// CHECK-NOT:     vector.maskedload
// CHECK:         return
func.func @bias(%x: tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">>, %b: tensor<64x1x1xf32>) {
  %y = stow.map %x, %b
      : (tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">>, tensor<64x1x1xf32>)
      -> tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  return
}

// Tests that what depends on scalars only is computed once per call, before all loops, and that the
// last three elements are masked.
// CHECK-LABEL: func.func @k1_map(
// CHECK:         %[[RATE:.*]] = memref.load
// CHECK:         %[[ROOT:.*]] = math.sqrt %[[RATE]] : f32
// CHECK:         scf.for
// CHECK:         vector.constant_mask [3] : vector<16xi1>
// CHECK:         vector.maskedload
// CHECK:         vector.maskedstore
func.func @hoisted(%x: tensor<35xf32>, %s: tensor<f32>) {
  %y = stow.map %x, %s : (tensor<35xf32>, tensor<f32>) -> tensor<35xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = math.sqrt %q : f32
    %1 = arith.mulf %p, %0 : f32
    stow.yield %1 : f32
  }
  return
}

// Tests that the same code is emitted once: there is no third kernel.
// CHECK-NOT: func.func
func.func @again(%x: tensor<35xf32>, %s: tensor<f32>) {
  %y = stow.map %x, %s {stow.offsets = array<i64: 128>} : (tensor<35xf32>, tensor<f32>) -> tensor<35xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = math.sqrt %q : f32
    %1 = arith.mulf %p, %0 : f32
    stow.yield %1 : f32
  }
  return
}
