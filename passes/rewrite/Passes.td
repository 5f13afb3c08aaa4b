#ifndef STOW_REWRITE_PASSES_TD
#define STOW_REWRITE_PASSES_TD

include "mlir/Pass/PassBase.td"

def SinkReluPass : Pass<"stow-sink-relu", "::mlir::ModuleOp"> {
  let summary = "Pool before rectifying";
  let description = [{
    `max_pool(relu(x))` becomes `relu(max_pool(x))` when nothing else reads relu(x). Both give the
    same values and the same gradients, ties included: windows with a positive element have the same
    first maximum, all others give 0 and pass no gradient. The backward then saves the small pooled
    tensor for the relu instead of the large one.

    Requires: the model form.
    Ensures: the model form.

    ```mlir
    %r = stow.relu %x : ...
    %y = stow.max_pool %r ...
    // becomes
    %p = stow.max_pool %x ...
    %y = stow.relu %p : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def HoistConstantsPass : Pass<"stow-hoist-constants", "::mlir::ModuleOp"> {
  let summary = "Turn constants that need memory into state";
  let description = [{
    A constant folds into the kernels that read it when it is a splat and only elementwise ops read
    it. Every other constant becomes an argument of kind `statistic` that carries its value as
    `stow.init`, so that it has a planned place like all other memory. One with a `stow.name`, whole numbers of a weight
    that arrived quantized, is of kind `frozen` and has that name.

    Requires: the model form.
    Ensures: every remaining stow.constant is a splat read by elementwise ops only.

    ```mlir
    %c = stow.constant dense<[1.0, 2.0]> : tensor<2xf32>
    // becomes
    func.func @model(..., %c: tensor<2xf32> {stow.name = "constant_0", stow.kind = #stow.kind<statistic>,
                                             stow.init = dense<[1.0, 2.0]> : tensor<2xf32>})
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def NestConcatsPass : Pass<"stow-nest-concats", "::mlir::ModuleOp"> {
  let summary = "Join what is joined already only once";
  let description = [{
    A concat whose first inputs, two or more but not all, are those of an earlier concat along the
    same axis reads that concat's result instead; of several the longest. Values stay the same. The
    layers of a dense block, each of which joins all results before it, then form a chain in which
    every concat is a prefix of the next, so that stow-place-inside can make them one storage.

    Requires: the model form.
    Ensures: the model form.

    ```mlir
    %y = stow.concat %a, %b {axis = 1 : i64} : ...
    %z = stow.concat %a, %b, %c {axis = 1 : i64} : ...
    // becomes
    %y = stow.concat %a, %b {axis = 1 : i64} : ...
    %z = stow.concat %y, %c {axis = 1 : i64} : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def TakeRowsFirstPass : Pass<"stow-take-rows-first", "::mlir::ModuleOp"> {
  let summary = "Take rows before a product computes them";
  let description = [{
    What: where nothing but one slice of rows reads what a product with a matrix gives, or what elementwise ops and softmax along
    its columns make of that, the product's left factor is sliced instead. It is done where the product is wider than what it reads: the logits of
    a language model, of which the loss leaves out the last position. Rows that nobody reads are not computed, neither forward nor backward. Values stay
    the same, but that a library may sum the row of a product of fewer rows in another order.

    Requires: the model form, before stow-hoist-constants.
    Ensures: the model form.

    ```mlir
    %y = stow.matmul %x, %w ... : (tensor<2x8x4xf32>, tensor<6x4xf32>) -> tensor<2x8x6xf32>
    %s = stow.slice %y {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 7, 6>} : (tensor<2x8x6xf32>) -> tensor<2x7x6xf32>
    // becomes
    %r = stow.slice %x {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 7, 4>} : (tensor<2x8x4xf32>) -> tensor<2x7x4xf32>
    %s = stow.matmul %r, %w ... : (tensor<2x7x4xf32>, tensor<6x4xf32>) -> tensor<2x7x6xf32>
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def FoldPlaneScalesPass : Pass<"stow-fold-plane-scales", "::mlir::ModuleOp"> {
  let summary = "Fold factors and summands per plane into the normalization before them";
  let description = [{
    `plane_normalize(x, mean, slope, shift) * w` becomes `plane_normalize(x, mean, slope * w,
    shift * w)` where w has one number per plane or fewer and nothing else reads the normalized
    tensor; a sum likewise changes the shift. Values agree but for rounding. The gradients of w then
    come from the sums that the normalization's gradient takes, and the backward no longer keeps the
    normalized tensor.

    Requires: the model form.
    Ensures: the model form.

    ```mlir
    %n = stow.plane_normalize %x, %m, %a, %b : ...
    %y = stow.mul %n, %w : ...
    // becomes
    %aw = stow.mul %a, %w : ...
    %bw = stow.mul %b, %w : ...
    %y = stow.plane_normalize %x, %m, %aw, %bw : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def TileAttentionPass : Pass<"stow-tile-attention", "::mlir::ModuleOp"> {
  let summary = "Attention without stored scores";
  let description = [{
    What: a product of queries and keys, scaled, masked, made weights by a softmax, perhaps dropped, and
    multiplied with values becomes stow.attention, unless the target decomposes that. Its scores and
    weights exist a tile at a time, in the forward and in the backward, which computes them again. Sums
    run over the same numbers; the bits differ as those of two libraries do.

    Keys and values that are repeated for the heads that share them are read as they were. Scales are
    constants, before or after the product; several masks become one. Of them a triangle or a window, constant
    or computed from positions, becomes the diagonal and the window that ends there, outside of which nothing is
    computed; numbers of queries and keys that a mask compares become documents, within which positions that
    count them are those of the triangle and the window; a part of a mask of minus infinity that is none of
    these, as each sample's padding, stays the size it has. Constants of -10,000 and
    below that are added or chosen exclude a key as -infinity does, where every query is seen to keep
    one. Keys may stand in either order of their dimensions, and leading dimensions may be joined or split
    between the two products.

    What stays as it is: scores or weights that something else reads; a mask that a parameter or an
    input of floats has part in, as its gradient would be the scores' own; factors whose leading
    dimensions are repeated.

    Requires: the model form, before stow-hoist-constants.

    Ensures: the model form.

    Example:
    ```mlir
    %s = stow.matmul %q, %k {transpose_a = false, transpose_b = true} : ...
    %d = stow.div %s, %eight : ...
    %m = stow.select %triangle, %d, %none : ...
    %w = stow.softmax %m {axis = 3 : i64} : ...
    %y = stow.matmul %w, %v {transpose_a = false, transpose_b = false} : ...
    // becomes
    %y, %lse = stow.attention %q, %k, %v {scale = 0.125 : f64, diagonal = 0 : i64, ...} : ...
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_REWRITE_PASSES_TD
