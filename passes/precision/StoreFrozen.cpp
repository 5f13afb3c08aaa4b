// The type that a parameter which is not trained is stored in.
//
//   w, frozen, f32 --> cast to bf16 --> product          w, frozen, bf16 --> product
//                  \-> cast to bf16 --> product    ==>                   \-> product
//
// Where every reader computes with 16 bits, storing them takes no second copy and changes no result. A type that is asked for,
// or that the file's own values have, holds whatever reads them; who needs f32 converts.
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "passes/precision/FrozenRules.h"
#include "passes/precision/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_STOREFROZENPASS
#include "passes/precision/Passes.h.inc"

namespace {

/// The type of 16 bits that a reader computes with: the one that it converts to, or that the other factor of a product has, which
/// takes its factors in both.
FloatType typeRead(OpOperand &use) {
  Operation *user = use.getOwner();
  const auto lowOf = [](Value value) {
    auto type = dyn_cast<FloatType>(tensorType(value).getElementType());
    return type && type.getWidth() == 16 ? type : FloatType();
  };
  if (auto cast = dyn_cast<CastOp>(user))
    return lowOf(cast.getY());
  auto precision = dyn_cast<PrecisionOpInterface>(user);
  if (!precision || precisionClassOf(user) != PrecisionClass::Low ||
      !precision.takesLow(use.getOperandNumber()))
    return {};
  for (OpOperand &other : user->getOpOperands())
    if (FloatType type = lowOf(other.get());
        type && &other != &use && precision.takesLow(other.getOperandNumber()))
      return type;
  return {};
}

/// The type that every reader computes with; none where they differ, or where nothing reads the parameter.
FloatType typeOfAllReaders(ArrayRef<BlockArgument> arguments) {
  FloatType common;
  for (BlockArgument argument : arguments)
    for (OpOperand &use : argument.getUses()) {
      const FloatType type = typeRead(use);
      if (!type || (common && type != common))
        return {};
      common = type;
    }
  return common;
}

/// Stores one argument in another type.
class Storing {
public:
  Storing(BlockArgument argument, FloatType type)
      : argument(argument), type(type), wide(tensorType(argument).getElementType()) {}

  void run() {
    auto uses = llvm::map_to_vector(argument.getUses(), [](OpOperand &use) { return &use; });
    llvm::sort(uses, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() == b->getOwner() ? a->getOperandNumber() < b->getOperandNumber()
                                            : a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    argument.setType(tensorType(argument).clone(type));
    for (OpOperand *use : uses)
      convert(*use);
    auto graph = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    graph.setFunctionType(FunctionType::get(graph.getContext(), graph.front().getArgumentTypes(),
                                            graph.getResultTypes()));
  }

private:
  void convert(OpOperand &use) {
    Operation *user = use.getOwner();
    if (dropCast(user, argument) || (!isa<CastOp>(user) && typeRead(use) == type))
      return;
    if (auto rows = dyn_cast<EmbeddingOp>(user); rows && use.getOperandNumber() == 0)
      return convertRows(rows);
    use.set(wideFor(user));
  }

  /// Takes `value` in the place of a cast to its type.
  static bool dropCast(Operation *user, Value value) {
    auto cast = dyn_cast<CastOp>(user);
    if (!cast || cast.getY().getType() != value.getType())
      return false;
    cast.getY().replaceAllUsesWith(value);
    cast.erase();
    return true;
  }

  /// Of a table, the rows that are taken are converted, not all.
  void convertRows(EmbeddingOp rows) {
    Value y = rows.getY();
    RankedTensorType given = tensorType(y);
    y.setType(given.clone(type));
    for (Operation *user : llvm::to_vector(y.getUsers()))
      dropCast(user, y);
    if (given.getElementType() == type || y.use_empty())
      return;
    OpBuilder builder(rows->getContext());
    builder.setInsertionPointAfter(rows);
    auto cast = CastOp::create(builder, rows.getLoc(), given, y);
    copyPhase(rows, cast);
    y.replaceAllUsesExcept(cast, cast);
  }

  /// The parameter as `reader`, the first of its phase, and later ones have it.
  Value wideFor(Operation *reader) {
    Value &known = wides[static_cast<int>(phaseOf(reader))];
    if (known)
      return known;
    OpBuilder builder(reader);
    auto cast =
        CastOp::create(builder, reader->getLoc(), tensorType(argument).clone(wide), argument);
    copyPhase(reader, cast);
    return known = cast;
  }

  BlockArgument argument;
  const FloatType type;
  const Type wide;
  llvm::DenseMap<int, Value> wides; ///< by phase
};

//===-- --stow-store-frozen ------------------------------------------------------------------===//

struct StoreFrozenPass : impl::StoreFrozenPassBase<StoreFrozenPass> {
  using StoreFrozenPassBase::StoreFrozenPassBase;

  void runOnOperation() override {
    auto rules = readFrozenRules(getOperation(), types);
    if (failed(rules))
      return signalPassFailure();
    const auto parameters = frozenParameters(getOperation());
    for (const auto &[name, arguments] : parameters)
      if (FloatType type = typeFor(name, arguments, *rules))
        for (BlockArgument argument : arguments)
          if (tensorType(argument).getElementType() != type)
            Storing(argument, type).run();
    for (const FrozenRule &rule : *rules)
      if (llvm::none_of(parameters,
                        [&](const auto &entry) { return rule.pattern.match(entry.first); })) {
        getOperation().emitError() << "no frozen parameter matches --frozen=" << rule.text
                                   << "; --list-parameters names them, --freeze freezes more";
        signalPassFailure();
      }
  }

private:
  /// Without a rule that says a type the file's own, else what loses nothing. Null: as it is.
  static FloatType typeFor(StringRef name, ArrayRef<BlockArgument> arguments,
                           ArrayRef<FrozenRule> rules) {
    if (const FrozenRule *rule = ruleFor(name, rules); rule && rule->type)
      return rule->type;
    for (BlockArgument argument : arguments) {
      auto graph = cast<func::FuncOp>(argument.getOwner()->getParentOp());
      if (auto stored = graph.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), kStoredAttr))
        return dyn_cast<FloatType>(stored.getValue());
    }
    return typeOfAllReaders(arguments);
  }
};

} // namespace
} // namespace stow
