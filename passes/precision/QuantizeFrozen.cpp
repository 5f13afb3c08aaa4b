// Matrices that are not trained, in blocks of 4 or 8 bits.
//
//   w, frozen, bf16 --> product (forward)          w, frozen, bytes --> dequantize --> product (forward)
//                  \-> product (backward)    ==>                   \-> dequantize --> product (backward)
//
// A matrix is computed again for each product that reads it, right before it: in the arena there is one at a time, never all.
#include "ir/StepGraphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowQuantizeOps.h"
#include "passes/precision/FrozenRules.h"
#include "passes/precision/Passes.h"
#include "runtime/base/Bytes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_QUANTIZEFROZENPASS
#include "passes/precision/Passes.h.inc"

namespace {

/// True for a factor of a product, not for its bias.
bool isFactor(OpOperand &use) {
  auto product = dyn_cast<MatmulOp>(use.getOwner());
  return product && (&use == &product.getAMutable() || &use == &product.getBMutable());
}

/// A matrix that is nothing but a factor of products, of some by way of a cast.
bool isReadByProductsAlone(BlockArgument argument) {
  return tensorType(argument).getRank() >= 2 &&
         llvm::all_of(argument.getUses(), [](OpOperand &use) {
           auto cast = dyn_cast<CastOp>(use.getOwner());
           return cast ? llvm::all_of(cast.getY().getUses(), isFactor) : isFactor(use);
         });
}

/// Stores one argument in blocks.
class Quantizing {
public:
  Quantizing(BlockArgument argument, Quantization scheme)
      : argument(argument), given(tensorType(argument)), scheme(scheme) {}

  void run() {
    SmallVector<OpOperand *> uses; // of the numbers, as products read them
    for (OpOperand &use : argument.getUses())
      if (isa<CastOp>(use.getOwner()))
        for (OpOperand &read : use.getOwner()->getUses())
          uses.push_back(&read);
      else
        uses.push_back(&use);
    llvm::sort(uses, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() == b->getOwner() ? a->getOperandNumber() < b->getOperandNumber()
                                            : a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    SmallVector<Operation *> casts;
    for (Operation *user : argument.getUsers())
      if (isa<CastOp>(user))
        casts.push_back(user);
    const Bytes bytes = partsOf(scheme, given.getNumElements()).size;
    OpBuilder builder(argument.getContext());
    argument.setType(RankedTensorType::get({bytes}, builder.getI8Type()));
    for (auto [reading, use] : llvm::enumerate(uses))
      dequantizeFor(*use, static_cast<int64_t>(reading));
    for (Operation *cast : casts)
      cast->erase();
    auto graph = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    graph.setFunctionType(FunctionType::get(graph.getContext(), graph.front().getArgumentTypes(),
                                            graph.getResultTypes()));
    graph.setArgAttr(argument.getArgNumber(), kQuantizedAttr,
                     quantizedAttr(graph.getContext(), scheme, given));
  }

private:
  void dequantizeFor(OpOperand &use, int64_t reading) {
    Operation *reader = use.getOwner();
    OpBuilder builder(reader);
    const RankedTensorType numbers = use.get() == argument ? given : tensorType(use.get());
    auto op = DequantizeOp::create(builder, reader->getLoc(), numbers, argument,
                                   builder.getStringAttr(nameOf(scheme)),
                                   builder.getI64IntegerAttr(reading));
    copyPhase(reader, op);
    use.set(op);
  }

  BlockArgument argument;
  const RankedTensorType given;
  const Quantization scheme;
};

/// Tables, kernels of convolutions and other tensors of more dimensions than one that a rule names and that stay numbers.
class LeftOut {
public:
  void add(StringAttr name, RankedTensorType type) {
    if (type.getRank() < 2)
      return; // vectors take nothing to speak of
    const Bytes each = type.getElementTypeBitWidth() / 8 * type.getNumElements();
    bytes += each;
    tensors.push_back({each, name.str()});
  }

  /// A sentence for the plan, with the largest by name; none where there are none.
  void note(ModuleOp module) {
    constexpr size_t named = 3;
    if (tensors.empty())
      return;
    llvm::stable_sort(tensors, [](const auto &a, const auto &b) { return a.first > b.first; });
    std::string text =
        absl::StrCat("not stored in blocks: ", tensors.size(),
                     tensors.size() == 1 ? " tensor" : " tensors", " of ", formatBytesExact(bytes),
                     " that others than products read (tables, kernels of convolutions): ");
    for (size_t i = 0; i < std::min(named, tensors.size()); ++i)
      absl::StrAppend(&text, i > 0 ? ", " : "", tensors[i].second);
    if (tensors.size() > named)
      absl::StrAppend(&text, " and ", tensors.size() - named, " more");
    addNote(module, text);
  }

private:
  Bytes bytes = 0;
  SmallVector<std::pair<Bytes, std::string>> tensors;
};

//===-- --stow-quantize-frozen ---------------------------------------------------------------===//

struct QuantizeFrozenPass : impl::QuantizeFrozenPassBase<QuantizeFrozenPass> {
  using QuantizeFrozenPassBase::QuantizeFrozenPassBase;

  void runOnOperation() override {
    auto rules = readFrozenRules(getOperation(), types);
    if (failed(rules))
      return signalPassFailure();
    SmallVector<std::pair<BlockArgument, Quantization>> chosen;
    LeftOut left;
    Bytes saved = 0, largest = 0;
    for (auto &[name, arguments] : frozenParameters(getOperation())) {
      const FrozenRule *rule = ruleFor(name, *rules);
      RankedTensorType type = tensorType(arguments.front());
      if (!rule || !rule->scheme || !isa<FloatType>(type.getElementType()) ||
          !isQuantizable(type.getNumElements()))
        continue;
      if (!llvm::all_of(arguments, isReadByProductsAlone)) {
        left.add(name, type);
        continue;
      }
      constexpr Bytes low = 2;
      const Bytes inLow = type.getNumElements() * low;
      saved += inLow - partsOf(*rule->scheme, type.getNumElements()).size;
      largest = std::max(largest, inLow);
      for (BlockArgument argument : arguments)
        chosen.push_back({argument, *rule->scheme});
    }
    // While a product runs, the matrix that it reads lies there as numbers, too: beside that, all must take less than in 16 bits.
    if (saved < largest) {
      getOperation().emitWarning() << "frozen matrices are not quantized: that saves " << saved
                                   << " bytes, and the largest of them takes " << largest
                                   << " while a product reads it; in 16 bits less memory is needed";
      return;
    }
    for (auto [argument, scheme] : chosen)
      Quantizing(argument, scheme).run();
    left.note(getOperation());
  }
};

} // namespace
} // namespace stow
