// What the tools register: dialects of every form and all passes.
#pragma once

namespace mlir {
class DialectRegistry;
class MLIRContext;
} // namespace mlir

namespace stow {

class Target;

void registerDialects(mlir::DialectRegistry &registry);

/// Passes that ask a device ask `target`, which outlives them.
void registerPasses(const Target &target);

/// Loads every dialect into the context of a command, which runs on one thread. Diagnostics are
/// printed to standard error as "error: node '/conv1/Conv': ...".
void prepareContext(mlir::MLIRContext &context);

} // namespace stow
