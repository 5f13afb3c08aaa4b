// RUN: stowage-opt %s --stow-attach-optimizer="optimizer=adamw groups=fc*:lr-scale=0.1 no-decay=norm,bias" | FileCheck %s
// RUN: stowage-opt %s --stow-attach-optimizer="clip-norm=1.5" 2>/dev/null | FileCheck %s --check-prefix=NORM
// RUN: stowage-opt %s --stow-attach-optimizer="clip-norm=1.5" 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: stowage-opt %s --stow-attach-optimizer="clip-value=0.5" | FileCheck %s --check-prefix=VALUE
// RUN: not stowage-opt %s --stow-attach-optimizer="groups={*:lr-scale=1,weight-decay=0},{fc.*:weight-decay=0}" 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not stowage-opt %s --stow-attach-optimizer="no-decay=embedding" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not stowage-opt %s --stow-attach-optimizer="clip-norm=-1" 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not stowage-opt %s --stow-attach-optimizer="clip-norm=1 clip-value=1" 2>&1 | FileCheck %s --check-prefix=BOTH

// UNUSED: group "fc.*" has no parameter: none that is trained matches, or earlier groups have them all
// KIND: no-decay: unknown kind of parameters "embedding"; known are norm, bias
// LIMIT: clip-norm: expected a number above 0, found -1
// BOTH: clip-norm and clip-value both limit gradients; give one of them

// Tests that the first group that matches decides, that norms and biases are told apart by their
// readers in @eval and lose their decay where no group gives one, and that the notes say so.
// CHECK: stow.notes = ["group \22no-decay norm\22: weight decay 0, learning rate x 1, 1 parameters with 6 elements: scale",
// CHECK-SAME: "group \22fc*, no-decay bias\22: weight decay 0, learning rate x 0.1, 1 parameters with 6 elements: fc.bias",
// CHECK-SAME: "group \22fc*\22: weight decay 0.01, learning rate x 0.1, 1 parameters with 24 elements: fc.weight"]
// CHECK: stow.adam {{.*}} lr_scale = 1.000000e-01 : f64, {{.*}}weight_decay = 0.000000e+00 : f64} : (tensor<6xf32>
// CHECK: stow.adam {{.*}} epsilon = 1.000000e-08 : f64, stow.phase = #stow.phase<update>, weight_decay = 0.000000e+00 : f64} : (tensor<6xf32>
// CHECK: stow.adam {{.*}} lr_scale = 1.000000e-01 : f64, {{.*}}weight_decay = 1.000000e-02 : f64} : (tensor<4x6xf32>

// Clipping by the norm of all gradients: their squares are summed, one factor scales them, and all
// updates stand at the end. Their bytes are said: (24 + 6 + 6) * 4.
// REMARK: remark: clip-norm=1.5: all gradients are kept until their norm is known, 144 bytes together
// NORM: stow.notes = ["clip-norm=1.5: all gradients
// NORM-LABEL: func.func @train
// NORM-COUNT-3: stow.reduce_sum_squares
// NORM: %[[N:.*]] = stow.sqrt
// NORM: %[[F:.*]] = stow.minimum
// NORM: %[[G:.*]] = stow.mul %{{.*}}, %[[F]]
// NORM: stow.sgd %{{.*}}, %[[G]],
// NORM: stow.mul %{{.*}}, %[[F]]
// NORM: stow.mul %{{.*}}, %[[F]]
// VALUE-COUNT-3: stow.clip %{{.*}} {high = 5.000000e-01 : f64, low = -5.000000e-01 : f64, stow.phase = #stow.phase<backward>}
module {
  func.func @train(%s: tensor<6xf32> {stow.name = "scale", stow.kind = #stow.kind<parameter>},
      %b: tensor<6xf32> {stow.name = "fc.bias", stow.kind = #stow.kind<parameter>},
      %w: tensor<4x6xf32> {stow.name = "fc.weight", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<6xf32> {stow.name = "s.grad", stow.gradient_of = "scale"},
          tensor<6xf32> {stow.name = "b.grad", stow.gradient_of = "fc.bias"},
          tensor<4x6xf32> {stow.name = "w.grad", stow.gradient_of = "fc.weight"}) attributes {stow.role = #stow.role<train>} {
    %p = stow.mul %w, %s : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %q = stow.add %p, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %l = stow.reduce_sum %q {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x6xf32>) -> tensor<f32>
    %g = stow.exp %s {stow.phase = #stow.phase<backward>} : (tensor<6xf32>) -> tensor<6xf32>
    %h = stow.exp %w {stow.phase = #stow.phase<backward>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %l, %g, %g, %h : tensor<f32>, tensor<6xf32>, tensor<6xf32>, tensor<4x6xf32>
  }
  func.func @eval(%s: tensor<6xf32> {stow.name = "scale", stow.kind = #stow.kind<parameter>},
      %b: tensor<6xf32> {stow.name = "fc.bias", stow.kind = #stow.kind<parameter>},
      %w: tensor<4x6xf32> {stow.name = "fc.weight", stow.kind = #stow.kind<parameter>}) -> (tensor<4x6xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %p = stow.mul %w, %s : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %q = stow.add %p, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    return %q : tensor<4x6xf32>
  }
}
