// RUN: stowage-opt %s --stow-pack-buffers --stow-verify-placed | FileCheck %s

// Tests that what travels has places in slow memory, at whole blocks: a and b are there at once, c when a has come back, where a was. In
// the arena b takes the place of a, which has left, and tokens take nothing.
// CHECK: stow.arena_bytes = 12480 : i64
// CHECK-SAME: stow.slow_bytes = 16384 : i64
module {
  func.func @train(%x: tensor<1040xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<1040xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1040xf32>) -> tensor<1040xf32>
    // CHECK: stow.copy_out {{.*}}stow.slow_offset = 0 : i64
    %t = stow.copy_out %a : (tensor<1040xf32>) -> tensor<0xi8>
    stow.await_out %t, %a : (tensor<0xi8>, tensor<1040xf32>) -> ()
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1040xf32>) -> tensor<1040xf32>
    // CHECK: stow.copy_out {{.*}}stow.slow_offset = 8192 : i64
    %u = stow.copy_out %b : (tensor<1040xf32>) -> tensor<0xi8>
    stow.await_out %u, %b : (tensor<0xi8>, tensor<1040xf32>) -> ()
    // CHECK: stow.copy_in {{.*}}stow.offsets = array<i64: [[A:[0-9]+]]>
    %1 = stow.copy_in %t : (tensor<0xi8>) -> tensor<1040xf32>
    // CHECK: stow.await_in {{.*}}stow.offsets = array<i64: [[A]]>
    %2 = stow.await_in %t, %1 : (tensor<0xi8>, tensor<1040xf32>) -> tensor<1040xf32>
    %c = stow.softmax %2 {axis = 0 : i64} : (tensor<1040xf32>) -> tensor<1040xf32>
    // CHECK: stow.copy_out {{.*}}stow.slow_offset = 0 : i64
    %v = stow.copy_out %c : (tensor<1040xf32>) -> tensor<0xi8>
    stow.await_out %v, %c : (tensor<0xi8>, tensor<1040xf32>) -> ()
    %3 = stow.copy_in %u : (tensor<0xi8>) -> tensor<1040xf32>
    %4 = stow.await_in %u, %3 : (tensor<0xi8>, tensor<1040xf32>) -> tensor<1040xf32>
    %5 = stow.copy_in %v : (tensor<0xi8>) -> tensor<1040xf32>
    %6 = stow.await_in %v, %5 : (tensor<0xi8>, tensor<1040xf32>) -> tensor<1040xf32>
    %y = stow.mul %4, %6 : (tensor<1040xf32>, tensor<1040xf32>) -> tensor<1040xf32>
    return %y : tensor<1040xf32>
  }
}
