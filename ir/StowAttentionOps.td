// Attention whose scores are never stored.
#ifndef STOW_ATTENTION_OPS_TD
#define STOW_ATTENTION_OPS_TD

include "ir/StowBase.td"

defvar Stow_AttentionAttributes = (ins F64Attr:$scale, OptionalAttr<I64Attr>:$diagonal,
                                   OptionalAttr<I64Attr>:$window,
                                   BoolAttr:$zero_rows, F64Attr:$ratio, I64Attr:$stream);

def Stow_AttentionOp : Stow_Op<"attention",
    [Stow_WalksMatrices, Stow_Low, Stow_HasWidePositions, InferTypeOpAdaptorWithIsCompatible, AttrSizedOperandSegments,
     Stow_HasGradient, Stow_HasFlops]> {
  let summary = "Attention: softmax(scale q k' + mask) v, by tiles";
  let description = [{
    `q` [..., T, D], `k` [..., S, D] and `v` [..., S, E] -> `y` [..., T, E] and `lse` [..., T, 2]. Query
    i weighs the rows of v by the softmax of its scores, its products with the keys times `scale`;
    `lse` is ln(sum(exp(scores))) in two parts, from which the gradient makes the weights again: the
    largest score, and the rest, which a sum would lose. Scores [..., T, S] exist a tile at a time.

    A `mask` of i1 leaves the scores where it is true, one of floats is added to them. With
    `diagonal`, query i sees keys 0 to i + diagonal alone, of these with `window` the last so many; what
    lies behind and before is not computed. With `documents`, numbers of the documents that queries and
    keys belong to, a query sees the keys of its own alone. A query that sees no key gives NaN, with
    `zero_rows` 0. With `ratio` the weights are dropped with that
    probability: in the model form this says so, in the training graph `seed` and `stream` make the
    random numbers, element by element those of stow.dropout_training on the weights.

    C1: ranks are equal and 2 or more, and D and S agree; C2: the leading extents are equal, but the
    last of those of k and v may divide q's: so many queries in a row share keys; C3: the mask
    broadcasts to the scores; C4: the diagonal is not negative, and a window goes with
    one, in which every query sees a key; C5: the ratio lies in [0, 1), and the
    seed is a scalar; C6: documents are i32 or i64, those of queries and of keys alike, and broadcast to
    [..., T] and [..., S], the leading extents those of the scores.
    ```mlir
    %y, %lse = stow.attention %q, %k, %v {scale = 0.125 : f64, diagonal = 0 : i64,
        zero_rows = false, ratio = 0.0 : f64, stream = 0 : i64}
        : (tensor<4x12x1024x64xf32>, tensor<4x12x1024x64xf32>, tensor<4x12x1024x64xf32>)
        -> (tensor<4x12x1024x64xf32>, tensor<4x12x1024x2xf32>)
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$q, Stow_FloatTensor:$k, Stow_FloatTensor:$v,
                        Optional<Stow_Tensor>:$mask, Optional<Stow_IntTensor>:$query_documents,
                        Optional<Stow_IntTensor>:$key_documents, Optional<Stow_IntTensor>:$seed),
                       Stow_AttentionAttributes);
  let results = (outs Stow_FloatTensor:$y, Stow_FloatTensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` $mask^)? (`documents` $query_documents^ `,` $key_documents)? (`seed` $seed^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Stow_AttentionGradientOp : Stow_Op<"attention_gradient",
    [Stow_OfTraining, Stow_WalksMatrices, Stow_Low, Stow_HasWidePositions, InferTypeOpAdaptorWithIsCompatible, AttrSizedOperandSegments,
     Stow_HasFlops]> {
  let summary = "Gradients of attention by its queries, keys and values";
  let description = [{
    `y` and `lse` are the results of stow.attention on `q`, `k` and `v`, `dy` is the gradient by y. The
    weights are computed again, a tile at a time. With P the weights and R their dropout's factors:
    dP = R (dy v'), dS = scale P (dP - rows of sum(dy y)), dq = dS k, dk = dS' q, dv = (R P)' dy. (T. Dao,
    "FlashAttention-2: Faster attention with better parallelism and work partitioning", 2023.)
    C1 to C6 as for stow.attention; C7: y, lse and dy have the types of its results.
    ```mlir
    %dq, %dk, %dv = stow.attention_gradient %q, %k, %v, %y, %lse, %dy {scale = 0.125 : f64,
        diagonal = 0 : i64, zero_rows = false, ratio = 0.0 : f64, stream = 0 : i64}
        : (tensor<12x64x16xf32>, tensor<12x64x16xf32>, tensor<12x64x16xf32>, tensor<12x64x16xf32>,
           tensor<12x64x2xf32>, tensor<12x64x16xf32>)
        -> (tensor<12x64x16xf32>, tensor<12x64x16xf32>, tensor<12x64x16xf32>)
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$q, Stow_FloatTensor:$k, Stow_FloatTensor:$v,
                        Stow_FloatTensor:$y, Stow_FloatTensor:$lse, Stow_FloatTensor:$dy,
                        Optional<Stow_Tensor>:$mask, Optional<Stow_IntTensor>:$query_documents,
                        Optional<Stow_IntTensor>:$key_documents, Optional<Stow_IntTensor>:$seed),
                       Stow_AttentionAttributes);
  let results = (outs Stow_FloatTensor:$dq, Stow_FloatTensor:$dk, Stow_FloatTensor:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $y `,` $lse `,` $dy (`mask` $mask^)? (`documents` $query_documents^ `,` $key_documents)?
    (`seed` $seed^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif // STOW_ATTENTION_OPS_TD
