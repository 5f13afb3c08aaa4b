// What the tools register: dialects of every form and all passes.
#pragma once

namespace mlir {
class DialectRegistry;
class MLIRContext;
} // namespace mlir

namespace stow {
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();

/// Loads every dialect into the context of a command, which runs on one thread.
void prepareContext(mlir::MLIRContext &context);
} // namespace stow
