// RUN: stowage-opt --stow-quantize-states --split-input-file %s | FileCheck %s
// RUN: stowage-opt --stow-quantize-states --split-input-file %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALONE

// Both moments of both parameters become codes, with scales as arguments of their own, the first ones of which are the first numbers.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<2x256xi8> {stow.init = #stow.init<"constant", 2.550000e+02, 0.000000e+00>, {{.*}}stow.name = "w.m"}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2x256xi8> {{.*}}stow.name = "w.v"}
// CHECK-SAME: %[[MS:[a-z0-9]+]]: tensor<2xf32> {stow.init = #stow.init<"constant", 0.000000e+00, 0.000000e+00>, {{.*}}stow.name = "w.m.scale"}
// CHECK-SAME: %[[VS:[a-z0-9]+]]: tensor<2xf32> {{.*}}stow.name = "w.v.scale"}
// CHECK-SAME: {stow.state = "w.m.scale"}
// CHECK-DAG: %[[MN:.*]] = stow.dequantize_state %[[M]], %[[MS]] {stow.phase = #stow.phase<update>}
// CHECK-DAG: %[[VN:.*]] = stow.dequantize_state %[[V]], %[[VS]] {nonnegative, stow.phase = #stow.phase<update>}
// CHECK: %[[NEW:.*]]:3 = stow.map %{{.*}}, %{{.*}}, %[[MN]], %[[VN]] {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0>}
// CHECK-DAG: %[[M1:.*]], %[[MS1:.*]] = stow.quantize_state %[[NEW]]#1, %[[M]], %[[MS]] {stow.phase
// CHECK-DAG: %[[V1:.*]], %[[VS1:.*]] = stow.quantize_state %[[NEW]]#2, %[[V]], %[[VS]] {nonnegative
// CHECK: return {{.*}}%[[MS1]], %[[VS1]]
module {
  func.func @train(%w: tensor<2x256xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %u: tensor<2x256xf32> {stow.name = "u", stow.kind = #stow.kind<parameter>},
                   %g: tensor<2x256xf32> {stow.name = "g", stow.kind = #stow.kind<input>},
                   %m: tensor<2x256xf32> {stow.name = "w.m", stow.kind = #stow.kind<optimizer>, stow.eight_bits = "signed",
                                          stow.init = #stow.init<"constant", 0.0, 0.0>},
                   %v: tensor<2x256xf32> {stow.name = "w.v", stow.kind = #stow.kind<optimizer>, stow.eight_bits = "nonnegative",
                                          stow.init = #stow.init<"constant", 0.0, 0.0>},
                   %n: tensor<2x256xf32> {stow.name = "u.m", stow.kind = #stow.kind<optimizer>, stow.eight_bits = "signed",
                                          stow.init = #stow.init<"constant", 0.0, 0.0>})
      -> (tensor<2x256xf32> {stow.state = "w"}, tensor<2x256xf32> {stow.state = "w.m"}, tensor<2x256xf32> {stow.state = "w.v"},
          tensor<2x256xf32> {stow.state = "u"}, tensor<2x256xf32> {stow.state = "u.m"})
      attributes {stow.role = #stow.role<train>} {
    %w1, %m1, %v1 = stow.map %w, %g, %m, %v {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 2, 2, 3>}
        : (tensor<2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>)
        -> (tensor<2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>) {
    ^bb0(%p: f32, %d: f32, %a: f32, %b: f32):
      %0 = arith.addf %a, %d : f32
      %1 = arith.addf %b, %d : f32
      %2 = arith.subf %p, %0 : f32
      stow.yield %2, %0, %1 : f32, f32, f32
    }
    %u1, %n1 = stow.map %u, %g, %n {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 2>}
        : (tensor<2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>) -> (tensor<2x256xf32>, tensor<2x256xf32>) {
    ^bb0(%p: f32, %d: f32, %a: f32):
      %0 = arith.addf %a, %d : f32
      %1 = arith.subf %p, %0 : f32
      stow.yield %1, %0 : f32, f32
    }
    return %w1, %m1, %v1, %u1, %n1 : tensor<2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>
  }
}

// -----

// One matrix alone: its numbers take more while the update runs than its codes save.
// CHECK-LABEL: @train(
// CHECK-NOT: i8
// ALONE: warning: the optimizer's state stays in f32: 8 bits save 1528 bytes, and the largest update takes 2048 while it runs
module {
  func.func @train(%w: tensor<2x256xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %m: tensor<2x256xf32> {stow.name = "w.m", stow.kind = #stow.kind<optimizer>, stow.eight_bits = "signed",
                                          stow.init = #stow.init<"constant", 0.0, 0.0>})
      -> (tensor<2x256xf32> {stow.state = "w"}, tensor<2x256xf32> {stow.state = "w.m"}) attributes {stow.role = #stow.role<train>} {
    %w1, %m1 = stow.map %w, %m {stow.phase = #stow.phase<update>, updates = array<i64: 0, 0, 1, 1>}
        : (tensor<2x256xf32>, tensor<2x256xf32>) -> (tensor<2x256xf32>, tensor<2x256xf32>) {
    ^bb0(%p: f32, %a: f32):
      %0 = arith.addf %a, %p : f32
      %1 = arith.subf %p, %0 : f32
      stow.yield %1, %0 : f32, f32
    }
    return %w1, %m1 : tensor<2x256xf32>, tensor<2x256xf32>
  }
}
