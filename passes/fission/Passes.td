#ifndef STOW_FISSION_PASSES_TD
#define STOW_FISSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ChunkRowsPass : Pass<"stow-chunk-rows", "::mlir::ModuleOp"> {
  let summary = "Run chains of ops whose rows do not meet in chunks of rows";
  let description = [{
    What: with `loss-chunks`, where a loss reads each row of a product by itself and leaves a few numbers of it, and nothing else reads
    them, product, loss and their backward run for some rows after another, so
    that logits and their gradient exist for the rows of one chunk alone. What reads rows: cross-entropy; elementwise ops, of which an operand may
    have numbers for each row, for each column or for some rows together; softmax and log_softmax, reductions and reading by index along the columns. A
    reduction over columns and rows is one over columns, of which the rows are reduced behind all chunks. Two products whose rows meet element by element, as those of a student and a teacher,
    are one head. Rows of the loss and of the
    gradient of the product's left factor are parts of one tensor each. The gradients of weight and bias are
    sums over chunks: their last bits differ from those of one sum, which is why the pass only runs
    where `loss-chunks` or `row-chunks` is above 1.

    Where the gradient by what is left of the rows does not depend on it, as for sums and means, forward and backward of a chunk stand
    together; else the forward of all chunks comes first, and the backward of a chunk reads what the forward of the same chunk made. In an evaluation whose outputs are reduced rows the head runs in
    chunks as well.

    With `row-chunks`, so do elementwise ops between two products of the forward, whose values are wider than what the
    products have on their other side and larger than the gradients of their weights, in two stages: the forward
    one chunk after the other, and the backward likewise. What the backward reads of the forward is the same chunk's.

    Requires: the step form, before layouts.
    Ensures: inner values of a chain that qualifies exist in chunks; ops in front of it stay, what
    reads its results comes after all chunks.

    ```mlir
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
    %l, %s = stow.cross_entropy_rows %y, %t {ignore_index = -100 : i64} : (tensor<8x6xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    %dy = stow.cross_entropy_rows_grad %y, %t, %s, %dl {ignore_index = -100 : i64} : ...
    %dw = stow.matmul %dy, %x {transpose_a = true, transpose_b = false} : ...
    // becomes, with two chunks
    %x0 = stow.slice %x {sizes = array<i64: 4, 4>, starts = array<i64: 0, 0>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %y0 = stow.matmul %x0, %w ...
    %dy0 = stow.cross_entropy_rows_grad %y0, ...
    %dw0 = stow.matmul %dy0, %x0 ...
    %x1 = stow.slice %x ...
    %dw1 = stow.matmul %dy1, %x1 ...
    %dw = stow.add %dw0, %dw1 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
    %l = stow.concat %l0, %l1 {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
    ```
  }];
  let options = [
    Option<"lossChunks", "loss-chunks", "int64_t", "1", "Chunks of rows of a head and its loss; 1 leaves them whole.">,
    Option<"rowChunks", "row-chunks", "int64_t", "1", "Chunks of rows of chains between two products; 1 leaves them whole.">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_FISSION_PASSES_TD
