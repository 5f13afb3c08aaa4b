#include "passes/autodiff/Graph.h"

#include "ir/StowDetachOps.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <charconv>

using namespace mlir;

namespace stow {

StringRef GraphResult::get(StringRef name) const {
  auto attr = attributes ? attributes.getAs<StringAttr>(name) : StringAttr();
  return attr ? attr.getValue() : StringRef();
}

func::FuncOp requireGraph(ModuleOp module, Role role, StringRef nextStep) {
  auto graph = findGraph(module, role);
  if (!graph || graph.isDeclaration()) {
    module.emitError() << "expects a function of role " << stringifyRole(role) << " with a body; "
                       << nextStep;
    return {};
  }
  return graph;
}

StringRef argumentAttr(func::FuncOp graph, unsigned index, StringRef name) {
  auto attr = graph.getArgAttrOfType<StringAttr>(index, name);
  return attr ? attr.getValue() : StringRef();
}

StringRef nameOf(BlockArgument argument) {
  auto graph = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return argumentAttr(graph, argument.getArgNumber(), kNameAttr);
}

BlockArgument findArgument(func::FuncOp graph, StringRef name) {
  for (BlockArgument argument : graph.getArguments())
    if (argumentAttr(graph, argument.getArgNumber(), kNameAttr) == name)
      return argument;
  return {};
}

static BlockArgument appendArgument(func::FuncOp graph, Type type, StringRef name,
                                    ArgumentKind kind, Attribute init, Location location) {
  Builder builder(graph.getContext());
  SmallVector<NamedAttribute> attributes = {
      builder.getNamedAttr(kNameAttr, builder.getStringAttr(name)),
      builder.getNamedAttr(kKindAttr, ArgumentKindAttr::get(graph.getContext(), kind))};
  if (init)
    attributes.push_back(builder.getNamedAttr(kInitAttr, init));
  unsigned index = graph.getNumArguments();
  if (failed(graph.insertArgument(index, type, builder.getDictionaryAttr(attributes), location)))
    return {};
  return graph.getArgument(index);
}

Value addKnownArgument(func::FuncOp graph, Type type, StringRef name, ArgumentKind kind,
                       Attribute init, Location location) {
  if (findArgument(graph, name)) {
    graph.emitError() << "an argument of @" << graph.getSymName() << " is already called \"" << name
                      << "\"; rename it in the model";
    return {};
  }
  return appendArgument(graph, type, name, kind, init, location);
}

ArgumentNames::ArgumentNames(ModuleOp module) {
  for (auto graph : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      taken.insert(argumentAttr(graph, i, kNameAttr));
}

std::string ArgumentNames::take(StringRef wanted) {
  std::string name = wanted.str();
  for (int number = 2; !taken.insert(name).second; ++number)
    name = (wanted + "." + Twine(number)).str();
  return name;
}

BlockArgument addOwnArgument(func::FuncOp graph, ArgumentNames &names, Type type, StringRef wanted,
                             ArgumentKind kind, Attribute init, Location location) {
  return appendArgument(graph, type, names.take(wanted), kind, init, location);
}

llvm::StringMap<BlockArgument> argumentsByName(func::FuncOp graph) {
  llvm::StringMap<BlockArgument> found;
  for (BlockArgument argument : graph.getArguments())
    found[nameOf(argument)] = argument;
  return found;
}

SmallVector<GraphResult> resultsOf(func::FuncOp graph) {
  SmallVector<GraphResult> results;
  for (auto [index, value] : llvm::enumerate(graph.front().getTerminator()->getOperands()))
    results.push_back({value, graph.getResultAttrDict(index)});
  return results;
}

void setResults(func::FuncOp graph, ArrayRef<GraphResult> results) {
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const GraphResult &result : results) {
    values.push_back(result.value);
    types.push_back(result.value.getType());
    attributes.push_back(result.attributes ? result.attributes
                                           : DictionaryAttr::get(graph.getContext()));
  }
  graph.front().getTerminator()->setOperands(values);
  graph.removeResAttrsAttr();
  graph.setFunctionType(
      FunctionType::get(graph.getContext(), graph.getFunctionType().getInputs(), types));
  graph.setAllResultAttrs(attributes);
}

DictionaryAttr stringAttributes(MLIRContext *context,
                                ArrayRef<std::pair<StringRef, StringRef>> attributes) {
  Builder builder(context);
  SmallVector<NamedAttribute> named;
  for (auto [name, value] : attributes)
    named.push_back(builder.getNamedAttr(name, builder.getStringAttr(value)));
  return builder.getDictionaryAttr(named);
}

std::string shortText(double number) {
  char text[40];
  auto [end, error] = std::to_chars(text, text + sizeof text, number);
  return std::string(text, end);
}

void removeDetached(func::FuncOp graph) {
  for (auto op : llvm::make_early_inc_range(graph.front().getOps<DetachOp>())) {
    op.getY().replaceAllUsesWith(op.getX());
    op.erase();
  }
}

void eraseDeadOps(func::FuncOp graph) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(graph.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace stow
