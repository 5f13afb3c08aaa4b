#include "passes/solvers/schedule/SaveOrRerun.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stow::schedule {
namespace {

constexpr int32_t sourceNode = 0, sinkNode = 1;
constexpr int64_t saturated = int64_t(1) << 60;

/// A price is mantissa * 2^exponent.
struct Binary {
  int64_t mantissa = 0;
  int exponent = 0;
};

Binary binaryOf(double price) {
  // Every weight of every cut asks: of all positive numbers but the smallest the bits say it.
  constexpr int fraction = 52, bias = 1023;
  const auto bits = std::bit_cast<uint64_t>(price);
  const uint64_t raised = bits >> fraction;
  if (raised > 0 && raised <= 2 * bias)
    return {
        static_cast<int64_t>((bits & ((uint64_t(1) << fraction) - 1)) | (uint64_t(1) << fraction)),
        static_cast<int>(raised) - bias - fraction};
  int exponent = 0;
  const double part = std::frexp(price, &exponent);
  return {static_cast<int64_t>(std::ldexp(part, fraction + 1)), exponent - fraction - 1};
}

/// floor(price * bytes), or the ceiling, exactly.
int64_t rounded(double price, Bytes bytes, bool up) {
  const auto [mantissa, exponent] = binaryOf(price);
  const __int128 product = static_cast<__int128>(mantissa) * bytes;
  if (product == 0)
    return 0;
  if (exponent >= 0)
    return exponent > 60 || product > (static_cast<__int128>(saturated) >> exponent)
               ? saturated
               : static_cast<int64_t>(product << exponent);
  if (exponent < -120)
    return up;
  const __int128 slack = up ? (static_cast<__int128>(1) << -exponent) - 1 : 0;
  return static_cast<int64_t>(std::min<__int128>((product + slack) >> -exponent, saturated));
}

} // namespace

int64_t priceDown(double price, Bytes bytes) { return rounded(price, bytes, /*up=*/false); }
int64_t priceUp(double price, Bytes bytes) { return rounded(price, bytes, /*up=*/true); }

int scaleShift(Cost total) {
  int shift = 0;
  while (total > 0 && (total << (shift + 1)) < (int64_t(1) << 44) && shift < 40)
    ++shift;
  return shift;
}

void SaveOrRerun::Boundary::spreadFixed(const Graph &graph) {
  auto isFixedBy = [&](int32_t op) {
    for (int32_t value : graph.ops[op].inputs)
      if (!gone.empty() && gone[value] &&
          (!graph.values[value].producer || fixed[*graph.values[value].producer]))
        return true;
    for (int32_t value : graph.ops[op].outputs)
      for (int32_t view : graph.values[value].views)
        if (!follows.empty() && follows[view] && fixed[*graph.values[view].producer])
          return true;
    return false;
  };
  const auto count = static_cast<int32_t>(graph.ops.size());
  for (bool again = !gone.empty() || !follows.empty(); again;) {
    again = false;
    for (int32_t op = count; op-- > 0;) // views come after what they show
      if (!fixed[op] && isFixedBy(op))
        again = fixed[op] = 1;
    again &= !gone.empty();
  }
}

SaveOrRerun::SaveOrRerun(const Graph &graph, Boundary given)
    : graph(graph), boundary(std::move(given)), rerunNode(graph.ops.size(), -1),
      needNode(graph.values.size(), -1) {
  constexpr int32_t source = sourceNode, sink = sinkNode;
  std::vector<int32_t> pendingOps;
  opOfNode = {-1, -1};
  int32_t nodes = 2;
  auto nodeOf = [&](int32_t op) {
    if (rerunNode[op] < 0) {
      rerunNode[op] = nodes++;
      opOfNode.push_back(op);
      pendingOps.push_back(op);
    }
    return rerunNode[op];
  };
  auto rerunOf = [&](int32_t value) {
    const std::optional<int32_t> &producer = graph.values[value].producer;
    return producer && !boundary.fixed[*producer] ? nodeOf(*producer) : sink;
  };
  std::vector<char> forced(graph.values.size(), 0);
  for (int32_t value : boundary.needed)
    forced[value] = 1;
  struct Link {
    int32_t from, to;
  };
  std::vector<Link> links; // rerun -> need, rerun -> rerun of a view
  for (int32_t value : boundary.needed)
    if (!boundary.free[value] && graph.values[value].sizeBytes > 0)
      items.push_back({value, rerunOf(value), -1, true});
  for (size_t i = 0; i < pendingOps.size(); ++i) {
    int32_t op = pendingOps[i];
    for (int32_t value : graph.ops[op].inputs) {
      if (!boundary.gone.empty() && boundary.gone[value]) {
        links.push_back({rerunNode[op], nodeOf(*graph.values[value].producer)});
        continue;
      }
      if (forced[value] || boundary.free[value] || graph.values[value].sizeBytes == 0)
        continue;
      if (needNode[value] < 0) {
        needNode[value] = nodes++;
        opOfNode.push_back(-1);
        items.push_back({value, rerunOf(value), -1, false});
      }
      links.push_back({rerunNode[op], needNode[value]});
    }
    if (!boundary.follows.empty())
      for (int32_t value : graph.ops[op].outputs)
        for (int32_t view : graph.values[value].views)
          if (boundary.follows[view])
            links.push_back({rerunNode[op], nodeOf(*graph.values[view].producer)});
  }
  flow = std::make_unique<MaxFlow>(nodes);
  buildWork = static_cast<int64_t>(graph.ops.size() + graph.values.size() + links.size());
  int64_t total = 0;
  for (int32_t op : pendingOps)
    total += boundary.rerunCost[op];
  if (!boundary.fetchCost.empty())
    for (const Item &item : items) // what cannot run again either may be all that is fetched
      total = std::min(total + boundary.fetchCost[item.value], saturated);
  weightCeiling = total + 1;
  // Ceilings on weights keep sums representable; the sum of all weights stays below 2^61.
  const int64_t share = (int64_t(1) << 60) / static_cast<int64_t>(items.size() + 1);
  weightCeiling = boundary.isUncapped ? share : std::min(weightCeiling, share);
  for (int32_t op : pendingOps)
    flow->addArc(rerunNode[op], sink, boundary.rerunCost[op]);
  for (Item &item : items)
    item.arc = flow->addArc(item.forced ? source : needNode[item.value], item.rerun, 0);
  for (const Link &link : links)
    flow->addArc(link.from, link.to, MaxFlow::unbounded);
}

SaveOrRerun::Answer SaveOrRerun::solve(double price, const std::vector<double> *bias) {
  auto weightOf = [&](const Item &item) {
    const double itemPrice = bias ? price * (*bias)[item.value] : price;
    return std::min(priceDown(itemPrice, graph.values[item.value].sizeBytes), weightCeiling);
  };
  auto isFetched = [&](const Item &item) {
    return !boundary.fetchCost.empty() && boundary.fetchCost[item.value] < weightOf(item);
  };
  for (const Item &item : items)
    flow->setCapacity(item.arc, isFetched(item) ? boundary.fetchCost[item.value] : weightOf(item));
  Answer answer;
  answer.value = flow->solve(sourceNode, sinkNode);
  const std::vector<char> &side = flow->sourceSide();
  for (size_t node = 2; node < opOfNode.size(); ++node)
    if (opOfNode[node] >= 0 && side[node]) {
      answer.reruns.push_back(opOfNode[node]);
      answer.rerunCost += boundary.rerunCost[opOfNode[node]];
    }
  std::sort(answer.reruns.begin(), answer.reruns.end());
  for (const Item &item : items) {
    bool needed = item.forced || side[needNode[item.value]];
    bool rerun = item.rerun != sinkNode && side[item.rerun];
    if (needed && !rerun && isFetched(item))
      answer.fetchCost += boundary.fetchCost[item.value];
    else if (needed && !rerun)
      answer.keptBytes += graph.values[item.value].sizeBytes;
  }
  return answer;
}

} // namespace stow::schedule
