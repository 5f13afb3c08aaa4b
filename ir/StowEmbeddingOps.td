// Tables that are read by index.
#ifndef STOW_EMBEDDING_OPS_TD
#define STOW_EMBEDDING_OPS_TD

include "ir/StowBase.td"

defvar Stow_HasCost = DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops", "getBytesMoved"]>;

def Stow_EmbeddingOp : Stow_InferredOp<"embedding", [Stow_WalksRows, Stow_Full, Stow_HasGradient, Stow_HasCost]> {
  let summary = "Rows of a table by index";
  let description = [{
    `y[i...] = table[indices[i...]]`, where a row is everything behind dimension 0; the shape of y is
    that of the indices, then that of a row. An index below 0 counts from the end. An index outside
    [-rows, rows) gives a row of NaN (0 of integers, false): nothing outside the table is read, and wrong data does not
    train. The row `padding_index`, where given, is read like any other, and no gradient flows into it.
    C1: the table has rank 2 or more; C2: `padding_index` is a row of the table.
    ```mlir
    %y = stow.embedding %table, %tokens
        : (tensor<50257x768xf32>, tensor<4x1024xi64>) -> tensor<4x1024x768xf32>
    ```
  }];
  let arguments = (ins Stow_Tensor:$table, Stow_IntTensor:$indices,
                       OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Stow_Tensor:$y);
}

def Stow_EmbeddingGradOp : Stow_InferredOp<"embedding_grad",
    [Stow_OfTraining, Stow_WalksRows, Stow_HasCost, Stow_Full]> {
  let summary = "Gradient of embedding";
  let description = [{
    `dtable[r]` is the sum of the rows of `dy` whose index is r, added in the order of the indices: the
    bits do not depend on threads. Rows whose index lies outside the table or is `padding_index` are left
    out. C1: dy has the shape of the indices, then that of a row, of rank 1 or more; C2: `rows` is positive;
    C3: `padding_index` is one of the rows.
    ```mlir
    %d = stow.embedding_grad %dy, %tokens {rows = 50257 : i64}
        : (tensor<4x1024x768xf32>, tensor<4x1024xi64>) -> tensor<50257x768xf32>
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$dy, Stow_IntTensor:$indices, I64Attr:$rows,
                       OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Stow_FloatTensor:$dtable);
}

def Stow_EmbeddingGradAddOp : Stow_InferredOp<"embedding_grad_add",
    [Stow_OfTraining, Stow_HasCost, Stow_Shares, Stow_Full]> {
  let summary = "A table's gradient with that of embedding added to it";
  let description = [{
    `dtable = gradient + embedding_grad(dy, indices)`, the same bits: rows of `dy` whose index is the same
    are summed first, in the order of the indices, in the row of the first of them; `sums` is that, and
    its other rows are undefined. dtable may overwrite the gradient, and sums dy. C1: dy has the shape of
    the indices, then that of a row of the gradient; C2: `padding_index` is one of the rows.
    ```mlir
    %d, %sums = stow.embedding_grad_add %head, %dy, %tokens
        : (tensor<50257x768xf32>, tensor<4x64x768xf32>, tensor<4x64xi64>)
        -> (tensor<50257x768xf32>, tensor<4x64x768xf32>)
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$gradient, Stow_FloatTensor:$dy, Stow_IntTensor:$indices,
                       OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Stow_FloatTensor:$dtable, Stow_FloatTensor:$sums);
}

#endif // STOW_EMBEDDING_OPS_TD
