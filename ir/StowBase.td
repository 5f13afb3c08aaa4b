// Base classes shared by the op groups.
#ifndef STOW_BASE_TD
#define STOW_BASE_TD

include "ir/StowDialect.td"
include "ir/StowInterfaces.td"
include "mlir/IR/OpAsmInterface.td"

// A trait that ir/Stow.h defines, by its name there.
class Stow_Trait<string name> : NativeOpTrait<name> { let cppNamespace = "::stow"; }

// Every op can be costed, aliased, cast and recomputed; defaults are in the interfaces.
class Stow_Op<string mnemonic, list<Trait> traits = []>
    : Op<Stow_Dialect, mnemonic,
         !listconcat(traits, [Pure, Stow_CostInterface, Stow_PrecisionInterface,
                              Stow_PurityInterface])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

// Of convolutions and their gradients.
defvar Stow_ConvAttributes = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                              DenseI64ArrayAttr:$dilations, I64Attr:$groups);

// Result types follow from operands and attributes; encodings (layouts) are free.
class Stow_InferredOp<string mnemonic, list<Trait> traits = []>
    : Stow_Op<mnemonic, !listconcat(traits, [InferTypeOpAdaptorWithIsCompatible])> {
}

defvar Stow_HasGradient = DeclareOpInterfaceMethods<Stow_GradientInterface>;
defvar Stow_HasSavedChoice =
    DeclareOpInterfaceMethods<Stow_GradientInterface, ["getSavedAlternatives"]>;
defvar Stow_Shares = DeclareOpInterfaceMethods<Stow_AliasInterface, ["getSharings"]>;
defvar Stow_NotRecomputable = DeclareOpInterfaceMethods<Stow_PurityInterface, ["isRecomputable"]>;
defvar Stow_IsElementwise = DeclareOpInterfaceMethods<Stow_ElementwiseInterface>;
defvar Stow_HasFlops = DeclareOpInterfaceMethods<Stow_CostInterface, ["getFlops"]>;
defvar Stow_HasWidePositions =
    DeclareOpInterfaceMethods<Stow_PrecisionInterface, ["takesLow"]>;

// One element of each result of one element of each operand, after NumPy broadcasting.
class Stow_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : Stow_InferredOp<mnemonic, !listconcat(traits, [Stow_IsElementwise, Stow_Shares])> {
}

// The op's class under automatic mixed precision; ops without one are Widest (see PrecisionClass).
def Stow_Low : Stow_Trait<"LowPrecision">;
def Stow_Full : Stow_Trait<"FullPrecision">;
def Stow_Same : Stow_Trait<"SamePrecision">;

// How the op goes through its operands and results; ops without one: in the same places (see Walk).
def Stow_WalksImages : Stow_Trait<"WalksImages">;
def Stow_WalksMatrices : Stow_Trait<"WalksMatrices">;
def Stow_WalksRows : Stow_Trait<"WalksRows">;
def Stow_WalksApart : Stow_Trait<"WalksApart">;

// What else checks and passes ask of an op (ir/Stow.h).
def Stow_OfTraining : Stow_Trait<"OfTraining">;
def Stow_UpdatesState : Stow_Trait<"UpdatesState">;
def Stow_Multiplies : Stow_Trait<"Multiplies">;
def Stow_Reduces : Stow_Trait<"Reduces">;

#endif // STOW_BASE_TD
