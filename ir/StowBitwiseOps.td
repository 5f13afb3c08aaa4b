// Arithmetic on the bits of whole numbers.
#ifndef STOW_BITWISE_OPS_TD
#define STOW_BITWISE_OPS_TD

include "ir/StowBase.td"

def Stow_BitwiseOp : Stow_InferredOp<"bitwise", [Stow_IsElementwise, Stow_Shares]> {
  let summary = "Bits of two whole numbers joined, or shifted";
  let description = [{
    After NumPy broadcasting the bits of a and b joined by `and`, `or` or `xor`, or those of a moved by b
    places: `shift_left` fills with zeros, `shift_right` with the sign. Moved by fewer than no places, or by
    as many as there are bits or more, nothing is left but what fills.
    C1: shapes broadcast; C2: one element type; C3: `kind` is one of the five.
    ```mlir
    %y = stow.bitwise %a, %b {kind = "xor"} : (tensor<4x8xi64>, tensor<8xi64>) -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins Stow_IntTensor:$a, Stow_IntTensor:$b, StrAttr:$kind);
  let results = (outs Stow_IntTensor:$y);
  let hasVerifier = 1;
}

#endif // STOW_BITWISE_OPS_TD
