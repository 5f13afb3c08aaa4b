// RUN: stowage-opt %s | stowage-opt | FileCheck %s
// RUN: stowage-opt %s --mlir-print-op-generic | stowage-opt | FileCheck %s

// Tests that all_reduce prints and parses.
// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<16x10xf32>) {
  // CHECK: stow.all_reduce %{{.*}} {ranks = 4 : i64} : (tensor<16x10xf32>) -> tensor<16x10xf32>
  %y = stow.all_reduce %x {ranks = 4 : i64} : (tensor<16x10xf32>) -> tensor<16x10xf32>
  return
}

// Tests that ops of shards do.
// CHECK-LABEL: func.func @shards
func.func @shards(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>) {
  // CHECK: stow.reduce_scatter %{{.*}} {ranks = 2 : i64} : (tensor<3x3xf32>) -> tensor<5xf32>
  %g = stow.reduce_scatter %x {ranks = 2 : i64} : (tensor<3x3xf32>) -> tensor<5xf32>
  // CHECK: stow.shard %{{.*}} {ranks = 2 : i64} : (tensor<3x3xf32>) -> tensor<5xf32>
  %s = stow.shard %w {ranks = 2 : i64} : (tensor<3x3xf32>) -> tensor<5xf32>
  // CHECK: stow.all_gather %{{.*}}, %{{.*}} {ranks = 2 : i64} : (tensor<5xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %y = stow.all_gather %s, %w {ranks = 2 : i64} : (tensor<5xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  // CHECK: stow.unshard %{{.*}} {ranks = 2 : i64} : (tensor<5xf32>) -> tensor<3x3xf32>
  %z = stow.unshard %s {ranks = 2 : i64} : (tensor<5xf32>) -> tensor<3x3xf32>
  return
}

// CHECK-LABEL: func.func @started
func.func @started(%x: tensor<8xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[SUM:.*]] = stow.all_reduce %{{.*}} {ranks = 2 : i64, stow.started}
  %sum = stow.all_reduce %x {ranks = 2 : i64, stow.started} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[PART:.*]] = stow.reduce_scatter %[[X:.*]] {ranks = 2 : i64, stow.started}
  %part = stow.reduce_scatter %x {ranks = 2 : i64, stow.started} : (tensor<8xf32>) -> tensor<4xf32>
  // CHECK: stow.await_reduce %[[SUM]] : (tensor<8xf32>) -> tensor<8xf32>
  %y = stow.await_reduce %sum : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[SHARD:.*]] = stow.await_reduce %[[PART]], %[[X]] : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  %shard = stow.await_reduce %part, %x : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  // CHECK: %[[W:.*]] = stow.all_gather %[[SHARD]], %{{.*}} {ranks = 2 : i64, stow.started}
  %new = stow.all_gather %shard, %w {ranks = 2 : i64, stow.started} : (tensor<4xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: stow.await_gather %[[W]], %[[SHARD]] : (tensor<8xf32>, tensor<4xf32>) -> ()
  stow.await_gather %new, %shard : (tensor<8xf32>, tensor<4xf32>) -> ()
  // CHECK: %[[WHOLE:.*]] = stow.unshard %[[SHARD]] {ranks = 2 : i64, stow.started}
  %whole = stow.unshard %shard {ranks = 2 : i64, stow.started} : (tensor<4xf32>) -> tensor<8xf32>
  // CHECK: stow.await_reduce %[[WHOLE]], %[[SHARD]] : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
  %there = stow.await_reduce %whole, %shard : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %y, %new : tensor<8xf32>, tensor<8xf32>
}
