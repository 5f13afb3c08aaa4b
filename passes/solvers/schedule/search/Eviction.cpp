#include "passes/solvers/schedule/search/Eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stow::schedule {
namespace {

constexpr int32_t never = std::numeric_limits<int32_t>::max();

class Simulation {
public:
  Simulation(const Graph &graph, const Sequence &base, Bytes target, const EvictionRule &rule,
             size_t maxRuns, int64_t allowance)
      : graph(graph), base(base), target(target), rule(rule), maxRuns(maxRuns),
        mostWork(std::min(500 * static_cast<int64_t>(maxRuns), allowance)),
        isResident(graph.values.size(), 0), locks(graph.values.size(), 0),
        uses(graph.values.size()), nextUse(graph.values.size(), 0), seen(graph.ops.size(), 0),
        live(graph.baseBytes) {
    for (size_t i = 0; i < base.size(); ++i) {
      clock.push_back(
          clock.empty() ? 0 : clock.back() + static_cast<double>(graph.ops[base[i - 1]].cost));
      for (int32_t value : graph.ops[base[i]].inputs)
        uses[value].push_back(static_cast<int32_t>(i));
    }
    findDeadlines();
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (!graph.values[v].producer && !uses[v].empty())
        setResident(static_cast<int32_t>(v));
  }

  /// Values and ops looked at so far.
  int64_t workDone() const { return work; }

  std::optional<Sequence> run() {
    for (position = 0; position < static_cast<int32_t>(base.size()); ++position)
      if (!execute(base[position], /*isRerun=*/false))
        return std::nullopt;
    return std::move(sequence);
  }

private:
  /// Per op, the last base position at which it may still run again: what it reads, or what its
  /// inputs would have to be computed from, is overwritten there for good.
  void findDeadlines() {
    std::vector<int32_t> overwrittenAt(graph.values.size(), never);
    for (size_t i = 0; i < base.size(); ++i)
      for (const Credit &credit : graph.ops[base[i]].credits)
        if (credit.required && !graph.mayComeAgain(credit.input))
          overwrittenAt[credit.input] =
              std::min(overwrittenAt[credit.input], static_cast<int32_t>(i));
    deadline.assign(graph.ops.size(), never);
    for (int32_t op : base) {
      if (!graph.ops[op].recomputable)
        deadline[op] = -1;
      for (int32_t value : graph.ops[op].inputs) {
        deadline[op] = std::min(deadline[op], overwrittenAt[value]);
        if (const std::optional<int32_t> &producer = graph.values[value].producer;
            producer && graph.ops[*producer].recomputable)
          deadline[op] = std::min(deadline[op], deadline[*producer]);
      }
    }
  }

  /// The base position of the next use from `position` on, or `never`.
  int32_t nextUseOf(int32_t value) {
    size_t &next = nextUse[value];
    while (next < uses[value].size() && uses[value][next] < position)
      ++next;
    return next < uses[value].size() ? uses[value][next] : never;
  }

  void setResident(int32_t value) {
    if (!isResident[value])
      live += graph.values[value].sizeBytes;
    isResident[value] = 1;
    if (graph.values[value].sizeBytes > 0)
      residents.push_back(value);
  }

  void release(int32_t value) {
    isResident[value] = 0;
    live -= graph.values[value].sizeBytes;
    std::erase(residents, value);
    for (int32_t view : graph.values[value].views)
      isResident[view] = 0;
  }

  bool isEvictable(int32_t value) {
    const GraphValue &known = graph.values[value];
    if (locks[value] > 0 || known.keep || !known.producer)
      return false;
    // Its views go with it.
    for (int32_t view : known.views)
      if (locks[view] > 0 || graph.values[view].keep || isLate(view))
        return false;
    return !isLate(value);
  }

  /// True if `value` is still to be read when its producer may no longer run.
  bool isLate(int32_t value) {
    return nextUseOf(value) != never &&
           uses[value].back() > deadline[*graph.values[value].producer];
  }

  /// Cost of the runs it takes to have `value` again: of its producer and of everything missing
  /// behind it. Chains longer than a limit are long enough, and so is what exceeds `most`.
  double costOf(int32_t value, double most) {
    ++stamp;
    double cost = 0;
    int left = 200;
    pending.assign(1, *graph.values[value].producer);
    while (!pending.empty() && left-- > 0 && cost <= most) {
      const int32_t op = pending.back();
      pending.pop_back();
      if (seen[op] == stamp)
        continue;
      seen[op] = stamp;
      cost += static_cast<double>(graph.ops[op].cost);
      for (int32_t input : graph.ops[op].inputs)
        if (!isResident[input] && graph.values[input].producer)
          pending.push_back(*graph.values[input].producer);
    }
    work += 200 - left;
    return cost;
  }

  /// The score of a value, or any number above `least` if it is above it.
  double scoreOf(int32_t value, double least) {
    const int32_t next = nextUseOf(value);
    const double until = (next == never ? 2 * clock.back() : clock[next]) - clock[position] + 1;
    const double weight =
        static_cast<double>(graph.values[value].sizeBytes) * power(until, rule.waitHalves);
    const auto own = static_cast<double>(graph.ops[*graph.values[value].producer].cost);
    const double atLeast = power(own + 1, rule.costHalves) / weight;
    if (atLeast > least)
      return atLeast;
    constexpr double safely = 1 + 1e-6; // roots are rounded
    const double most = std::pow(least * weight, 2.0 / rule.costHalves) * safely;
    return power(costOf(value, most) + 1, rule.costHalves) / weight;
  }

  static double power(double base, int halves) {
    double result = halves % 2 ? std::sqrt(base) : 1;
    for (int i = 0; i < halves / 2; ++i)
      result *= base;
    return result;
  }

  /// Throws out values until `bytes` more fit.
  bool makeRoom(Bytes bytes) {
    while (live + bytes > target) {
      work += static_cast<int64_t>(residents.size());
      if (work > mostWork)
        return false;
      int32_t victim = -1;
      double least = std::numeric_limits<double>::infinity();
      for (int32_t value : residents)
        if (isEvictable(value)) {
          const double score = scoreOf(value, least);
          if (victim < 0 || score < least || (score == least && value < victim)) {
            victim = value;
            least = score;
          }
        }
      if (victim < 0)
        return false;
      release(victim);
    }
    return true;
  }

  /// Makes all inputs of `op` resident and locks them. Missing ones come first, so that those that
  /// are there may be thrown out for them.
  bool fetchInputs(int32_t op) {
    std::vector<int32_t> order = graph.ops[op].inputs;
    std::ranges::sort(order, {},
                      [&](int32_t value) { return std::pair(isResident[value], value); });
    for (int32_t value : order) {
      if (!isResident[value]) {
        const std::optional<int32_t> &producer = graph.values[value].producer;
        if (!producer || position > deadline[*producer] || !execute(*producer, /*isRerun=*/true))
          return false;
      }
      ++locks[value];
    }
    return true;
  }

  bool execute(int32_t op, bool isRerun) {
    if (sequence.size() >= maxRuns)
      return false;
    const GraphOp &graphOp = graph.ops[op];
    if (!fetchInputs(op))
      return false;
    Bytes fresh = graphOp.workspaceBytes;
    for (int32_t value : graphOp.outputs)
      if (!isResident[value])
        fresh += graph.values[value].sizeBytes;
    std::vector<int32_t> overwritten;
    for (const Credit &credit : graphOp.credits)
      if (credit.required && isRerun) {
        if (locks[credit.input] > 1) // another op that is about to run reads it
          return false;
        fresh -= credit.bytes;
        overwritten.push_back(credit.input);
      }
    if (!isRerun || !makeRoom(fresh)) {
      // A rerun overwrites only if it must: what it reads may serve its siblings, too.
      for (const Credit &credit : graphOp.credits)
        if (mayDieAt(credit.input) &&
            std::ranges::find(overwritten, credit.input) == overwritten.end()) {
          fresh -= credit.bytes;
          overwritten.push_back(credit.input);
        }
      if (!makeRoom(fresh))
        return false;
    }
    sequence.push_back(op);
    for (int32_t value : graphOp.inputs)
      --locks[value];
    for (int32_t value : overwritten)
      if (isResident[value])
        release(value);
    for (int32_t value : graphOp.outputs)
      if (!isResident[value])
        setResident(value);
    if (!isRerun)
      for (int32_t value : graphOp.inputs)
        if (isResident[value] && graph.values[value].producer && isDone(value))
          release(value);
    return true;
  }

  /// No base op behind the one at hand reads `value`.
  bool isDone(int32_t value) const {
    return !graph.values[value].keep && (uses[value].empty() || uses[value].back() <= position);
  }

  /// `value`, locked by the op at hand alone, may be overwritten by it.
  bool mayDieAt(int32_t value) const { return locks[value] == 1 && isDone(value); }

  const Graph &graph;
  const Sequence &base;
  const Bytes target;
  const EvictionRule &rule;
  const size_t maxRuns;
  /// Values and ops looked at, at most 500 per run: ten times what simulations take that come to an
  /// end.
  const int64_t mostWork;
  std::vector<char> isResident;
  std::vector<int> locks;                 ///< of the ops that are about to run
  std::vector<std::vector<int32_t>> uses; ///< per value: base positions of its readers
  std::vector<size_t> nextUse;
  std::vector<int32_t> deadline;
  std::vector<double> clock; ///< time before each base position
  std::vector<int32_t> residents, pending;
  std::vector<int64_t> seen;
  int64_t stamp = 0, work = 0;
  Bytes live;
  int32_t position = 0;
  Sequence sequence;
};

} // namespace

std::optional<Sequence> evictOnDemand(const Graph &graph, const Sequence &base, Bytes targetBytes,
                                      const EvictionRule &rule, size_t maxRuns,
                                      int64_t *allowance) {
  Simulation simulation(graph, base, targetBytes, rule, maxRuns,
                        allowance ? *allowance : std::numeric_limits<int64_t>::max());
  std::optional<Sequence> sequence = simulation.run();
  if (allowance)
    *allowance -= simulation.workDone();
  return sequence;
}

} // namespace stow::schedule
