// Rewrites of the model that change neither values nor gradients, rounding aside.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#include "passes/rewrite/Passes.h.inc"

/// Registers the passes of this folder that need no target.
void registerRewritePasses();

// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createTileAttentionPass(const Target &target);

} // namespace stow
