// A step in 16 bits: what of it stays in f32, chosen once for every budget.
//
//   step in 16 bits -- with everything kept no larger than in f32 --> taken
//        ^   |
//        |   | the nodes that run where it is larger, in f32
//        +---+ a few times, then all of it
//
// Where the device multiplies faster in 16 bits, as GPUs do, a step that is faster in them does not go back: who asks for 16 bits there asks
// for that too.
//
// The choice depends on the step alone: what is rounded to 16 bits, and with it every bit of the result, no budget changes, nor
// what is computed again. What may make 16 bits the larger one: calls that convert what they cannot cut into pieces, casts of
// weights, engines with more scratch, gradients that wait for a verdict.
#include "passes/memory/DescribePlan.h"
#include "passes/plan/Steps.h"

#include <algorithm>
#include <numeric>

namespace stow {
namespace {

/// Rounds in which nodes are left in f32 before the whole step is.
constexpr int kMostRounds = 4;

Bytes arenaWithAllKept(ModelStep &step) { return step.planner().keepAll().arenaBytes; }

/// Whether the device multiplies faster in 16 bits, and the step in them is faster by a data sheet, its casts included.
bool isFaster(ModelStep &narrow, ModelStep &wide) {
  const std::map<DType, double> &peaks = narrow.costs.flopsPerSecond;
  const auto peak =
      peaks.find(narrow.variant.precision == Precision::BF16 ? DType::BF16 : DType::F16);
  return peak != peaks.end() && peak->second > peaks.at(DType::F32) &&
         narrow.planner().keepAll().time < wide.planner().keepAll().time;
}

/// The nodes of commands at which more than `limit` bytes are in use; where gaps between buffers are what is too
/// much, those of the peak.
std::vector<std::string> nodesAbove(const BudgetPlanner &planner, Bytes limit) {
  const Plan plan = describePlan(*planner.keepAll().placed);
  limit = std::min(limit, plan.livePeakBytes - 1);
  std::vector<std::string> nodes;
  for (const GraphPlan &graph : plan.graphs) {
    std::vector<Bytes> live(graph.stepCount + 1, 0);
    live[0] = fullestBytes(plan, graph) - graph.livePeakBytes; // state of other graphs
    for (const PlannedBuffer &buffer : graph.buffers) {
      live[buffer.begin] += buffer.size;
      live[buffer.end] -= buffer.size;
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    for (auto [step, bytes] : llvm::zip_first(graph.steps, live))
      if (bytes > limit && step.phase != StepPhase::Update)
        nodes.push_back(llvm::StringRef(step.name).split(" of ").second.str());
  }
  return nodes;
}

/// A pattern that one name matches.
std::string patternOf(llvm::StringRef node) {
  std::string pattern;
  for (const char c : node) {
    if (llvm::StringRef("*?[]{}\\").contains(c))
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// False where all of them are already.
bool leaveInF32(StepVariant &variant, const std::vector<std::string> &nodes) {
  const size_t before = variant.wideNodes.size();
  for (const std::string &node : nodes)
    if (std::string pattern = patternOf(node);
        !pattern.empty() && !llvm::is_contained(variant.wideNodes, pattern))
      variant.wideNodes.push_back(std::move(pattern));
  return variant.wideNodes.size() > before;
}

} // namespace

std::shared_ptr<ModelStep> Steps::withStoredTypes(const StepVariant &asked) {
  const std::shared_ptr<ModelStep> wide = inF32(asked);
  StepVariant variant = asked;
  LeftWide left;
  for (int round = 0; round <= kMostRounds; ++round) {
    std::shared_ptr<ModelStep> narrow = exactly(variant);
    const bool isLarger = wide && arenaWithAllKept(*narrow) > arenaWithAllKept(*wide);
    if (isLarger && round == 0)
      left = {false, {}, arenaWithAllKept(*narrow), arenaWithAllKept(*wide)};
    if (!isLarger || isFaster(*narrow, *wide)) {
      left.nodes = variant.wideNodes;
      narrow->leftWide = std::move(left);
      return narrow;
    }
    if (!leaveInF32(variant, nodesAbove(narrow->planner(), arenaWithAllKept(*wide))))
      break;
  }
  left.all = true;
  wide->leftWide = std::move(left);
  return wide;
}

} // namespace stow
