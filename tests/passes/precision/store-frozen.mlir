// RUN: stowage-opt --stow-store-frozen --split-input-file %s | FileCheck %s
// RUN: stowage-opt --stow-store-frozen="types=f32,s*:f16" --split-input-file %s | FileCheck %s --check-prefix=ASKED

// What all readers of all graphs cast to one type is stored in it; "s", which an f32 op reads, is left alone. The last rule that
// matches decides.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x4xbf16> {stow.kind = #stow.kind<frozen>, stow.name = "w"}
// CHECK-SAME: tensor<4xf32> {stow.kind = #stow.kind<frozen>, stow.name = "s"}
// CHECK-NEXT: stow.matmul %{{.*}}, %[[W]] {{.*}} (tensor<8x4xbf16>, tensor<4x4xbf16>)
// CHECK: stow.mul %{{.*}}, %{{.*}} : (tensor<8x4xf32>, tensor<4xf32>)
// CHECK-LABEL: @eval(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x4xbf16>
// CHECK-NEXT: stow.matmul %{{.*}}, %[[W]] {{.*}} (tensor<8x4xbf16>, tensor<4x4xbf16>)
// ASKED-LABEL: @train(
// ASKED-SAME: tensor<4x4xf32> {stow.kind = #stow.kind<frozen>, stow.name = "w"}
// ASKED-SAME: %[[S:[a-z0-9]+]]: tensor<4xf16> {stow.kind = #stow.kind<frozen>, stow.name = "s"}
// ASKED: %[[WIDE:.*]] = stow.cast %[[S]] : (tensor<4xf16>) -> tensor<4xf32>
// ASKED: stow.mul %{{.*}}, %[[WIDE]] : (tensor<8x4xf32>, tensor<4xf32>)
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<8x4xbf16> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<frozen>},
                   %s: tensor<4xf32> {stow.name = "s", stow.kind = #stow.kind<frozen>})
      -> (tensor<8x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %c = stow.cast %w : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %a = stow.matmul %x, %c {transpose_a = false, transpose_b = true} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xf32>
    %y = stow.mul %a, %s : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
  func.func @eval(%x: tensor<8x4xbf16> {stow.name = "x", stow.kind = #stow.kind<input>},
                  %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<frozen>})
      -> (tensor<8x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %c = stow.cast %w : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %a = stow.matmul %x, %c {transpose_a = false, transpose_b = true} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xf32>
    return %a : tensor<8x4xf32>
  }
}

// -----

// The values of the file are in 16 bits: so is what is stored, though an f32 op reads it. Of a table the rows are converted, and a
// product of f32 gets an f32 copy for its phase. A product that reads it beside a factor in 16 bits reads it as it is stored.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<9x4xbf16>
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x4xbf16>
// CHECK: %[[R:.*]] = stow.embedding %[[T]], %{{.*}} -> tensor<8x4xbf16>
// CHECK-NEXT: %[[X:.*]] = stow.cast %[[R]] : (tensor<8x4xbf16>) -> tensor<8x4xf32>
// CHECK-NEXT: %[[C:.*]] = stow.cast %[[W]] : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK-NEXT: %[[A:.*]] = stow.matmul %[[X]], %[[C]]
// CHECK-NEXT: %[[B:.*]] = stow.cast %[[A]] : (tensor<8x4xf32>) -> tensor<8x4xbf16>
// CHECK-NEXT: stow.matmul %[[B]], %[[W]] {{.*}} (tensor<8x4xbf16>, tensor<4x4xbf16>)
// ASKED-LABEL: @train(
// ASKED-SAME: tensor<9x4xf32>
module attributes {stow.form = "step"} {
  func.func @train(%i: tensor<8xi64> {stow.name = "i", stow.kind = #stow.kind<input>},
                   %t: tensor<9x4xf32> {stow.name = "t", stow.kind = #stow.kind<frozen>, stow.stored = bf16},
                   %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<frozen>, stow.stored = bf16},
                   %s: tensor<4xf32> {stow.name = "s", stow.kind = #stow.kind<frozen>})
      -> (tensor<8x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %x = stow.embedding %t, %i : (tensor<9x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
    %a = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %b = stow.cast %a : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %c = stow.matmul %b, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xbf16>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %y = stow.mul %c, %s : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----

// A cast to more than f32 says nothing of 16 bits.
// CHECK-LABEL: @train(
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<4xf32> {stow.kind = #stow.kind<frozen>
// CHECK-NEXT: stow.cast %[[S]] : (tensor<4xf32>) -> tensor<4xf64>
// ASKED-LABEL: @train(
// ASKED-SAME: tensor<4xf16>
module attributes {stow.form = "step"} {
  func.func @train(%s: tensor<4xf32> {stow.name = "s", stow.kind = #stow.kind<frozen>})
      -> (tensor<4xf64> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.cast %s : (tensor<4xf32>) -> tensor<4xf64>
    return %y : tensor<4xf64>
  }
}
