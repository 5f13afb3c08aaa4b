#include "ir/StepGraphs.h"

using namespace mlir;

namespace stow {

int64_t batchesPerStep(ModuleOp module) {
  auto batches = module->getAttrOfType<IntegerAttr>(kBatchesAttr);
  return batches ? batches.getInt() : 1;
}

int64_t devicesOf(ModuleOp module) {
  auto devices = module->getAttrOfType<IntegerAttr>(kDevicesAttr);
  return devices ? devices.getInt() : 1;
}

void addNote(ModuleOp module, StringRef note) {
  Builder builder(module.getContext());
  SmallVector<Attribute> notes;
  if (auto known = module->getAttrOfType<ArrayAttr>(kNotesAttr))
    llvm::append_range(notes, known);
  notes.push_back(builder.getStringAttr(note));
  module->setAttr(kNotesAttr, builder.getArrayAttr(notes));
}

StringRef graphShape(func::FuncOp graph) {
  auto shape = graph->getAttrOfType<StringAttr>(kShapeAttr);
  return shape ? shape.getValue() : StringRef();
}

func::FuncOp stepGraph(ModuleOp module) {
  for (Role role : {Role::Train, Role::Commit, Role::Accumulate})
    if (auto graph = findGraph(module, role))
      return graph;
  return {};
}

bool isStepGraph(func::FuncOp graph) {
  const auto role = roleOf(graph);
  return role == Role::Train || role == Role::Accumulate || role == Role::Commit;
}

int64_t runsPerStep(func::FuncOp graph) {
  if (roleOf(graph) != Role::Accumulate)
    return isStepGraph(graph);
  return batchesPerStep(graph->getParentOfType<ModuleOp>()) - 1;
}

} // namespace stow
