#include "passes/plan/Origins.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

#include <functional>

using namespace mlir;

namespace stow {
namespace {

constexpr StringLiteral kOriginAttr = "stow.origin";

} // namespace

void numberOps(func::FuncOp graph) {
  Builder builder(graph.getContext());
  for (auto [number, op] : llvm::enumerate(graph.getBody().front()))
    op.setAttr(kOriginAttr, builder.getI64IntegerAttr(static_cast<int64_t>(number)));
}

Origins takeNumbers(func::FuncOp graph) {
  Origins origins;
  for (Operation &op : graph.getBody().front())
    if (auto number = dyn_cast_or_null<IntegerAttr>(op.removeAttr(kOriginAttr)))
      origins[&op] = number.getInt();
  return origins;
}

OpsByOrigin opsByOrigin(const StepProblem &step, const Origins &origins) {
  OpsByOrigin ops;
  for (auto [id, op] : llvm::enumerate(step.ops))
    if (auto origin = origins.find(op); origin != origins.end())
      ops[origin->second] = static_cast<schedule::OpId>(id);
  return ops;
}

std::optional<schedule::Solution> readBack(const schedule::Problem &problem, const OpsByOrigin &ops,
                                           const StepProblem &cloned, const Origins &origins,
                                           const std::optional<schedule::Solution> &order) {
  const std::vector<std::optional<schedule::OpId>> producers = problem.producers();
  std::vector<char> hasRun(problem.ops.size(), 0);
  std::vector<int> ahead(problem.ops.size(), 0); // runs that have been brought forward
  schedule::Solution solution;
  // What shares a concat's storage has an order of its own in the problem: the first comes first.
  std::function<void(schedule::OpId)> run = [&](schedule::OpId id) {
    hasRun[id] = 1;
    for (schedule::ValueId input : problem.ops[id].inputs)
      if (producers[input] && !hasRun[*producers[input]]) {
        ++ahead[*producers[input]];
        run(*producers[input]);
      }
    solution.runs.push_back({id, 0});
  };
  for (size_t i = 0; i < cloned.ops.size(); ++i) {
    Operation *op = cloned.ops[order ? order->runs[i].op : i];
    auto origin = origins.find(op);
    auto id = origin == origins.end() ? ops.end() : ops.find(origin->second);
    if (id == ops.end())
      return std::nullopt;
    if (ahead[id->second] > 0)
      --ahead[id->second];
    else
      run(id->second);
  }
  return solution;
}

} // namespace stow
