// Nests concats that begin alike: O(inputs of all concats).
//
// A dense block joins everything before each of its layers anew: concat(x0, x1), concat(x0, x1, x2)
// and so on, k^2 bytes for k layers. Nested, each concat is a prefix of the next, and all of them
// can be one storage of k bytes (passes/memory/PlaceInside.cpp).
//
//   concat(a, b)      |aaaa|bb|                     |aaaa|bb|cc|dd|
//   concat(a, b, c)   |aaaa|bb|cc|                   `--y1--'  |  |
//   concat(a, b, c, d)|aaaa|bb|cc|dd|                `---y2----'  |
//                                                    `----y3------'
#include "passes/rewrite/Passes.h"

#include "ir/StowShapeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_NESTCONCATSPASS
#include "passes/rewrite/Passes.h.inc"

namespace {

/// Inputs of concats as paths from a root. Never iterated over.
struct Prefix {
  llvm::DenseMap<Value, std::unique_ptr<Prefix>> longer; ///< by the next input
  Value joined;                                          ///< the first concat of just these inputs
};

//===-- --stow-nest-concats ------------------------------------------------------------------===//

struct NestConcatsPass : impl::NestConcatsPassBase<NestConcatsPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      std::map<int64_t, Prefix> byAxis;
      for (auto concat : graph.getOps<ConcatOp>())
        nest(concat, byAxis[concat.getAxis()]);
    }
  }

  void nest(ConcatOp concat, Prefix &root) {
    SmallVector<Value> inputs(concat.getInputs());
    Prefix *prefix = &root;
    SmallVector<Value> shorter(inputs);
    for (auto [number, input] : llvm::enumerate(inputs)) {
      std::unique_ptr<Prefix> &next = prefix->longer[input];
      if (!next)
        next = std::make_unique<Prefix>();
      prefix = next.get();
      if (prefix->joined && number > 0 && number + 1 < inputs.size()) {
        shorter.assign(1, prefix->joined);
        llvm::append_range(shorter, ArrayRef(inputs).drop_front(number + 1));
      }
    }
    if (!prefix->joined)
      prefix->joined = concat.getY();
    if (shorter.size() != inputs.size())
      concat.getInputsMutable().assign(shorter);
  }
};

} // namespace
} // namespace stow
