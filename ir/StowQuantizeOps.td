// Weights that are stored in blocks of few bits.
#ifndef STOW_QUANTIZE_OPS_TD
#define STOW_QUANTIZE_OPS_TD

include "ir/StowBase.td"

def Stow_DequantizeOp : Stow_Op<"dequantize", [Stow_WalksRows, Stow_HasFlops]> {
  let summary = "A quantized weight as numbers";
  let description = [{
    What the bytes of a frozen parameter stand for, row-major, as `runtime/base/Quantization.h` has them: `scheme` is "nf4" or
    "int8". Computed in f32 and rounded to the type of y. Each reader of the weight has an op of its own, right before it, so that
    no weight lies in memory twice for long; `reading` counts them, and keeps those of one weight apart.
    C1: the scheme is known; C2: the number of y's elements is a multiple of 128; C3: x has the bytes of so many.
    ```mlir
    %w = stow.dequantize %packed {scheme = "nf4", reading = 0 : i64}
        : (tensor<8456xi8>) -> tensor<128x128xbf16>
    ```
  }];
  let arguments = (ins Stow_Tensor:$x, StrAttr:$scheme, I64Attr:$reading);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_CodedMatmulOp : Stow_Op<"coded_matmul", [Stow_Multiplies, Stow_HasFlops]> {
  let summary = "A product of few rows with a quantized weight";
  let description = [{
    `a` [..., K] times the matrix that the bytes of `packed` stand for, [K, N] or, with `transpose_b`, [N, K]: the matmul of a
    dequantize, whose numbers are nowhere in memory (stow-read-codes).
    C1: `scheme` is known; C2: `packed` has the bytes of K x N numbers; C3: y has a's leading dimensions and N columns.
    ```mlir
    %y = stow.coded_matmul %a, %packed {scheme = "nf4", transpose_b = true}
        : (tensor<2x128xf32>, tensor<8456xi8>) -> tensor<2x128xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$a, Stow_Tensor:$packed, StrAttr:$scheme, BoolAttr:$transpose_b);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_DequantizeStateOp : Stow_Op<"dequantize_state", [Stow_HasFlops]> {
  let summary = "An optimizer's state in 8 bits as numbers";
  let description = [{
    `y[i] = level[codes[i]] * scales[i / 256]`, i counting elements as they lie, row-major; the levels are those of
    `runtime/base/Quantization.h`, of numbers that are never negative with `nonnegative`. C1: the codes have y's shape and a multiple of
    256 elements; C2: there is a scale for each 256.
    ```mlir
    %m = stow.dequantize_state %codes, %scales : (tensor<64x64xi8>, tensor<16xf32>) -> tensor<64x64xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$codes, Stow_FloatTensor:$scales, UnitAttr:$nonnegative);
  let results = (outs Stow_FloatTensor:$y);
  let hasVerifier = 1;
}

def Stow_QuantizeStateOp : Stow_Op<"quantize_state",
    [Stow_HasFlops, Stow_Shares, Stow_NotRecomputable]> {
  let summary = "An optimizer's new state in 8 bits";
  let description = [{
    Of each 256 elements of x the largest magnitude is the scale, and the code of an element that of the level nearest to it,
    divided by the scale; of two as near, the lower one. Overwrites codes and scales, which it does not read. C1 and C2 as of
    dequantize_state.
    ```mlir
    %codes1, %scales1 = stow.quantize_state %m, %codes, %scales
        : (tensor<64x64xf32>, tensor<64x64xi8>, tensor<16xf32>) -> (tensor<64x64xi8>, tensor<16xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$x, Stow_Tensor:$codes, Stow_FloatTensor:$scales,
                       UnitAttr:$nonnegative);
  let results = (outs Stow_Tensor:$new_codes, Stow_FloatTensor:$new_scales);
  let hasVerifier = 1;
}

#endif // STOW_QUANTIZE_OPS_TD
