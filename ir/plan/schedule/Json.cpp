#include "ir/plan/schedule/Json.h"

#include "ir/plan/schedule/Verify.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

namespace stow::schedule {
namespace {

constexpr int64_t kMost = int64_t(1) << 56; ///< bytes, costs

int64_t integerOr(const JsonNode &node, const char *key, int64_t fallback) {
  return node.has(key) ? node.integerIn(key, 0, kMost) : fallback;
}

bool booleanOr(const JsonNode &node, const char *key, bool fallback) {
  return node.has(key) ? node.boolean(key) : fallback;
}

std::string textOr(const JsonNode &node, const char *key, const std::string &fallback) {
  return node.has(key) && !node.value()[key].is_null() ? node.text(key) : fallback;
}

/// The number of one of `count` storages or values.
int32_t idIn(const JsonNode &node, size_t count) {
  return static_cast<int32_t>(node.asIntegerIn(0, static_cast<int64_t>(count) - 1));
}

std::vector<ValueId> idsOr(const JsonNode &node, const char *key, size_t valueCount) {
  std::vector<ValueId> ids;
  if (node.has(key))
    node.forEach(key, [&](const JsonNode &id) { ids.push_back(idIn(id, valueCount)); });
  return ids;
}

Alternative parseAlternative(const JsonNode &node) {
  return {node.integerIn("cost", 0, kMost), integerOr(node, "workspace", 0)};
}

Op parseOp(const JsonNode &node, size_t index, size_t valueCount) {
  node.requireObject();
  Op op;
  op.name = textOr(node, "name", absl::StrCat("op", index));
  op.inputs = idsOr(node, "inputs", valueCount);
  op.outputs = idsOr(node, "outputs", valueCount);
  op.overwrites = idsOr(node, "overwrites", valueCount);
  op.recomputable = booleanOr(node, "recomputable", true);
  if (node.has("alternatives"))
    node.forEach("alternatives", [&](const JsonNode &alternative) {
      op.alternatives.push_back(parseAlternative(alternative));
    });
  else
    op.alternatives.push_back(parseAlternative(node));
  if (node.has("may_overwrite"))
    node.forEach("may_overwrite", [&](const JsonNode &pair) {
      if (!pair.value().is_array() || pair.size() != 2)
        pair.failExpected("[output, input]");
      op.mayOverwrite.push_back(
          {idIn(pair.element(0), valueCount), idIn(pair.element(1), valueCount)});
    });
  if (node.has("lane")) {
    const std::string word = node.text("lane");
    if (word != wordOf(OpLane::Out) && word != wordOf(OpLane::In))
      node.at("lane").failExpected("\"out\" or \"in\"");
    op.lane = word == wordOf(OpLane::Out) ? OpLane::Out : OpLane::In;
  }
  return op;
}

Problem parseOwn(const JsonNode &root) {
  root.integerIn("version", 1, 1);
  Problem problem;
  problem.name = textOr(root, "name", "");
  problem.costUnit = textOr(root, "cost_unit", "cost");
  problem.costDenominator = integerOr(root, "cost_denominator", 1);
  root.forEach("storages", [&](const JsonNode &node) {
    problem.storages.push_back(
        {node.integerIn("bytes", 0, kMost), booleanOr(node, "pinned", false)});
  });
  root.forEach("values", [&](const JsonNode &node) {
    const StorageId storage = idIn(node.at("storage"), problem.storages.size());
    problem.values.push_back({textOr(node, "name", absl::StrCat("value", problem.values.size())),
                              storage, booleanOr(node, "keep", false)});
  });
  root.forEach("ops", [&](const JsonNode &node) {
    problem.ops.push_back(parseOp(node, problem.ops.size(), problem.values.size()));
  });
  return problem;
}

Link parseLink(const JsonNode &node) {
  node.requireObject();
  return {node.integerIn("bandwidth", 1, kMost),
          node.has("per_cost") ? node.integerIn("per_cost", 1, kMost) : 1,
          integerOr(node, "latency", 0)};
}

Lanes parseLanes(const JsonNode &node, size_t storageCount) {
  node.requireObject();
  Lanes lanes;
  lanes.slowBytes = node.integerIn("slow_bytes", 0, kMost);
  lanes.out = parseLink(node.at("out"));
  lanes.in = parseLink(node.at("in"));
  if (node.has("stay"))
    node.forEach("stay", [&](const JsonNode &id) { lanes.stay.push_back(idIn(id, storageCount)); });
  return lanes;
}

// -- networkx node-link

/// The ends of an edge in any of the three published spellings.
std::pair<Json, Json> edgeEnds(const JsonNode &node) {
  const Json &edge = node.value();
  if (edge.is_array() && edge.size() >= 2)
    return {edge[0], edge[1]};
  if (edge.is_object() && edge.contains("source") && edge.contains("target"))
    return {edge["source"], edge["target"]};
  if (edge.is_object() && edge.contains("0") && edge.contains("1"))
    return {edge["0"], edge["1"]};
  node.failExpected("an edge as {\"source\", \"target\"}, {\"0\", \"1\"} or [from, to]");
}

double number(const JsonNode &node, const char *key, const char *otherKey) {
  node.requireObject();
  if (!node.has(key) && !node.has(otherKey))
    node.fail("member \"" + std::string(key) + "\" (or \"" + otherKey + "\") is missing");
  const JsonNode found = node.at(node.has(key) ? key : otherKey);
  const double value = found.asNumber();
  if (!(value >= 0) || value > 0x1p56)
    found.failExpected("a number in [0, 2^56]");
  return value;
}

/// The smallest power of ten, at most 10^9, that makes every cost an integer (or the largest that
/// keeps the sum under 2^50).
Cost denominatorFor(const std::vector<double> &costs) {
  double sum = 0;
  for (double cost : costs)
    sum += cost;
  Cost denominator = 1;
  while (denominator < 1000000000) {
    bool integral = true;
    for (double cost : costs)
      integral &= std::abs(cost * denominator - std::round(cost * denominator)) <=
                  1e-9 * std::max(1.0, cost * denominator);
    if (integral || sum * denominator * 10 > 0x1p50)
      break;
    denominator *= 10;
  }
  return denominator;
}

/// A node on a cycle, given how many inputs of each node never became available.
size_t onCycle(const std::vector<std::vector<size_t>> &inputs, const std::vector<size_t> &missing) {
  size_t node = 0;
  while (missing[node] == 0)
    ++node;
  for (size_t step = 0; step < inputs.size(); ++step) // walks back into a cycle
    node = *std::find_if(inputs[node].begin(), inputs[node].end(),
                         [&](size_t input) { return missing[input] > 0; });
  return node;
}

/// The node order: as listed if that is topological, else Kahn's with the least index first.
std::vector<size_t> topologicalOrder(const std::vector<std::vector<size_t>> &inputs,
                                     const std::vector<std::string> &names, const JsonNode &root) {
  const size_t count = inputs.size();
  std::vector<std::vector<size_t>> readers(count);
  std::vector<size_t> missing(count);
  for (size_t v = 0; v < count; ++v) {
    missing[v] = inputs[v].size();
    for (size_t u : inputs[v])
      readers[u].push_back(v);
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t v = 0; v < count; ++v)
    if (missing[v] == 0)
      ready.push(v);
  std::vector<size_t> order;
  while (!ready.empty()) {
    size_t v = ready.top();
    ready.pop();
    order.push_back(v);
    for (size_t reader : readers[v])
      if (--missing[reader] == 0)
        ready.push(reader);
  }
  if (order.size() != count)
    root.fail("the graph has a cycle through node \"" + names[onCycle(inputs, missing)] + "\"");
  return order;
}

std::string nodeName(const Json &node, const Json &id) {
  if (node.contains("name") && node["name"].is_string())
    return node["name"].get<std::string>();
  return id.is_string() ? id.get<std::string>() : "node" + id.dump();
}

/// What edges and orders call the nodes: their `id`, or, where no node has one, their `name` if all
/// have different ones; else, and beside names, their position in the list.
class NodeIds {
public:
  /// Of the nodes that `root` lists.
  explicit NodeIds(const JsonNode &root) {
    const Json &nodes = root.value()["nodes"];
    auto all = [&](const char *key) {
      return std::all_of(nodes.begin(), nodes.end(),
                         [&](const Json &node) { return node.is_object() && node.contains(key); });
    };
    const bool anyHasId = std::any_of(nodes.begin(), nodes.end(), [](const Json &node) {
      return !node.is_object() || node.contains("id");
    });
    if (anyHasId) {
      root.forEach("nodes", [&](const JsonNode &node) {
        if (!add(node.at("id").value()))
          node.fail("node id " + ids.back().dump() + " is used twice");
      });
      return;
    }
    positionsCount = true;
    bool isNamed = all("name");
    for (size_t i = 0; i < nodes.size() && isNamed; ++i)
      isNamed = add(nodes[i]["name"]);
    if (isNamed)
      return;
    indexOf.clear();
    ids.clear();
    for (size_t i = 0; i < nodes.size(); ++i)
      add(i);
  }

  const Json &operator[](size_t node) const { return ids[node]; }

  size_t find(const Json &id, const JsonNode &at) const {
    if (auto found = indexOf.find(id.dump()); found != indexOf.end())
      return found->second;
    if (positionsCount && id.is_number_unsigned() && id.get<size_t>() < ids.size())
      return id.get<size_t>();
    at.fail("there is no node with id " + id.dump());
  }

private:
  bool add(const Json &id) {
    ids.push_back(id);
    return indexOf.emplace(id.dump(), ids.size() - 1).second;
  }

  std::vector<Json> ids;
  std::map<std::string, size_t> indexOf; ///< by the JSON text, so that 1 and "1" differ
  bool positionsCount = false;
};

/// Adds the id to names that several nodes have, so that schedules can tell them apart.
void tellApart(std::vector<std::string> &names, const NodeIds &ids) {
  std::map<std::string, int> uses;
  for (const std::string &name : names)
    ++uses[name];
  for (size_t i = 0; i < names.size(); ++i)
    if (uses[names[i]] > 1)
      names[i] += " (" + ids[i].dump() + ")";
}

/// The list of edges: under `links`, as networkx wrote before 3.4, or under `edges`.
const char *edgeListKey(const JsonNode &root) {
  auto isUsed = [&](const char *key) {
    return root.has(key) && !(root.value()[key].is_array() && root.value()[key].empty());
  };
  if (isUsed("links") && isUsed("edges"))
    root.fail("both \"links\" and \"edges\" list edges; keep one of the two");
  if (!root.has("links") && !root.has("edges"))
    root.fail("member \"links\" (or \"edges\") is missing");
  return isUsed("edges") || !root.has("links") ? "edges" : "links";
}

/// The node order under `graph.order`, which has to list every node once.
std::vector<size_t> listedOrder(const JsonNode &graph, const NodeIds &ids, size_t count) {
  std::vector<size_t> order;
  std::vector<char> seen(count, 0);
  graph.forEach("order", [&](const JsonNode &node) {
    order.push_back(ids.find(node.value(), node));
    if (seen[order.back()]++)
      node.fail("node " + node.value().dump() + " is listed twice");
  });
  if (order.size() != count)
    graph.fail("order",
               absl::StrCat("expected every node once: ", count, ", found ", order.size()));
  return order;
}

Problem parseNodeLink(const JsonNode &root) {
  const size_t count = root.at("nodes").size();
  const char *edgeKey = edgeListKey(root);

  const NodeIds ids(root);
  std::vector<double> costs, sizes;
  std::vector<std::string> names;
  root.forEach("nodes", [&](const JsonNode &node) {
    costs.push_back(number(node, "cost_cpu", "duration"));
    sizes.push_back(number(node, "cost_ram", "out_cost"));
    names.push_back(nodeName(node.value(), ids[names.size()]));
  });
  tellApart(names, ids);

  std::vector<std::vector<size_t>> inputs(count);
  root.forEach(edgeKey, [&](const JsonNode &edge) {
    auto [from, to] = edgeEnds(edge);
    size_t source = ids.find(from, edge), target = ids.find(to, edge);
    if (std::find(inputs[target].begin(), inputs[target].end(), source) == inputs[target].end())
      inputs[target].push_back(source);
  });
  for (std::vector<size_t> &list : inputs)
    std::sort(list.begin(), list.end());

  const bool hasGraph = root.has("graph") && root.value()["graph"].is_object();
  const bool isOrdered = hasGraph && root.at("graph").has("order");
  const std::vector<size_t> order =
      isOrdered ? listedOrder(root.at("graph"), ids, count) : topologicalOrder(inputs, names, root);

  Problem problem;
  if (hasGraph)
    problem.name = textOr(root.at("graph"), "name", "");
  problem.costDenominator = denominatorFor(costs);
  std::vector<ValueId> valueOf(count, 0);
  for (size_t i = 0; i < count; ++i)
    valueOf[order[i]] = static_cast<ValueId>(i);
  for (size_t node : order) {
    std::vector<ValueId> reads;
    for (size_t input : inputs[node]) {
      if (valueOf[input] >= valueOf[node])
        root.at("graph").fail("order", "node \"" + names[node] + "\" comes before its input \"" +
                                           names[input] + "\"");
      reads.push_back(valueOf[input]);
    }
    std::sort(reads.begin(), reads.end()); // however the file lists nodes and edges
    problem.addValue(names[node], static_cast<Bytes>(std::ceil(sizes[node])));
    problem.addOp(names[node],
                  static_cast<Cost>(std::llround(costs[node] * problem.costDenominator)),
                  std::move(reads), {valueOf[node]});
  }
  return problem;
}

} // namespace

ProblemFile parseFile(std::string_view text, const std::string &source) {
  const Json json = parseJson(text, source);
  const JsonNode root(json, source);
  ProblemFile file;
  if (root.has("stowage")) {
    if (textOr(root, "stowage", "") != "schedule-problem")
      root.fail("stowage", "expected \"schedule-problem\", found " + json["stowage"].dump());
    file.problem = parseOwn(root);
    if (root.has("lanes"))
      file.lanes = parseLanes(root.at("lanes"), file.problem.storages.size());
  } else if (root.has("nodes")) {
    file.problem = parseNodeLink(root);
  } else {
    root.fail("expected a member \"stowage\" (a schedule problem) or \"nodes\" (a networkx graph)");
  }
  try {
    check(file.problem);
    if (file.lanes)
      check(file.problem, *file.lanes);
  } catch (const Error &error) {
    throw Error(error.kind(), source + ": " + error.what());
  }
  return file;
}

Problem parse(std::string_view text, const std::string &source) {
  ProblemFile file = parseFile(text, source);
  if (file.lanes)
    throw Error::badInput(source + ": lanes: expected a problem without slow memory; take this "
                                   "member out of the file");
  return std::move(file.problem);
}

namespace {

std::string printLanes(const Lanes &lanes) {
  auto link = [](const Link &way) {
    Json line = {{"bandwidth", way.bandwidthBytes}, {"per_cost", way.perCost}};
    if (way.latency != 0)
      line["latency"] = way.latency;
    return line;
  };
  Json all = {{"slow_bytes", lanes.slowBytes}, {"out", link(lanes.out)}, {"in", link(lanes.in)}};
  if (!lanes.stay.empty())
    all["stay"] = lanes.stay;
  return all.dump();
}

std::string printWith(const Problem &problem, const Lanes *lanes) {
  std::string out = absl::StrCat(
      "{\"stowage\": \"schedule-problem\", \"version\": 1,\n \"name\": ", Json(problem.name).dump(),
      ",\n \"cost_unit\": ", Json(problem.costUnit).dump(),
      ", \"cost_denominator\": ", problem.costDenominator,
      lanes ? ",\n \"lanes\": " + printLanes(*lanes) : std::string(), ",\n \"storages\": [");
  const char *separator = "\n  ";
  for (const Storage &storage : problem.storages) {
    Json line = {{"bytes", storage.sizeBytes}};
    if (storage.pinned)
      line["pinned"] = true;
    out += separator + line.dump();
    separator = ",\n  ";
  }
  out += "],\n \"values\": [";
  separator = "\n  ";
  for (const Value &value : problem.values) {
    Json line = {{"name", value.name}, {"storage", value.storage}};
    if (value.keep)
      line["keep"] = true;
    out += separator + line.dump();
    separator = ",\n  ";
  }
  out += "],\n \"ops\": [";
  separator = "\n  ";
  for (const Op &op : problem.ops) {
    Json line = {{"name", op.name}, {"inputs", op.inputs}, {"outputs", op.outputs}};
    line["alternatives"] = Json::array();
    for (const Alternative &alternative : op.alternatives)
      line["alternatives"].push_back(
          {{"cost", alternative.cost}, {"workspace", alternative.workspaceBytes}});
    if (!op.overwrites.empty())
      line["overwrites"] = op.overwrites;
    for (const OverwriteOption &option : op.mayOverwrite)
      line["may_overwrite"].push_back(Json::array({option.output, option.input}));
    if (!op.recomputable)
      line["recomputable"] = false;
    if (op.lane != OpLane::Compute)
      line["lane"] = wordOf(op.lane);
    out += separator + line.dump();
    separator = ",\n  ";
  }
  return out + "]}\n";
}

} // namespace

std::string print(const Problem &problem) { return printWith(problem, nullptr); }
std::string print(const Problem &problem, const Lanes &lanes) { return printWith(problem, &lanes); }

std::string printSolution(const Problem &problem, const Solution &solution) {
  Replay replay = verify(problem, solution);
  std::string out = absl::StrCat(
      "{\"stowage\": \"schedule\", \"version\": 1,\n \"problem\": ", Json(problem.name).dump(),
      ",\n \"time\": ", replay.time, ", \"cost_denominator\": ", problem.costDenominator,
      ", \"peak_bytes\": ", replay.peakBytes, ",\n \"ops\": [");
  for (size_t op = 0; op < problem.ops.size(); ++op)
    out += (op == 0 ? "\n  " : ", ") + Json(problem.ops[op].name).dump();
  out += "],\n \"runs\": [";
  for (size_t i = 0; i < solution.runs.size(); ++i)
    absl::StrAppend(&out, i == 0 ? "\n  [" : ", [", solution.runs[i].op, ", ",
                    solution.runs[i].alternative, "]");
  return out + "]}\n";
}

Solution parseSolution(std::string_view text, const Problem &problem, const std::string &source) {
  const Json json = parseJson(text, source);
  const JsonNode root(json, source);
  if (textOr(root, "stowage", "") != "schedule")
    root.fail("expected a schedule: an object with \"stowage\": \"schedule\"");
  Solution solution;
  root.forEach("runs", [&](const JsonNode &run) {
    if (!run.value().is_array() || run.size() != 2)
      run.failExpected("[op, alternative]");
    const OpId op = idIn(run.element(0), problem.ops.size());
    const size_t alternatives = problem.ops[op].alternatives.size();
    solution.runs.push_back({op, idIn(run.element(1), alternatives)});
  });
  return solution;
}

namespace {

constexpr Step::Kind kStepKinds[] = {Step::Kind::Run, Step::Kind::Out, Step::Kind::AwaitOut,
                                     Step::Kind::In, Step::Kind::AwaitIn};

/// Names of ops or values: a few on every line.
template <typename Named> void appendNames(std::string &out, const std::vector<Named> &all) {
  for (size_t i = 0; i < all.size(); ++i)
    out += (i == 0 ? "\n  " : ", ") + Json(all[i].name).dump();
}

} // namespace

std::string printSolution(const Problem &problem, const Lanes &lanes,
                          const LaneSolution &solution) {
  const LaneReplay replay = verify(problem, lanes, solution);
  std::string out = absl::StrCat(
      "{\"stowage\": \"schedule\", \"version\": 1,\n \"problem\": ", Json(problem.name).dump(),
      ",\n \"time\": ", replay.time, ", \"cost_denominator\": ", problem.costDenominator,
      ", \"peak_bytes\": ", replay.peakBytes, ", \"slow_peak_bytes\": ", replay.slowPeakBytes,
      ",\n \"exposed\": ", replay.exposed(), ", \"hidden\": ", replay.hidden(),
      ", \"bytes_out\": ", replay.bytesOut, ", \"bytes_in\": ", replay.bytesIn, ",\n \"ops\": [");
  appendNames(out, problem.ops);
  out += "],\n \"values\": [";
  appendNames(out, problem.values);
  out += "],\n \"steps\": [";
  for (size_t i = 0; i < solution.steps.size(); ++i) {
    const Step &step = solution.steps[i];
    absl::StrAppend(&out, i == 0 ? "\n  [\"" : ",\n  [\"", wordOf(step.kind), "\", ", step.id);
    if (step.kind == Step::Kind::Run)
      absl::StrAppend(&out, ", ", step.alternative);
    out += "]";
  }
  return out + "]}\n";
}

LaneSolution parseLaneSolution(std::string_view text, const Problem &problem,
                               const std::string &source) {
  const Json json = parseJson(text, source);
  const JsonNode root(json, source);
  if (textOr(root, "stowage", "") != "schedule" || !root.has("steps"))
    root.fail("expected a schedule with copies: an object with \"stowage\": \"schedule\" and "
              "\"steps\"");
  LaneSolution solution;
  root.forEach("steps", [&](const JsonNode &node) {
    if (!node.value().is_array() || node.size() < 2 || !node.value()[0].is_string())
      node.failExpected("[\"run\", op, alternative] or [a kind of copy or await, value]");
    const std::string word = node.value()[0].get<std::string>();
    const auto *kind = std::find_if(std::begin(kStepKinds), std::end(kStepKinds),
                                    [&](Step::Kind known) { return word == wordOf(known); });
    if (kind == std::end(kStepKinds))
      node.element(0).failExpected("run, out, await-out, in or await-in");
    const bool isRun = *kind == Step::Kind::Run;
    if (node.size() != (isRun ? 3u : 2u))
      node.failExpected(isRun ? "[\"run\", op, alternative]" : "[\"" + word + "\", value]");
    Step step;
    step.kind = *kind;
    step.id = idIn(node.element(1), isRun ? problem.ops.size() : problem.values.size());
    if (isRun)
      step.alternative = idIn(node.element(2), problem.ops[step.id].alternatives.size());
    solution.steps.push_back(step);
  });
  return solution;
}

} // namespace stow::schedule
