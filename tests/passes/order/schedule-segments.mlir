// RUN: stowage-opt %s --stow-fuse-elementwise --stow-bind-state --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: stowage-opt %s --stow-fuse-elementwise --stow-bind-state --stow-schedule=checkpoint=sqrt --stow-share-in-place --stow-verify-ordered --stow-pack-buffers --stow-verify-placed --split-input-file | FileCheck %s

// Tests a chain of nine values of 64 bytes, all read by the backward. Kept whole, the first
// overwrites x, so that nine and the gradient are live at the turn: 10 * 64 = 640 bytes. With the
// first, the fourth and the seventh kept it is these, the last value and the gradient, or a segment
// of two values less of what is kept: 5 * 64 = 320, for five values computed again. Each is the same
// op on the same kind of operand, in the backward, in front of its first reader.
// NONE: stow.arena_bytes = 640 : i64
// NONE-NOT: stow.recompute
// CHECK: stow.arena_bytes = 320 : i64
// CHECK-LABEL: func.func @train
// CHECK: %[[FIRST:.*]] = stow.softmax %arg0
// CHECK-COUNT-2: stow.softmax
// CHECK: %[[FOURTH:.*]] = stow.softmax
// CHECK-COUNT-2: stow.softmax
// CHECK: %[[SEVENTH:.*]] = stow.softmax
// CHECK: stow.softmax_grad
// CHECK-NEXT: %[[E:.*]] = stow.softmax %[[SEVENTH]] {axis = 1 : i64, {{.*}}stow.phase = #stow.phase<backward>, stow.recompute}
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[E]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[SEVENTH]]
// CHECK-NEXT: %[[A:.*]] = stow.softmax %[[FOURTH]] {{.*}}stow.recompute}
// CHECK-NEXT: %[[B:.*]] = stow.softmax %[[A]] {{.*}}stow.recompute}
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[B]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[A]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[FOURTH]]
// CHECK-NEXT: %[[C:.*]] = stow.softmax %[[FIRST]] {{.*}}stow.recompute}
// CHECK-NEXT: %[[D:.*]] = stow.softmax %[[C]] {{.*}}stow.recompute}
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[D]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[C]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[FIRST]]
// CHECK-NOT: stow.recompute
// CHECK: return
module {
  func.func @train(%h0: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d10: tensor<4x4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %h1 = stow.softmax %h0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h2 = stow.softmax %h1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h3 = stow.softmax %h2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h4 = stow.softmax %h3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h5 = stow.softmax %h4 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h6 = stow.softmax %h5 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h7 = stow.softmax %h6 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h8 = stow.softmax %h7 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h9 = stow.softmax %h8 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %d9 = stow.softmax_grad %d10, %h9 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d8 = stow.softmax_grad %d9, %h8 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d7 = stow.softmax_grad %d8, %h7 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d6 = stow.softmax_grad %d7, %h6 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d5 = stow.softmax_grad %d6, %h5 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d4 = stow.softmax_grad %d5, %h4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d3 = stow.softmax_grad %d4, %h3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d2 = stow.softmax_grad %d3, %h2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d1 = stow.softmax_grad %d2, %h1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %d1 : tensor<4x4xf32>
  }
}

// -----

// Tests residual blocks, r = r' + g(f(r')): inside the blocks behind the first two values cross, so
// that only the sums can be kept, and whole blocks are computed again in front of their backward:
// here the second, whose sum the third reads, and the third up to its own sum. None of their first
// values outlives the forward.
// CHECK-LABEL: func.func @train
// CHECK: %[[R1:.*]] = stow.map
// CHECK: %[[F2:.*]] = stow.softmax %[[R1]]
// CHECK-NEXT: %[[G2:.*]] = stow.softmax %[[F2]]
// CHECK-NEXT: %[[R2:.*]] = stow.map %[[R1]], %[[G2]]
// CHECK: %[[F3:.*]] = stow.softmax %[[R2]]
// CHECK-NEXT: %[[G3:.*]] = stow.softmax %[[F3]]
// CHECK-NOT: %[[F2]]{{[^0-9]}}
// CHECK-NOT: %[[F3]]{{[^0-9]}}
// CHECK: %[[F2A:.*]] = stow.softmax %[[R1]] {{.*}}stow.recompute}
// CHECK-NEXT: %[[G2A:.*]] = stow.softmax %[[F2A]] {{.*}}stow.recompute}
// CHECK-NEXT: %[[R2A:.*]] = stow.map %[[R1]], %[[G2A]] {{.*}}stow.recompute}
// CHECK: %[[F3A:.*]] = stow.softmax %[[R2A]] {{.*}}stow.recompute}
// CHECK-NEXT: %[[G3A:.*]] = stow.softmax %[[F3A]] {{.*}}stow.recompute}
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[G3A]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[F3A]]
// CHECK: stow.softmax_grad %{{.*}}, %[[G2A]]
// CHECK-NEXT: stow.softmax_grad %{{.*}}, %[[F2A]]
module {
  func.func @train(%r0: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d5: tensor<4x4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %f1 = stow.softmax %r0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g1 = stow.softmax %f1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r1 = stow.add %r0, %g1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %f2 = stow.softmax %r1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g2 = stow.softmax %f2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r2 = stow.add %r1, %g2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %f3 = stow.softmax %r2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g3 = stow.softmax %f3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r3 = stow.add %r2, %g3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %f4 = stow.softmax %r3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g4 = stow.softmax %f4 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r4 = stow.add %r3, %g4 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg4 = stow.softmax_grad %d5, %g4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %df4 = stow.softmax_grad %dg4, %f4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d4 = stow.add %d5, %df4 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg3 = stow.softmax_grad %d4, %g3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %df3 = stow.softmax_grad %dg3, %f3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d3 = stow.add %d4, %df3 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg2 = stow.softmax_grad %d3, %g2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %df2 = stow.softmax_grad %dg2, %f2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d2 = stow.add %d3, %df2 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg1 = stow.softmax_grad %d2, %g1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %df1 = stow.softmax_grad %dg1, %f1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d1 = stow.add %d2, %df1 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %d1 : tensor<4x4xf32>
  }
}

// -----

// Tests dropout, whose results the backward reads: computed again it draws the same numbers, from
// the same seed, stream and counter.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64>
// CHECK: %[[F:.*]] = stow.softmax
// CHECK: stow.map %[[F]], %[[SEED]] {
// CHECK: %[[I:.*]] = stow.element_index
// CHECK: stow.softmax_grad
// CHECK: stow.map %{{.*}}, %[[SEED]] {{.*}}stow.phase = #stow.phase<backward>, stow.recompute}
// CHECK: stow.element_index
module {
  func.func @train(%seed: tensor<i64> {stow.name = "seed", stow.kind = #stow.kind<seed>}, %r0: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d6: tensor<4x4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %f1 = stow.softmax %r0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g1 = stow.dropout_training %f1, %seed {ratio = 0.5 : f64, stream = 1 : i64} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %r1 = stow.softmax %g1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f2 = stow.softmax %r1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g2 = stow.dropout_training %f2, %seed {ratio = 0.5 : f64, stream = 2 : i64} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %r2 = stow.softmax %g2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f3 = stow.softmax %r2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g3 = stow.dropout_training %f3, %seed {ratio = 0.5 : f64, stream = 3 : i64} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %r3 = stow.softmax %g3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f4 = stow.softmax %r3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g4 = stow.dropout_training %f4, %seed {ratio = 0.5 : f64, stream = 4 : i64} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %r4 = stow.softmax %g4 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f5 = stow.softmax %r4 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g5 = stow.dropout_training %f5, %seed {ratio = 0.5 : f64, stream = 5 : i64} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %r5 = stow.softmax %g5 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %dr5 = stow.softmax_grad %d6, %g5 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg5 = stow.dropout_training %dr5, %seed {ratio = 0.5 : f64, stream = 5 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %d5 = stow.softmax_grad %dg5, %g5 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dr4 = stow.softmax_grad %d5, %g4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg4 = stow.dropout_training %dr4, %seed {ratio = 0.5 : f64, stream = 4 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %d4 = stow.softmax_grad %dg4, %g4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dr3 = stow.softmax_grad %d4, %g3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg3 = stow.dropout_training %dr3, %seed {ratio = 0.5 : f64, stream = 3 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %d3 = stow.softmax_grad %dg3, %g3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dr2 = stow.softmax_grad %d3, %g2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg2 = stow.dropout_training %dr2, %seed {ratio = 0.5 : f64, stream = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %d2 = stow.softmax_grad %dg2, %g2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dr1 = stow.softmax_grad %d2, %g1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dg1 = stow.dropout_training %dr1, %seed {ratio = 0.5 : f64, stream = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<i64>) -> tensor<4x4xf32>
    %d1 = stow.softmax_grad %dg1, %g1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %d1 : tensor<4x4xf32>
  }
}

// -----

// Tests that batch statistics stay: 16 bytes beside the 512*4*4 = 8192 of what they describe. Three
// of six normalizations run again for the sake of their output, the third, whose output is kept,
// does not: its gradient reads the statistics of the forward.
// CHECK-LABEL: func.func @train
// CHECK-COUNT-2: stow.batch_norm_training
// CHECK: %{{.*}}, %[[M:.*]], %[[VAR:.*]] = stow.batch_norm_training
// CHECK-COUNT-3: stow.batch_norm_training {{.*}}stow.recompute}
// CHECK-NOT: stow.batch_norm_training
// CHECK: stow.batch_norm_grad %{{.*}}, %[[M]], %[[VAR]],
// CHECK-NOT: stow.batch_norm_training
// CHECK: return
module {
  func.func @train(%s: tensor<4xf32> {stow.name = "s", stow.kind = #stow.kind<parameter>}, %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>}, %r0: tensor<512x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d7: tensor<512x4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}) -> (tensor<512x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %f1, %m1, %v1 = stow.batch_norm_training %r0, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %r1 = stow.softmax %f1 {axis = 1 : i64} : (tensor<512x4xf32>) -> tensor<512x4xf32>
    %f2, %m2, %v2 = stow.batch_norm_training %r1, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %r2 = stow.softmax %f2 {axis = 1 : i64} : (tensor<512x4xf32>) -> tensor<512x4xf32>
    %f3, %m3, %v3 = stow.batch_norm_training %r2, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %r3 = stow.softmax %f3 {axis = 1 : i64} : (tensor<512x4xf32>) -> tensor<512x4xf32>
    %f4, %m4, %v4 = stow.batch_norm_training %r3, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %r4 = stow.softmax %f4 {axis = 1 : i64} : (tensor<512x4xf32>) -> tensor<512x4xf32>
    %f5, %m5, %v5 = stow.batch_norm_training %r4, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %r5 = stow.softmax %f5 {axis = 1 : i64} : (tensor<512x4xf32>) -> tensor<512x4xf32>
    %f6, %m6, %v6 = stow.batch_norm_training %r5, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %r6 = stow.softmax %f6 {axis = 1 : i64} : (tensor<512x4xf32>) -> tensor<512x4xf32>
    %df6 = stow.softmax_grad %d7, %r6 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<512x4xf32>
    %d6, %ds6, %db6 = stow.batch_norm_grad %r5, %m6, %v6, %s, %df6 {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<512x4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %df5 = stow.softmax_grad %d6, %r5 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<512x4xf32>
    %d5, %ds5, %db5 = stow.batch_norm_grad %r4, %m5, %v5, %s, %df5 {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<512x4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %df4 = stow.softmax_grad %d5, %r4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<512x4xf32>
    %d4, %ds4, %db4 = stow.batch_norm_grad %r3, %m4, %v4, %s, %df4 {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<512x4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %df3 = stow.softmax_grad %d4, %r3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<512x4xf32>
    %d3, %ds3, %db3 = stow.batch_norm_grad %r2, %m3, %v3, %s, %df3 {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<512x4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %df2 = stow.softmax_grad %d3, %r2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<512x4xf32>
    %d2, %ds2, %db2 = stow.batch_norm_grad %r1, %m2, %v2, %s, %df2 {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<512x4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %df1 = stow.softmax_grad %d2, %r1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<512x4xf32>) -> tensor<512x4xf32>
    %d1, %ds1, %db1 = stow.batch_norm_grad %r0, %m1, %v1, %s, %df1 {epsilon = 1.0e-5 : f64, stow.phase = #stow.phase<backward>} : (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<512x4xf32>) -> (tensor<512x4xf32>, tensor<4xf32>, tensor<4xf32>)
    return %d1 : tensor<512x4xf32>
  }
}

// -----

// Tests that updates which compute their gradient themselves read the recomputed values: here
// dw = dy * h merges into the update of w.
// CHECK-LABEL: func.func @train
// CHECK: %[[H:.*]] = stow.softmax %{{[a-z0-9]+}} {axis = 1 : i64, {{.*}}stow.recompute}
// CHECK: stow.map {{.*}}%[[H]]{{.*}} {stow.offsets = {{.*}}, stow.phase = #stow.phase<update>, updates
// CHECK: return
module {
  func.func @train(%h0: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d7: tensor<4x4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}, %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>},
      %w1: tensor<4x4xf32> {stow.name = "w1", stow.kind = #stow.kind<parameter>}, %w2: tensor<4x4xf32> {stow.name = "w2", stow.kind = #stow.kind<parameter>}, %w3: tensor<4x4xf32> {stow.name = "w3", stow.kind = #stow.kind<parameter>}, %w4: tensor<4x4xf32> {stow.name = "w4", stow.kind = #stow.kind<parameter>}, %w5: tensor<4x4xf32> {stow.name = "w5", stow.kind = #stow.kind<parameter>}, %w6: tensor<4x4xf32> {stow.name = "w6", stow.kind = #stow.kind<parameter>})
      -> (tensor<4x4xf32> {stow.state = "w1"}, tensor<4x4xf32> {stow.state = "w2"}, tensor<4x4xf32> {stow.state = "w3"}, tensor<4x4xf32> {stow.state = "w4"}, tensor<4x4xf32> {stow.state = "w5"}, tensor<4x4xf32> {stow.state = "w6"}) attributes {stow.role = #stow.role<train>} {
    %s1 = stow.softmax %h0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h1 = stow.mul %s1, %w1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s2 = stow.softmax %h1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h2 = stow.mul %s2, %w2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s3 = stow.softmax %h2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h3 = stow.mul %s3, %w3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s4 = stow.softmax %h3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h4 = stow.mul %s4, %w4 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s5 = stow.softmax %h4 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h5 = stow.mul %s5, %w5 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s6 = stow.softmax %h5 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h6 = stow.mul %s6, %w6 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw6 = stow.mul %d7, %s6 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ds6 = stow.mul %d7, %w6 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n6 = stow.sgd %w6, %dw6, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %d6 = stow.softmax_grad %ds6, %s6 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw5 = stow.mul %d6, %s5 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ds5 = stow.mul %d6, %w5 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n5 = stow.sgd %w5, %dw5, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %d5 = stow.softmax_grad %ds5, %s5 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw4 = stow.mul %d5, %s4 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ds4 = stow.mul %d5, %w4 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n4 = stow.sgd %w4, %dw4, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %d4 = stow.softmax_grad %ds4, %s4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw3 = stow.mul %d4, %s3 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ds3 = stow.mul %d4, %w3 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n3 = stow.sgd %w3, %dw3, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %d3 = stow.softmax_grad %ds3, %s3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw2 = stow.mul %d3, %s2 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ds2 = stow.mul %d3, %w2 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n2 = stow.sgd %w2, %dw2, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %d2 = stow.softmax_grad %ds2, %s2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw1 = stow.mul %d2, %s1 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ds1 = stow.mul %d2, %w1 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n1 = stow.sgd %w1, %dw1, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    return %n1, %n2, %n3, %n4, %n5, %n6 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// Tests that an op stays which would read a parameter behind its update: %k reads w in the forward's
// first segment, and w is updated before the backward gets there. The same ops that read nothing but
// x and each other are computed again.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x4xf32> {{[^%]*}}stow.name = "w"
// CHECK: %[[K:.*]] = stow.softmax %[[W]]
// CHECK: stow.map %[[W]]{{.*}}updates = array<i64: 0, 0>
// CHECK-NOT: stow.softmax %[[W]]
// CHECK: stow.softmax {{.*}}stow.recompute}
// CHECK: stow.softmax_grad %{{.*}}, %[[K]]
module {
  func.func @train(%h0: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %d9: tensor<4x4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}, %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4x4xf32> {stow.name = "y"}, tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %k = stow.softmax %w {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h1 = stow.matmul %h0, %k {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h2 = stow.softmax %h1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h3 = stow.softmax %h2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h4 = stow.softmax %h3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h5 = stow.softmax %h4 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h6 = stow.softmax %h5 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h7 = stow.softmax %h6 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h8 = stow.softmax %h7 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %w1 = stow.map %w, %h8 {updates = array<i64: 0, 0>, stow.phase = #stow.phase<update>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.subf %p, %q : f32
      stow.yield %0 : f32
    }
    %d8 = stow.softmax_grad %d9, %h8 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d7 = stow.softmax_grad %d8, %h7 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d6 = stow.softmax_grad %d7, %h6 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d5 = stow.softmax_grad %d6, %h5 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d4 = stow.softmax_grad %d5, %h4 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d3 = stow.softmax_grad %d4, %h3 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d2 = stow.softmax_grad %d3, %h2 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d1 = stow.softmax_grad %d2, %h1 {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dk = stow.softmax_grad %d1, %k {axis = 1 : i64, stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %dk, %w1 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// Tests that the evaluation graph, and a training graph that saves nothing, are left as they are.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: stow.recompute
module {
  func.func @eval(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %a = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %b : tensor<4x4xf32>
  }
  func.func @train(%x: tensor<4x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = stow.softmax %a {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %b : tensor<4x4xf32>
  }
}
