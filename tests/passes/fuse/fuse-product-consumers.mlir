// RUN: stowage-opt %s --stow-fuse-product-consumers --split-input-file | FileCheck %s

// Tests that an update uses up its gradient by tiles: operands behind the factors keep their order, and
// updates count the factors in the product's place.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<8x2048xf32> {{[^:]*}}, %[[X:[a-z0-9]+]]: tensor<8x2048xf32> {{[^:]*}}, %[[W:[a-z0-9]+]]: tensor<2048x2048xf32> {{[^:]*}}, %[[R:[a-z0-9]+]]: tensor<f32>
// CHECK-NOT: stow.matmul
// CHECK: %[[N:.*]] = stow.product_map %[[DY]], %[[X]], %[[R]], %[[W]] {stow.phase = #stow.phase<update>, transpose_a = true, transpose_b = false, updates = array<i64: 0, 3>}
// CHECK-NEXT: ^bb0(%[[P:.*]]: f32, %[[LR:.*]]: f32, %[[OLD:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = arith.mulf %[[LR]], %[[P]]
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[OLD]], %[[S]]
// CHECK-NEXT: stow.yield %[[D]]
// CHECK: return %[[N]]
func.func @train(%dy: tensor<8x2048xf32> {stow.kind = #stow.kind<input>}, %x: tensor<8x2048xf32> {stow.kind = #stow.kind<input>}, %w: tensor<2048x2048xf32> {stow.kind = #stow.kind<parameter>}, %lr: tensor<f32> {stow.kind = #stow.kind<learning_rate>}) -> tensor<2048x2048xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x2048xf32>, tensor<8x2048xf32>) -> tensor<2048x2048xf32>
  %n = stow.map %lr, %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 2>} : (tensor<f32>, tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.mulf %a, %b : f32
    %d = arith.subf %c, %s : f32
    stow.yield %d : f32
  }
  return %n : tensor<2048x2048xf32>
}

// -----

// Tests a weight that two products share: the first is the sum that the second is added to, by the
// library, whatever their size.
// CHECK-LABEL: func.func @train
// CHECK: %[[A:.*]] = stow.matmul %{{.*}}, %{{.*}} {stow.phase
// CHECK: %[[S:.*]] = stow.product_map %{{.*}}, %{{.*}}, %[[A]] {{.*}}: (tensor<1x6xf32>, tensor<1x4xf32>, tensor<6x4xf32>)
// CHECK: return %[[S]]
func.func @train(%dy: tensor<1x6xf32> {stow.kind = #stow.kind<input>}, %x: tensor<1x4xf32> {stow.kind = #stow.kind<input>}, %z: tensor<1x4xf32> {stow.kind = #stow.kind<input>}, %dz: tensor<1x6xf32> {stow.kind = #stow.kind<input>}) -> tensor<6x4xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dz, %z {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %h = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %s = stow.map %g, %h {stow.phase = #stow.phase<backward>} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    stow.yield %c : f32
  }
  return %s : tensor<6x4xf32>
}

// -----

// Tests 16-bit factors: the kernel reads the product as it is summed, in f32.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.matmul
// CHECK: stow.product_map %{{.*}}, %{{.*}}, %{{.*}} {{.*}}: (tensor<8x2048xbf16>, tensor<8x2048xbf16>, tensor<2048x2048xf32>)
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32):
func.func @train(%dy: tensor<8x2048xbf16> {stow.kind = #stow.kind<input>}, %x: tensor<8x2048xbf16> {stow.kind = #stow.kind<input>}, %w: tensor<2048x2048xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<2048x2048xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x2048xbf16>, tensor<8x2048xbf16>) -> tensor<2048x2048xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %c, %b : f32
    stow.yield %d : f32
  }
  return %n : tensor<2048x2048xf32>
}

// -----

// Tests what stays whole: a sum that is read later, so that another place would be needed for it; a
// product that others read; one of the forward.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.product_map
func.func @train(%dy: tensor<1x6xf32> {stow.kind = #stow.kind<input>}, %x: tensor<1x4xf32> {stow.kind = #stow.kind<input>}) -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) attributes {stow.role = #stow.role<train>} {
  %f = stow.matmul %dy, %x {transpose_a = true, transpose_b = false} : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %h = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %k = stow.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %l = stow.matmul %dy, %k {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %s = stow.map %g, %h {stow.phase = #stow.phase<backward>} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    stow.yield %c : f32
  }
  %t = stow.map %s, %f {stow.phase = #stow.phase<backward>} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    stow.yield %c : f32
  }
  %u = stow.map %s, %l {stow.phase = #stow.phase<backward>} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    stow.yield %c : f32
  }
  return %g, %h, %s, %t, %u, %l : tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
}

// -----

// Tests factors that are the state itself: its rows would be new while later tiles are made of them.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%w: tensor<2048x2048xf32> {stow.kind = #stow.kind<parameter>}, %lr: tensor<f32> {stow.kind = #stow.kind<learning_rate>}) -> tensor<2048x2048xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %w, %w {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<2048x2048xf32>
}

// -----

// Tests factors that would have to be kept for the update, which comes later, and are larger than the
// gradient.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%z: tensor<4096x2048xf32> {stow.kind = #stow.kind<input>}, %w: tensor<2048x2048xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<2048x2048xf32> attributes {stow.role = #stow.role<train>} {
  %dy = stow.exp %z {stow.phase = #stow.phase<backward>} : (tensor<4096x2048xf32>) -> tensor<4096x2048xf32>
  %g = stow.matmul %dy, %z {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<4096x2048xf32>, tensor<4096x2048xf32>) -> tensor<2048x2048xf32>
  %k = stow.exp %w {stow.phase = #stow.phase<backward>} : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<2048x2048xf32>
}

// -----

// Tests a product that is too small for tiles of the library's: it is summed in rows.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stow.matmul
// CHECK: stow.product_map %{{.*}}, %{{.*}}, %{{.*}} {{.*}}: (tensor<32x128xf32>, tensor<32x64xf32>, tensor<128x64xf32>)
func.func @train(%dy: tensor<32x128xf32> {stow.kind = #stow.kind<input>}, %x: tensor<32x64xf32> {stow.kind = #stow.kind<input>}, %w: tensor<128x64xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<128x64xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<32x128xf32>, tensor<32x64xf32>) -> tensor<128x64xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<128x64xf32>
}

// -----

// Tests what is not summed in rows: fewer columns than the loops take.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%dy: tensor<32x128xf32> {stow.kind = #stow.kind<input>}, %x: tensor<32x10xf32> {stow.kind = #stow.kind<input>}, %w: tensor<128x10xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<128x10xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<32x128xf32>, tensor<32x10xf32>) -> tensor<128x10xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<128x10xf32>, tensor<128x10xf32>) -> tensor<128x10xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<128x10xf32>
}

// -----

// Tests more contracted elements.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%dy: tensor<260x128xf32> {stow.kind = #stow.kind<input>}, %x: tensor<260x64xf32> {stow.kind = #stow.kind<input>}, %w: tensor<128x64xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<128x64xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<260x128xf32>, tensor<260x64xf32>) -> tensor<128x64xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<128x64xf32>
}

// -----

// Tests a right factor that is read transposed.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%dy: tensor<32x128xf32> {stow.kind = #stow.kind<input>}, %x: tensor<64x32xf32> {stow.kind = #stow.kind<input>}, %w: tensor<128x64xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<128x64xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = true, stow.phase = #stow.phase<backward>} : (tensor<32x128xf32>, tensor<64x32xf32>) -> tensor<128x64xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<128x64xf32>
}

// -----

// Tests a product of one tile.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%dy: tensor<32x8xf32> {stow.kind = #stow.kind<input>}, %x: tensor<32x128xf32> {stow.kind = #stow.kind<input>}, %w: tensor<8x128xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<8x128xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<32x8xf32>, tensor<32x128xf32>) -> tensor<8x128xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<8x128xf32>, tensor<8x128xf32>) -> tensor<8x128xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<8x128xf32>
}

// -----

// Tests a right factor that is larger than the second cache.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%dy: tensor<256x64xf32> {stow.kind = #stow.kind<input>}, %x: tensor<256x2048xf32> {stow.kind = #stow.kind<input>}, %w: tensor<64x2048xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<64x2048xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<256x64xf32>, tensor<256x2048xf32>) -> tensor<64x2048xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<64x2048xf32>, tensor<64x2048xf32>) -> tensor<64x2048xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<64x2048xf32>
}

// -----

// Tests products that the library packs and that are too small for two tiles of which each is summed like
// the whole.
// CHECK-LABEL: func.func @train
// CHECK: stow.matmul
// CHECK-NOT: stow.product_map
func.func @train(%dy: tensor<8x1024xf32> {stow.kind = #stow.kind<input>}, %x: tensor<8x1024xf32> {stow.kind = #stow.kind<input>}, %w: tensor<1024x1024xf32> {stow.kind = #stow.kind<parameter>}) -> tensor<1024x1024xf32> attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x1024xf32>, tensor<8x1024xf32>) -> tensor<1024x1024xf32>
  %n = stow.map %g, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %n : tensor<1024x1024xf32>
}

// -----

// Tests the sum of a gradient over several batches, which is state: the product is added to it, and the new
// sum lies where the old one does.
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<6x4xf32>
// CHECK: %[[N:.*]] = stow.product_map %{{.*}}, %{{.*}}, %[[S]]
// CHECK: return %[[N]]
func.func @accumulate(%s: tensor<6x4xf32> {stow.kind = #stow.kind<accumulator>, stow.name = "w.sum"}, %dy: tensor<8x6xf32> {stow.kind = #stow.kind<input>, stow.name = "dy"}, %x: tensor<8x4xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}) -> (tensor<6x4xf32> {stow.state = "w.sum"}) attributes {stow.role = #stow.role<accumulate>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %n = stow.map %s, %g {stow.phase = #stow.phase<update>} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    stow.yield %c : f32
  }
  return %n : tensor<6x4xf32>
}


// -----

// Tests a step of several devices: the product that is reduced has the loops of the one that an update uses up, and no
// others; the same in a graph that does not train stays a product.
// CHECK-LABEL: func.func @train
// CHECK: %[[G:.*]] = stow.product_map %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {stow.phase = #stow.phase<backward>, stow.sums_alike, transpose_a = true, transpose_b = false} : (tensor<128x64xf32>, tensor<128x32xf32>) -> tensor<64x32xf32> {
// CHECK-NEXT: ^bb0(%[[P:.*]]: f32):
// CHECK-NEXT: stow.yield %[[P]]
// CHECK: stow.all_reduce %[[G]]
// CHECK: stow.product_map %{{.*}} {stow.phase = #stow.phase<update>, stow.sums_alike, transpose_a = true
// CHECK-NOT: stow.matmul
// CHECK-LABEL: func.func @eval
// CHECK: stow.matmul
module attributes {stow.devices = 2 : i64} {
func.func @train(%dy: tensor<128x64xf32> {stow.kind = #stow.kind<input>}, %x: tensor<128x32xf32> {stow.kind = #stow.kind<input>}, %w: tensor<64x32xf32> {stow.kind = #stow.kind<parameter>}) -> (tensor<64x32xf32>, tensor<64x32xf32>) attributes {stow.role = #stow.role<train>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<128x64xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
  %r = stow.all_reduce %g {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %h = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<128x64xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
  %n = stow.map %h, %w {stow.phase = #stow.phase<update>, updates = array<i64: 0, 1>} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32> {
  ^bb0(%a: f32, %b: f32):
    %d = arith.subf %b, %a : f32
    stow.yield %d : f32
  }
  return %r, %n : tensor<64x32xf32>, tensor<64x32xf32>
}
func.func @eval(%dy: tensor<128x64xf32> {stow.kind = #stow.kind<input>}, %x: tensor<128x32xf32> {stow.kind = #stow.kind<input>}) -> tensor<64x32xf32> attributes {stow.role = #stow.role<eval>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false} : (tensor<128x64xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
  return %g : tensor<64x32xf32>
}
}

// -----

// Tests the sum of a gradient over several batches, whose product has such loops: it is added by these, by the library where
// it has none.
// CHECK-LABEL: func.func @accumulate
// CHECK: stow.product_map {{.*}}stow.sums_alike{{.*}}: (tensor<128x64xf32>, tensor<128x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
module attributes {stow.batches = 2 : i64} {
func.func @accumulate(%s: tensor<64x32xf32> {stow.kind = #stow.kind<accumulator>, stow.name = "w.sum"}, %dy: tensor<128x64xf32> {stow.kind = #stow.kind<input>, stow.name = "dy"}, %x: tensor<128x32xf32> {stow.kind = #stow.kind<input>, stow.name = "x"}) -> (tensor<64x32xf32> {stow.state = "w.sum"}) attributes {stow.role = #stow.role<accumulate>} {
  %g = stow.matmul %dy, %x {transpose_a = true, transpose_b = false, stow.phase = #stow.phase<backward>} : (tensor<128x64xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
  %n = stow.map %s, %g {stow.phase = #stow.phase<update>} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    stow.yield %c : f32
  }
  return %n : tensor<64x32xf32>
}
}
