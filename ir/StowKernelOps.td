// What elementwise ops become before ordering: one generated kernel with a scalar body.
#ifndef STOW_KERNEL_OPS_TD
#define STOW_KERNEL_OPS_TD

include "ir/StowBase.td"

def Stow_MapOp : Op<Stow_Dialect, "map",
    [IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">, Stow_CostInterface,
     Stow_PrecisionInterface, RecursiveMemoryEffects,
     Stow_Shares,
     DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops"]>,
     DeclareOpInterfaceMethods<Stow_PurityInterface, ["isRecomputable"]>]> {
  let summary = "A fused elementwise kernel";
  let description = [{
    Runs its body for every element of the iteration space, the common shape of all results.
    Operands broadcast to it by NumPy's rule, each in its own layout. The body has one scalar argument
    per operand and uses arith and math ops (and element_index); it yields one scalar per result.
    `updates` pairs a result with the operand it must overwrite, flattened: result, operand, ...
    C1: operands broadcast to the results' shape; C2: arguments and yields have the element types of
    operands and results; C3: body ops are arith, math or stow.element_index.
    ```mlir
    %y = stow.map %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.addf %p, %q : f32
      stow.yield %0 : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Stow_Tensor>:$inputs,
                       DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$updates);
  let results = (outs Variadic<Stow_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "$inputs attr-dict `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

def Stow_ProductMapOp : Op<Stow_Dialect, "product_map",
    [Stow_Multiplies, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">, Stow_CostInterface,
     Stow_PrecisionInterface, RecursiveMemoryEffects,
     Stow_Shares,
     DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops"]>,
     DeclareOpInterfaceMethods<Stow_PurityInterface, ["isRecomputable"]>]> {
  let summary = "A matrix product that a fused elementwise kernel consumes tile by tile";
  let description = [{
    The product of two matrices as stow.matmul has it, [...,M,N], and a stow.map over it: the body's first
    argument is an element of the product, the others those of `inputs`, which broadcast to it. The
    product never exists whole: its rows come a tile at a time, in scratch, and are used up at once. So
    is a weight's gradient added to what it is added to, or used for the weight's update. `updates`
    numbers all operands, a and b among them.
    C1: a and b have the same leading extents, and inner extents that agree; C2: results have the product's shape, inputs
    broadcast to it; C3: the body is one of stow.map, without element_index; C4: updates fit as there,
    and overwrite neither a nor b.
    ```mlir
    %w1 = stow.product_map %dy, %x, %w {transpose_a = true, transpose_b = false,
        updates = array<i64: 0, 2>}
        : (tensor<8x64xf32>, tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32> {
    ^bb0(%dw: f32, %old: f32):
      %0 = arith.subf %old, %dw : f32
      stow.yield %0 : f32
    }
    ```
  }];
  let arguments = (ins Stow_FloatTensor:$a, Stow_FloatTensor:$b, Variadic<Stow_Tensor>:$inputs,
                       BoolAttr:$transpose_a, BoolAttr:$transpose_b,
                       DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$updates);
  let results = (outs Variadic<Stow_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "operands attr-dict `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
}

def Stow_Conv2dMapOp : Op<Stow_Dialect, "conv2d_map",
    [Stow_Multiplies, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">, Stow_CostInterface,
     Stow_PrecisionInterface, Stow_PurityInterface, RecursiveMemoryEffects,
     DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops"]>]> {
  let summary = "A convolution with a fused elementwise kernel behind it";
  let description = [{
    The convolution of x and weight as stow.conv2d has it, and a stow.map over it: the body's first
    argument is an element of the convolution, the others those of `inputs`, which broadcast to it. The
    convolution is not stored: its elements are used where they were summed. Its result lies in nothing that
    it reads.
    C1: x, weight and the window are those of a stow.conv2d; C2: the result has its shape, inputs broadcast
    to it; C3: the body is one of stow.map, without element_index.
    ```mlir
    %y = stow.conv2d_map %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>, tensor<16x1x1xf32>) -> tensor<8x16x32x32xf32> {
    ^bb0(%p: f32, %q: f32):
      %0 = arith.addf %p, %q : f32
      stow.yield %0 : f32
    }
    ```
  }];
  let arguments = !con((ins Stow_FloatTensor:$x, Stow_FloatTensor:$weight,
                        Variadic<Stow_Tensor>:$inputs), Stow_ConvAttributes);
  let results = (outs Stow_FloatTensor:$y);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "operands attr-dict `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
}

def Stow_YieldOp : Op<Stow_Dialect, "yield",
    [Pure, Terminator, ReturnLike, ParentOneOf<["MapOp", "ProductMapOp", "Conv2dMapOp"]>]> {
  let summary = "Ends the body of stow.map, stow.product_map and stow.conv2d_map";
  let description = [{
    ```mlir
    stow.yield %0 : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ }]>];
}

def Stow_ElementIndexOp : Op<Stow_Dialect, "element_index", [Pure]> {
  let summary = "Row-major number of the element a map body computes";
  let description = [{
    Counts over the iteration space's shape in row-major order, whatever the layouts: random numbers
    drawn from it do not depend on the layout.
    ```mlir
    %i = stow.element_index : i64
    ```
  }];
  let results = (outs AnyTypeOf<[I64, VectorOfAnyRankOf<[I64]>]>:$index);
  let assemblyFormat = "attr-dict `:` type($index)";
}

#endif // STOW_KERNEL_OPS_TD
