// RUN: stowage-opt %s --stow-keep-data=rows=100 | FileCheck %s
// RUN: not stowage-opt %s --stow-keep-data=rows=7 2>&1 | FileCheck %s --check-prefix=FEW
// FEW: data on the device: expected room for at least a batch of 8 samples, found 7; raise --data-on-device

// Tests that both graphs of a step read input and target by number out of the same state, that an input which nothing reads stays, and that
// evaluation has its batch.
// CHECK-LABEL: func.func @commit
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<100x4xf32> {stow.kind = #stow.kind<statistic>, stow.name = "x.samples", stow.samples_kind = #stow.kind<input>, stow.samples_of = "x", stow.unsaved}
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<100xi64> {stow.kind = #stow.kind<statistic>, stow.name = "t.samples", stow.samples_kind = #stow.kind<target>, stow.samples_of = "t", stow.unsaved}
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<8xf32> {stow.kind = #stow.kind<input>, stow.name = "unread"}
// CHECK-SAME: %[[ROWS:[a-z0-9]+]]: tensor<8xi64> {stow.kind = #stow.kind<input>, stow.name = "rows", stow.rows}
// CHECK: %[[XB:.*]] = stow.embedding %[[X]], %[[ROWS]] : (tensor<100x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
// CHECK-NEXT: %[[TB:.*]] = stow.take_along %[[T]], %[[ROWS]] {axis = 0 : i64} : (tensor<100xi64>, tensor<8xi64>) -> tensor<8xi64>
// CHECK-NEXT: stow.cross_entropy_rows %[[XB]], %[[TB]]
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: tensor<100x4xf32> {stow.kind = #stow.kind<statistic>, stow.name = "x.samples"
// CHECK-SAME: tensor<100xi64> {stow.kind = #stow.kind<statistic>, stow.name = "t.samples"
// CHECK-SAME: tensor<8xi64> {stow.kind = #stow.kind<input>, stow.name = "rows.2", stow.rows}
// CHECK-LABEL: func.func @eval
// CHECK-SAME: (%{{.*}}: tensor<8x4xf32> {stow.kind = #stow.kind<input>, stow.name = "x"})
// CHECK-NEXT: return
module {
  func.func @commit(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %t: tensor<8xi64> {stow.name = "t", stow.kind = #stow.kind<target>},
      %unread: tensor<8xf32> {stow.name = "unread", stow.kind = #stow.kind<input>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<commit>} {
    %r, %d = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    %l = stow.reduce_mean %r {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func.func @accumulate(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %t: tensor<8xi64> {stow.name = "t", stow.kind = #stow.kind<target>})
      -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<accumulate>} {
    %r, %d = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    %l = stow.reduce_mean %r {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func.func @eval(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> tensor<8x4xf32>
      attributes {stow.role = #stow.role<eval>} {
    return %x : tensor<8x4xf32>
  }
}
