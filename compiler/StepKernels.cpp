#include "compiler/StepKernels.h"

#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "ir/StowOffloadOps.h"
#include "passes/memory/KernelNumber.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <absl/strings/str_cat.h>
#include <limits>

using namespace mlir;

namespace stow {

SmallVector<Operation *> launchesOf(ModuleOp module) {
  SmallVector<Operation *> ops;
  for (auto graph : module.getOps<func::FuncOp>())
    for (Operation &op : graph.getBody().front().without_terminator())
      if (isStepGraph(graph) && !launchesNothing(&op) && !isCopyOrAwait(&op))
        ops.push_back(&op);
  return ops;
}

func::FuncOp isolate(Operation *op, OpBuilder &builder, const std::string &name) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    if (!llvm::is_contained(operands, operand))
      operands.push_back(operand);
  auto type = builder.getFunctionType(
      llvm::map_to_vector(operands, [](Value v) { return v.getType(); }), op->getResultTypes());
  auto graph = func::FuncOp::create(builder, builder.getUnknownLoc(), name, type);
  setRole(graph, Role::Measure);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(graph.addEntryBlock());
  IRMapping mapping;
  for (auto [operand, argument] : llvm::zip(operands, graph.getArguments())) {
    mapping.map(operand, argument);
    setKindOfArgument(graph, argument.getArgNumber(), ArgumentKind::Input);
    graph.setArgAttr(argument.getArgNumber(), kNameAttr,
                     builder.getStringAttr(absl::StrCat("operand", argument.getArgNumber())));
  }
  Operation *alone = builder.clone(*op, mapping);
  for (NamedAttribute attribute : llvm::to_vector(alone->getDiscardableAttrs()))
    if (attribute.getName() != kWorkspaceAttr)
      alone->removeDiscardableAttr(attribute.getName());
  func::ReturnOp::create(builder, builder.getUnknownLoc(), alone->getResults());
  return graph;
}

std::string keyOf(Operation *op) {
  OpBuilder builder(op->getContext());
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(scratch->getBody());
  isolate(op, builder, "key");
  std::string text;
  llvm::raw_string_ostream out(text);
  scratch->print(out, OpPrintingFlags().printGenericOpForm().useLocalScope());
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(llvm::arrayRefFromStringRef(text));
  return llvm::utohexstr(hash.high64, true, 16) + llvm::utohexstr(hash.low64, true, 16);
}

void numberKernels(ModuleOp prepared) {
  Builder builder(prepared.getContext());
  constexpr uint64_t positive = std::numeric_limits<int64_t>::max();
  for (Operation *op : launchesOf(prepared))
    op->setAttr(kKernelAttr, builder.getI64IntegerAttr(
                                 static_cast<int64_t>(llvm::xxh3_64bits(keyOf(op)) & positive)));
}

} // namespace stow
