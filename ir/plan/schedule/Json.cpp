#include "ir/plan/schedule/Json.h"

#include "ir/plan/schedule/Verify.h"
#include "runtime/base/Error.h"
#include "runtime/base/JsonDepth.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>

namespace stow::schedule {
namespace {

using Json = nlohmann::ordered_json;

/// A place in a document: the file and the path to an element, for messages.
struct Place {
  std::string source;
  std::string path;
  Place operator/(const std::string &key) const { return {source, path + "/" + key}; }
  Place operator/(size_t index) const { return *this / std::to_string(index); }
  [[noreturn]] void fail(const std::string &what) const {
    throw Error::badInput(source + ": at " + (path.empty() ? "/" : path) + ": " + what);
  }
};

/// Parses the text; a syntax error names line and column.
Json parseText(std::string_view text, const std::string &source) {
  checkJsonDepth(text, source);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error &error) {
    size_t at = std::min(text.size(), error.byte ? error.byte - 1 : 0);
    size_t line = 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + at, '\n'));
    size_t lineStart = text.rfind('\n', at ? at - 1 : 0);
    size_t column =
        lineStart == std::string_view::npos || at <= lineStart ? at + 1 : at - lineStart;
    throw Error::badInput(source + ":" + std::to_string(line) + ":" + std::to_string(column) +
                          ": not valid JSON");
  } catch (const Json::exception &) {
    throw Error::badInput(source + ": a number in the JSON text is out of range");
  }
}

const Json &member(const Json &object, const char *key, const Place &place) {
  if (!object.is_object())
    place.fail("expected an object");
  auto it = object.find(key);
  if (it == object.end())
    place.fail("member \"" + std::string(key) + "\" is missing");
  return *it;
}

const Json &arrayAt(const Json &object, const char *key, const Place &place) {
  const Json &array = member(object, key, place);
  if (!array.is_array())
    (place / key).fail("expected an array");
  return array;
}

int64_t integer(const Json &json, const Place &place, int64_t least, int64_t greatest) {
  bool fits = json.is_number_integer() &&
              !(json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(INT64_MAX));
  int64_t value = fits ? json.get<int64_t>() : 0;
  if (!fits || value < least || value > greatest)
    place.fail("expected an integer in [" + std::to_string(least) + ", " +
               std::to_string(greatest) + "]");
  return value;
}

int64_t integerOr(const Json &object, const char *key, const Place &place, int64_t fallback) {
  auto it = object.find(key);
  return it == object.end() ? fallback : integer(*it, place / key, 0, int64_t(1) << 56);
}

bool booleanOr(const Json &object, const char *key, const Place &place, bool fallback) {
  auto it = object.find(key);
  if (it == object.end())
    return fallback;
  if (!it->is_boolean())
    (place / key).fail("expected true or false");
  return it->get<bool>();
}

std::string textOr(const Json &object, const char *key, const Place &place,
                   const std::string &fallback) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null())
    return fallback;
  if (!it->is_string())
    (place / key).fail("expected a string");
  return it->get<std::string>();
}

std::vector<ValueId> idsOr(const Json &object, const char *key, const Place &place,
                           size_t valueCount) {
  std::vector<ValueId> ids;
  auto it = object.find(key);
  if (it == object.end())
    return ids;
  if (!it->is_array())
    (place / key).fail("expected an array");
  for (size_t i = 0; i < it->size(); ++i)
    ids.push_back(static_cast<ValueId>(
        integer((*it)[i], place / key / i, 0, static_cast<int64_t>(valueCount) - 1)));
  return ids;
}

Op parseOp(const Json &json, const Place &place, size_t index, size_t valueCount) {
  if (!json.is_object())
    place.fail("expected an object");
  Op op;
  op.name = textOr(json, "name", place, "op" + std::to_string(index));
  op.inputs = idsOr(json, "inputs", place, valueCount);
  op.outputs = idsOr(json, "outputs", place, valueCount);
  op.overwrites = idsOr(json, "overwrites", place, valueCount);
  op.recomputable = booleanOr(json, "recomputable", place, true);
  if (json.contains("alternatives")) {
    const Json &list = arrayAt(json, "alternatives", place);
    for (size_t i = 0; i < list.size(); ++i) {
      Place at = place / "alternatives" / i;
      member(list[i], "cost", at);
      op.alternatives.push_back(
          {integerOr(list[i], "cost", at, 0), integerOr(list[i], "workspace", at, 0)});
    }
  } else {
    member(json, "cost", place);
    op.alternatives.push_back(
        {integerOr(json, "cost", place, 0), integerOr(json, "workspace", place, 0)});
  }
  if (json.contains("may_overwrite")) {
    const Json &list = arrayAt(json, "may_overwrite", place);
    for (size_t i = 0; i < list.size(); ++i) {
      Place at = place / "may_overwrite" / i;
      if (!list[i].is_array() || list[i].size() != 2)
        at.fail("expected [output, input]");
      const int64_t last = static_cast<int64_t>(valueCount) - 1;
      op.mayOverwrite.push_back({static_cast<ValueId>(integer(list[i][0], at / 0, 0, last)),
                                 static_cast<ValueId>(integer(list[i][1], at / 1, 0, last))});
    }
  }
  return op;
}

Problem parseOwn(const Json &json, const Place &place) {
  integer(member(json, "version", place), place / "version", 1, 1);
  Problem problem;
  problem.name = textOr(json, "name", place, "");
  problem.costUnit = textOr(json, "cost_unit", place, "cost");
  problem.costDenominator = integerOr(json, "cost_denominator", place, 1);
  const Json &storages = arrayAt(json, "storages", place);
  for (size_t i = 0; i < storages.size(); ++i) {
    Place at = place / "storages" / i;
    member(storages[i], "bytes", at);
    problem.storages.push_back(
        {integerOr(storages[i], "bytes", at, 0), booleanOr(storages[i], "pinned", at, false)});
  }
  const Json &values = arrayAt(json, "values", place);
  for (size_t i = 0; i < values.size(); ++i) {
    Place at = place / "values" / i;
    int64_t storage = integer(member(values[i], "storage", at), at / "storage", 0,
                              static_cast<int64_t>(problem.storages.size()) - 1);
    problem.values.push_back({textOr(values[i], "name", at, "value" + std::to_string(i)),
                              static_cast<StorageId>(storage),
                              booleanOr(values[i], "keep", at, false)});
  }
  const Json &ops = arrayAt(json, "ops", place);
  for (size_t i = 0; i < ops.size(); ++i)
    problem.ops.push_back(parseOp(ops[i], place / "ops" / i, i, problem.values.size()));
  return problem;
}

// -- networkx node-link

/// The ends of an edge in any of the three published spellings.
std::pair<Json, Json> edgeEnds(const Json &edge, const Place &place) {
  if (edge.is_array() && edge.size() >= 2)
    return {edge[0], edge[1]};
  if (edge.is_object() && edge.contains("source") && edge.contains("target"))
    return {edge["source"], edge["target"]};
  if (edge.is_object() && edge.contains("0") && edge.contains("1"))
    return {edge["0"], edge["1"]};
  place.fail("expected an edge as {\"source\", \"target\"}, {\"0\", \"1\"} or [from, to]");
}

double number(const Json &node, const char *key, const char *otherKey, const Place &place) {
  const bool isOther = node.is_object() && !node.contains(key) && node.contains(otherKey);
  const char *found = isOther ? otherKey : key;
  if (node.is_object() && !node.contains(found))
    place.fail("member \"" + std::string(key) + "\" (or \"" + otherKey + "\") is missing");
  const Json &json = member(node, found, place);
  if (!json.is_number())
    (place / found).fail("expected a number");
  double value = json.get<double>();
  if (!(value >= 0) || value > 0x1p56)
    (place / found).fail("expected a number in [0, 2^56]");
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
                                     const std::vector<std::string> &names, const Place &place) {
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
    place.fail("the graph has a cycle through node \"" + names[onCycle(inputs, missing)] + "\"");
  return order;
}

/// The node order under `order`, which has to list every node once. `find` resolves ids.
template <typename Find>
std::vector<size_t> listedOrder(const Json &graph, const Place &place, size_t count, Find find) {
  const Place at = place / "order";
  const Json &list = arrayAt(graph, "order", place);
  std::vector<size_t> order;
  std::vector<char> seen(count, 0);
  for (size_t i = 0; i < list.size(); ++i) {
    order.push_back(find(list[i], at / i));
    if (seen[order.back()]++)
      (at / i).fail("node " + list[i].dump() + " is listed twice");
  }
  if (order.size() != count)
    at.fail("expected every node once: " + std::to_string(count) + ", found " +
            std::to_string(order.size()));
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
  NodeIds(const Json &nodes, const Place &place) {
    auto all = [&](const char *key) {
      return std::all_of(nodes.begin(), nodes.end(),
                         [&](const Json &node) { return node.is_object() && node.contains(key); });
    };
    const bool anyHasId = std::any_of(nodes.begin(), nodes.end(), [](const Json &node) {
      return !node.is_object() || node.contains("id");
    });
    if (anyHasId) {
      for (size_t i = 0; i < nodes.size(); ++i)
        if (!add(member(nodes[i], "id", place / i)))
          (place / i).fail("node id " + ids.back().dump() + " is used twice");
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

  size_t find(const Json &id, const Place &at) const {
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
const char *edgeListKey(const Json &json, const Place &place) {
  auto isUsed = [&](const char *key) {
    return json.contains(key) && !(json[key].is_array() && json[key].empty());
  };
  if (isUsed("links") && isUsed("edges"))
    place.fail("both \"links\" and \"edges\" list edges; keep one of the two");
  if (!json.contains("links") && !json.contains("edges"))
    place.fail("member \"links\" (or \"edges\") is missing");
  return isUsed("edges") || !json.contains("links") ? "edges" : "links";
}

Problem parseNodeLink(const Json &json, const Place &place) {
  const Json &nodes = arrayAt(json, "nodes", place);
  const char *edgeKey = edgeListKey(json, place);
  const Json &edges = arrayAt(json, edgeKey, place);
  const size_t count = nodes.size();

  const NodeIds ids(nodes, place / "nodes");
  std::vector<double> costs, sizes;
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    Place at = place / "nodes" / i;
    costs.push_back(number(nodes[i], "cost_cpu", "duration", at));
    sizes.push_back(number(nodes[i], "cost_ram", "out_cost", at));
    names.push_back(nodeName(nodes[i], ids[i]));
  }
  tellApart(names, ids);
  auto find = [&](const Json &id, const Place &at) { return ids.find(id, at); };

  std::vector<std::vector<size_t>> inputs(count);
  for (size_t i = 0; i < edges.size(); ++i) {
    Place at = place / edgeKey / i;
    auto [from, to] = edgeEnds(edges[i], at);
    size_t source = find(from, at), target = find(to, at);
    if (std::find(inputs[target].begin(), inputs[target].end(), source) == inputs[target].end())
      inputs[target].push_back(source);
  }
  for (std::vector<size_t> &list : inputs)
    std::sort(list.begin(), list.end());

  const Json *graph =
      json.contains("graph") && json["graph"].is_object() ? &json["graph"] : nullptr;
  const std::vector<size_t> order = graph && graph->contains("order")
                                        ? listedOrder(*graph, place / "graph", count, find)
                                        : topologicalOrder(inputs, names, place);

  Problem problem;
  if (graph)
    problem.name = textOr(*graph, "name", place / "graph", "");
  problem.costDenominator = denominatorFor(costs);
  std::vector<ValueId> valueOf(count, 0);
  for (size_t i = 0; i < count; ++i)
    valueOf[order[i]] = static_cast<ValueId>(i);
  for (size_t node : order) {
    std::vector<ValueId> reads;
    for (size_t input : inputs[node]) {
      if (valueOf[input] >= valueOf[node])
        (place / "graph" / "order")
            .fail("node \"" + names[node] + "\" comes before its input \"" + names[input] + "\"");
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

Problem parse(std::string_view text, const std::string &source) {
  const Json json = parseText(text, source);
  Place place{source, ""};
  if (!json.is_object())
    place.fail("expected an object");
  Problem problem;
  if (json.contains("stowage")) {
    if (textOr(json, "stowage", place, "") != "schedule-problem")
      (place / "stowage").fail("expected \"schedule-problem\"");
    problem = parseOwn(json, place);
  } else if (json.contains("nodes")) {
    problem = parseNodeLink(json, place);
  } else {
    place.fail(
        "expected a member \"stowage\" (a schedule problem) or \"nodes\" (a networkx graph)");
  }
  try {
    check(problem);
  } catch (const Error &error) {
    throw Error(error.kind(), source + ": " + error.what());
  }
  return problem;
}

std::string print(const Problem &problem) {
  std::string out =
      "{\"stowage\": \"schedule-problem\", \"version\": 1,\n \"name\": " +
      Json(problem.name).dump() + ",\n \"cost_unit\": " + Json(problem.costUnit).dump() +
      ", \"cost_denominator\": " + std::to_string(problem.costDenominator) + ",\n \"storages\": [";
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
    out += separator + line.dump();
    separator = ",\n  ";
  }
  return out + "]}\n";
}

std::string printSolution(const Problem &problem, const Solution &solution) {
  Replay replay = verify(problem, solution);
  std::string out =
      "{\"stowage\": \"schedule\", \"version\": 1,\n \"problem\": " + Json(problem.name).dump() +
      ",\n \"time\": " + std::to_string(replay.time) +
      ", \"cost_denominator\": " + std::to_string(problem.costDenominator) +
      ", \"peak_bytes\": " + std::to_string(replay.peakBytes) + ",\n \"ops\": [";
  for (size_t op = 0; op < problem.ops.size(); ++op)
    out += (op == 0 ? "\n  " : ", ") + Json(problem.ops[op].name).dump();
  out += "],\n \"runs\": [";
  for (size_t i = 0; i < solution.runs.size(); ++i)
    out += (i == 0 ? "\n  [" : ", [") + std::to_string(solution.runs[i].op) + ", " +
           std::to_string(solution.runs[i].alternative) + "]";
  return out + "]}\n";
}

Solution parseSolution(std::string_view text, const Problem &problem, const std::string &source) {
  const Json json = parseText(text, source);
  Place place{source, ""};
  if (textOr(json.is_object() ? json : Json::object(), "stowage", place, "") != "schedule")
    place.fail("expected a schedule: an object with \"stowage\": \"schedule\"");
  Solution solution;
  const Json &runs = arrayAt(json, "runs", place);
  for (size_t i = 0; i < runs.size(); ++i) {
    Place at = place / "runs" / i;
    if (!runs[i].is_array() || runs[i].size() != 2)
      at.fail("expected [op, alternative]");
    int64_t op = integer(runs[i][0], at / 0, 0, static_cast<int64_t>(problem.ops.size()) - 1);
    int64_t last = static_cast<int64_t>(problem.ops[op].alternatives.size()) - 1;
    solution.runs.push_back(
        {static_cast<OpId>(op), static_cast<int32_t>(integer(runs[i][1], at / 1, 0, last))});
  }
  return solution;
}

} // namespace stow::schedule
