#include "passes/solvers/schedule/DeathSearch.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace stow::schedule {

DeathSearch::DeathSearch(const Core &core, const CutBound &bound)
    : core(core), precedence(core), baseBytes(core.baseBytes), shift(bound.shift()),
      words((core.ops.size() + 63) / 64), reads(core.ops.size()), writes(core.ops.size()),
      readsOfOutputs(core.ops.size(), 0), written(core.ops.size(), 0), beside(core.ops.size(), 0) {
  const size_t count = core.ops.size();
  for (size_t t = 0; t < count; ++t) {
    beside[t] = bound.footprint(static_cast<int32_t>(t)) - baseBytes;
    for (int32_t value : core.ops[t].inputs)
      beside[t] -= core.values[value].sizeBytes;
    for (int32_t value : core.ops[t].outputs)
      if (core.values[value].keep || !core.values[value].readers.empty())
        written[t] += core.values[value].sizeBytes;
    beside[t] -= written[t];
    const CoreOp &op = core.ops[t];
    if (op.recomputable && written[t] > 0)
      reruns.push_back({static_cast<int32_t>(t), written[t], op.leastCost});
  }
  for (const CoreValue &value : core.values)
    if (value.sizeBytes > 0 && !value.keep && !value.readers.empty())
      addMortal({value.sizeBytes, value.producer, value.readers});
  valueCount = mortals.size();
  for (size_t t = 0; t < count; ++t)
    if (written[t] == 0 && beside[t] > 0)
      addMortal({0, std::nullopt, {static_cast<int32_t>(t)}});
  closureOf.assign(count * mortals.size(), 0);
  for (size_t m = 0; m < mortals.size(); ++m) {
    needed.push_back(mortals[m].beside);
    for (size_t t = 0; t < count; ++t)
      if (Precedence::has(&closures[m * words], t)) {
        closureOf[t * mortals.size() + m] = 1;
        needed[m] += written[t];
      }
  }
  std::sort(reruns.begin(), reruns.end(), [](const Rerun &a, const Rerun &b) {
    const auto left = static_cast<__int128>(a.cost) * b.bytes,
               right = static_cast<__int128>(b.cost) * a.bytes;
    return std::tie(left, a.op) < std::tie(right, b.op);
  });
}

void DeathSearch::addMortal(Mortal mortal) {
  const auto index = static_cast<int32_t>(mortals.size());
  closures.resize(closures.size() + words, 0);
  uint64_t *closure = &closures[closures.size() - words];
  mortal.beside = std::numeric_limits<Bytes>::max();
  for (int32_t reader : mortal.readers) {
    reads[reader].push_back(index);
    mortal.beside = std::min(mortal.beside, beside[reader]);
    for (size_t w = 0; w < words; ++w)
      closure[w] |= precedence.above(reader)[w];
  }
  if (mortal.producer) {
    writes[*mortal.producer].push_back(index);
    readsOfOutputs[*mortal.producer] += static_cast<int64_t>(mortal.readers.size());
  }
  mortals.push_back(std::move(mortal));
}

Sequence DeathSearch::improveOrder(const Sequence &start, Bytes leastBytes,
                                   int64_t allowance) const {
  Sequence best = start;
  Bytes peak = measure(core, best).peakBytes, low = leastBytes;
  // From the peak down by steps that double, then half the way to what was not found.
  Bytes step = std::max<Bytes>((peak - baseBytes) / 64, 1);
  bool isHalving = false;
  while (allowance > 0 && peak - low > std::max<Bytes>((peak - baseBytes) / 1000, 1)) {
    const Bytes target = isHalving ? low + (peak - low) / 2 : std::max(low + 1, peak - step);
    int64_t part = allowance / 2;
    allowance -= part;
    Answer answer = run(target, 0, Sinks::Placed, part);
    allowance += part;
    const Measure measured = measure(core, answer.order);
    const bool isOrder = answer.order.size() == best.size() && measured.legal;
    if (isOrder && measured.peakBytes < peak) {
      peak = measured.peakBytes;
      best = std::move(answer.order);
    }
    step *= 2;
    if (!isOrder || measured.peakBytes > target) {
      low = target;
      isHalving = true;
    }
  }
  return best;
}

DeathSearch::Bound DeathSearch::timeBound(Bytes budgetBytes, Cost provenTime,
                                          std::optional<Cost> knownTime, int64_t &allowance) const {
  const Cost step = core.costStep;
  if (core.leastExtra == 0)
    return {provenTime, {}};
  // No schedule pays more than nothing and less than leastExtra.
  auto leastAbove = [&](Cost extra) { return std::max(core.leastExtra, extra + step); };
  Cost proven = provenTime - core.leastTime;
  std::optional<Cost> notProven;
  if (knownTime)
    notProven = *knownTime - core.leastTime;
  Bound result;
  // What cannot be excluded is seen at once; what can takes the longer the more it is.
  // What all ops once more do not pay for, nothing does.
  while (allowance > 0 && proven <= core.leastTime &&
         (!notProven || *notProven - proven > *notProven / 50)) {
    Cost next = 0;
    if (proven > 0)
      next = notProven ? (2 * proven + *notProven - 1) / 3 / step * step : 2 * proven;
    int64_t part = proven > 0 ? allowance / 2 : allowance;
    allowance -= part;
    Answer answer = run(budgetBytes, next, Sinks::WithDeaths, part);
    allowance += part;
    if (answer.outcome == Outcome::Impossible) {
      proven = leastAbove(next);
    } else if (next == 0) {
      if (answer.outcome == Outcome::Possible &&
          measure(core, answer.order).peakBytes <= budgetBytes)
        result.order = std::move(answer.order);
      break;
    } else {
      notProven = next;
    }
  }
  result.time =
      core.leastTime + (knownTime ? std::min(proven, *knownTime - core.leastTime) : proven);
  return result;
}

} // namespace stow::schedule
