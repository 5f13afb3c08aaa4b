// RUN: stowage-opt %s --stow-bind-state --split-input-file | FileCheck %s

// Tests that a map that reads the old statistic, and is its last reader, overwrites it.
// CHECK-LABEL: func.func @train
// CHECK: %[[R:.*]] = stow.map %{{.*}}, %{{.*}} {updates = array<i64: 0, 1>}
// CHECK-NOT: stow.map
// CHECK: return %[[R]]
func.func @train(%b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<input>}, %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>}) -> (tensor<4xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
  %r = stow.map %b, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  return %r : tensor<4xf32>
}

// -----

// Tests that a later reader of the old value keeps it alive: the new value is made elsewhere and
// copied behind that reader, by a map of the update phase.
// CHECK-LABEL: func.func @train
// CHECK: %[[R:.*]] = stow.map %{{.*}}, %[[M:.*]] :
// CHECK: %[[S:.*]] = stow.reduce_sum %[[M]]
// CHECK-NEXT: %[[C:.*]] = stow.map %[[R]], %[[M]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK-NEXT: ^bb0(%[[NEW:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: stow.yield %[[NEW]]
// CHECK: %[[Z:.*]] = stow.reduce_sum %[[R]]
// CHECK: return %[[C]], %[[S]], %[[Z]]
func.func @train(%b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<input>}, %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>})
    -> (tensor<4xf32> {stow.state = "m"}, tensor<f32> {stow.name = "s"}, tensor<f32> {stow.name = "z"}) attributes {stow.role = #stow.role<train>} {
  %r = stow.map %b, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  %s = stow.reduce_sum %m {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %z = stow.reduce_sum %r {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %r, %s, %z : tensor<4xf32>, tensor<f32>, tensor<f32>
}

// -----

// Tests that a reader through a view counts: the copy comes behind it.
// CHECK-LABEL: func.func @train
// CHECK: stow.map %{{.*}}, %[[M:.*]] :
// CHECK: %[[V:.*]] = stow.reshape %[[M]]
// CHECK: stow.reduce_sum %[[V]]
// CHECK-NEXT: stow.map %{{.*}}, %[[M]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
func.func @train(%b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<input>}, %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>})
    -> (tensor<4xf32> {stow.state = "m"}, tensor<2xf32> {stow.name = "s"}) attributes {stow.role = #stow.role<train>} {
  %r = stow.map %b, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  %v = stow.reshape %m : (tensor<4xf32>) -> tensor<2x2xf32>
  %s = stow.reduce_sum %v {axes = array<i64: 0>, keepdims = false} : (tensor<2x2xf32>) -> tensor<2xf32>
  return %r, %s : tensor<4xf32>, tensor<2xf32>
}

// -----

// Tests that values no map made are copied: a reduction, an input, another argument. State returned
// as it is needs nothing.
// CHECK-LABEL: func.func @train
// CHECK: %[[S:.*]] = stow.reduce_sum %[[B:[a-z0-9]+]]
// CHECK-NEXT: %[[K:.*]] = stow.map %[[S]], %[[M:.*]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK: %[[L:.*]] = stow.map %{{.*}}, %[[N:.*]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK: return %[[K]], %[[L]], %[[SAME:arg[0-9]]]
func.func @train(%b: tensor<2x4xf32> {stow.name = "b", stow.kind = #stow.kind<input>}, %x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
    %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>}, %n: tensor<4xf32> {stow.name = "n", stow.kind = #stow.kind<statistic>},
    %o: tensor<4xf32> {stow.name = "o", stow.kind = #stow.kind<statistic>})
    -> (tensor<4xf32> {stow.state = "m"}, tensor<4xf32> {stow.state = "n"}, tensor<4xf32> {stow.state = "o"}) attributes {stow.role = #stow.role<train>} {
  %s = stow.reduce_sum %b {axes = array<i64: 0>, keepdims = false} : (tensor<2x4xf32>) -> tensor<4xf32>
  return %s, %x, %o : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests that an update by the optimizer's own pairs is left alone.
// CHECK-LABEL: func.func @train
// CHECK: %[[R:.*]]:2 = stow.map %{{.*}}, %{{.*}}, %{{.*}} {updates = array<i64: 0, 0, 1, 2>}
// CHECK-NOT: stow.map
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %g: tensor<4xf32> {stow.name = "g", stow.kind = #stow.kind<input>},
    %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>}) -> (tensor<4xf32> {stow.state = "w"}, tensor<4xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
  %w1, %m1 = stow.map %w, %g, %m {updates = array<i64: 0, 0, 1, 2>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.addf %b, %c : f32
    %1 = arith.subf %a, %0 : f32
    stow.yield %1, %0 : f32, f32
  }
  return %w1, %m1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests that one new value for two statistics overwrites one of them and is copied to the other.
// CHECK-LABEL: func.func @train
// CHECK: %[[R:.*]] = stow.map %{{.*}}, %[[M:[a-z0-9]+]], %[[N:[a-z0-9]+]] {updates = array<i64: 0, 1>}
// CHECK: %[[C:.*]] = stow.map %[[R]], %[[N]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK: return %[[R]], %[[C]]
func.func @train(%b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<input>}, %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>},
    %n: tensor<4xf32> {stow.name = "n", stow.kind = #stow.kind<statistic>}) -> (tensor<4xf32> {stow.state = "m"}, tensor<4xf32> {stow.state = "n"}) attributes {stow.role = #stow.role<train>} {
  %r = stow.map %b, %m, %n : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  return %r, %r : tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests a sum that a product is added to: state among the inputs is overwritten, a factor of the product is
// not, as later tiles read it; its new value is copied.
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<4x4xf32>
// CHECK: %[[N:.*]] = stow.product_map %{{.*}}, %{{.*}}, %[[S]] {transpose_a = true, transpose_b = false, updates = array<i64: 0, 2>}
// CHECK: %[[P:.*]] = stow.product_map %[[F:[a-z0-9]+]], %{{.*}}, %{{.*}} {transpose_a = true, transpose_b = false}
// CHECK: %[[C:.*]] = stow.map %[[P]], %[[F]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK: return %[[N]], %[[C]]
func.func @accumulate(%s: tensor<4x4xf32> {stow.name = "s", stow.kind = #stow.kind<accumulator>}, %f: tensor<4x4xf32> {stow.name = "f", stow.kind = #stow.kind<accumulator>},
    %x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.state = "s"}, tensor<4x4xf32> {stow.state = "f"}) attributes {stow.role = #stow.role<accumulate>} {
  %n = stow.product_map %x, %x, %s {transpose_a = true, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    stow.yield %0 : f32
  }
  %p = stow.product_map %f, %x, %x {transpose_a = true, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    stow.yield %0 : f32
  }
  return %n, %p : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Tests that state which takes over other state's old value reads it before that one's new value is written.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<input>
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<4xf32> {{[^%]*}}"m"}, %[[N:[a-z0-9]+]]: tensor<4xf32>
// CHECK: %[[R:.*]] = stow.map %[[B]], %[[M]] :
// CHECK: %[[O:.*]] = stow.map %[[M]], %[[N]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK: %[[C:.*]] = stow.map %[[R]], %[[M]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK: return %[[C]], %[[O]]
func.func @train(%b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<input>}, %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>},
    %n: tensor<4xf32> {stow.name = "n", stow.kind = #stow.kind<statistic>}) -> (tensor<4xf32> {stow.state = "m"}, tensor<4xf32> {stow.state = "n"}) attributes {stow.role = #stow.role<train>} {
  %r = stow.map %b, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: f32, %q: f32):
    %0 = arith.addf %p, %q : f32
    stow.yield %0 : f32
  }
  return %r, %m : tensor<4xf32>, tensor<4xf32>
}

// -----

// Tests that state which exchanges its values goes through copies, made before either is written.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4xf32> {{[^%]*}}"a"}, %[[B:[a-z0-9]+]]: tensor<4xf32>
// CHECK-DAG: %[[OLD_B:.*]] = stow.map %[[B]] {stow.phase = #stow.phase<update>}
// CHECK-DAG: %[[OLD_A:.*]] = stow.map %[[A]] {stow.phase = #stow.phase<update>}
// CHECK-DAG: %[[NEW_A:.*]] = stow.map %[[OLD_B]], %[[A]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK-DAG: %[[NEW_B:.*]] = stow.map %[[OLD_A]], %[[B]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>}
// CHECK: return %[[NEW_A]], %[[NEW_B]]
func.func @train(%a: tensor<4xf32> {stow.name = "a", stow.kind = #stow.kind<statistic>}, %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<statistic>})
    -> (tensor<4xf32> {stow.state = "a"}, tensor<4xf32> {stow.state = "b"}) attributes {stow.role = #stow.role<train>} {
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}
