#include "passes/solvers/schedule/proofs/PhaseProof.h"

#include "passes/solvers/schedule/proofs/PhaseProgram.h"

#include <algorithm>
#include <cmath>

namespace stow::schedule {

bool meetsPhaseBound(const Graph &graph, Cost time, std::optional<Cost> least) {
  constexpr double tolerance = 1e-7;
  return least && static_cast<double>(time - *least) <=
                      tolerance * static_cast<double>(time - graph.leastTime);
}

PhaseProof proveByPhases(const Graph &graph, const CutBound &bound, const BudgetSolver &solver,
                         const PhaseProofTask &task, std::optional<Point> known) {
  PhaseProof proof{std::move(known), {}, false};
  const int32_t highest = bound.opsByPressure().front();
  const int32_t binding = task.cut.op.value_or(highest);
  const std::pair<int, int32_t> programs[] = {
      {1, binding}, {8, binding}, {8, highest}, {24, std::min(binding, highest)}};
  auto offer = [&](std::vector<Point> points) {
    for (Point &point : points)
      if (point.peak <= task.budget && (!proof.best || point.time < proof.best->time))
        proof.best = std::move(point);
  };
  auto done = [&] {
    return (task.cancelled && task.cancelled()) ||
           (proof.best && (proof.best->time <= task.least ||
                           meetsPhaseBound(graph, proof.best->time, proof.bound)));
  };
  double seconds = task.seconds;
  for (size_t i = 0; i < std::size(programs); ++i) {
    const auto [phases, first] = programs[i];
    constexpr int mostRounds = 12;
    std::vector<PhaseEvent> events = phaseChain(graph, first, phases);
    std::optional<Sequence> replay;
    for (int round = 0; round < mostRounds && seconds > 0 && !done(); ++round) {
      PhaseOptions phase;
      phase.seconds = seconds / static_cast<double>(std::size(programs) - i);
      if (proof.best)
        phase.knownTime = proof.best->time;
      PhaseResult solved = solvePhaseProgram(graph, events, task.budget, phase);
      seconds -= solved.seconds;
      if (solved.infeasible && !proof.best) {
        proof.infeasible = true;
        return proof;
      }
      if (solved.bound)
        proof.bound = std::max(proof.bound.value_or(0), *solved.bound);
      if (!solved.sequence)
        break;
      Sequence delayed = delayReruns(graph, *solved.sequence);
      if (measure(graph, delayed).legal) {
        offer(solver.repair(delayed, task.budget));
        replay = std::move(delayed);
      }
      if (!solved.isRefined)
        break;
      events = std::move(solved.refined);
    }
    if (done())
      return proof;
    if (!replay)
      continue;
    BudgetSolver::Task search;
    search.budget = task.budget;
    search.least = task.cut.time;
    search.pricePerByte = std::ldexp(task.cut.price, -bound.shift());
    constexpr uint64_t seeds = 400; // behind those of the nodes
    search.seed = seeds + static_cast<uint64_t>(phases);
    std::vector<Point> searched;
    solver.search(search, &*replay, searched);
    offer(std::move(searched));
  }
  return proof;
}

} // namespace stow::schedule
