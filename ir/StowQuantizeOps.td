// Weights that are stored in blocks of few bits.
#ifndef STOW_QUANTIZE_OPS_TD
#define STOW_QUANTIZE_OPS_TD

include "ir/StowBase.td"

def Stow_DequantizeOp : Stow_Op<"dequantize", [Stow_HasFlops]> {
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

#endif // STOW_QUANTIZE_OPS_TD
