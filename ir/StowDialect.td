// The stow dialect: tensors of static shape, one op per operation of a training step.
#ifndef STOW_DIALECT_TD
#define STOW_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Stow_Dialect : Dialect {
  let name = "stow";
  let cppNamespace = "::stow";
  let summary = "Training graphs on the way to one preplanned arena";
  let description = [{
    Values are ranked tensors of static shape; a layout, once chosen, is the tensor's encoding
    (`tensor<8x64x56x56xf32, #stow.layout<"0,2,3,1">>`). A graph is a `func.func` with one block.
    The module attribute `stow.form` names the form that holds: "model", "step", "ordered" or
    "placed" (see the verify passes), `stow.output_activation` the function ("softmax", "sigmoid")
    that the model's output has been through and the loss applies itself, `stow.notes` sentences for
    the plan.

    Argument attributes: `stow.name` (the user's name), `stow.kind` (input, target, parameter,
    statistic, optimizer, learning_rate, step, seed), `stow.init` (initial value of state), `stow.unsaved`
    (a constant: not part of a saved model).
    Result attributes: `stow.name`, and `stow.state` on results that replace the state argument of
    that name.

    Op attributes added on the way: `stow.phase` ("forward" when absent, "backward", "update"),
    `stow.recompute` (a clone that computes a forward value again), `stow.in_place` (pairs result,
    operand that share storage), `stow.inside` (numbers of the parts that are placed: of
    operands that lie in the result, or of results that are read where their operand lies), `stow.generated` (a kernel is generated for an op
    that could be a library call), `stow.workspace` (bytes), `stow.cost_ns` (measured time of one
    execution), `stow.offsets` (per result) and `stow.workspace_offset`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Stow_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Stow_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Stow_LayoutAttr : Stow_Attr<"Layout", "layout", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Physical layout of a tensor";
  let description = [{
    The order of the dimensions, outermost first, then inner blocks: `"0,2,3,1"` is channels last,
    `"0,1,2,3;1:16"` is nChw16c, `"g32 ..."` splits dimension 0 into 32 groups first, `"0,2,3,1 of
    1:96"` lies inside a tensor that has 96 channels. The text is that of `runtime/base/Layout.h`. No encoding means row-major.
  }];
  let parameters = (ins StringRefParameter<"layout text">:$text);
  let assemblyFormat = "`<` $text `>`";
  let extraClassDeclaration = [{
    /// The layout this attribute spells.
    ::stow::Layout getLayout() const;
  }];
  let genVerifyDecl = 1;
}

def Stow_InitAttr : Stow_Attr<"Init", "init"> {
  let summary = "How a state tensor gets its first value";
  let description = [{
    `#stow.init<"constant", 0.0, 0.0>`, `<"normal", mean, stddev>` or `<"uniform", low, high>`. A
    tensor with given data carries an elements attribute instead.
  }];
  let parameters = (ins StringRefParameter<"constant, normal or uniform">:$distribution,
                        APFloatParameter<"first parameter">:$a,
                        APFloatParameter<"second parameter">:$b);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

// Element types of stored tensors. Masks are i1 and take one byte per element; i8 holds indices.
def Stow_Tensor : StaticShapeTensorOf<[F64, F32, F16, BF16, I64, I32, I8, I1]>;
def Stow_FloatTensor : StaticShapeTensorOf<[F64, F32, F16, BF16]>;
def Stow_NumberTensor : StaticShapeTensorOf<[F64, F32, F16, BF16, I64, I32]>;
def Stow_IntTensor : StaticShapeTensorOf<[I64, I32]>;
def Stow_MaskTensor : StaticShapeTensorOf<[I1]>;

#endif // STOW_DIALECT_TD
