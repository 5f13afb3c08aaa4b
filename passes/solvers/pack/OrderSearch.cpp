#include "ir/plan/pack/Random.h"
#include "passes/solvers/pack/OrderState.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace stow::pack {

namespace {

constexpr int32_t mostItems = 1000;
constexpr int64_t mostPairs = 100'000;
constexpr int64_t restartAfter = 100; ///< conflicts, times the Luby sequence
constexpr int64_t pollInterval = 100'000;

/// 1 1 2 1 1 2 4 ...: number `index` from 1.
int64_t luby(int64_t index) {
  for (;;) {
    int64_t power = 1;
    while (2 * power - 1 < index)
      power *= 2;
    if (2 * power - 1 == index)
      return power;
    index -= power - 1;
  }
}

} // namespace

bool SearchInstance::canSearchOrders() const {
  if (data->count != data->total || !data->rectangles || data->count > mostItems)
    return false;
  int64_t overlaps = 0;
  for (int32_t i = 0; i < data->count; ++i) {
    if (data->alignment[i] != data->grain || data->ground[i] != data->ground[0] ||
        data->size[i] != data->step[i])
      return false;
    overlaps += data->overlaps[i];
  }
  return overlaps / 2 <= mostPairs;
}

SearchResult SearchInstance::searchOrders(Bytes capacity, const OrderOptions &options,
                                          const std::function<bool()> &stop) const {
  const SearchData &data = dataFor(capacity, options.rules.merge);
  const Bytes ground = data.count > 0 ? data.ground[0] : 0;
  Bytes unit = 0;
  for (Bytes step : data.step)
    unit = std::gcd(unit, step);
  const Bytes room =
      capacity < ground || unit == 0 ? capacity - ground : (capacity - ground) / unit * unit;
  SearchResult result = OrderSearch(data, room, options, stop).run();
  for (Bytes &base : result.bases)
    base += ground;
  return expand(std::move(result), data);
}

OrderSearch::OrderSearch(const SearchData &data, Bytes capacity, const OrderOptions &options,
                         const std::function<bool()> &stop)
    : data(data), capacity(capacity), options(options), stop(stop) {
  const auto count = static_cast<size_t>(data.count);
  bound.assign(2 * count, 0);
  newest.assign(2 * count, -1);
  itemsOf.resize(data.sections);
  isTouched.assign(2 * static_cast<size_t>(data.sections), 0);
  words = (data.count + 63) / 64;
  liesOn.assign(2 * count * static_cast<size_t>(words), 0);
  largestOf.assign(data.sections, 0);
  for (int32_t i = 0; i < data.count; ++i) {
    for (int32_t s = data.begin[i]; s < data.end[i]; ++s) {
      itemsOf[s].push_back(i);
      largestOf[s] = std::max(largestOf[s], data.step[i]);
    }
    for (int side = 0; side < 2; ++side)
      loads.emplace_back(data.end[i] - data.begin[i], 0);
  }
  for (const std::vector<int32_t> &items : itemsOf)
    sorted.insert(sorted.end(), 2, items);
  numberPairs();
}

/// Variables: those of large items are decided first, with the larger item below the other. Other
/// seeds than 0 draw both at random.
void OrderSearch::numberPairs() {
  const auto count = static_cast<size_t>(data.count);
  pairs.assign(count * count, -1);
  neighbours.resize(count);
  Random random(options.seed);
  for (int32_t a = 0; a < data.count; ++a)
    for (int32_t b = a + 1; b < data.count && data.begin[b] < data.end[a]; ++b) {
      const auto variable = static_cast<int32_t>(ends.size());
      pairs[a * count + b] = pairs[b * count + a] = variable;
      neighbours[a].push_back(b);
      neighbours[b].push_back(a);
      ends.push_back({a, b});
      const double share = static_cast<double>(data.step[a] + data.step[b]) /
                           static_cast<double>(2 * std::max<Bytes>(capacity, 1));
      const bool isDrawn = options.seed != 0;
      phase.push_back(isDrawn ? random.chance(0.5) : data.step[a] < data.step[b]);
      activity.push_back(isDrawn ? share * random.real() : share);
    }
  value.assign(2 * ends.size(), 0);
  entryOf.assign(ends.size(), -1);
  watchers.resize(2 * ends.size());
  heapPosition.assign(ends.size(), -1);
  for (int32_t v = 0; v < static_cast<int32_t>(ends.size()); ++v)
    putBack(v);
}

void OrderSearch::siftUp(int32_t position) {
  const int32_t variable = heap[position];
  while (position > 0 && activity[heap[(position - 1) / 2]] < activity[variable]) {
    heap[position] = heap[(position - 1) / 2];
    heapPosition[heap[position]] = position;
    position = (position - 1) / 2;
  }
  heap[position] = variable;
  heapPosition[variable] = position;
}

void OrderSearch::siftDown(int32_t position) {
  const int32_t variable = heap[position], size = static_cast<int32_t>(heap.size());
  for (int32_t child = 2 * position + 1; child < size; child = 2 * position + 1) {
    if (child + 1 < size && activity[heap[child + 1]] > activity[heap[child]])
      ++child;
    if (activity[heap[child]] <= activity[variable])
      break;
    heap[position] = heap[child];
    heapPosition[heap[position]] = position;
    position = child;
  }
  heap[position] = variable;
  heapPosition[variable] = position;
}

void OrderSearch::putBack(int32_t variable) {
  if (heapPosition[variable] >= 0)
    return;
  heap.push_back(variable);
  siftUp(static_cast<int32_t>(heap.size()) - 1);
}

/// The most active variable without a value; -1 when all have one.
int32_t OrderSearch::takeMostActive() {
  while (!heap.empty()) {
    const int32_t best = heap.front();
    heapPosition[best] = -1;
    const int32_t last = heap.back();
    heap.pop_back();
    if (!heap.empty()) {
      heap[0] = last;
      siftDown(0);
    }
    if (!isKnown(2 * best))
      return best;
  }
  return -1;
}

void OrderSearch::bump(int32_t variable) {
  activity[variable] += increment;
  if (heapPosition[variable] >= 0)
    siftUp(heapPosition[variable]);
  if (activity[variable] > 1e100) {
    for (double &each : activity)
      each *= 1e-100;
    increment *= 1e-100;
  }
}

void OrderSearch::shiftLoads(Literal literal, int sign) {
  const int32_t under = lowerOf(literal), over = lowerOf(literal ^ 1);
  const int32_t begin = std::max(data.begin[under], data.begin[over]);
  const int32_t end = std::min(data.end[under], data.end[over]);
  Bytes *below = &loads[nodeOf(over, 0)][begin - data.begin[over]];
  Bytes *above = &loads[nodeOf(under, 1)][begin - data.begin[under]];
  for (int32_t k = 0; k < end - begin; ++k) {
    below[k] += sign * data.step[under];
    above[k] += sign * data.step[over];
  }
  work += (end - begin) / 2;
}

void OrderSearch::backTo(int32_t target) {
  if (level() <= target)
    return;
  const auto end = static_cast<size_t>(levelStart[target]);
  while (trail.size() > end) {
    const Entry &entry = trail.back();
    if (entry.node >= 0) {
      newest[entry.node] = entry.previous;
      bound[entry.node] = entry.previous < 0 ? 0 : trail[entry.previous].value;
    } else {
      if (trail.size() <= nextEntry)
        shiftLoads(entry.literal, -1);
      const int32_t variable = entry.literal >> 1;
      flipLies(entry.literal);
      value[entry.literal] = value[entry.literal ^ 1] = 0;
      phase[variable] = static_cast<int8_t>(entry.literal & 1);
      putBack(variable);
    }
    trail.pop_back();
  }
  nextEntry = std::min(nextEntry, end);
  levelStart.resize(target);
  for (int32_t touched : touchedSections)
    isTouched[touched] = 0;
  touchedSections.clear();
}

/// From the conflict that is marked to the clause that would have prevented it; false when there is
/// none but the empty one.
bool OrderSearch::resolve() {
  ++conflicts;
  learned.assign(1, -1);
  const int32_t last =
      markedEntries.empty() ? -1 : *std::max_element(markedEntries.begin(), markedEntries.end());
  int32_t deepest = 0;
  open = 0;
  for (int32_t position = last; position >= 0; --position) {
    if (!marked[position])
      continue;
    if (learned[0] < 0 && open == 0) { // it rests on earlier decisions alone
      deepest = trail[position].level;
      backTo(deepest);
      for (int32_t other : markedEntries)
        open += other <= position && trail[other].level == deepest;
    }
    const Entry &entry = trail[position];
    const bool isHere = entry.level == deepest;
    if (entry.node < 0) {
      bump(entry.literal >> 1);
      if (!isHere || open == 1) {
        if (isHere)
          learned[0] = entry.literal ^ 1;
        else
          learned.push_back(entry.literal ^ 1);
        open -= isHere;
        continue;
      }
    }
    open -= isHere;
    explain(position);
  }
  if (learned[0] < 0)
    return false;
  work += last / 8;
  shorten();
  for (int32_t position : markedEntries)
    marked[position] = 0;
  markedEntries.clear();
  increment /= 0.95;
  learn();
  return true;
}

/// Drops literals that follow from others of the learned clause.
void OrderSearch::shorten() {
  auto isImplied = [&](Literal literal) { // its opposite is true
    const Entry &entry = trail[entryOf[literal >> 1]];
    auto isIn = [&](Literal other) {
      const int32_t position = entryOf[other >> 1];
      return marked[position] || trail[position].level == 0;
    };
    if (entry.reason.kind != Reason::Kind::Clause)
      return false;
    const std::vector<Literal> &literals = clauses[entry.reason.first].literals;
    return std::all_of(literals.begin(), literals.end(),
                       [&](Literal other) { return other == entry.literal || isIn(other); });
  };
  learned.erase(std::remove_if(learned.begin() + 1, learned.end(), isImplied), learned.end());
}

void OrderSearch::learn() {
  auto levelOf = [&](Literal literal) { return trail[entryOf[literal >> 1]].level; };
  std::sort(learned.begin() + 1, learned.end(), [&](Literal a, Literal b) {
    return std::tuple(-levelOf(a), a) < std::tuple(-levelOf(b), b);
  });
  int32_t distinct = 1;
  for (size_t k = 1; k < learned.size(); ++k)
    distinct += k == 1 || levelOf(learned[k]) != levelOf(learned[k - 1]);
  backTo(learned.size() > 1 ? levelOf(learned[1]) : 0);
  if (learned.size() == 1) {
    assign(learned[0], {});
    return;
  }
  const auto index = static_cast<int32_t>(clauses.size());
  clauses.push_back({learned, distinct});
  watchers[learned[0]].push_back(index);
  watchers[learned[1]].push_back(index);
  assign(learned[0], {Reason::Kind::Clause, 0, index});
}

/// Keeps the half of the clauses that connects the fewest decisions. Nothing is decided.
void OrderSearch::forgetClauses() {
  std::vector<Clause> kept;
  for (Clause &clause : clauses) {
    std::vector<Literal> &literals = clause.literals;
    if (std::any_of(literals.begin(), literals.end(), [&](Literal l) { return isTrue(l); }))
      continue;
    std::erase_if(literals, [&](Literal literal) { return isTrue(literal ^ 1); });
    kept.push_back(std::move(clause));
  }
  std::sort(kept.begin(), kept.end(), [](const Clause &a, const Clause &b) {
    return std::tuple(a.distinctLevels, a.literals.size(), a.literals) <
           std::tuple(b.distinctLevels, b.literals.size(), b.literals);
  });
  kept.resize(kept.size() / 2);
  clauses = std::move(kept);
  for (std::vector<int32_t> &list : watchers)
    list.clear();
  for (int32_t index = 0; index < static_cast<int32_t>(clauses.size()); ++index)
    for (size_t k : {0, 1})
      watchers[clauses[index].literals[k]].push_back(index);
}

SearchResult OrderSearch::run() {
  SearchResult result;
  for (int32_t i = 0; i < data.count; ++i)
    if (data.step[i] > capacity)
      infeasible = true;
  for (size_t touched = 0; touched < isTouched.size(); ++touched) {
    isTouched[touched] = 1;
    touchedSections.push_back(static_cast<int32_t>(touched));
  }
  int64_t restarts = 1, untilRestart = restartAfter, nextPoll = pollInterval;
  size_t mostClauses = 4000;
  while (!infeasible) {
    if (!propagate()) {
      infeasible = !resolve();
      --untilRestart;
      continue;
    }
    if (conflicts >= options.conflictLimit || work >= options.workLimit)
      break;
    if (work >= nextPoll) {
      nextPoll = work + pollInterval;
      if (stop && stop())
        break;
    }
    if (untilRestart <= 0) {
      backTo(0);
      untilRestart = restartAfter * luby(++restarts);
      if (clauses.size() > mostClauses) {
        forgetClauses();
        mostClauses += 500;
      }
    }
    const int32_t variable = takeMostActive();
    if (variable < 0) {
      result.outcome = SearchOutcome::Found;
      result.bases.assign(data.total, 0);
      for (int32_t i = 0; i < data.count; ++i)
        result.bases[data.source[i]] = bound[nodeOf(i, 0)];
      break;
    }
    levelStart.push_back(static_cast<int32_t>(trail.size()));
    assign(2 * variable + phase[variable], {});
  }
  if (infeasible)
    result.outcome = SearchOutcome::Exhausted;
  result.work = work;
  result.nodes = conflicts;
  return result;
}

} // namespace stow::pack
