#ifndef STOW_PRECISION_PASSES_TD
#define STOW_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignPrecisionPass : Pass<"stow-assign-precision", "::mlir::ModuleOp"> {
  let summary = "Store in 16 bits what may be";
  let description = [{
    What: decides of every f32 value of every graph whether it is stored in the type `precision`
    (bf16 or f16), by the class of the op that writes it: `low` ops (matrix products, convolutions)
    write 16 bits; `widest` ops do where all of their operands of full size have 16 bits; `full` ops
    where a low op reads the value; `same` ops write what they read. A value that a low op reads is
    stored in 16 bits once, and all of its readers read that; it never exists twice. Always in f32:
    parameters, statistics, optimizer state; gradients of parameters and what updates read; sums
    and statistics of normalizations; single numbers; what is returned. Arithmetic is in f32 in all
    ops; low ops sum in f32.

    An op whose operand is stored otherwise than it takes it gets a cast: low ops those of f32
    operands, unless the target takes them as they are. Where it cannot write f32 either, what it
    writes for an update is cast behind it. A parameter is cast once for each phase that
    reads it, so that no copy waits from the forward for the backward. An input that low ops alone
    read is itself of type `precision`: it is converted when a batch is loaded.

    `keep` are patterns of node names: these ops read and write f32.

    Requires: the step form without layouts.
    Ensures: the step form; shapes, order and number of the ops but casts are as before.

    ```mlir
    %0 = stow.matmul %x, %w {...} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = stow.relu %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
    // becomes with precision=bf16
    %c = stow.cast %w : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %0 = stow.matmul %x, %c {...} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
    %1 = stow.relu %0 : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
    ```
  }];
  let options = [
    Option<"precision", "precision", "std::string", /*default=*/"\"bf16\"", "bf16 or f16">,
    ListOption<"keep", "keep", "std::string", "Patterns of the names of nodes that stay in f32">,
  ];
  // Created with a target: see Passes.h.
  let constructor = "nullptr";
  let dependentDialects = ["::stow::StowDialect"];
}

def JudgeFactorsPass : Pass<"stow-judge-factors", "::mlir::ModuleOp"> {
  let summary = "Tell from its factors whether a gradient in fp16 is finite";
  let description = [{
    What: where the sum of the squares of a product, or of the gradient of a convolution's weight, serves
    for nothing but comparisons with infinity, alone or added to others, the squares of its two factors
    are summed in its place: finite f16 factors have a product that is finite in f32, others have not.
    The product then need not exist whole, and is made in front of what reads it: where updates wait for
    all gradients its factors wait. Only where the factors have no more bytes than the product, where f32
    holds the sum of squares of any such product, and where a convolution's windows pass over no position
    of the image.

    Requires: the step form, after stow-assign-precision.
    Ensures: the step form; the same steps are skipped.

    ```mlir
    %g = stow.matmul %dy, %x {...} : (tensor<8x64xf16>, tensor<8x64xf16>) -> tensor<64x64xf32>
    %r = stow.reduce_sum_squares %g {axes = array<i64: 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
    %s = stow.reduce_sum %r {axes = array<i64: 0>, keepdims = false} : (tensor<64xf32>) -> tensor<f32>
    // becomes
    %a = ... // the sum of the squares of %dy
    %b = ... // and of %x
    %s = stow.add %a, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = stow.matmul %dy, %x {...} : (tensor<8x64xf16>, tensor<8x64xf16>) -> tensor<64x64xf32>
    ```
  }];
  let options = [
    Option<"leastElements", "least-elements", "int64_t", /*default=*/"0",
           "Smaller gradients are judged themselves, and stay where they are">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def StoreFrozenPass : Pass<"stow-store-frozen", "::mlir::ModuleOp"> {
  let summary = "Store parameters that are not trained in the type that they are worth";
  let description = [{
    What: gives every `frozen` argument, in all graphs, one type. A rule of `types` decides
    ("PATTERN:TYPE", or a type alone for all; the last that matches), else the file's values, where
    these are in 16 bits (`stow.stored`). Without either it is the type that all readers in all graphs
    compute with, if there is one: they convert the parameter to it, or read it beside a factor of that type. Casts to that type go away; a
    reader that needs another gets a cast for its phase. Of a table, rows are converted once they are
    taken. Initial values stay as they are and are rounded when they are loaded.

    Requires: the step form without layouts, after stow-assign-precision.
    Ensures: the step form; without a rule and `stow.stored` the same results, bit for bit.

    ```mlir
    // %w is of kind frozen
    %c = stow.cast %w : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %0 = stow.matmul %x, %c {...} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
    // becomes, where nothing else reads %w
    %0 = stow.matmul %x, %w {...} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
    ```
  }];
  let options = [
    ListOption<"types", "types", "std::string", "PATTERN:TYPE, of auto, f32, bf16, f16, int8 and nf4">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def QuantizeFrozenPass : Pass<"stow-quantize-frozen", "::mlir::ModuleOp"> {
  let summary = "Store matrices that are not trained in blocks of 4 or 8 bits";
  let description = [{
    What: `frozen` arguments to which a rule of `types` gives int8 or nf4, and which nothing but products reads in any graph,
    become bytes (`runtime/base/Quantization.h`); each product gets a stow.dequantize of its own, of the type that it read, right
    before it. Others stay as stow-store-frozen has left them: tables, kernels of convolutions, vectors, and what has no multiple of
    128 elements; `stow.notes` says how many bytes those of more than one dimension are, and names the largest. All stay,
    with a warning, where what is saved is less than the largest matrix in 16 bits: so no arena grows. Initial values stay as they
    are and are quantized when the program is made or a distribution is drawn; `stow.quantized` says what the bytes are.

    Requires: the step form without layouts, after stow-store-frozen.
    Ensures: the step form.

    ```mlir
    // %w is of kind frozen
    %0 = stow.matmul %x, %w {...} : (tensor<8x128xbf16>, tensor<128x128xbf16>) -> tensor<8x128xbf16>
    // becomes
    %n = stow.dequantize %w {scheme = "nf4", reading = 0 : i64} : (tensor<8456xi8>) -> tensor<128x128xbf16>
    %0 = stow.matmul %x, %n {...} : (tensor<8x128xbf16>, tensor<128x128xbf16>) -> tensor<8x128xbf16>
    ```
  }];
  let options = [
    ListOption<"types", "types", "std::string", "as of stow-store-frozen">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

def QuantizeStatesPass : Pass<"stow-quantize-states", "::mlir::ModuleOp"> {
  let summary = "Store what an optimizer keeps of large matrices in 8 bits";
  let description = [{
    What: an `optimizer` argument with `stow.eight_bits` that one stow.map alone reads and updates becomes codes of 8 bits, and gets
    an argument with their scales beside it, "<name>.scale". The map reads stow.dequantize_state and its new value goes through
    stow.quantize_state; it may write it over the old one. Nothing changes, with a warning, where what is saved is less than
    the numbers of the largest update.

    Requires: the step form in kernels, after stow-fuse-elementwise. Ensures: the same.

    ```mlir
    %w1, %m1 = stow.map %w, %dw, %lr, %m {updates = array<i64: 0, 0, 1, 3>} ...
    // becomes
    %n = stow.dequantize_state %m, %s : (tensor<64x64xi8>, tensor<16xf32>) -> tensor<64x64xf32>
    %w1, %n1 = stow.map %w, %dw, %lr, %n {updates = array<i64: 0, 0>} ...
    %m1, %s1 = stow.quantize_state %n1, %m, %s
        : (tensor<64x64xf32>, tensor<64x64xi8>, tensor<16xf32>) -> (tensor<64x64xi8>, tensor<16xf32>)
    ```
  }];
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_PRECISION_PASSES_TD
