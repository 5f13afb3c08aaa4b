// RUN: stowage-opt %s --stow-share-kernels=least=2 | FileCheck %s
// RUN: stowage-opt %s --stow-share-kernels | FileCheck %s --check-prefix=FEW

// Tests that kernels that differ in numbers alone become calls of one body: constants that are alike everywhere stay in it,
// those that change together are one argument, and storage is as large as the largest. Few kernels keep their own.
// FEW-NOT: call @
// CHECK-LABEL: func.func @shared_k0_map(
// CHECK-SAME: %[[BEGIN:.*]]: index, %[[END:.*]]: index, %[[X:.*]]: memref<31xf32>, %[[Y:.*]]: memref<31xf32>, %[[STRIDE:.*]]: index)
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: scf.for %[[I:.*]] = %[[BEGIN]] to %[[END]] step %[[ONE]]
// CHECK: %[[FROM:.*]] = arith.muli %[[I]], %[[STRIDE]]
// CHECK: %[[TO:.*]] = arith.addi %[[FROM]], %[[STRIDE]]
// CHECK: memref.load %[[X]]
// CHECK: memref.store %{{.*}}, %[[Y]][%[[TO]]]

// CHECK-LABEL: func.func @k0_map
// CHECK: %[[A:.*]] = memref.reinterpret_cast %arg2 to offset: [0], sizes: [31], strides: [1]
// CHECK: %[[B:.*]] = memref.reinterpret_cast %arg3
// CHECK: %[[N:.*]] = arith.constant 10 : index
// CHECK: call @shared_k0_map(%arg0, %arg1, %[[A]], %[[B]], %[[N]])
// CHECK-NEXT: return
func.func @k0_map(%begin: index, %end: index, %x: memref<24xf32>, %y: memref<24xf32>)
    attributes {stow.work = 1000 : i64} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %n = arith.constant 10 : index
    %from = arith.muli %i, %n : index
    %m = arith.constant 10 : index
    %to = arith.addi %from, %m : index
    %a = memref.load %x[%from] : memref<24xf32>
    %b = arith.addf %a, %a : f32
    memref.store %b, %y[%to] : memref<24xf32>
  }
  return
}

// CHECK-LABEL: func.func @k1_map
// CHECK-NOT: reinterpret_cast
// CHECK: %[[N:.*]] = arith.constant 17 : index
// CHECK: call @shared_k0_map(%arg0, %arg1, %arg2, %arg3, %[[N]])
func.func @k1_map(%begin: index, %end: index, %x: memref<31xf32>, %y: memref<31xf32>)
    attributes {stow.work = 1000 : i64} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %n = arith.constant 17 : index
    %from = arith.muli %i, %n : index
    %m = arith.constant 17 : index
    %to = arith.addi %from, %m : index
    %a = memref.load %x[%from] : memref<31xf32>
    %b = arith.addf %a, %a : f32
    memref.store %b, %y[%to] : memref<31xf32>
  }
  return
}

// One with more to do keeps its numbers.
// CHECK-LABEL: func.func @k2_map
// CHECK: arith.constant 18 : index
// CHECK-NOT: call
func.func @k2_map(%begin: index, %end: index, %x: memref<32xf32>, %y: memref<32xf32>)
    attributes {stow.work = 1000000 : i64} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %n = arith.constant 18 : index
    %from = arith.muli %i, %n : index
    %m = arith.constant 18 : index
    %to = arith.addi %from, %m : index
    %a = memref.load %x[%from] : memref<32xf32>
    %b = arith.addf %a, %a : f32
    memref.store %b, %y[%to] : memref<32xf32>
  }
  return
}

// So does one that computes something else.
// CHECK-LABEL: func.func @k3_map
// CHECK: arith.mulf
// CHECK-NOT: call
func.func @k3_map(%begin: index, %end: index, %x: memref<33xf32>, %y: memref<33xf32>)
    attributes {stow.work = 1000 : i64} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %n = arith.constant 19 : index
    %from = arith.muli %i, %n : index
    %m = arith.constant 19 : index
    %to = arith.addi %from, %m : index
    %a = memref.load %x[%from] : memref<33xf32>
    %b = arith.mulf %a, %a : f32
    memref.store %b, %y[%to] : memref<33xf32>
  }
  return
}
