// The body of a stow.map, as kernels clone it.
#pragma once

#include "codegen/kernels/Lanes.h"
#include "ir/StowKernelOps.h"

#include "mlir/IR/IRMapping.h"

namespace stow {

/// How often a value changes.
enum Level { PerCall, PerRow, PerLane };

/// The body, its values sorted by how often they change.
class MapBody {
public:
  MapBody(MapOp map, llvm::ArrayRef<Level> operands) {
    mlir::Block &block = map.getBody().front();
    for (auto [argument, level] : llvm::zip_equal(block.getArguments(), operands))
      levels[argument] = level;
    for (mlir::Operation &op : block.without_terminator()) {
      Level level = mlir::isa<ElementIndexOp>(op) ? PerLane : PerCall;
      for (mlir::Value operand : op.getOperands())
        level = std::max(level, levels.lookup(operand));
      for (mlir::Value result : op.getResults())
        levels[result] = level;
      byLevel[level].push_back(&op);
    }
  }

  /// Clones the ops of one level; `values` has all values of lower levels and the level's operands.
  /// `chunk` widens what comes from lower levels; element_index becomes `elementIndex`.
  void emit(Level level, mlir::OpBuilder &builder, mlir::IRMapping &values, const Chunk *chunk,
            llvm::function_ref<mlir::Value()> elementIndex) const {
    for (mlir::Operation *op : byLevel[level]) {
      if (mlir::isa<ElementIndexOp>(op)) {
        values.map(op->getResult(0), elementIndex());
        continue;
      }
      if (!chunk || chunk->size() == 1) {
        builder.clone(*op, values);
        continue;
      }
      mlir::OperationState state(builder.getUnknownLoc(), op->getName());
      for (mlir::Value operand : op->getOperands())
        state.operands.push_back(chunk->widen(values.lookup(operand)));
      for (mlir::Type type : op->getResultTypes())
        state.types.push_back(chunk->type(type));
      state.addAttributes(op->getAttrs());
      state.propertiesAttr = op->getPropertiesAsAttribute();
      mlir::Operation *wide = builder.create(state);
      values.map(op->getResults(), wide->getResults());
    }
  }

private:
  llvm::DenseMap<mlir::Value, Level> levels;
  std::vector<mlir::Operation *> byLevel[3];
};

} // namespace stow
