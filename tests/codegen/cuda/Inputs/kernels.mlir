// One kernel of each kind: broadcast, folds along and across the lanes, softmax, an optimizer, rows
// by index, layer and batch normalization, elements at computed places.
func.func @graph(%x: tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">>, %b: tensor<64x1x1xf32>,
                 %l: tensor<64x1000xf32>, %t: tensor<64xi64>, %p: tensor<4096xf32>,
                 %lr: tensor<f32>, %s: tensor<1000xf32>, %c: tensor<64xf32>,
                 %g: tensor<8x9x9x2xf32>) {
  %0 = stow.map %x, %b
      : (tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">>, tensor<64x1x1xf32>)
      -> tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">> {
  ^bb0(%u: f32, %v: f32):
    %1 = arith.addf %u, %v : f32
    %2 = math.tanh %1 : f32
    stow.yield %2 : f32
  }
  %3 = stow.reduce_sum %l {axes = array<i64: 1>, keepdims = false}
      : (tensor<64x1000xf32>) -> tensor<64xf32>
  %4 = stow.reduce_sum %l {axes = array<i64: 0>, keepdims = false}
      : (tensor<64x1000xf32>) -> tensor<1000xf32>
  %5 = stow.softmax %l {axis = 1 : i64} : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
  %6, %7 = stow.cross_entropy_rows %l, %t {ignore_index = -100 : i64}
      : (tensor<64x1000xf32>, tensor<64xi64>) -> (tensor<64xf32>, tensor<64xf32>)
  %8 = stow.map %p, %lr {updates = array<i64: 0, 0>} : (tensor<4096xf32>, tensor<f32>) -> tensor<4096xf32> {
  ^bb0(%u: f32, %v: f32):
    %9 = math.sqrt %u : f32
    %10 = math.fma %v, %9, %u : f32
    stow.yield %10 : f32
  }
  %11 = stow.embedding %l, %t : (tensor<64x1000xf32>, tensor<64xi64>) -> tensor<64x1000xf32>
  %12 = stow.embedding_grad %l, %t {rows = 300 : i64}
      : (tensor<64x1000xf32>, tensor<64xi64>) -> tensor<300x1000xf32>
  %13, %14, %15 = stow.layer_norm %l, %s {epsilon = 1.0e-5 : f64}
      : (tensor<64x1000xf32>, tensor<1000xf32>)
      -> (tensor<64x1000xf32>, tensor<64xf32>, tensor<64xf32>)
  %16, %17 = stow.layer_norm_scale_grad %l, %13, %14, %15
      : (tensor<64x1000xf32>, tensor<64x1000xf32>, tensor<64xf32>, tensor<64xf32>)
      -> (tensor<1000xf32>, tensor<1000xf32>)
  %18, %19 = stow.batch_norm_scale_grad %x, %x, %c, %c {epsilon = 1.0e-5 : f64}
      : (tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">>, tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">>,
         tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %20 = stow.reshape %t : (tensor<64xi64>) -> tensor<1x64xi64>
  %21 = stow.take_along %l, %20 {axis = 1 : i64} : (tensor<64x1000xf32>, tensor<1x64xi64>) -> tensor<64x64xf32>
  %22 = stow.scatter_along %21, %20 {axis = 1 : i64, extent = 1000 : i64}
      : (tensor<64x64xf32>, tensor<1x64xi64>) -> tensor<64x1000xf32>
  %23 = stow.strided_slice %l {starts = array<i64: 63, 0>, sizes = array<i64: 64, 500>, steps = array<i64: -1, 2>}
      : (tensor<64x1000xf32>) -> tensor<64x500xf32>
  %24 = stow.strided_pad %23 {starts = array<i64: 63, 0>, steps = array<i64: -1, 2>, shape = array<i64: 64, 1000>}
      : (tensor<64x500xf32>) -> tensor<64x1000xf32>
  %25, %26 = stow.top_k %l {axis = 1 : i64, k = 5 : i64, largest = true}
      : (tensor<64x1000xf32>) -> (tensor<64x5xf32>, tensor<64x5xi64>)
  %27 = stow.cumsum %l {axis = 0 : i64, exclusive = false, reverse = true} : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
  %28 = stow.grid_sample %x, %g {mode = "linear", padding = "reflection", align_corners = false}
      : (tensor<8x64x7x7xf32, #stow.layout<"0,2,3,1">>, tensor<8x9x9x2xf32>) -> tensor<8x64x9x9xf32>
  %29 = stow.grid_sample_grad_input %28, %g {extents = array<i64: 7, 7>, mode = "linear", padding = "zeros",
      align_corners = true} : (tensor<8x64x9x9xf32>, tensor<8x9x9x2xf32>) -> tensor<8x64x7x7xf32>
  %30 = stow.grid_sample_grad_grid %28, %29, %g {padding = "border", align_corners = false}
      : (tensor<8x64x9x9xf32>, tensor<8x64x7x7xf32>, tensor<8x9x9x2xf32>) -> tensor<8x9x9x2xf32>
  %31 = stow.scatter_max %l, %21, %20 {axis = 1 : i64}
      : (tensor<64x1000xf32>, tensor<64x64xf32>, tensor<1x64xi64>) -> tensor<64x1000xf32>
  %32 = stow.scatter_mul %l, %21, %20 {axis = 1 : i64}
      : (tensor<64x1000xf32>, tensor<64x64xf32>, tensor<1x64xi64>) -> tensor<64x1000xf32>
  return
}
