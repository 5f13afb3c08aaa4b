// RUN: stowage-opt %s --stow-emit-kernels --canonicalize --cse | FileCheck %s

// Tests that a contiguous row is folded along the lanes, with four accumulators, a masked tail and
// one horizontal sum.
// CHECK-LABEL: func.func @k0_reduce_sum(
// CHECK:         iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK:         vector.constant_mask [8]
// CHECK:         arith.addf {{.*}} : vector<8xf32>
// CHECK:         arith.addf {{.*}} : vector<1xf32>
// CHECK:         memref.store
func.func @rows(%x: tensor<64x1000xf32>) {
  %y = stow.reduce_sum %x {axes = array<i64: 1>, keepdims = false}
      : (tensor<64x1000xf32>) -> tensor<64xf32>
  return
}

// Tests that columns are folded across the lanes: each lane is a column, nothing is horizontal.
// CHECK-LABEL: func.func @k1_reduce_mean(
// CHECK-SAME:    stow.tasks = 4
// CHECK-NOT:     vector<8xf32>
// CHECK:         arith.divf {{.*}} : vector<16xf32>
// CHECK:         vector.store
func.func @columns(%x: tensor<512x64xf32>) {
  %y = stow.reduce_mean %x {axes = array<i64: 0>, keepdims = false}
      : (tensor<512x64xf32>) -> tensor<64xf32>
  return
}

// Tests that many columns are folded in strips of two cache lines, the last one masked: 140 = 4 * 32 +
// 12.
// CHECK-LABEL: func.func @k2_reduce_sum(
// CHECK-SAME:    stow.tasks = 5
// CHECK:         arith.addf {{.*}} : vector<32xf32>
// CHECK:         vector.maskedstore
func.func @manyColumns(%x: tensor<512x140xf32>) {
  %y = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false}
      : (tensor<512x140xf32>) -> tensor<140xf32>
  return
}

// Tests that softmax computes each exponential once and keeps it in the result.
// CHECK-LABEL: func.func @k3_softmax(
// CHECK:         arith.maximumf
// CHECK:         math.exp
// CHECK-NEXT:    vector.maskedstore
// CHECK-NOT:     math.exp
// CHECK:         return
func.func @softmax(%x: tensor<64x10xf32>) {
  %y = stow.softmax %x {axis = 1 : i64} : (tensor<64x10xf32>) -> tensor<64x10xf32>
  return
}
