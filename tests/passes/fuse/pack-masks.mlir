// RUN: stowage-opt %s --stow-pack-masks --split-input-file | FileCheck %s

// Tests that masks of 64 elements are kept in 8 bytes: one that is made beside a value, and one that is
// made alone and read twice. Bodies stay as they are.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK-NEXT: %[[Y:.*]]:2 = stow.map %[[X]] : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xi8>) {
// CHECK: stow.yield %{{.*}}, %{{.*}} : f32, i1
// CHECK: %[[M:.*]] = stow.map %[[X]] : (tensor<8x8xf32>) -> tensor<8xi8> {
// CHECK: stow.yield %{{.*}} : i1
// CHECK: stow.map %{{.*}}, %[[Y]]#1 {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8xi8>) -> tensor<8x8xf32> {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: i1):
// CHECK: stow.map %{{.*}}, %[[M]] {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8xi8>)
// CHECK: stow.map %{{.*}}, %[[M]] {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8xi8>)
func.func @train(%x: tensor<8x8xf32>, %dy: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) attributes {stow.role = #stow.role<train>} {
  %y, %m = stow.map %x : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xi1>) {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.maximumf %0, %zero : f32
    %2 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %1, %2 : f32, i1
  }
  %n = stow.map %x : (tensor<8x8xf32>) -> tensor<8x8xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.cmpf olt, %0, %zero : f32
    stow.yield %1 : i1
  }
  %d0 = stow.map %dy, %m {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %zero = arith.constant 0.0 : f32
    %2 = arith.select %1, %0, %zero : f32
    stow.yield %2 : f32
  }
  %d1 = stow.map %dy, %n {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %zero = arith.constant 0.0 : f32
    %2 = arith.select %1, %0, %zero : f32
    stow.yield %2 : f32
  }
  %d2 = stow.map %d1, %n {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  return %y, %d0, %d1, %d2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Tests masks that stay bytes: over 60 elements (%a); read in the forward (%b); read by a kernel whose
// tensors lie in another order (%c).
// CHECK-LABEL: func.func @train
// CHECK-NOT: xi8>
// CHECK: return
func.func @train(%x: tensor<6x10xf32>, %z: tensor<8x8xf32>, %dx: tensor<6x10xf32>, %dz: tensor<8x8xf32>, %dt: tensor<8x8xf32, #stow.layout<"1,0">>)
    -> (tensor<6x10xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32, #stow.layout<"1,0">>) attributes {stow.role = #stow.role<train>} {
  %a = stow.map %x : (tensor<6x10xf32>) -> tensor<6x10xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %1 : i1
  }
  %b = stow.map %z : (tensor<8x8xf32>) -> tensor<8x8xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %1 : i1
  }
  %c = stow.map %z : (tensor<8x8xf32>) -> tensor<8x8xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %1 = arith.cmpf olt, %0, %zero : f32
    stow.yield %1 : i1
  }
  %f = stow.map %z, %b : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  %d0 = stow.map %dx, %a {stow.phase = #stow.phase<backward>} : (tensor<6x10xf32>, tensor<6x10xi1>) -> tensor<6x10xf32> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  %d1 = stow.map %dz, %b {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  %d2 = stow.map %dt, %c {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32, #stow.layout<"1,0">>, tensor<8x8xi1>) -> tensor<8x8xf32, #stow.layout<"1,0">> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  return %d0, %f, %d1, %d2 : tensor<6x10xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32, #stow.layout<"1,0">>
}

// -----

// Tests masks whose kernels cannot write whole bytes: one reads a factor for each column (%a), one makes
// a part of a concat (%b), one reads a slice (%c).
// CHECK-LABEL: func.func @train
// CHECK-NOT: xi8>
// CHECK: return
func.func @train(%x: tensor<8x8xf32>, %v: tensor<8xf32>, %w: tensor<16x8xf32>, %dy: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<16x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) attributes {stow.role = #stow.role<train>} {
  %y, %a = stow.map %x, %v : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xi1>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.cmpf ogt, %0, %1 : f32
    stow.yield %2, %3 : f32, i1
  }
  %p, %b = stow.map %x : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xi1>) {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %2 = arith.negf %0 : f32
    %3 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %2, %3 : f32, i1
  }
  %j = stow.concat %p, %x {axis = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %s = stow.slice %w {starts = array<i64: 0, 0>, sizes = array<i64: 8, 8>} : (tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = stow.map %s : (tensor<8x8xf32>) -> tensor<8x8xi1> {
  ^bb0(%0: f32):
    %zero = arith.constant 0.0 : f32
    %3 = arith.cmpf ogt, %0, %zero : f32
    stow.yield %3 : i1
  }
  %d0 = stow.map %dy, %a {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  %d1 = stow.map %dy, %b {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  %d2 = stow.map %dy, %c {stow.phase = #stow.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32> {
  ^bb0(%0: f32, %1: i1):
    %2 = arith.negf %0 : f32
    %3 = arith.select %1, %0, %2 : f32
    stow.yield %3 : f32
  }
  return %y, %j, %d0, %d1, %d2 : tensor<8x8xf32>, tensor<16x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
