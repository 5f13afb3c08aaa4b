#include "passes/verify/GraphChecks.h"

#include "ir/StepGraphs.h"
#include "ir/StowAttentionOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowNormPoolOps.h"
#include "ir/StowOptimizerOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowResampleOps.h"
#include "ir/StowStatisticsOps.h"
#include "passes/verify/Passes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
namespace {

/// The type that an argument of this kind has, in words, when `type` is not it. Constants among the
/// state may be masks and indices too, and statistics may count.
std::optional<StringRef> kindMismatch(ArgumentKind kind, bool isConstant, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return "a tensor of static shape";
  Type element = tensor.getElementType();
  switch (kind) {
  case ArgumentKind::LearningRate:
    if (tensor.getRank() != 0 || !element.isF32())
      return "tensor<f32>";
    break;
  case ArgumentKind::Step:
  case ArgumentKind::Seed:
    if (tensor.getRank() != 0 || !element.isInteger(64))
      return "tensor<i64>";
    break;
  case ArgumentKind::Parameter:
  case ArgumentKind::Frozen:
  case ArgumentKind::Optimizer:
  case ArgumentKind::Accumulator:
    if (kind == ArgumentKind::Optimizer && element.isInteger(8)) // codes, by stow-quantize-states
      break;
    if (!isConstant && !isa<FloatType>(element))
      return "a float tensor";
    break;
  case ArgumentKind::Input:
  case ArgumentKind::Statistic:
  case ArgumentKind::Target:
    break;
  }
  return std::nullopt;
}

LogicalResult checkArgument(func::FuncOp graph, unsigned index, ArrayRef<ArgumentKind> kinds) {
  Type type = graph.getArgument(index).getType();
  StringRef name = argumentString(graph, index, kNameAttr);
  auto kind = kindOfArgument(graph, index);
  auto error = [&]() {
    return graph.emitError() << "@" << graph.getSymName() << ": argument " << index << " (\""
                             << name << "\") ";
  };
  if (!kind || !llvm::is_contained(kinds, *kind)) {
    InFlightDiagnostic diagnostic = error();
    diagnostic << "has " << (kind ? "kind " + stringifyArgumentKind(*kind).str() : "no stow.kind")
               << "; expected one of ";
    llvm::interleaveComma(kinds, diagnostic,
                          [&](ArgumentKind known) { diagnostic << stringifyArgumentKind(known); });
    return diagnostic;
  }
  if (Attribute attr = graph.getArgAttr(index, kQuantizedAttr)) {
    const auto numbers = quantizedNumbers(attr);
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!numbers || kind != ArgumentKind::Frozen || !tensor ||
        !tensor.getElementType().isInteger(8) ||
        tensor.getNumElements() != partsOf(numbers->scheme, numbers->type.getNumElements()).size)
      return error() << "of type " << type << " is not what stow.quantized says: " << attr;
    type = numbers->type;
  }
  bool isConstant = graph.getArgAttr(index, kUnsavedAttr) != nullptr;
  if (auto expected = kindMismatch(*kind, isConstant, type))
    return error() << "of kind " << stringifyArgumentKind(*kind) << " expects " << *expected
                   << ", found " << type;
  Attribute init = graph.getArgAttr(index, kInitAttr);
  if (auto elements = dyn_cast_or_null<ElementsAttr>(init)) {
    if (auto whole = graph.getArgAttrOfType<TypeAttr>(index, kShardOfAttr))
      type = whole.getValue(); // of which each rank takes its own
    if (kind == ArgumentKind::Frozen && isa<FloatType>(elements.getElementType()) &&
        isa<FloatType>(getElementTypeOrSelf(type)))
      type = cast<ShapedType>(type).clone(elements.getElementType()); // which is rounded
    if (!sameLogicalTypes(TypeRange(ArrayRef<Type>(elements.getShapedType())), TypeRange(type)))
      return error() << "is initialized with elements of type " << elements.getShapedType()
                     << ", expected " << type;
  } else if (init && !isa<InitAttr>(init)) {
    return error() << "expects a distribution or elements as stow.init, found " << init;
  } else if (!init && (kind == ArgumentKind::Optimizer || kind == ArgumentKind::Accumulator)) {
    return error() << "of kind " << stringifyArgumentKind(*kind) << " has no stow.init";
  }
  return success();
}

} // namespace

StringRef argumentString(func::FuncOp graph, unsigned index, StringRef name) {
  auto attr = graph.getArgAttrOfType<StringAttr>(index, name);
  return attr ? attr.getValue() : StringRef();
}

StringRef resultString(func::FuncOp graph, unsigned index, StringRef name) {
  auto attr = graph.getResultAttrOfType<StringAttr>(index, name);
  return attr ? attr.getValue() : StringRef();
}

LogicalResult checkRoles(ModuleOp module, StringRef form, ArrayRef<Role> required,
                         ArrayRef<Role> optional) {
  bool ok = true;
  llvm::DenseMap<std::pair<unsigned, Attribute>, func::FuncOp> byRole; // and shape
  for (auto graph : module.getOps<func::FuncOp>()) {
    auto error = [&]() {
      ok = false;
      return graph.emitError() << "@" << graph.getSymName() << " ";
    };
    auto role = roleOf(graph);
    if (!role || (!llvm::is_contained(required, *role) && !llvm::is_contained(optional, *role))) {
      InFlightDiagnostic diagnostic = error();
      diagnostic << "has " << (role ? "the role " + stringifyRole(*role).str() : "no stow.role")
                 << "; form \"" << form << "\" expects one of ";
      llvm::interleaveComma(llvm::concat<const Role>(required, optional), diagnostic,
                            [&](Role known) { diagnostic << stringifyRole(known); });
      continue;
    }
    auto [first, isNew] =
        byRole.try_emplace({static_cast<unsigned>(*role), graph->getAttr("stow.shape")}, graph);
    if (!isNew && *role != Role::Measure)
      error() << "has the role " << stringifyRole(*role) << ", as @" << first->second.getSymName()
              << " has; each role has one function";
  }
  for (Role role : required)
    if (!byRole.contains(std::pair(static_cast<unsigned>(role), Attribute()))) {
      module.emitError() << "form \"" << form << "\" expects a function of role "
                         << stringifyRole(role);
      ok = false;
    }
  return success(ok);
}

LogicalResult checkModule(ModuleOp module, StringRef form, ArrayRef<Role> required,
                          ArrayRef<Role> optional) {
  bool ok = true;
  auto claimed = module->getAttrOfType<StringAttr>(kFormAttr);
  if (!claimed || claimed.getValue() != form) {
    module.emitError() << "expects stow.form = \"" << form << "\", found "
                       << (claimed ? "\"" + claimed.getValue().str() + "\"" : "none");
    ok = false;
  }
  ok &= succeeded(checkRoles(module, form, required, optional));
  for (Operation &op : module.getBody()->getOperations()) {
    auto graph = dyn_cast<func::FuncOp>(op);
    if (!graph) {
      op.emitError() << "form \"" << form << "\" has no place for this op";
      ok = false;
      continue;
    }
    if (!llvm::hasSingleElement(graph.getBody())) {
      graph.emitError() << "expects one block, found " << graph.getBody().getBlocks().size();
      ok = false;
      continue;
    }
    for (Operation &inner : graph.front().without_terminator())
      if (!isa_and_nonnull<StowDialect>(inner.getDialect())) {
        inner.emitError() << "a graph holds stow ops only, found '" << inner.getName() << "'";
        ok = false;
      }
  }
  return success(ok);
}

LogicalResult checkArguments(func::FuncOp graph, ArrayRef<ArgumentKind> kinds) {
  bool ok = true;
  llvm::StringSet<> names;
  llvm::SmallVector<ArgumentKind> singles;
  for (unsigned index = 0; index < graph.getNumArguments(); ++index) {
    StringRef name = argumentString(graph, index, kNameAttr);
    auto kind = kindOfArgument(graph, index);
    if (name.empty() || !names.insert(name).second) {
      graph.emitError() << "@" << graph.getSymName() << ": argument " << index
                        << (name.empty() ? " has no stow.name"
                                         : " repeats the name \"" + name.str() + "\"");
      ok = false;
    }
    if (kind == ArgumentKind::LearningRate || kind == ArgumentKind::Step ||
        kind == ArgumentKind::Seed) {
      if (llvm::is_contained(singles, *kind)) {
        graph.emitError() << "@" << graph.getSymName() << ": more than one argument of kind "
                          << stringifyArgumentKind(*kind);
        ok = false;
      }
      singles.push_back(*kind);
    }
    ok &= succeeded(checkArgument(graph, index, kinds));
  }
  return success(ok);
}

/// The result is the next value of a statistic of its type; `known` are those that have one.
static LogicalResult checkNextValue(func::FuncOp model, unsigned index, llvm::StringSet<> &known) {
  StringRef state = resultString(model, index, kStateAttr);
  auto error = [&]() {
    return model.emitError() << "@" << model.getSymName() << ": result " << index
                             << " (stow.state \"" << state << "\") ";
  };
  for (BlockArgument argument : model.getArguments()) {
    if (argumentString(model, argument.getArgNumber(), kNameAttr) != state ||
        kindOfArgument(model, argument.getArgNumber()) != ArgumentKind::Statistic)
      continue;
    Type found = model.getResultTypes()[index];
    if (found != argument.getType())
      return error() << "is " << found << "; expected " << argument.getType();
    if (!known.insert(state).second)
      return error() << "is a second next value of that statistic";
    return success();
  }
  return error() << "is the next value of no statistic";
}

LogicalResult checkOutputs(func::FuncOp graph) {
  bool ok = true;
  llvm::StringSet<> names, states;
  for (unsigned index = 0; index < graph.getNumResults(); ++index) {
    StringRef name = resultString(graph, index, kNameAttr);
    if (roleOf(graph) == Role::Model && graph.getResultAttr(index, kStateAttr)) {
      ok &= succeeded(checkNextValue(graph, index, states));
      continue;
    }
    if (name.empty() || !names.insert(name).second) {
      graph.emitError() << "@" << graph.getSymName() << ": result " << index
                        << (name.empty() ? " has no stow.name"
                                         : " repeats the name \"" + name.str() + "\"");
      ok = false;
    }
    if (graph.getResultAttr(index, kStateAttr)) {
      graph.emitError() << "@" << graph.getSymName() << ": result " << index
                        << " changes state, which only training may";
      ok = false;
    }
  }
  return success(ok);
}

bool isTrainingOp(Operation *op) {
  if (auto product = dyn_cast<ProductMapOp>(op))
    return !product.getUpdates().empty();
  return op->hasTrait<OfTraining>();
}

bool isUpdateOp(Operation *op) { return op->hasTrait<UpdatesState>(); }

// Generated functions that register each pass and, as a group, all of them.
namespace {
#define GEN_PASS_REGISTRATION
#include "passes/verify/Passes.h.inc"
} // namespace

void registerVerifyPasses() { registerStowverifyPasses(); }

} // namespace stow
