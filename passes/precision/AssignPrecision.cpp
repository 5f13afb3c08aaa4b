// Which values are stored in 16 bits, and the casts that this takes.
//
// Reads decide first, then writes. Backwards over a graph: a value is wanted in 16 bits when a
// matrix product or convolution reads it, perhaps through reshapes and the like; it is pinned to f32
// when an update reads it or it leaves the graph. Forwards: an op's class says what it writes.
//
//   x (input) --> conv --> batch norm --> relu --> conv ...        all in 16 bits
//                  ^  \--> mean, variance                          f32: small, and their bits count
//                  w, f32; cast where the target wants 16 bits
//
// The classes follow the lists of PyTorch's automatic mixed precision (torch.amp, "Autocast Op
// Reference"). It rounds where this does or more often: there every op rounds its result, here
// fused kernels compute on in f32. There a value that ops of both kinds read exists in f32 and in 16
// bits, here in 16 bits only. O(operands).
#include "ir/Graphs.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowShapeOps.h"
#include "passes/precision/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "passes/precision/Passes.h.inc"

namespace {

/// True for the values that there is something to decide about.
bool isWide(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}

PrecisionClass classOf(Operation *op) { return precisionClassOf(op); }

bool takesLow(Operation *op, unsigned position) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  return precision && precision.takesLow(position);
}

unsigned positionOf(OpResult result) {
  return result.getOwner()->getNumOperands() + result.getResultNumber();
}

/// The decisions for one graph.
class GraphPrecision {
public:
  GraphPrecision(func::FuncOp graph, FloatType low, const Target &target,
                 ArrayRef<llvm::GlobPattern> keep)
      : graph(graph), low(low), target(target), keep(keep) {
    for (Operation &op : llvm::reverse(graph.front()))
      for (OpResult result : op.getResults())
        readBy(result);
  }

  /// True when low ops alone read the argument.
  bool mayStoreLow(BlockArgument argument) const {
    return isWide(argument) && !argument.use_empty() &&
           llvm::all_of(argument.getUses(), [&](OpOperand &use) { return wantsLow(use); });
  }

  void storeLow(BlockArgument argument) { lowValues.insert(argument); }

  /// Decides about all results, in program order.
  void decide() {
    for (Operation &op : graph.front())
      for (OpResult result : op.getResults())
        if (isWide(result) && writesLow(result))
          lowValues.insert(result);
  }

  /// Sets the types and adds the casts.
  void apply() {
    for (Value value : lowValues)
      value.setType(RankedTensorType::get(tensorType(value).getShape(), low));
    graph.setFunctionType(FunctionType::get(graph.getContext(), graph.front().getArgumentTypes(),
                                            graph.getResultTypes()));
    SmallVector<Operation *> ops =
        llvm::map_to_vector(graph.front(), [](Operation &op) { return &op; });
    for (Operation *op : ops) {
      castOperands(op);
      castResults(op);
    }
  }

private:
  bool isKept(Operation *op) const {
    const std::string name = sourceNameOf(op->getLoc());
    return llvm::any_of(keep, [&](const llvm::GlobPattern &glob) { return glob.match(name); });
  }

  bool wantsLow(OpOperand &use) const {
    Operation *op = use.getOwner();
    switch (classOf(op)) {
    case PrecisionClass::Low:
      return takesLow(op, use.getOperandNumber()) && !isKept(op);
    case PrecisionClass::Same:
      return llvm::any_of(op->getResults(), [&](Value result) { return wanted.contains(result); });
    default:
      return false;
    }
  }

  /// Updates and returned values are in f32, and so is what reaches them element by element: sums
  /// and scaled sums of gradients, also those over ranks.
  bool needsWide(OpOperand &use) const {
    Operation *op = use.getOwner();
    if (op->hasTrait<OpTrait::IsTerminator>())
      return roleOf(graph) != Role::Eval;
    if (phaseOf(op) == Phase::Update || isa<AllReduceOp, ReduceScatterOp>(op))
      return true;
    const bool handsOn = classOf(op) == PrecisionClass::Same ||
                         (isa<ElementwiseOpInterface>(op) && phaseOf(op) == Phase::Backward);
    return handsOn &&
           llvm::any_of(op->getResults(), [&](Value result) { return pinned.contains(result); });
  }

  /// Fills `wanted` and `pinned` for a result, whose readers' results have theirs.
  void readBy(OpResult result) {
    if (!isWide(result))
      return;
    for (OpOperand &use : result.getUses()) {
      if (needsWide(use))
        pinned.insert(result);
      if (wantsLow(use))
        wanted.insert(result);
    }
  }

  bool isLow(Value value) const { return lowValues.contains(value); }

  bool writesLow(OpResult result) const {
    Operation *op = result.getOwner();
    if (isa<ConstantOp>(op) || tensorType(result).getNumElements() == 1 ||
        pinned.contains(result) || !takesLow(op, positionOf(result)) || isKept(op))
      return false;
    switch (classOf(op)) {
    case PrecisionClass::Low:
      return true;
    case PrecisionClass::Full:
      return wanted.contains(result);
    case PrecisionClass::Widest:
      return wanted.contains(result) || readsLowOnly(op);
    case PrecisionClass::Same:
      return readsLowOnly(op);
    }
    llvm_unreachable("all classes are handled");
  }

  /// True when all float operands of full size are in 16 bits. Constants have any type; what is
  /// broadcast, a bias or a scale, does not make a result wide.
  bool readsLowOnly(Operation *op) const {
    int64_t largest = 0;
    for (Value operand : op->getOperands())
      if (isWide(operand) && !operand.getDefiningOp<ConstantOp>())
        largest = std::max(largest, tensorType(operand).getNumElements());
    bool any = false;
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (!isWide(value) || value.getDefiningOp<ConstantOp>() ||
          !takesLow(op, operand.getOperandNumber()))
        continue;
      const bool counts =
          classOf(op) == PrecisionClass::Same || tensorType(value).getNumElements() == largest;
      if (counts && !isLow(value))
        return false;
      any |= counts;
    }
    return any;
  }

  /// Casts what `op` does not take as it is stored.
  void castOperands(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type || (type.getElementType() != low && !type.getElementType().isF32()))
        continue;
      if (FloatType wants = wantedType(op, operand); wants && wants != type.getElementType())
        operand.set(castOf(operand.get(), wants, op));
    }
  }

  /// Casts what a low op should write in f32 and cannot: a parameter's gradient.
  void castResults(Operation *op) {
    if (classOf(op) != PrecisionClass::Low || isKept(op))
      return;
    for (OpResult result : op->getResults()) {
      if (!isWide(result) || target.takesWide(op, positionOf(result), low))
        continue;
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      auto cast = CastOp::create(builder, op->getLoc(), result.getType(), result);
      copyPhase(op, cast);
      result.setType(RankedTensorType::get(tensorType(result).getShape(), low));
      result.replaceAllUsesExcept(cast, cast);
    }
  }

  /// The float type that the operand must have; none where both will do.
  FloatType wantedType(Operation *op, OpOperand &operand) const {
    const unsigned position = operand.getOperandNumber();
    auto wide = Float32Type::get(op->getContext());
    if (op->hasTrait<OpTrait::IsTerminator>() || phaseOf(op) == Phase::Update)
      return wide;
    switch (classOf(op)) {
    case PrecisionClass::Low:
      if (isKept(op))
        return wide;
      if (!target.takesWide(op, position, low))
        return low;
      return takesLow(op, position) ? FloatType() : wide;
    case PrecisionClass::Same:
      return takesLow(op, position) ? cast<FloatType>(tensorType(op->getResult(0)).getElementType())
                                    : wide;
    default:
      return takesLow(op, position) ? FloatType() : wide;
    }
  }

  /// `value` in `type`, for `reader` and later ops of its phase.
  Value castOf(Value value, FloatType type, Operation *reader) {
    Value &known = castsOf[{value, static_cast<int>(phaseOf(reader))}];
    if (known)
      return known;
    OpBuilder builder(reader);
    auto cast = CastOp::create(builder, reader->getLoc(),
                               RankedTensorType::get(tensorType(value).getShape(), type), value);
    copyPhase(reader, cast);
    return known = cast;
  }

  func::FuncOp graph;
  FloatType low;
  const Target &target;
  ArrayRef<llvm::GlobPattern> keep;
  llvm::DenseSet<Value> wanted; ///< in 16 bits, by a low op
  llvm::DenseSet<Value> pinned; ///< to f32
  llvm::SetVector<Value> lowValues;
  llvm::DenseMap<std::pair<Value, int>, Value> castsOf; ///< by value and phase of the readers
};

//===-- --stow-assign-precision --------------------------------------------------------------===//

struct AssignPrecisionPass : impl::AssignPrecisionPassBase<AssignPrecisionPass> {
  AssignPrecisionPass(const Target &target, AssignPrecisionPassOptions options)
      : AssignPrecisionPassBase(std::move(options)), target(target) {}
  AssignPrecisionPass(const AssignPrecisionPass &other)
      : AssignPrecisionPassBase(other), target(other.target) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FloatType low = precision == "bf16"  ? FloatType(BFloat16Type::get(&getContext()))
                    : precision == "f16" ? FloatType(Float16Type::get(&getContext()))
                                         : FloatType();
    if (!low) {
      module.emitError() << "expected precision bf16 or f16, found \"" << precision << "\"";
      return signalPassFailure();
    }
    SmallVector<llvm::GlobPattern> kept;
    if (failed(readPatterns(kept)))
      return signalPassFailure();
    std::vector<GraphPrecision> graphs;
    for (auto graph : module.getOps<func::FuncOp>())
      graphs.emplace_back(graph, low, target, kept);
    storeInputs(graphs);
    for (GraphPrecision &graph : graphs) {
      graph.decide();
      graph.apply();
    }
  }

private:
  /// Patterns that no node's name matches are errors: a misspelt one would keep nothing.
  LogicalResult readPatterns(SmallVectorImpl<llvm::GlobPattern> &patterns) {
    llvm::StringSet<> names;
    getOperation().walk([&](Operation *op) { names.insert(sourceNameOf(op->getLoc())); });
    for (const std::string &text : keep) {
      auto glob = llvm::GlobPattern::create(text);
      if (!glob)
        return getOperation().emitError()
               << "\"" << text
               << "\" is no pattern of node names: " << llvm::toString(glob.takeError());
      if (llvm::none_of(names.keys(), [&](StringRef name) { return glob->match(name); }))
        return getOperation().emitError()
               << "\"" << text << "\" keeps no node in f32: no node has a name like it";
      patterns.push_back(std::move(*glob));
    }
    return success();
  }

  /// Inputs have one type in all graphs.
  void storeInputs(std::vector<GraphPrecision> &graphs) {
    auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    llvm::StringMap<bool> mayBeLow;
    auto forInputs = [&](auto body) {
      for (auto [function, graph] : llvm::zip_equal(functions, graphs))
        for (BlockArgument argument : function.getArguments())
          if (kindOfArgument(function, argument.getArgNumber()) == ArgumentKind::Input)
            body(graph, argument,
                 function.template getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr)
                     .getValue());
    };
    forInputs([&](GraphPrecision &graph, BlockArgument argument, StringRef name) {
      bool &low = mayBeLow.try_emplace(name, true).first->second;
      low &= graph.mayStoreLow(argument);
    });
    forInputs([&](GraphPrecision &graph, BlockArgument argument, StringRef name) {
      if (mayBeLow.lookup(name))
        graph.storeLow(argument);
    });
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createAssignPrecisionPass(const Target &target,
                                                AssignPrecisionPassOptions options) {
  return std::make_unique<AssignPrecisionPass>(target, std::move(options));
}

} // namespace stow
