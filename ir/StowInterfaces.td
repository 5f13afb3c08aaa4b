// What the planner and the code generator ask an op.
#ifndef STOW_INTERFACES_TD
#define STOW_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Stow_CostInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::stow";
  let description = [{ Arithmetic and traffic of one execution, independent of any device. }];
  let methods = [
    InterfaceMethod<"Floating-point operations of one execution.", "double", "getFlops", (ins),
      [{}], [{ return ::stow::defaultFlops($_op); }]>,
    InterfaceMethod<"Bytes read and written, each operand and result once.", "int64_t",
      "getBytesMoved", (ins), [{}], [{ return ::stow::defaultBytesMoved($_op); }]>,
  ];
}

def Stow_GradientInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::stow";
  let description = [{
    Builds the backward of an op. `Gradients` holds the gradient of every value reached so far; the
    implementation reads those of its results and adds those of its operands. What the backward
    reads of the forward is what it saves. An op that can save one of several values lists them in
    `getSavedAlternatives`; `Gradients::chosenAlternative` says which one to use.
  }];
  let methods = [
    InterfaceMethod<"Adds the gradients of the operands that need one.", "::llvm::LogicalResult",
      "buildGradient", (ins "::mlir::OpBuilder &":$builder, "::stow::Gradients &":$gradients)>,
    InterfaceMethod<"Names of the values this op may save, the default first.",
      "::llvm::SmallVector<::llvm::StringRef>", "getSavedAlternatives", (ins), [{}],
      [{ return {}; }]>,
  ];
}

def Stow_AliasInterface : OpInterface<"AliasOpInterface"> {
  let cppNamespace = "::stow";
  let description = [{
    Which results and operands share storage, or may: `ir/Sharing.h` has the kinds. Liveness, placement,
    ordering, the verifiers and the reports ask this and name no op.
  }];
  let methods = [
    InterfaceMethod<[{ Every way in which a result and an operand share storage or may. Where a
      result has several, the one to prefer comes first. An operand is listed as overwritable only
      if the op reads each of its elements before it writes the result's over it; whether it dies
      and whether stored bytes are equal is for the caller to see. }],
      "::stow::Sharings", "getSharings", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<[{ Of a view: the type that one side of it, whose own type is `side`, has where
      the other side lies as `part` in a larger tensor; none where the op runs then. }],
      "::std::optional<::mlir::RankedTensorType>", "getViewOfPart",
      (ins "::mlir::RankedTensorType":$side, "::mlir::RankedTensorType":$part), [{}],
      [{ return ::std::nullopt; }]>,
  ];
  let extraSharedClassDeclaration = [{
    /// The operand whose bytes the first result is without any code running, or none.
    ::std::optional<unsigned> getViewedOperand() {
      return ::stow::viewedOperand($_op.getOperation());
    }
    /// The operand that `result` must overwrite because it is the new value of that state, or none.
    ::std::optional<unsigned> getUpdatedOperand(unsigned result) {
      for (const ::stow::Sharing &sharing : $_op.getSharings())
        if (sharing.kind == ::stow::SharingKind::Update && sharing.result == result)
          return sharing.operand;
      return ::std::nullopt;
    }
    /// The operands that `result` may overwrite where they die, the one to prefer first.
    ::llvm::SmallVector<unsigned> getOverwritableOperands(unsigned result) {
      ::llvm::SmallVector<unsigned> operands;
      for (const ::stow::Sharing &sharing : $_op.getSharings())
        if (sharing.kind == ::stow::SharingKind::Overwrite && sharing.result == result)
          operands.push_back(sharing.operand);
      return operands;
    }
  }];
}

def Stow_ElementwiseInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::stow";
  let description = [{
    An op whose result elements depend on one element of each operand (after NumPy broadcasting).
    `emitBody` computes on scalars or on vectors of any length alike: the arith and math ops it
    builds take both. All results have the same shape.
  }];
  let methods = [
    InterfaceMethod<[{ Emits the computation for one element (or vector of elements) of each operand
      and returns one value per result. }], "::llvm::SmallVector<::mlir::Value>", "emitBody",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$elements)>,
  ];
}

def Stow_PrecisionInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::stow";
  let description = [{ The op's class under automatic mixed precision. }];
  let methods = [
    InterfaceMethod<"What of it is stored in 16 bits: the op's trait LowPrecision, FullPrecision or SamePrecision.",
      "::stow::PrecisionClass", "getPrecisionClass", (ins), [{}],
      [{ return ::stow::precisionClassOf($_op.getOperation()); }]>,
    InterfaceMethod<[{ True when the op may have operand or result `position` (operands first), a
      float tensor, in 16 bits whatever the others have. False for small numbers whose bits count:
      statistics, biases of products. }],
      "bool", "takesLow", (ins "unsigned":$position), [{}], [{ return true; }]>,
  ];
}

def Stow_PurityInterface : OpInterface<"PurityOpInterface"> {
  let cppNamespace = "::stow";
  let description = [{ Whether the op may run a second time and give the same bits. }];
  let methods = [
    InterfaceMethod<[{ True unless the op overwrites state. Random ops are recomputable: their
      counter is an operand. }], "bool", "isRecomputable", (ins), [{}], [{ return true; }]>,
  ];
}

#endif // STOW_INTERFACES_TD
