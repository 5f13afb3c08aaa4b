// The type that a parameter which is not trained is stored in.
//
//   w, frozen, f32 --> cast to bf16 --> product          w, frozen, bf16 --> product
//                  \-> cast to bf16 --> product    ==>                   \-> product
//
// Where every reader computes with 16 bits, storing them takes no second copy and changes no result. A type that is asked for,
// or that the file's own values have, holds whatever reads them; who needs f32 converts.
#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "passes/precision/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_STOREFROZENPASS
#include "passes/precision/Passes.h.inc"

namespace {

/// What --frozen says of the parameters that a pattern matches.
struct Rule {
  llvm::GlobPattern pattern;
  std::string text;
  FloatType type; ///< null: as without a rule
  bool isUsed = false;
};

FloatType typeNamed(StringRef word, MLIRContext *context) {
  return llvm::StringSwitch<FloatType>(word)
      .Case("f32", Float32Type::get(context))
      .Case("bf16", BFloat16Type::get(context))
      .Case("f16", Float16Type::get(context))
      .Default({});
}

/// A frozen parameter, in every graph that has it.
struct Frozen {
  SmallVector<BlockArgument> arguments;
  FloatType stored; ///< that the file's values have, where it says so
};

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
FloatType typeOfAllReaders(const Frozen &frozen) {
  FloatType common;
  for (BlockArgument argument : frozen.arguments)
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
    SmallVector<Rule> rules;
    if (failed(readRules(rules)))
      return signalPassFailure();
    llvm::MapVector<StringAttr, Frozen> parameters = findFrozen();
    for (auto &[name, frozen] : parameters)
      if (FloatType type = typeFor(name.getValue(), frozen, rules))
        for (BlockArgument argument : frozen.arguments)
          if (tensorType(argument).getElementType() != type)
            Storing(argument, type).run();
    for (const Rule &rule : rules)
      if (!rule.isUsed) {
        getOperation().emitError() << "no frozen parameter matches --frozen=" << rule.text
                                   << "; --list-parameters names them, --freeze freezes more";
        signalPassFailure();
      }
  }

private:
  /// "PATTERN:TYPE", or a type alone for all.
  LogicalResult readRules(SmallVectorImpl<Rule> &rules) {
    for (const std::string &text : types) {
      auto [pattern, word] = StringRef(text).rsplit(':');
      if (word.empty())
        std::swap(pattern, word);
      auto glob = llvm::GlobPattern::create(pattern.empty() ? "*" : pattern);
      FloatType type = typeNamed(word, &getContext());
      if (!glob || (!type && word != "auto")) {
        const std::string why =
            glob ? "expected auto, f32, bf16 or f16 as its type" : llvm::toString(glob.takeError());
        return getOperation().emitError() << "--frozen=" << text << ": " << why;
      }
      rules.push_back({std::move(*glob), text, type});
    }
    return success();
  }

  llvm::MapVector<StringAttr, Frozen> findFrozen() {
    llvm::MapVector<StringAttr, Frozen> parameters;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : graph.getArguments()) {
        const unsigned index = argument.getArgNumber();
        if (kindOfArgument(graph, index) != ArgumentKind::Frozen)
          continue;
        Frozen &frozen = parameters[graph.getArgAttrOfType<StringAttr>(index, kNameAttr)];
        frozen.arguments.push_back(argument);
        if (auto stored = graph.getArgAttrOfType<TypeAttr>(index, kStoredAttr))
          frozen.stored = dyn_cast<FloatType>(stored.getValue());
      }
    return parameters;
  }

  /// The last rule that matches decides; without one the file's own type, else what loses nothing. Null: as it is.
  static FloatType typeFor(StringRef name, const Frozen &frozen, MutableArrayRef<Rule> rules) {
    const Rule *last = nullptr;
    for (Rule &rule : rules)
      if (rule.pattern.match(name)) {
        rule.isUsed = true;
        last = &rule;
      }
    if (last && last->type)
      return last->type;
    return frozen.stored ? frozen.stored : typeOfAllReaders(frozen);
  }
};

} // namespace
} // namespace stow
