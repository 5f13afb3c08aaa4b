// What the tools register: dialects of every form and all passes.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace stow {
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();
} // namespace stow
