#include "passes/solvers/schedule/proofs/PhaseProgram.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#ifdef STOW_HAVE_CBC
#include <Cbc_C_Interface.h>
#endif

namespace stow::schedule {

std::vector<PhaseEvent> phaseChain(const Graph &graph, int32_t start, int phases) {
  // Longest path to the end by number of ops; ties go to the earlier op.
  const size_t count = graph.ops.size();
  std::vector<int32_t> length(count, 1), next(count, -1);
  for (size_t i = count; i-- > 0;)
    for (int32_t value : graph.ops[i].outputs)
      for (int32_t reader : graph.values[value].readers)
        if (length[reader] + 1 > length[i]) {
          length[i] = length[reader] + 1;
          next[i] = reader;
        }
  std::vector<PhaseEvent> path;
  for (int32_t op = start; op >= 0; op = next[op])
    path.push_back({op, /*conditional=*/false});
  if (static_cast<int>(path.size()) <= phases)
    return path;
  std::vector<PhaseEvent> chain;
  for (int k = 0; k < phases; ++k)
    chain.push_back(path[static_cast<size_t>(k) * path.size() / static_cast<size_t>(phases)]);
  return chain;
}

#ifndef STOW_HAVE_CBC

bool phaseProgramAvailable() { return false; }

PhaseResult solvePhaseProgram(const Graph &, const std::vector<PhaseEvent> &, Bytes,
                              const PhaseOptions &) {
  throw Error::internal("the phase program needs CBC, which this build does not have");
}

#else

bool phaseProgramAvailable() { return true; }

namespace {

constexpr int absent = -1;

/// Builds the program column by column and row by row, then hands it to CBC.
class PhaseProgram {
public:
  PhaseProgram(const Graph &graph, const std::vector<PhaseEvent> &events, Bytes budget)
      : graph(graph), events(events), budget(budget), phases(static_cast<int>(events.size()) + 1) {
    byteUnit = std::max<double>(1.0, static_cast<double>(budget) / 1e6);
    costUnit = std::max<double>(1.0, static_cast<double>(graph.leastTime) / 1e6);
    relate();
    addColumns();
    addRows();
  }

  PhaseResult solve(const PhaseOptions &options) {
    PhaseResult result;
    if (impossible) {
      result.infeasible = true;
      return result;
    }
    Cbc_Model *model = load();
    Cbc_setParameter(model, "logLevel", "0");
    Cbc_setParameter(model, "threads", "0");
    Cbc_setParameter(model, "seconds", std::to_string(options.seconds).c_str());
    Cbc_setParameter(model, "ratioGap", "1e-9");
    Cbc_setParameter(model, "allowableGap", "1e-9");
    if (options.knownTime) {
      double extra = static_cast<double>(*options.knownTime - graph.leastTime) / costUnit;
      Cbc_setParameter(model, "cutoff",
                       std::to_string(constant + extra * (1 + 1e-6) + 1e-3).c_str());
    }
    const std::clock_t start = std::clock();
    Cbc_solve(model);
    result.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    // Stopped by the clock at the wrong moment, the solver may call a program infeasible or its
    // incumbent optimal. Only what it says well before its limit is a proof.
    constexpr double wellBefore = 0.8;
    const bool isStopped = result.seconds > wellBefore * options.seconds;
    const bool isRefuted = Cbc_isProvenInfeasible(model);
    if (isRefuted && !isStopped) {
      // Below the cutoff nothing exists: the known schedule is optimal. Without one: infeasible.
      if (options.knownTime)
        result.bound = *options.knownTime;
      else
        result.infeasible = true;
    } else {
      double best = 0;
      if (Cbc_isProvenOptimal(model) && !isStopped)
        best = Cbc_getObjValue(model);
      else if (!isRefuted)
        best = Cbc_getBestPossibleObjValue(model);
      result.bound = graph.leastTime + roundUp(best - constant);
    }
    if (const double *values = Cbc_bestSolution(model); values && !isRefuted)
      replay(values, result);
    Cbc_deleteModel(model);
    return result;
  }

private:
  Cost roundUp(double scaledExtra) const {
    if (!(scaledExtra > 0))
      return 0;
    // The solver's tolerance is taken off before rounding up to a possible cost.
    double extra = scaledExtra * costUnit * (1 - 1e-7) - 1e-6 * costUnit;
    Cost whole = static_cast<Cost>(std::ceil(std::max(extra, 0.0)));
    return (whole + graph.costStep - 1) / graph.costStep * graph.costStep;
  }

  /// earliest[t]: the first phase in which t may run; deadline[t]: the phase by which it must have.
  void relate() {
    const size_t count = graph.ops.size();
    earliest.assign(count, 0);
    deadline.assign(count, phases - 1);
    for (int k = phases - 1; k-- > 0;) {
      if (events[k].conditional)
        continue;
      std::vector<char> above(count, 0);
      above[events[k].op] = 1;
      for (size_t u = count; u-- > 0;)
        if (above[u]) {
          deadline[u] = k;
          for (int32_t value : graph.ops[u].inputs)
            if (graph.values[value].producer)
              above[*graph.values[value].producer] = 1;
        }
    }
    for (int k = 0; k + 1 < phases; ++k) {
      if (events[k].conditional)
        continue;
      std::vector<char> below(count, 0);
      below[events[k].op] = 1;
      earliest[events[k].op] = std::max(earliest[events[k].op], k);
      for (size_t u = 0; u < count; ++u)
        for (int32_t value : graph.ops[u].inputs)
          if (graph.values[value].producer && below[*graph.values[value].producer]) {
            below[u] = 1;
            earliest[u] = std::max(earliest[u], k + 1);
          }
    }
  }

  /// Op t ends phase k.
  bool isEvent(int k, size_t t) const {
    return k + 1 < phases && events[k].op == static_cast<int32_t>(t);
  }

  /// Stays in memory or is written again. Other values without bytes stay once they are written.
  bool isCounted(size_t a) const {
    return graph.values[a].sizeBytes > 0 || graph.values[a].viewed.size() == 1;
  }

  int column(double cost, double lower, double upper) {
    costs.push_back(cost);
    lowers.push_back(lower);
    uppers.push_back(upper);
    return static_cast<int>(costs.size()) - 1;
  }

  void addColumns() {
    const size_t ops = graph.ops.size(), values = graph.values.size();
    runs.assign(phases, std::vector<int>(ops, absent));
    stays.assign(phases, std::vector<int>(values, absent));
    for (int k = 0; k < phases; ++k) {
      for (size_t t = 0; t < ops; ++t) {
        if (k < earliest[t])
          continue;
        const bool forced = isEvent(k, t) && !events[k].conditional;
        // Only one run is free; later ones cost. The first phases carry the free run by the row
        // "at least once", whose cost is subtracted as a constant.
        runs[k][t] =
            column(static_cast<double>(graph.ops[t].leastCost) / costUnit, forced ? 1 : 0, 1);
      }
      if (k + 1 == phases)
        continue;
      for (size_t a = 0; a < values; ++a) {
        const GraphValue &value = graph.values[a];
        if (isCounted(a) && (!value.producer || k >= earliest[*value.producer]))
          stays[k][a] = column(0, 0, 1);
      }
    }
    for (const GraphOp &op : graph.ops)
      constant += static_cast<double>(op.leastCost) / costUnit;
  }

  struct Term {
    int column;
    double factor;
  };
  void row(std::vector<Term> terms, double lower, double upper) {
    for (const Term &term : terms) {
      indices.push_back(term.column);
      factors.push_back(term.factor);
    }
    rowStarts.push_back(static_cast<int>(indices.size()));
    rowLowers.push_back(lower);
    rowUppers.push_back(upper);
  }

  /// left <= in memory before phase k + written in phase k. What the op at the end of the phase
  /// writes supplies nothing inside the phase (`inside`), only what comes after it.
  void supplied(int left, int k, int32_t a, bool inside) {
    const GraphValue &value = graph.values[a];
    if (!isCounted(static_cast<size_t>(a)))
      return supplySmall(left, k, a, inside);
    std::vector<Term> terms = {{left, 1}};
    if (k == 0 && !value.producer)
      return; // there from the start
    if (k > 0 && stays[k - 1][a] != absent)
      terms.push_back({stays[k - 1][a], -1});
    if (value.producer && runs[k][*value.producer] != absent &&
        !(inside && isEvent(k, static_cast<size_t>(*value.producer))))
      terms.push_back({runs[k][*value.producer], -1});
    row(std::move(terms), -1e30, 0);
  }

  /// Values without bytes stay for free once written: any earlier phase will do.
  void supplySmall(int left, int k, int32_t a, bool inside) {
    const std::optional<int32_t> &producer = graph.values[a].producer;
    if (!producer)
      return;
    std::vector<Term> terms = {{left, 1}};
    for (int j = 0; j <= k; ++j)
      if (runs[j][*producer] != absent &&
          !(inside && j == k && isEvent(k, static_cast<size_t>(*producer))))
        terms.push_back({runs[j][*producer], -1});
    row(std::move(terms), -1e30, 0);
  }

  void addRows() {
    rowStarts.push_back(0);
    for (int k = 0; k < phases; ++k) {
      for (size_t t = 0; t < graph.ops.size(); ++t)
        if (runs[k][t] != absent)
          for (int32_t a : graph.ops[t].inputs)
            supplied(runs[k][t], k, a, /*inside=*/true);
      if (k + 1 == phases)
        continue;
      for (size_t a = 0; a < graph.values.size(); ++a)
        if (stays[k][a] != absent) {
          supplied(stays[k][a], k, static_cast<int32_t>(a), /*inside=*/false);
          if (graph.values[a].viewed.size() == 1) // a view stays in what it views
            row({{stays[k][a], 1}, {stays[k][graph.values[a].viewed.front()], -1}}, -1e30, 0);
        }
      addBytes(k);
      if (events[k].conditional)
        addCondition(k);
    }
    for (size_t t = 0; t < graph.ops.size(); ++t) {
      std::vector<Term> once, all;
      for (int k = 0; k < phases; ++k)
        if (runs[k][t] != absent) {
          all.push_back({runs[k][t], 1});
          if (k <= deadline[t])
            once.push_back({runs[k][t], 1});
        }
      impossible |= once.empty();
      row(once, 1, 1e30);
      if (!graph.ops[t].recomputable)
        row(all, 1, 1);
    }
    for (size_t a = 0; a < graph.values.size(); ++a)
      if (graph.values[a].keep && graph.values[a].sizeBytes > 0) {
        std::vector<Term> terms;
        if (phases > 1 && stays[phases - 2][a] != absent)
          terms.push_back({stays[phases - 2][a], 1});
        if (graph.values[a].producer)
          terms.push_back({runs[phases - 1][*graph.values[a].producer], 1});
        if (phases > 1 || graph.values[a].producer)
          row(std::move(terms), 1, 1e30);
      }
  }

  void addBytes(int k) {
    const GraphOp &op = graph.ops[events[k].op];
    const Bytes own = graph.footprint(events[k].op) - graph.baseBytes;
    std::vector<char> beside(graph.values.size(), 1);
    for (const std::vector<int32_t> *values : {&op.inputs, &op.outputs})
      for (int32_t a : *values)
        beside[a] = 0;
    std::vector<Term> terms;
    for (size_t a = 0; a < graph.values.size(); ++a)
      if (beside[a] && stays[k][a] != absent && graph.values[a].sizeBytes > 0)
        terms.push_back({stays[k][a], static_cast<double>(graph.values[a].sizeBytes) / byteUnit});
    Bytes room = budget - graph.baseBytes;
    if (!events[k].conditional)
      room -= own;
    else if (const int run = runs[k][events[k].op]; run != absent)
      terms.push_back({run, static_cast<double>(own) / byteUnit});
    impossible |= room < 0;
    // A hair of slack keeps rounding of doubles from cutting off a real schedule.
    row(std::move(terms), -1e30, static_cast<double>(room) / byteUnit * (1 + 1e-12) + 1e-9);
  }

  /// An event that does not take place leaves its op idle until the next certain event (which may
  /// be its first run).
  void addCondition(int k) {
    const int32_t op = events[k].op;
    for (int j = k + 1; j < phases; ++j) {
      const bool isCertain = j + 1 < phases && !events[j].conditional;
      if (runs[j][op] != absent && !(isCertain && events[j].op == op)) {
        std::vector<Term> terms = {{runs[j][op], 1}};
        if (runs[k][op] != absent)
          terms.push_back({runs[k][op], -1});
        row(std::move(terms), -1e30, 0);
      }
      if (isCertain)
        break;
    }
  }

  /// CBC wants columns; rows are collected first and turned around.
  Cbc_Model *load() {
    const int columns = static_cast<int>(costs.size()),
              rowCount = static_cast<int>(rowLowers.size());
    std::vector<int> starts(columns + 1, 0), rowsOf(indices.size());
    std::vector<double> values(indices.size());
    for (int index : indices)
      ++starts[index + 1];
    for (int c = 0; c < columns; ++c)
      starts[c + 1] += starts[c];
    std::vector<int> next(starts.begin(), starts.end() - 1);
    for (int r = 0; r < rowCount; ++r)
      for (int e = rowStarts[r]; e < rowStarts[r + 1]; ++e) {
        int place = next[indices[e]]++;
        rowsOf[place] = r;
        values[place] = factors[e];
      }
    Cbc_Model *model = Cbc_newModel();
    Cbc_loadProblem(model, columns, rowCount, starts.data(), rowsOf.data(), values.data(),
                    lowers.data(), uppers.data(), costs.data(), rowLowers.data(), rowUppers.data());
    for (int c = 0; c < columns; ++c)
      Cbc_setInteger(model, c);
    Cbc_setObjSense(model, 1);
    return model;
  }

  /// Every phase in input order, the op of its event last. Where that exceeds the budget in the
  /// middle of a phase, the op there becomes an event of its own.
  void replay(const double *values, PhaseResult &result) const {
    Sequence sequence;
    std::vector<size_t> ends;
    auto takesPlace = [&](int k, size_t t) {
      return runs[k][t] != absent && values[runs[k][t]] > 0.5;
    };
    for (int k = 0; k < phases; ++k) {
      for (size_t t = 0; t < graph.ops.size(); ++t)
        if (!isEvent(k, t) && takesPlace(k, t))
          sequence.push_back(static_cast<int32_t>(t));
      if (k + 1 < phases && takesPlace(k, static_cast<size_t>(events[k].op)))
        sequence.push_back(events[k].op);
      ends.push_back(sequence.size());
    }
    std::vector<Bytes> bytesAt;
    measure(graph, sequence, &bytesAt);
    size_t position = 0;
    for (int k = 0; k < phases; ++k) {
      size_t highest = position;
      for (size_t i = position; i < ends[k]; ++i)
        if (bytesAt[i] > bytesAt[highest])
          highest = i;
      const bool isInside =
          position < ends[k] && !isEvent(k, static_cast<size_t>(sequence[highest]));
      if (isInside && bytesAt[highest] > budget) {
        result.refined.push_back({sequence[highest], /*conditional=*/true});
        result.isRefined = true;
      }
      if (k + 1 < phases)
        result.refined.push_back(events[k]);
      position = ends[k];
    }
    result.sequence = std::move(sequence);
  }

  const Graph &graph;
  const std::vector<PhaseEvent> events;
  const Bytes budget;
  const int phases;
  double byteUnit = 1, costUnit = 1, constant = 0;
  bool impossible = false;
  std::vector<int> earliest, deadline;
  std::vector<std::vector<int>> runs, stays; ///< columns, `absent` where fixed at 0
  std::vector<double> costs, lowers, uppers, factors, rowLowers, rowUppers;
  std::vector<int> indices, rowStarts;
};

} // namespace

PhaseResult solvePhaseProgram(const Graph &graph, const std::vector<PhaseEvent> &events,
                              Bytes budgetBytes, const PhaseOptions &options) {
  return PhaseProgram(graph, events, budgetBytes).solve(options);
}

#endif

} // namespace stow::schedule
