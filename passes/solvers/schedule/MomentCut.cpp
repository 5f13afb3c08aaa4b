#include "passes/solvers/schedule/MomentCut.h"

#include "passes/solvers/schedule/KeepOrRerun.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stow::schedule {
namespace {

constexpr int32_t sourceNode = 0, sinkNode = 1;
/// Above this, products with prices are not representable and nothing is claimed.
constexpr double mostProduct = 0x1p57;

} // namespace

MomentCut::MomentCut(const Core &core, const MomentQuestion &question,
                     const std::vector<Fate> &fates, const std::vector<Cost> &costs,
                     bool withReruns)
    : core(core), question(question), fates(fates) {
  placeOps(costs, withReruns);
  placeValues();
  flow = std::make_unique<MaxFlow>(nodes);
  for (const Arc &arc : arcs)
    flow->addArc(arc.from, arc.to, arc.capacity);
  buildWork = static_cast<int64_t>(core.ops.size() + core.values.size() + 4 * arcs.size());
  share = (int64_t(1) << 59) / static_cast<int64_t>(items.size() + levers.size() + 1);
}

void MomentCut::placeOps(const std::vector<Cost> &costs, bool withReruns) {
  const size_t count = core.ops.size();
  laterNode.assign(count, sinkNode);
  againNode.assign(count, sinkNode);
  auto arc = [&](int32_t from, int32_t to, int64_t capacity) {
    arcs.push_back({from, to, capacity});
    return static_cast<int32_t>(arcs.size()) - 1;
  };
  for (size_t t = 0; t < count; ++t) {
    const int64_t weight = question.weights.empty() ? 0 : question.weights[t];
    const bool mayRepeat = withReruns && core.ops[t].recomputable;
    const auto op = static_cast<int32_t>(t);
    switch (fates[t]) {
    case Fate::Later:
      laterNode[t] = againNode[t] = sourceNode;
      break;
    case Fate::Again:
      againNode[t] = sourceNode;
      certain.push_back({op, costs[t]});
      certainCost += costs[t];
      weightBefore += weight;
      break;
    case Fate::Once:
      weightBefore += weight;
      break;
    case Fate::Before:
      weightBefore += weight;
      if (mayRepeat) {
        againNode[t] = node();
        reruns.push_back({op, arc(againNode[t], sinkNode, costs[t]), costs[t]});
      }
      break;
    case Fate::Open:
      weightOpen += weight;
      laterNode[t] = againNode[t] = node();
      if (mayRepeat) {
        againNode[t] = node();
        arc(laterNode[t], againNode[t], MaxFlow::unbounded);
        reruns.push_back({op, arc(againNode[t], laterNode[t], costs[t]), costs[t]});
      }
      for (int32_t value : core.ops[t].inputs)
        if (const std::optional<int32_t> &producer = core.values[value].producer;
            producer && fates[*producer] == Fate::Open)
          arc(laterNode[*producer], laterNode[t], MaxFlow::unbounded);
      if (weight > 0) {
        const int32_t raise = arc(sourceNode, laterNode[t], 0);
        levers.push_back({op, raise, arc(laterNode[t], sinkNode, 0)});
      }
      break;
    }
  }
}

/// Read at the moment or later, whatever is open.
bool MomentCut::isNeeded(int32_t value) const {
  return core.values[value].keep || std::ranges::any_of(core.values[value].readers, [&](int32_t r) {
           return againNode[r] == sourceNode;
         });
}

void MomentCut::placeValues() {
  for (size_t a = 0; a < core.values.size(); ++a) {
    const CoreValue &value = core.values[a];
    if (value.sizeBytes == 0 || question.isFree[a])
      continue;
    int32_t producer = value.producer ? againNode[*value.producer] : sinkNode;
    for (int32_t view : value.views)
      if (producer != sinkNode && core.goesWithViewed(view) && isNeeded(view)) {
        const int32_t again = againNode[*core.values[view].producer];
        if (again == sinkNode && producer != sourceNode)
          producer = sinkNode; // kept: its view is not written again
        else if (again != sourceNode && again != sinkNode)
          arcs.push_back({producer, again, MaxFlow::unbounded});
      }
    if (producer == sourceNode)
      continue;
    const bool isCertain = isNeeded(static_cast<int32_t>(a));
    std::vector<int32_t> readers;
    for (int32_t reader : value.readers)
      if (againNode[reader] != sinkNode)
        readers.push_back(againNode[reader]);
    if (!isCertain && readers.empty())
      continue;
    if (isCertain && producer == sinkNode) {
      certainBytes += value.sizeBytes;
      continue;
    }
    int32_t need = isCertain ? sourceNode : readers.front();
    if (!isCertain && readers.size() > 1) {
      need = node();
      for (int32_t reader : readers)
        arcs.push_back({reader, need, MaxFlow::unbounded});
    }
    items.push_back({static_cast<int32_t>(arcs.size()), value.sizeBytes});
    arcs.push_back({need, producer, 0});
  }
}

MomentCut::Answer MomentCut::solve(double price, double pull) {
  Answer answer;
  answer.value = std::numeric_limits<int64_t>::min();
  const double size = std::abs(pull);
  const auto bytes = static_cast<double>(std::abs(question.room) + certainBytes);
  const auto weight = static_cast<double>(weightBefore + weightOpen + std::abs(question.level));
  if (!(price * bytes < mostProduct && size * weight < mostProduct))
    return answer;
  for (const Item &item : items)
    flow->setCapacity(item.arc, std::min(priceDown(price, item.bytes), share));
  for (const Lever &lever : levers) {
    const int64_t capacity = std::min(priceDown(size, question.weights[lever.op]), share);
    flow->setCapacity(lever.raise, pull > 0 ? capacity : 0);
    flow->setCapacity(lever.lower, pull < 0 ? capacity : 0);
  }
  // Positive: what is in D pays; negative: what is not in D pays, and all of it is refunded.
  int64_t value = flow->solve(sourceNode, sinkNode) + certainCost;
  auto priced = [&](double rate, int64_t amount) {
    return amount >= 0 ? priceDown(rate, amount) : -priceUp(rate, -amount);
  };
  value += priced(price, certainBytes - question.room);
  value += priced(size, pull > 0 ? weightBefore - question.level
                                 : question.level - weightBefore - weightOpen);
  answer.value = value;

  const std::vector<char> &side = flow->sourceSide();
  answer.fates.resize(fates.size());
  int64_t weightOfD = weightBefore;
  for (size_t t = 0; t < fates.size(); ++t) {
    const bool isLater = laterNode[t] == sourceNode || side[laterNode[t]];
    const bool isAgain = againNode[t] == sourceNode || side[againNode[t]];
    answer.fates[t] = isLater ? Fate::Later : isAgain ? Fate::Again : Fate::Once;
    if (fates[t] == Fate::Open && !isLater && !question.weights.empty())
      weightOfD += question.weights[t];
  }
  answer.cost = static_cast<double>(certainCost);
  for (const Rerun &rerun : reruns)
    if (answer.fates[rerun.op] == Fate::Again)
      answer.cost += static_cast<double>(rerun.cost);
  Bytes kept = certainBytes;
  for (const Item &item : items)
    if (side[arcs[item.arc].from] && !side[arcs[item.arc].to])
      kept += item.bytes;
  answer.excess = static_cast<double>(kept - question.room);
  answer.weightExcess = static_cast<double>(weightOfD - question.level);
  return answer;
}

void MomentCut::charges(std::vector<Cost> &most) const {
  for (auto [op, cost] : certain)
    most[op] = std::max(most[op], cost);
  const std::vector<int64_t> flows = flow->flows();
  for (const Rerun &rerun : reruns)
    most[rerun.op] = std::max(most[rerun.op], flows[rerun.arc]);
}

} // namespace stow::schedule
