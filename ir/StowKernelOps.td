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

def Stow_YieldOp : Op<Stow_Dialect, "yield", [Pure, Terminator, ReturnLike, HasParent<"MapOp">]> {
  let summary = "Ends the body of stow.map";
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
