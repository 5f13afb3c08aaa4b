#include "tests/mutations/Formats.h"

#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Json.h"
#include "ir/plan/schedule/Verify.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "passes/solvers/pack/PackBuffers.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/lanes/PlanLanes.h"

#include <stdexcept>

namespace stow::test {

namespace {

void usePackProblem(const std::string &bytes, const std::string &path) {
  const pack::Problem problem = pack::parse(bytes, path);
  pack::PackOptions options;
  options.workBudget = 1'000'000;
  const pack::PackResult result = pack::packLowest(problem, options);
  if (!result.solution)
    return;
  if (const auto violations = pack::verify(problem, *result.solution); !violations.empty())
    throw std::runtime_error("packing is wrong: " + violations.front().message);
  if (result.solution->height < result.lowerBound)
    throw std::runtime_error("the height is below its bound");
}

void useLanes(const schedule::Problem &problem, const schedule::Lanes &lanes,
              const schedule::PlanOptions &options) {
  schedule::LanePlanner planner(problem, options);
  const Bytes budget = schedule::percentOf(planner.inputOrderPeak(), 70);
  const schedule::LanePlanResult result = planner.plan(budget, lanes);
  if (!result.solution)
    return;
  const schedule::LaneReplay replay = schedule::verify(problem, lanes, *result.solution, budget);
  if (replay.fault)
    throw std::runtime_error("the schedule with copies is wrong: " + *replay.fault);
  if (replay.time < result.bound())
    throw std::runtime_error("the schedule with copies is faster than its bound");
}

void useScheduleProblem(const std::string &bytes, const std::string &path) {
  const schedule::ProblemFile file = schedule::parseFile(bytes, path);
  const schedule::Problem &problem = file.problem;
  schedule::PlanOptions options;
  options.effort = 0;
  if (file.lanes)
    return useLanes(problem, *file.lanes, options);
  schedule::Planner planner(problem, options);
  const Bytes budget = schedule::percentOf(planner.inputOrderPeak(), 70);
  const schedule::PlanResult result = planner.plan(budget);
  if (!result.solution)
    return;
  const schedule::Replay replay = schedule::verify(problem, *result.solution);
  if (replay.fault)
    throw std::runtime_error("the schedule is wrong: " + *replay.fault);
  if (replay.peakBytes > budget || replay.time < result.bound())
    throw std::runtime_error("the schedule leaves its budget, or is faster than its bound");
}

/// Two ops in networkx node-link form, as published graphs are.
constexpr const char *nodeLink =
    R"({"directed": true, "graph": {"order": [0, 1, 2]},
 "nodes": [{"id": 0, "name": "a", "duration": 1.5, "out_cost": 40},
           {"id": 1, "name": "b", "duration": 2, "out_cost": 12},
           {"id": 2, "name": "c", "cost_cpu": 3, "cost_ram": 8}],
 "links": [{"source": 0, "target": 1}, {"source": 0, "target": 2}, {"source": 1, "target": 2}]})";

} // namespace

std::vector<Format> bareFormats() {
  return {
      {"pack",
       "csv",
       Content::Text,
       {{"random", pack::print(pack::generate(5))},
        {"a training step", pack::print(pack::generateTraining(1, 5))}},
       usePackProblem,
       200,
       5000},
      {"schedule",
       "json",
       Content::Text,
       {{"mixed", schedule::print(schedule::generateMixed(3, 6))},
        {"a chain", schedule::print(schedule::unitChainStep(5))},
        {"slow memory",
         schedule::print(schedule::unitChainStep(4), {{2, 1, 1}, {1, 1, 0}, 3, {1}})},
        {"node-link", nodeLink}},
       useScheduleProblem,
       200,
       6000},
  };
}

} // namespace stow::test
