#ifndef STOW_FUSE_PASSES_TD
#define STOW_FUSE_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandOuterProductsPass : Pass<"stow-expand-outer-products", "::mlir::ModuleOp"> {
  let summary = "Turn products of one contracted element into multiplications";
  let description = [{
    What: a matrix product that contracts one element, as the gradient of what a row of weights reads, becomes
    an elementwise product of its factors, which broadcast to it. stow-fuse-elementwise takes that into
    the kernel that reads it: the product, which is larger than its factors, never exists, and the kernel may
    write over something else that it reads. The bits are the same, the sign of a zero aside. A product with a
    bias stays.

    Requires: the step form without layouts.
    Ensures: nothing but the number of tensors has changed.

    ```mlir
    %g = stow.matmul %ds, %w {transpose_a = false, transpose_b = true}
        : (tensor<80x50x1xf32>, tensor<1000x1xf32>) -> tensor<80x50x1000xf32>
    // becomes
    %r = stow.reshape %w : (tensor<1000x1xf32>) -> tensor<1x1000xf32>
    %g = stow.mul %ds, %r : (tensor<80x50x1xf32>, tensor<1x1000xf32>) -> tensor<80x50x1000xf32>
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def ReadCodesPass : Pass<"stow-read-codes", "::mlir::ModuleOp"> {
  let summary = "Let products of few rows read the codes of quantized weights";
  let description = [{
    What: a matrix product whose right factor a dequantize computes for it alone becomes a coded_matmul, which reads the
    codes, where the target has a call for it (`Target::libraryCall`): few rows, all row-major, in f32, bf16 or f16. A bias becomes an addition behind it. The
    numbers take no memory then, and their way there and back no time.

    Requires: the step form with layouts, before stow-fuse-elementwise.
    Ensures: nothing but the number of tensors has changed; sums of such products run in the order of their loops.

    ```mlir
    %w = stow.dequantize %packed {scheme = "nf4", reading = 0 : i64} : (tensor<8456xi8>) -> tensor<128x128xf32>
    %y = stow.matmul %a, %w {transpose_a = false, transpose_b = true} : (tensor<2x128xf32>, tensor<128x128xf32>) -> tensor<2x128xf32>
    // becomes
    %y = stow.coded_matmul %a, %packed {scheme = "nf4", transpose_b = true} : (tensor<2x128xf32>, tensor<8456xi8>) -> tensor<2x128xf32>
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def FuseElementwisePass : Pass<"stow-fuse-elementwise", "::mlir::ModuleOp"> {
  let summary = "Turn chains of elementwise ops into single kernels";
  let description = [{
    Every elementwise op becomes a stow.map; splat constants become immediates. A map whose only
    reader is another map over the same elements is merged into it, and so are scalars computed for
    it, so that the value between them never exists in memory. A forward value that the backward
    reads stays a result. Merging never crosses from the forward to the backward, except into
    optimizer updates, and never moves a read of state past the update of that state. Nor does it
    carry values past other kernels when more of their bytes would stay alive than the merging
    removes: the sums of a shared weight's gradients stay one by one. A constant that another op
    reads becomes a map without operands.

    Requires: the step form with layouts; stow.constant as stow-hoist-constants leaves them.
    Ensures: no elementwise op of the dialect and no stow.constant remain.

    ```mlir
    %0 = stow.add %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = stow.relu %0 : (tensor<8xf32>) -> tensor<8xf32>
    // becomes
    %1 = stow.map %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%p: f32, %q: f32):
      %2 = arith.addf %p, %q : f32
      %zero = arith.constant 0.0 : f32
      %3 = arith.maximumf %2, %zero : f32
      stow.yield %3 : f32
    }
    ```
  }];
  let dependentDialects = ["::stow::StowDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def FuseNormPoolPass : Pass<"stow-fuse-norm-pool", "::mlir::ModuleOp"> {
  let summary = "Pool batch normalizations without storing them, forward and backward";
  let description = [{
    What: a batch normalization that only a max pooling reads becomes one op with it,
    stow.batch_norm_max_pool, and their gradients become stow.batch_norm_max_pool_gradient. The normalized
    tensor and its gradient, each as large as what is normalized, never exist: the forward normalizes
    inside each window, the backward gathers the gradient of each element from the windows that chose
    it, and may write over what was normalized. The bits are the same. The target says which layouts and
    windows it runs so; the others stay four ops.

    Requires: the step form with layouts.
    Ensures: nothing but the number of tensors has changed.

    ```mlir
    %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : ...
    %p, %i = stow.max_pool_training %y {kernel = array<i64: 3, 3>, ...} : ...
    %dy = stow.max_pool_grad %dp, %i {kernel = array<i64: 3, 3>, ...} : ...
    %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64} : ...
    // becomes
    %p, %i, %m, %v = stow.batch_norm_max_pool %x, %s, %b {kernel = array<i64: 3, 3>, ...} : ...
    %dx, %ds, %db = stow.batch_norm_max_pool_gradient %x, %m, %v, %s, %dp, %i {...} : ...
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def SplitBatchNormPass : Pass<"stow-split-batch-norm", "::mlir::ModuleOp"> {
  let summary = "Let the kernels that read batch normalizations compute them";
  let description = [{
    What: a batch normalization that only elementwise ops of the forward read becomes its statistics, which
    read x and write three vectors, and a kernel, which stow-fuse-elementwise takes into those that read
    it. The normalized tensor is no longer written and read again beside relu of it, say; to compute
    relu's output again the kernel alone runs, and x is read once: not for the statistics, not to be
    normalized and not for relu. In f32 the bits are those of the normalization; in 16 bits the kernel's
    readers take the element before it is rounded. The target says which layouts have statistics of
    their own; normalizations of others stay whole.

    Requires: the step form with layouts, after stow-fuse-norm-pool and before stow-fuse-elementwise.
    Ensures: stow-fuse-elementwise merges the kernels.

    ```mlir
    %y, %m, %v = stow.batch_norm_training %x, %s, %b {epsilon = 1.0e-5 : f64} : ...
    %r = stow.relu %y : ...
    // becomes
    %m, %v, %k = stow.batch_norm_statistics %x, %s {epsilon = 1.0e-5 : f64} : ...
    %y = stow.map %x, %m, %k, %b : ... {fma(x - m, k, b)}
    %r = stow.relu %y : ...
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def RederiveSavedPass : Pass<"stow-rederive-saved", "::mlir::ModuleOp"> {
  let summary = "Save the fewest bytes from which kernels of the backward make what they read";
  let description = [{
    What: where a kernel of the backward reads forward values that cheap kernels of the forward make
    of others, it computes them itself: clones of those forward kernels go in front of it, for the
    next stow-fuse-elementwise to take in. Which values stay saved is a minimum cut of bytes between
    what kernels of the backward read and what no cheap kernel makes; what is saved anyway, for
    other readers or as state, costs nothing. A value is left out only for kernels of its own shape,
    and only when computing it takes about as long as writing and reading it would: 64 operations an
    element, of which an exponential or the like is 16. What is made of a batch normalization and read by another op of the
    backward as well is left out only where the kernel then reads no more bytes than before. State that an update has overwritten by
    then is not read again. The clones give the same numbers.

    Where the only kernel of the backward that reads a value uses one bit of each element, as the gradients
    of clip and leaky relu do, and one kernel reads it in the forward, the cut may go between them: the
    forward makes a mask of the value, of one byte an element, and the kernel of the backward reads that.
    stow-join-masks makes it a result of the forward's kernel.

    Requires: the step form with kernels, after stow-fuse-elementwise.
    Ensures: nothing but which values the backward reads has changed; stow-fuse-elementwise merges
    the clones.

    ```mlir
    %s = stow.map %x : ... {sigmoid}
    %y = stow.map %x, %s : ... {x * s}
    %dx = stow.map %dy, %x, %s {stow.phase = #stow.phase<backward>} : ...
    // becomes, and the forward is one kernel
    %s = stow.map %x : ... {sigmoid}
    %y = stow.map %x, %s : ... {x * s}
    %s2 = stow.map %x {stow.phase = #stow.phase<backward>} : ... {sigmoid}
    %dx = stow.map %dy, %x, %s2 {stow.phase = #stow.phase<backward>} : ...
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def HoistScalarsPass : Pass<"stow-hoist-scalars", "::mlir::ModuleOp"> {
  let summary = "Compute what kernels need in double of numbers alone once, in a kernel of its own";
  let description = [{
    What: on a device where every thread of a kernel would compute it anew (`Target::launchBytes`), what the body of a map computes with doubles from operands of
    one element alone, as Adam's step size and bias correction, becomes a map of one element, which all maps
    with the same formula of the same numbers read. A number that is only widened and rounded stays. The operations are the same, and the bits.

    Requires: the step form with kernels, before stow-plan-workspaces.
    Ensures: of maps that compute with doubles from numbers alone, all have one element.

    ```mlir
    %w1, ... = stow.map %w, %dw, %lr, %t {w - dw * f32(f64(lr) / (1 - 0.9^t))}
    // becomes
    %s = stow.map %lr, %t : (tensor<f32>, tensor<i64>) -> tensor<f32> {f32(f64(lr) / (1 - 0.9^t))}
    %w1, ... = stow.map %w, %dw, %s {w - dw * s}
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def JoinMasksPass : Pass<"stow-join-masks", "::mlir::ModuleOp"> {
  let summary = "Let kernels of the forward make masks of what they hold anyway";
  let description = [{
    What: a kernel that makes nothing but a mask of one value is joined to the kernel of the forward that
    alone reads the value beside it, whose last result the mask becomes. The value is then read once,
    and running that kernel again gives the mask again.

    Requires: the step form with kernels, after stow-rederive-saved.
    Ensures: nothing but the number of kernels has changed.

    ```mlir
    %m = stow.map %x : (tensor<4xf32>) -> tensor<4xi1> {0 <= x && x <= 6}
    %y = stow.map %x : (tensor<4xf32>) -> tensor<4xf32> {min(max(x, 0), 6)}
    // becomes
    %y, %m = stow.map %x : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def JoinSmallMapsPass : Pass<"stow-join-small-maps", "::mlir::ModuleOp"> {
  let summary = "Compute small maps that stand between the same two launches in one";
  let description = [{
    What: on a device where a launch takes long (`Target::launchBytes`), maps over the same elements that read each other's results, or
    the same tensors, become one, whose results are all values that others read. So an LSTM's step is one kernel
    behind its product instead of six. Bits stay: what is stored in 16 bits is read rounded. Left apart are maps whose tensors are not
    small, which together would read more bytes than any launch of the graph holds, more than 24 operands where none has them by itself, updates, masks of one bit
    an element, and what another launch that is no map stands between.

    Requires: the step form with kernels, before stow-plan-workspaces; `stow.small_launches` = "apart" where all is to stay as it is.
    Ensures: nothing but the number of kernels has changed; `stow.small_launches` = "joined" where it has.

    ```mlir
    %i = stow.map %a : (tensor<64x256xf32>) -> tensor<64x256xf32> {sigmoid(a)}
    %g = stow.map %b : (tensor<64x256xf32>) -> tensor<64x256xf32> {tanh(b)}
    %c = stow.map %i, %g, %c0 : ... {i * g + c0}
    // becomes, where the backward reads i and g
    %c, %i, %g = stow.map %c0, %a, %b : ... -> (tensor<64x256xf32>, tensor<64x256xf32>, tensor<64x256xf32>)
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def PackMasksPass : Pass<"stow-pack-masks", "::mlir::ModuleOp"> {
  let summary = "Store masks of the forward as one bit an element";
  let description = [{
    What: a mask of one byte an element that a kernel of the forward makes and only kernels of the backward
    read becomes one of bits, a tensor<Nxi8> of an eighth of the elements that is an i1 in the bodies: bit
    k % 8 of byte k / 8 for element k as the tensors of those kernels lie in memory. They lie alike there,
    have a multiple of 64 elements, and those of the kernel that writes bits are not made inside or read
    from larger tensors.

    Requires: the step form with kernels, after all other passes that change kernels.
    Ensures: nothing but types of masks has changed.

    ```mlir
    %y, %m = stow.map %x : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xi1>) {...}
    // becomes
    %y, %m = stow.map %x : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xi8>) {...}
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def ScatterIntoSumsPass : Pass<"stow-scatter-into-sums", "::mlir::ModuleOp"> {
  let summary = "Add the gradient of a table's reads to its other gradients in place";
  let description = [{
    What: where the gradient of an embedding is added to another one of the same table, a tied head's
    say, stow.embedding_grad_add takes the place of both ops, so that the two are one tensor. The bits
    stay: rows of one index are summed by themselves first. Sums of more than twice as many indices as
    the table's elements have roots, whose comparisons would take longer than the copy, stay as they are.

    Requires: the step form with layouts, before stow-fuse-elementwise.
    Ensures: nothing but the number of tensors has changed.

    ```mlir
    %e = stow.embedding_grad %dy, %t {rows = 50 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<50x8xf32>
    %d = stow.add %h, %e : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
    // becomes
    %d, %sums = stow.embedding_grad_add %h, %dy, %t
        : (tensor<50x8xf32>, tensor<4x8xf32>, tensor<4xi64>) -> (tensor<50x8xf32>, tensor<4x8xf32>)
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

def FuseProductConsumersPass : Pass<"stow-fuse-product-consumers", "::mlir::ModuleOp"> {
  let summary = "Let kernels use up matrix products tile by tile";
  let description = [{
    What: a matrix product of the backward that only a kernel reads, whose results lie in other things
    that it reads (the sum to which a gradient is added, a parameter and its optimizer's state), becomes
    one op with it, stow.product_map: rows of the product are made in scratch, a tile at a time, and the
    product never exists whole. The target says which it runs so, with the bits of a product and a
    kernel. A product stays whole where its factors would have to be kept for the kernel and are larger,
    or look at state that is overwritten.

    In a step over several batches or devices a gradient is to have the same bits whatever becomes of it: a product of the
    backward that no kernel uses up becomes one with a kernel that stores it, where the target would sum it in an order of its own for
    a kernel (`stow.sums_alike`).

    Requires: the step form with layouts, after stow-fuse-elementwise.
    Ensures: nothing but the number of tensors has changed.

    ```mlir
    %p = stow.matmul %dy, %x {transpose_a = true, transpose_b = false} : ...
    %s = stow.map %sum, %p : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> ... {sum + p}
    // becomes
    %s = stow.product_map %dy, %x, %sum {transpose_a = true, transpose_b = false} : ... {sum + p}
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def FuseEpiloguesPass : Pass<"stow-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Let a library run kernels on products and convolutions before it writes them";
  let description = [{
    What: a matrix product that only one kernel reads becomes one op with it, stow.product_map, and a convolution
    stow.conv2d_map, at the product's place, where the target's library computes the kernel's function on the product while that is in
    registers, and is faster for it (`Target::libraryCall`, `Target::decomposes`). A bias that is wider than a
    16-bit result is cast in front. The result has no more bytes than the product and lies apart from
    what the kernel reads (`stow.epilogue`): in the step's own order nothing takes more memory. Where values are
    computed again, what the kernel reads could have been so between the two: a planner that is short of
    memory takes them apart again (`splitEpilogues`). Products of several matrices, kernels of other phases and those that write several results or new state stay as they are, and
    so do kernels behind convolutions that write or read what may be a part of a larger tensor.

    Requires: the step form with layouts, after stow-fuse-elementwise and stow-fuse-product-consumers.
    Ensures: nothing but the number of tensors has changed, and 16-bit products are not rounded before the kernel.

    ```mlir
    %p = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : ...
    %y = stow.map %p, %b : (tensor<64x32xf32>, tensor<32xf32>) -> ... {max(p + b, 0)}
    // becomes
    %y = stow.product_map %x, %w, %b {stow.epilogue, transpose_a = false, transpose_b = false} : ... {max(p + b, 0)}
    ```
  }];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect", "::mlir::arith::ArithDialect"];
}

#endif // STOW_FUSE_PASSES_TD
