// The stow dialect: tensors of static shape, one op per operation of a training step.
#ifndef STOW_DIALECT_TD
#define STOW_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
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
    (`tensor<8x64x56x56xf32, #stow.layout<"0,2,3,1">>`). A graph is a `func.func` with one block;
    its attribute `stow.role` (`#stow.role<train>`) says which part of a program it is, and everything finds it by that, not by
    its name. The module attribute `stow.form` names the form that holds: "model", "step", "ordered" or
    "placed" (see the verify passes), `stow.output_activation` the function ("softmax", "sigmoid")
    that the model's output has been through and the loss applies itself, `stow.notes` sentences for
    the plan.

    Argument attributes: `stow.name` (the user's name), `stow.kind` (what it holds: `#stow.kind<parameter>`),
    `stow.init` (initial value of state), `stow.unsaved` (a constant: not part of a saved model).
    Result attributes: `stow.name`, and `stow.state` on results that replace the state argument of
    that name.

    Op attributes added on the way: `stow.phase` (`#stow.phase<backward>`; forward when absent),
    `stow.recompute` (a clone that computes a forward value again), `stow.in_place` (pairs result,
    operand that share storage), `stow.inside` (numbers of the parts that are placed: of
    operands that lie in the result, or of results that are read where their operand lies),
    `stow.workspace` (bytes), `stow.cost_ns` (measured time of one
    execution), `stow.offsets` (per result) and `stow.workspace_offset`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
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

// Words: what functions, arguments and ops say of themselves. ir/Graphs.h reads and sets them.
class Stow_Words<string name, string summary, list<EnumCase> cases>
    : I32Enum<name, summary, cases> {
  let cppNamespace = "::stow";
}
class Stow_WordAttr<EnumInfo words, string attrMnemonic>
    : EnumAttr<Stow_Dialect, words, attrMnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def Stow_RoleAttr : Stow_WordAttr<Stow_Words<"Role", "which part of a program a function is", [
    I32EnumCase<"Model", 0, "model">, I32EnumCase<"Train", 1, "train">,
    I32EnumCase<"Eval", 2, "eval">, I32EnumCase<"Accumulate", 3, "accumulate">,
    I32EnumCase<"Commit", 4, "commit">, I32EnumCase<"Measure", 5, "measure">]>, "role"> {
  let description = [{
    `model`: the forward as imported. `train`: a whole training step. `eval`: the forward that
    evaluation runs. `accumulate` and `commit`: the halves of a step over several batches; the first
    adds a batch's gradients to sums that are state, the second runs the last batch, which updates
    the parameters from the sums as soon as they are final.
    `measure`: one op alone, run for its time.
  }];
}

def Stow_KindAttr : Stow_WordAttr<Stow_Words<"ArgumentKind", "what an argument of a graph holds", [
    I32EnumCase<"Input", 0, "input">, I32EnumCase<"Target", 1, "target">,
    I32EnumCase<"Parameter", 2, "parameter">, I32EnumCase<"Statistic", 3, "statistic">,
    I32EnumCase<"Optimizer", 4, "optimizer">, I32EnumCase<"LearningRate", 5, "learning_rate">,
    I32EnumCase<"Step", 6, "step">, I32EnumCase<"Seed", 7, "seed">,
    I32EnumCase<"Accumulator", 8, "accumulator">, I32EnumCase<"Frozen", 9, "frozen">]>, "kind"> {
  let description = [{
    `input` and `target`: a batch of samples. `parameter`, `frozen`, `statistic` and `optimizer` are
    state: it lives in the arena from step to step. A `frozen` parameter is not trained; where it is
    stored in 16 bits, its initial value may be wider and is rounded to them. `accumulator` is state as well: the sum of a parameter's
    gradients over the batches of one step, of which no model is saved. `learning_rate`, `step`
    (counted from 1) and `seed` are scalars of the step at hand.
  }];
}

def Stow_PhaseAttr : Stow_WordAttr<Stow_Words<"Phase", "the part of a training step that an op belongs to", [
    I32EnumCase<"Forward", 0, "forward">, I32EnumCase<"Backward", 1, "backward">,
    I32EnumCase<"Update", 2, "update">]>, "phase"> {
  let description = [{ An op without one is of the forward. }];
}

// Element types of stored tensors. Masks are i1 and take one byte per element; i8 holds indices.
def Stow_Tensor : StaticShapeTensorOf<[F64, F32, F16, BF16, I64, I32, I8, I1]>;
def Stow_FloatTensor : StaticShapeTensorOf<[F64, F32, F16, BF16]>;
def Stow_NumberTensor : StaticShapeTensorOf<[F64, F32, F16, BF16, I64, I32]>;
def Stow_IntTensor : StaticShapeTensorOf<[I64, I32]>;
def Stow_MaskTensor : StaticShapeTensorOf<[I1]>;

#endif // STOW_DIALECT_TD
