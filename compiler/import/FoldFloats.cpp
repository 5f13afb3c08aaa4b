// Folding of arithmetic on known floats, as the kernels do it.
//
// The operator is converted for single numbers, and the body of the kernel that the converted ops have is
// evaluated for each element: in the element type, with a rounding after each operation and the kernels'
// own functions. An integer that a file computes from a logarithm is then what a run computes.
#include "compiler/import/Fold.h"
#include "compiler/import/GraphImport.h"
#include "compiler/import/ScalarBody.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace stow::onnx {

/// Operators whose every element is computed from one element of each input.
static bool isArithmetic(StringRef type) {
  static const llvm::StringSet<> types = {
      "Abs", "Add", "Ceil", "Cos", "Div", "Exp", "Floor", "Log", "Max", "Min", "Mod", "Mul", "Neg",
      "Pow", "Reciprocal", "Round", "Sign", "Sin", "Sqrt", "Sub", "Tanh", "Sigmoid",
      // our own functions
      "Atan2", "BinaryCrossEntropy", "Expm1", "HardTanh", "Log1p"};
  return types.contains(type);
}

std::optional<Literal> GraphImport::foldFloats(NodeImport &import,
                                               const std::vector<const Literal *> &inputs) {
  const Node &node = import.node();
  if (!isArithmetic(node.type) || inputs.empty() || !inputs[0]->isFloat())
    return std::nullopt;
  const ElementType type = inputs[0]->type;
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(import.place());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(scratch->getBody());
  const SmallVector<Type> scalars(inputs.size(), typeOf(type, {}));
  auto single =
      func::FuncOp::create(builder, import.place(), "single", builder.getFunctionType(scalars, {}));
  builder.setInsertionPointToStart(single.addEntryBlock());

  // The node once more, between names of its own.
  auto outer = std::exchange(slots, {});
  llvm::scope_exit back([&] { slots = std::move(outer); });
  Node copy = node;
  copy.outputs = {"result"};
  Shape shape;
  for (size_t i = 0; i < inputs.size(); ++i) {
    shape = broadcast(shape, inputs[i]->shape);
    auto slot = std::make_shared<Slot>();
    slot->name = copy.inputs[i] = std::to_string(i);
    slot->type = type;
    slot->value = single.getArgument(i);
    if (inputs[i]->size() == 1) {
      slot->literal = castLiteral(*inputs[i], type);
      slot->literal->shape = {};
    }
    slots[slot->name] = slot;
  }
  limitedCount(shape);
  NodeImport converted(*this, copy, import.place());
  ruleOf(node.type, node.domain)->convert(converted);
  const Value result = slots.at("result")->value;
  auto body = result ? ScalarBody::of(single, result) : std::nullopt;
  if (!body)
    throw Error::badInput("cannot be computed from constants");
  std::vector<std::vector<double>> numbers;
  for (const Literal *input : inputs)
    numbers.push_back(expanded(castLiteral(*input, type), shape).floats);
  const int64_t count = limitedCount(shape);
  return Literal{type, shape, {}, body->run(numbers, count)};
}

} // namespace stow::onnx
