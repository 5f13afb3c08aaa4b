// Gives every constant that needs memory a place among the state: O(ops).
#include "passes/rewrite/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowShapeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_HOISTCONSTANTSPASS
#include "passes/rewrite/Passes.h.inc"

namespace {

/// True when kernels can hold the constant as an immediate.
bool foldsIntoKernels(ConstantOp constant) {
  auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
  return value && value.isSplat() && llvm::all_of(constant->getUsers(), [](Operation *user) {
           return isa<ElementwiseOpInterface>(user);
         });
}

//===-- --stow-hoist-constants ---------------------------------------------------------------===//

struct HoistConstantsPass : impl::HoistConstantsPassBase<HoistConstantsPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      int64_t number = 0;
      llvm::StringSet<> names;
      for (auto constant : llvm::make_early_inc_range(graph.getOps<ConstantOp>())) {
        if (foldsIntoKernels(constant))
          continue;
        Builder builder(&getContext());
        NamedAttrList attributes;
        // Whole numbers of a weight are that weight's, by its name; where several read it, the first.
        auto weight = constant->getAttrOfType<StringAttr>(kNameAttr);
        const bool isWeight = weight && names.insert(weight.getValue()).second;
        attributes.set(kNameAttr,
                       isWeight ? weight : builder.getStringAttr("constant_" + Twine(number++)));
        attributes.set(kKindAttr,
                       ArgumentKindAttr::get(&getContext(), weight ? ArgumentKind::Frozen
                                                                   : ArgumentKind::Statistic));
        attributes.set(kInitAttr, constant.getValue());
        attributes.set(kUnsavedAttr, builder.getUnitAttr());
        unsigned index = graph.getNumArguments();
        if (failed(graph.insertArgument(index, constant.getType(),
                                        attributes.getDictionary(&getContext()),
                                        constant.getLoc())))
          return signalPassFailure();
        constant.replaceAllUsesWith(Value(graph.getArgument(index)));
        constant.erase();
      }
    }
  }
};

} // namespace

void registerRewritePasses() {
  registerPass([] { return createFoldPlaneScalesPass(); });
  registerPass([] { return createHoistConstantsPass(); });
  registerPass([] { return createNestConcatsPass(); });
  registerPass([] { return createTakeRowsFirstPass(); });
  registerPass([] { return createSinkReluPass(); });
}

} // namespace stow
