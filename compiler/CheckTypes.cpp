#include "compiler/CheckTypes.h"

#include "ir/Graphs.h"

using namespace mlir;

namespace stow {
namespace {

/// PyTorch's and ONNX's name of a floating-point type other than float32; empty for other types.
StringRef foreignFloat(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isF64())
    return "double (float64)";
  if (element.isF16())
    return "float16";
  if (element.isBF16())
    return "bfloat16";
  return "";
}

constexpr StringLiteral nextStep =
    "export the model in float32: model.float() before torch.onnx.export";

bool checkParameters(func::FuncOp function) {
  bool good = true;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef type = foreignFloat(function.getArgument(i).getType());
    if (kindOfArgument(function, i) != ArgumentKind::Parameter || type.empty())
      continue;
    auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
    emitError(function.getArgument(i).getLoc())
        << "parameter '" << (name ? name.getValue() : "") << "' is of type " << type
        << ", and training is in float32; " << nextStep;
    good = false;
  }
  return good;
}

} // namespace

LogicalResult checkTypes(ModuleOp module, const Target &target) {
  bool good = true;
  for (auto function : module.getOps<func::FuncOp>())
    good &= checkParameters(function);
  if (!good) // whatever computes with these parameters has their type
    return failure();
  module.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = dyn_cast<FloatType>(getElementTypeOrSelf(operand.get()));
      if (!type || target.takesType(op, operand.getOperandNumber(), type))
        continue;
      op->emitError() << "this " << op->getName().stripDialect() << " computes in "
                      << foreignFloat(type) << ", and the target has none in that type; "
                      << nextStep << ", or cast to float32 in front of it";
      good = false;
      return;
    }
  });
  return success(good);
}

} // namespace stow
