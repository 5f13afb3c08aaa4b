// Base classes shared by the op groups.
#ifndef STOW_BASE_TD
#define STOW_BASE_TD

include "ir/StowDialect.td"
include "ir/StowInterfaces.td"
include "mlir/IR/OpAsmInterface.td"

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
class Stow_Precision<string name> : NativeOpTrait<name> { let cppNamespace = "::stow"; }
def Stow_Low : Stow_Precision<"LowPrecision">;
def Stow_Full : Stow_Precision<"FullPrecision">;
def Stow_Same : Stow_Precision<"SamePrecision">;

#endif // STOW_BASE_TD
