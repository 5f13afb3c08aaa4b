#include "passes/solvers/pack/PackBuffers.h"
#include "ir/plan/pack/Bound.h"
#include "passes/solvers/pack/Greedy.h"

#include <chrono>

namespace stow::pack {

const char *name(PackStatus status) {
  switch (status) {
  case PackStatus::Optimal:
    return "optimal";
  case PackStatus::Feasible:
    return "feasible";
  case PackStatus::Infeasible:
    return "infeasible";
  case PackStatus::Unknown:
    return "unknown";
  }
  return "";
}

double PackResult::gap() const {
  if (!solution || lowerBound == 0)
    return 0;
  return static_cast<double>(solution->height - lowerBound) / static_cast<double>(lowerBound);
}

PackResult packBuffers(const Problem &problem, const PackOptions &options) {
  requireValid(problem);
  PackResult result;
  result.lowerBound = lowerBound(problem);
  const auto start = std::chrono::steady_clock::now();
  auto stop = [&] {
    if (options.cancel && options.cancel->load(std::memory_order_relaxed))
      return true;
    if (!options.timeoutSeconds)
      return false;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return spent.count() >= *options.timeoutSeconds;
  };
  const Model model = makeModel(problem);
  std::vector<Bytes> bases = bestOfGreedy(model, result.lowerBound, stop);
  if (bases.empty() && !model.items.empty()) {
    result.status = PackStatus::Infeasible;
    return result;
  }
  result.solution = model.solution(bases);
  const Bytes height = result.solution->height;
  result.method = "greedy";
  if (height == result.lowerBound)
    result.status = PackStatus::Optimal;
  else if (options.capacity && height > *options.capacity)
    result.status = result.lowerBound > *options.capacity ? PackStatus::Infeasible : PackStatus::Unknown;
  else
    result.status = PackStatus::Feasible;
  return result;
}

} // namespace stow::pack
