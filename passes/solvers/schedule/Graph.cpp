#include "passes/solvers/schedule/Graph.h"

#include "ir/plan/schedule/Verify.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace stow::schedule {
namespace {

constexpr int32_t dropped = -1;

/// Where each problem value goes, decided in input order.
struct Folding {
  std::vector<ValueId> root;       ///< the value whose bytes this value shows; itself if none
  std::vector<char> foldedOp;      ///< view ops without a decision
  std::vector<char> pinnedForever; ///< in a pinned storage and never overwritten: no graph value
  std::vector<char> hasLooseView;  ///< viewed by an op that was not folded
  std::vector<char> produced;      ///< by some op
  std::vector<char> overwritten;   ///< per storage: by some op
  std::vector<int> readerCount;    ///< per root: ops that read it and were not folded
  std::vector<char> isKept;        ///< per root: it or one of its views
};

bool storageAmong(const Problem &problem, const std::vector<ValueId> &values, StorageId storage) {
  return std::any_of(values.begin(), values.end(),
                     [&](ValueId v) { return problem.values[v].storage == storage; });
}

/// True if the op writes the next version of what lies in `storage`, instead of a view of it.
bool overwritesIn(const Problem &problem, const Op &op, StorageId storage) {
  return storageAmong(problem, op.overwrites, storage);
}

/// True if the op only shows its inputs again and every input but the viewed one is always there.
bool isFreeView(const Problem &problem, const Op &op, const Folding &folding) {
  const Alternative &cheapest = op.alternatives[cheapestAlternative(op)];
  if (!op.recomputable || !op.overwrites.empty() || cheapest.cost || cheapest.workspaceBytes ||
      op.outputs.empty())
    return false;
  std::optional<ValueId> viewed;
  for (ValueId input : op.inputs) {
    if (folding.pinnedForever[input])
      continue;
    if (viewed && *viewed != folding.root[input])
      return false;
    viewed = folding.root[input];
  }
  // A view of a source that may die would keep it alive up to the view's own run.
  if (viewed && !folding.produced[*viewed] &&
      !problem.storages[problem.values[*viewed].storage].pinned)
    return false;
  for (ValueId output : op.outputs) {
    if (!storageAmong(problem, op.inputs, problem.values[output].storage))
      return false;
    if (viewed && problem.values[*viewed].storage != problem.values[output].storage &&
        !folding.pinnedForever[output])
      return false;
  }
  return true;
}

void countReaders(const Problem &problem, Folding &folding) {
  folding.readerCount.assign(problem.values.size(), 0);
  folding.isKept.assign(problem.values.size(), 0);
  for (size_t v = 0; v < problem.values.size(); ++v)
    folding.isKept[folding.root[v]] |= problem.values[v].keep;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const std::vector<ValueId> &inputs = problem.ops[i].inputs;
    for (size_t k = 0; k < inputs.size() && !folding.foldedOp[i]; ++k)
      ++folding.readerCount[folding.root[inputs[k]]]; // of two views of one value, too
  }
}

Folding fold(const Problem &problem) {
  Folding folding;
  const size_t count = problem.values.size();
  folding.root.resize(count);
  std::iota(folding.root.begin(), folding.root.end(), 0);
  folding.foldedOp.assign(problem.ops.size(), 0);
  folding.hasLooseView.assign(count, 0);
  folding.pinnedForever.assign(count, 0);

  folding.overwritten.assign(problem.storages.size(), 0);
  for (const Op &op : problem.ops)
    for (ValueId value : op.overwrites)
      folding.overwritten[problem.values[value].storage] = 1;
  std::vector<std::optional<OpId>> producers = problem.producers();
  for (const std::optional<OpId> &producer : producers)
    folding.produced.push_back(producer.has_value());
  std::vector<std::optional<ValueId>> firstSource(problem.storages.size());
  for (size_t v = 0; v < count; ++v) {
    StorageId storage = problem.values[v].storage;
    // A produced value in a pinned storage must still wait for its producer, so only sources
    // vanish.
    folding.pinnedForever[v] =
        problem.storages[storage].pinned && !folding.overwritten[storage] && !producers[v];
    if (!producers[v]) { // sources of one storage share one copy
      if (firstSource[storage])
        folding.root[v] = *firstSource[storage];
      else
        firstSource[storage] = static_cast<ValueId>(v);
    }
  }
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const Op &op = problem.ops[i];
    folding.foldedOp[i] = isFreeView(problem, op, folding);
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      ValueId output = op.outputs[o];
      StorageId storage = problem.values[output].storage;
      if (folding.foldedOp[i]) {
        for (ValueId input : op.inputs)
          if (problem.values[input].storage == storage)
            folding.root[output] = folding.root[input];
        folding.pinnedForever[output] = folding.pinnedForever[folding.root[output]];
        continue;
      }
      if (!overwritesIn(problem, op, storage) && !problem.storages[storage].pinned)
        for (ValueId input : op.inputs)
          if (problem.values[input].storage == storage)
            folding.hasLooseView[folding.root[input]] = 1;
      for (size_t p = 0; p < o; ++p) // fresh outputs of one storage share one copy
        if (problem.values[op.outputs[p]].storage == storage &&
            !storageAmong(problem, op.inputs, storage))
          folding.root[output] = folding.root[op.outputs[p]];
    }
  }
  countReaders(problem, folding);
  return folding;
}

void insertUnique(std::vector<int32_t> &list, int32_t item) {
  if (std::find(list.begin(), list.end(), item) == list.end())
    list.push_back(item);
}

/// Fills Graph from a Problem and its Folding.
class Builder {
public:
  Builder(const Problem &problem, Graph &graph)
      : problem(problem), graph(graph), folding(fold(problem)),
        graphValue(problem.values.size(), dropped), extra(problem.values.size()) {}

  void build() {
    graph.baseBytes = problem.pinnedBytes();
    graph.leastTime = problem.leastTime();
    std::vector<std::optional<OpId>> producers = problem.producers();
    for (size_t v = 0; v < problem.values.size(); ++v)
      if (!producers[v])
        valueFor(static_cast<ValueId>(v));
    for (size_t i = 0; i < problem.ops.size(); ++i)
      addOrFold(static_cast<OpId>(i));
    for (size_t v = 0; v < problem.values.size(); ++v)
      if (problem.values[v].keep && graphValue[v] != dropped)
        markKept(static_cast<ValueId>(v));
    for (size_t op = 0; op < graph.ops.size(); ++op)
      for (int32_t value : graph.ops[op].inputs)
        graph.values[value].readers.push_back(static_cast<int32_t>(op));
    for (size_t op = 0; op < graph.ops.size(); ++op)
      for (const Credit &credit : graph.ops[op].credits)
        if (credit.required) {
          insertUnique(graph.values[credit.input].overwriters, static_cast<int32_t>(op));
          graph.hasOverwrites |= graph.mayComeAgain(credit.input);
        }
    for (const GraphOp &op : graph.ops) {
      for (const Alternative &alternative : problem.ops[op.op].alternatives)
        step = std::gcd(step, alternative.cost);
      for (OpId follower : op.followers)
        step = std::gcd(step, problem.ops[follower].alternatives.front().cost);
    }
    graph.costStep = std::max<Cost>(step, 1);
    findLeastExtra();
  }

private:
  /// The cheapest thing a schedule can do beyond the least: run an op again, or run it slower.
  void findLeastExtra() {
    auto offer = [&](Cost cost) {
      if (cost > 0 && (graph.leastExtra == 0 || cost < graph.leastExtra))
        graph.leastExtra = cost;
    };
    for (const Op &op : problem.ops) {
      const Cost least = op.alternatives[cheapestAlternative(op)].cost;
      if (op.recomputable)
        offer(least);
      for (const Alternative &alternative : op.alternatives)
        offer(alternative.cost - least);
    }
  }

  int32_t valueFor(ValueId value) {
    ValueId root = folding.root[value];
    if (folding.pinnedForever[root])
      return dropped;
    if (graphValue[root] == dropped) {
      graphValue[root] = static_cast<int32_t>(graph.values.size());
      GraphValue fresh;
      const Storage &storage = problem.storages[problem.values[root].storage];
      fresh.sizeBytes = storage.pinned ? 0 : storage.sizeBytes;
      graph.values.push_back(std::move(fresh));
    }
    return graphValue[value] = graphValue[root];
  }

  void addOrFold(OpId id) {
    if (folding.foldedOp[id])
      addFollower(id);
    else if (const std::optional<int32_t> value = continuedBy(problem.ops[id]))
      fuse(id, *value);
    else
      addOp(id);
  }

  /// The graph value whose bytes `op` overwrites right after every run that writes them; absent if it
  /// has to be decided when `op` runs.
  std::optional<int32_t> continuedBy(const Op &op) const {
    if (op.overwrites.size() != 1 || op.outputs.size() != 1 || op.alternatives.size() != 1)
      return std::nullopt;
    const ValueId over = op.overwrites.front(), root = folding.root[over];
    const StorageId storage = problem.values[over].storage;
    const int32_t value = graphValue[root];
    if (value == dropped || !graph.values[value].producer || problem.storages[storage].pinned ||
        problem.values[op.outputs.front()].storage != storage || folding.readerCount[root] != 1 ||
        folding.isKept[root] || folding.hasLooseView[root] || !extra[over].empty())
      return std::nullopt;
    const GraphOp &writer = graph.ops[*graph.values[value].producer];
    if (writer.outputs.size() != 1 ||
        op.alternatives.front().workspaceBytes > writer.leastWorkspaceBytes)
      return std::nullopt;
    // A source that is read later than by the writer itself leaves the writer's credits as they are
    // only if there are none.
    const bool hasCredits = !writer.credits.empty() || writer.uncertainCreditBytes > 0;
    for (ValueId input : op.inputs)
      if (input != over && !folding.pinnedForever[folding.root[input]] &&
          (hasCredits || folding.produced[folding.root[input]] ||
           folding.overwritten[problem.values[input].storage]))
        return std::nullopt;
    return value;
  }

  void fuse(OpId id, int32_t value) {
    const Op &op = problem.ops[id];
    GraphOp &writer = graph.ops[*graph.values[value].producer];
    for (ValueId input : op.inputs)
      if (const int32_t source = valueFor(input); source != dropped && source != value)
        insertUnique(writer.inputs, source);
    const Cost cost = op.alternatives.front().cost;
    writer.cost += cost;
    writer.leastCost += cost;
    writer.followersCost += cost;
    writer.recomputable &= op.recomputable;
    writer.followers.push_back(id);
    graphValue[op.outputs.front()] = value;
  }

  void addFollower(OpId id) {
    const Op &op = problem.ops[id];
    int32_t viewed = dropped;
    for (ValueId input : op.inputs)
      viewed = std::max(viewed, valueFor(input));
    for (ValueId output : op.outputs)
      valueFor(output);
    for (ValueId output : op.outputs)
      for (ValueId input : op.inputs)
        if (problem.values[input].storage == problem.values[output].storage)
          extra[output] = extra[input];
    if (viewed != dropped && graph.values[viewed].producer)
      graph.ops[*graph.values[viewed].producer].followers.push_back(id);
    else
      graph.openers.push_back(id);
  }

  void addOp(OpId id) {
    const Op &op = problem.ops[id];
    const int32_t index = static_cast<int32_t>(graph.ops.size());
    GraphOp fresh;
    fresh.op = id;
    fresh.recomputable = op.recomputable;
    const Alternative &cheapest = op.alternatives[cheapestAlternative(op)];
    fresh.cost = fresh.leastCost = cheapest.cost;
    fresh.workspaceBytes = fresh.leastWorkspaceBytes = cheapest.workspaceBytes;
    for (const Alternative &alternative : op.alternatives)
      fresh.leastWorkspaceBytes = std::min(fresh.leastWorkspaceBytes, alternative.workspaceBytes);
    graph.hasAlternatives |= op.alternatives.size() > 1;

    for (ValueId input : op.inputs) {
      if (int32_t value = valueFor(input); value != dropped)
        insertUnique(fresh.inputs, value);
      for (int32_t viewed : extra[input])
        insertUnique(fresh.inputs, viewed);
    }
    for (ValueId output : op.outputs) {
      int32_t value = valueFor(output);
      if (value == dropped || graph.values[value].producer)
        continue;
      graph.values[value].producer = index;
      fresh.outputs.push_back(value);
      addViewedBy(op, output, value);
    }
    addCredits(op, fresh);
    graph.ops.push_back(std::move(fresh));
  }

  /// A view that was not folded has no bytes of its own; its readers hold the viewed value too.
  void addViewedBy(const Op &op, ValueId output, int32_t value) {
    StorageId storage = problem.values[output].storage;
    if (overwritesIn(problem, op, storage) || !storageAmong(problem, op.inputs, storage))
      return;
    graph.values[value].sizeBytes = 0;
    for (ValueId input : op.inputs)
      if (problem.values[input].storage == storage) {
        if (graphValue[input] != dropped)
          insertUnique(extra[output], graphValue[input]);
        for (int32_t viewed : extra[input])
          insertUnique(extra[output], viewed);
      }
    for (int32_t viewed : extra[output])
      if (graph.values[viewed].viewed.empty() && graph.values[viewed].producer) {
        graph.values[viewed].views.push_back(value);
        graph.values[value].viewed.push_back(viewed);
        graph.hasViews = true;
      }
  }

  void addCredits(const Op &op, GraphOp &fresh) {
    for (ValueId input : op.overwrites) {
      int32_t from = graphValue[input];
      if (from == dropped)
        continue;
      int32_t to = dropped;
      for (ValueId output : op.outputs)
        if (problem.values[output].storage == problem.values[input].storage)
          to = graphValue[output];
      // The output continues the copy that the last such input shows: its bytes are shared, once.
      ValueId attached = input;
      for (ValueId other : op.inputs)
        if (problem.values[other].storage == problem.values[input].storage)
          attached = other;
      std::vector<int32_t> destroyed = extra[input];
      insertUnique(destroyed, from);
      for (int32_t value : destroyed) {
        bool seen = std::any_of(fresh.credits.begin(), fresh.credits.end(),
                                [&](const Credit &c) { return c.input == value && c.required; });
        if (seen || to == dropped)
          continue;
        bool continued = graphValue[attached] == value ||
                         std::count(extra[attached].begin(), extra[attached].end(), value);
        fresh.credits.push_back({to, value, continued ? graph.values[value].sizeBytes : 0, true});
      }
    }
    for (const OverwriteOption &option : op.mayOverwrite) {
      int32_t from = graphValue[option.input], to = graphValue[option.output];
      const Bytes bytes = problem.sizeOf(option.output);
      if (from == dropped || to == dropped || bytes > problem.sizeOf(option.input) || bytes == 0 ||
          problem.storages[problem.values[option.input].storage].pinned ||
          problem.storages[problem.values[option.output].storage].pinned ||
          storageAmong(problem, op.inputs, problem.values[option.output].storage))
        continue;
      // Views that were not folded are left to the replay: solvers do not count on the credit,
      // bounds allow for it.
      if (!extra[option.input].empty() || folding.hasLooseView[folding.root[option.input]])
        fresh.uncertainCreditBytes += bytes;
      else
        fresh.credits.push_back({to, from, bytes, false});
    }
  }

  void markKept(ValueId value) {
    graph.values[graphValue[value]].keep = true;
    for (int32_t viewed : extra[value])
      graph.values[viewed].keep = true;
  }

  const Problem &problem;
  Graph &graph;
  Folding folding;
  std::vector<int32_t> graphValue;
  std::vector<std::vector<int32_t>> extra; ///< per problem value: viewed graph values it needs live
  Cost step = 0;
};

} // namespace

Graph::Graph(const Problem &problem) { Builder(problem, *this).build(); }

bool Graph::goesWithViewed(int32_t value) const {
  const std::vector<int32_t> &viewed = values[value].viewed;
  return viewed.size() == 1 && ops[*values[viewed.front()].producer].outputs.size() == 1;
}

Bytes Graph::footprint(int32_t index) const {
  const GraphOp &op = ops[index];
  Bytes sum = baseBytes + op.leastWorkspaceBytes - op.uncertainCreditBytes;
  for (int32_t value : op.inputs)
    sum += values[value].sizeBytes;
  for (int32_t value : op.outputs) {
    Bytes credit = 0;
    for (const Credit &offer : op.credits)
      if (offer.output == value)
        credit = std::max(credit, offer.bytes);
    sum += values[value].sizeBytes - credit;
  }
  return sum;
}

Sequence Graph::inputOrder() const {
  Sequence sequence(ops.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  return sequence;
}

Sequence Graph::sequenceOf(const Solution &solution) const {
  std::map<OpId, int32_t> index;
  for (size_t i = 0; i < ops.size(); ++i)
    index[ops[i].op] = static_cast<int32_t>(i);
  Sequence sequence;
  for (const Run &run : solution.runs)
    if (const auto found = index.find(run.op); found != index.end())
      sequence.push_back(found->second);
  return sequence;
}

void Graph::useLeanestAlternatives(const Problem &problem) {
  for (GraphOp &op : ops) {
    const std::vector<Alternative> &list = problem.ops[op.op].alternatives;
    const Alternative &chosen =
        *std::min_element(list.begin(), list.end(), [](const Alternative &a, const Alternative &b) {
          return std::pair(a.workspaceBytes, a.cost) < std::pair(b.workspaceBytes, b.cost);
        });
    op.cost = chosen.cost + op.followersCost;
    op.workspaceBytes = chosen.workspaceBytes;
  }
}

Measure measure(const Graph &graph, const Sequence &sequence, std::vector<Bytes> *bytesAt) {
  const int32_t count = static_cast<int32_t>(sequence.size());
  constexpr int32_t never = -1;
  // Backward walk: `nextRead[v]` is the last read of the copy of v that is live at this position.
  std::vector<Bytes> change(count + 1, 0);
  std::vector<int32_t> lastRead(graph.values.size(), never);
  Measure result;
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].keep)
      lastRead[v] = count;
  std::vector<Bytes> credit(count, 0);
  for (int32_t i = count; i-- > 0;) {
    const GraphOp &op = graph.ops[sequence[i]];
    result.time += op.cost;
    for (int32_t value : op.outputs) {
      for (int32_t view : graph.values[value].views)
        result.legal &= lastRead[view] == never;
      int32_t last = std::max(lastRead[value], i);
      change[i] += graph.values[value].sizeBytes;
      change[std::min(last + 1, count)] -= graph.values[value].sizeBytes;
      lastRead[value] = never;
    }
    // A credit needs that no later read exists; each output and each input is used once.
    for (size_t c = 0; c < op.credits.size(); ++c) {
      const Credit &offer = op.credits[c];
      bool dies = lastRead[offer.input] == never;
      if (offer.required && !dies)
        result.legal = false;
      bool taken = false;
      for (size_t d = 0; d < c; ++d) {
        const Credit &other = op.credits[d];
        taken |= (other.required || lastRead[other.input] == never) &&
                 (other.output == offer.output || other.input == offer.input) && !offer.required;
      }
      if (dies && !taken)
        credit[i] += offer.bytes;
    }
    for (int32_t value : op.inputs)
      if (lastRead[value] == never)
        lastRead[value] = i;
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (lastRead[v] == never)
      continue;
    if (graph.values[v].producer) {
      result.legal = false; // read before any run
      continue;
    }
    if (count == 0)
      continue;
    change[0] += graph.values[v].sizeBytes;
    change[std::min(lastRead[v] + 1, count)] -= graph.values[v].sizeBytes;
  }
  Bytes live = graph.baseBytes;
  if (count == 0 && !graph.openers.empty()) // views only: what is kept is there while they run
    for (const GraphValue &value : graph.values)
      if (value.keep)
        live += value.sizeBytes;
  result.peakBytes = live;
  if (bytesAt)
    bytesAt->assign(count, 0);
  for (int32_t i = 0; i < count; ++i) {
    live += change[i];
    Bytes here = live + graph.ops[sequence[i]].workspaceBytes - credit[i];
    if (bytesAt)
      (*bytesAt)[i] = here;
    if (here > result.peakBytes) {
      result.peakBytes = here;
      result.peakPosition = static_cast<size_t>(i);
    }
  }
  return result;
}

Solution expand(const Problem &problem, const Graph &graph, const Sequence &sequence,
                Bytes budgetBytes) {
  Solution solution;
  auto push = [&](OpId op) { solution.runs.push_back({op, cheapestAlternative(problem.ops[op])}); };
  for (OpId op : graph.openers)
    push(op);
  for (int32_t index : sequence) {
    push(graph.ops[index].op);
    for (OpId follower : graph.ops[index].followers)
      push(follower);
  }
  if (!graph.hasAlternatives)
    return solution;
  Replay replay = verify(problem, solution);
  if (replay.fault)
    return solution;
  for (size_t i = 0; i < solution.runs.size(); ++i) {
    const Op &op = problem.ops[solution.runs[i].op];
    const Bytes room = budgetBytes - replay.bytesAt[i] +
                       op.alternatives[solution.runs[i].alternative].workspaceBytes;
    std::optional<int32_t> best;
    auto key = [&](int32_t a) {
      const Alternative &alternative = op.alternatives[a];
      bool fits = alternative.workspaceBytes <= room;
      return std::tuple(!fits, fits ? alternative.cost : alternative.workspaceBytes,
                        fits ? alternative.workspaceBytes : alternative.cost, a);
    };
    for (int32_t a = 0; a < static_cast<int32_t>(op.alternatives.size()); ++a)
      if (!best || key(a) < key(*best))
        best = a;
    solution.runs[i].alternative = *best;
  }
  return solution;
}

} // namespace stow::schedule
