// RUN: stowage-opt %s --stow-expand-math | FileCheck %s
// RUN: stowage-opt %s --stow-expand-math=bf16=true | FileCheck %s --check-prefix=BF16

// Tests that f32 math becomes arithmetic on whole vectors while f64 keeps its function.
// CHECK-LABEL: func.func @exp
// CHECK-NOT:     math.exp {{.*}} : vector<16xf32>
// CHECK:         math.exp {{.*}} : f64
// CHECK:         return
func.func @exp(%x: vector<16xf32>, %y: f64) -> (vector<16xf32>, f64) {
  %0 = math.exp %x : vector<16xf32>
  %1 = math.exp %y : f64
  return %0, %1 : vector<16xf32>, f64
}

// Tests that rounding to bf16 is spelled out only for targets that lack the instruction.
// CHECK-LABEL: func.func @round
// CHECK:         arith.truncf
// BF16-LABEL:  func.func @round
// BF16-NOT:      arith.truncf
// BF16:          return
func.func @round(%x: vector<16xf32>) -> vector<16xbf16> {
  %0 = arith.truncf %x : vector<16xf32> to vector<16xbf16>
  return %0 : vector<16xbf16>
}
