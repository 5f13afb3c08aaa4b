#include "passes/memory/Implementations.h"

using namespace mlir;

namespace stow {
namespace {

constexpr llvm::StringLiteral kName = "name", kWorkspace = "workspace", kSlowdown = "slowdown";

} // namespace

void setImplementations(Operation *op, ArrayRef<Target::Implementation> choices, Bytes alignment) {
  Builder builder(op);
  SmallVector<Target::Implementation> sorted(choices);
  llvm::stable_sort(sorted, [](const auto &a, const auto &b) { return a.slowdown < b.slowdown; });
  SmallVector<Attribute> kept;
  Bytes least = 0; // in whole units of the arena
  for (const Target::Implementation &choice : sorted) {
    const Bytes bytes = alignUp(choice.workspaceBytes, alignment);
    if (!kept.empty() && bytes >= least)
      continue;
    least = bytes;
    kept.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(kName, builder.getStringAttr(choice.name)),
         builder.getNamedAttr(kWorkspace, builder.getI64IntegerAttr(choice.workspaceBytes)),
         builder.getNamedAttr(kSlowdown, builder.getF64FloatAttr(choice.slowdown))}));
  }
  op->setAttr(kImplementationsAttr, builder.getArrayAttr(kept));
  chooseImplementation(op, 0);
}

SmallVector<Target::Implementation> implementationsOf(Operation *op) {
  SmallVector<Target::Implementation> all;
  if (auto list = op->getAttrOfType<ArrayAttr>(kImplementationsAttr))
    for (auto entry : list.getAsRange<DictionaryAttr>())
      all.push_back({entry.getAs<StringAttr>(kName).str(),
                     entry.getAs<IntegerAttr>(kWorkspace).getInt(),
                     entry.getAs<FloatAttr>(kSlowdown).getValueAsDouble()});
  return all;
}

unsigned chosenImplementation(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(kImplementationAttr);
  return number ? static_cast<unsigned>(number.getInt()) : 0;
}

void chooseImplementation(Operation *op, unsigned number) {
  const SmallVector<Target::Implementation> all = implementationsOf(op);
  if (all.empty())
    return;
  Builder builder(op);
  op->setAttr(kImplementationAttr, builder.getI64IntegerAttr(number));
  op->removeAttr(kWorkspaceAttr);
  if (const Bytes bytes = all[number].workspaceBytes)
    op->setAttr(kWorkspaceAttr, builder.getI64IntegerAttr(bytes));
}

} // namespace stow
