#include "passes/solvers/schedule/MomentTree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

namespace stow::schedule {

namespace {

/// A concave function of two multipliers from above: the least of the planes seen. Its maximum in a
/// box is the next place to look (Kelley's cutting planes).
class Planes {
public:
  struct Plane {
    double cost, slope, lean; ///< value <= cost + price * slope + pull * lean
    std::vector<Fate> fates;
  };
  struct Box {
    double leastPrice, mostPrice, leastPull, mostPull;
    double mostPullUp; ///< pull >= -mostPullUp * price, if not negative
  };

  void add(MomentCut::Answer answer) {
    constexpr size_t most = 9;
    if (planes.size() == most) { // forget the one that decides least
      size_t slackest = 0;
      for (size_t i = 1; i < planes.size(); ++i)
        if (at(planes[i], top) > at(planes[slackest], top))
          slackest = i;
      planes.erase(planes.begin() + static_cast<std::ptrdiff_t>(slackest));
    }
    planes.push_back({answer.cost, answer.excess, answer.weightExcess, std::move(answer.fates)});
  }

  /// The maximum in the box; false if it is degenerate. O(planes^4).
  bool maximize(const Box &box, Multipliers &where, double &value) {
    struct Row {
      double t, x, y, right; ///< t*T + x*price + y*pull <= right
    };
    std::vector<Row> rows;
    for (const Plane &plane : planes)
      rows.push_back({1, -plane.slope, -plane.lean, plane.cost});
    rows.push_back({0, 1, 0, box.mostPrice});
    rows.push_back({0, -1, 0, -box.leastPrice});
    rows.push_back({0, 0, 1, box.mostPull});
    rows.push_back({0, 0, -1, -box.leastPull});
    if (box.mostPullUp >= 0)
      rows.push_back({0, -box.mostPullUp, -1, 0});
    const double sizeX = std::max(box.mostPrice, 1e-300),
                 sizeY = std::max({std::abs(box.leastPull), std::abs(box.mostPull), 1e-300});
    for (Row &row : rows) { // variables of size 1
      row.x *= sizeX;
      row.y *= sizeY;
      const double norm = std::max({std::abs(row.x), std::abs(row.y), std::abs(row.t), 1e-300});
      row.t /= norm;
      row.x /= norm;
      row.y /= norm;
      row.right /= norm;
    }
    bool found = false;
    for (size_t i = 0; i < planes.size(); ++i)
      for (size_t j = i + 1; j < rows.size(); ++j)
        for (size_t k = j + 1; k < rows.size(); ++k) {
          const Row &a = rows[i], &b = rows[j], &c = rows[k];
          const double minorT = b.x * c.y - b.y * c.x, minorX = b.y * c.t - b.t * c.y,
                       minorY = b.t * c.x - b.x * c.t;
          const double det = a.t * minorT + a.x * minorX + a.y * minorY;
          if (std::abs(det) < 1e-14)
            continue;
          const double t = (a.right * minorT + a.x * (b.y * c.right - b.right * c.y) +
                            a.y * (b.right * c.x - b.x * c.right)) /
                           det;
          const double x = (a.t * (b.right * c.y - b.y * c.right) + a.right * minorX +
                            a.y * (b.t * c.right - b.right * c.t)) /
                           det;
          const double y = (a.t * (b.x * c.right - b.right * c.x) +
                            a.x * (b.right * c.t - b.t * c.right) + a.right * minorY) /
                           det;
          if (found && t <= value)
            continue;
          bool isInside = true;
          for (const Row &row : rows) {
            const double slack = row.right - (row.t * t + row.x * x + row.y * y);
            isInside &= slack >= -1e-9 * (std::abs(row.right) + std::abs(row.t * t) + 1);
          }
          if (!isInside)
            continue;
          found = true;
          value = t;
          where = {x * sizeX, y * sizeY};
        }
    if (found)
      top = where;
    return found;
  }

  /// The minimizers that meet at the maximum.
  std::vector<std::vector<Fate>> meeting(double value) const {
    std::vector<std::vector<Fate>> fates;
    for (const Plane &plane : planes)
      if (at(plane, top) <= value + 1e-6 * std::abs(value) + 1 &&
          std::find(fates.begin(), fates.end(), plane.fates) == fates.end())
        fates.push_back(plane.fates);
    return fates;
  }

private:
  static double at(const Plane &plane, const Multipliers &where) {
    return plane.cost + where.price * plane.slope + where.pull * plane.lean;
  }
  std::vector<Plane> planes;
  Multipliers top;
};

bool isWorse(const MomentTree::Leaf &a, const MomentTree::Leaf &b) {
  return std::tie(a.value, a.bytes) > std::tie(b.value, b.bytes);
}

} // namespace

MomentTree::MomentTree(const Core &core, const Precedence &precedence, MomentQuestion given,
                       std::vector<Cost> costs)
    : core(core), precedence(precedence), question(std::move(given)), costs(std::move(costs)) {
  double bytes = 1, cost = 1;
  for (const CoreValue &value : core.values) {
    bytes += static_cast<double>(value.sizeBytes);
    largestBytes = std::max(largestBytes, value.sizeBytes);
  }
  for (Cost each : this->costs)
    cost += static_cast<double>(each);
  totalBytes = bytes;
  costPerByte = usualPrice = cost / bytes;
  for (int64_t weight : question.weights) {
    totalWeight += weight;
    largestWeight = std::max(largestWeight, weight);
  }
  bytesPerWeight = bytes / static_cast<double>(std::max<int64_t>(totalWeight, 1));
  Leaf root;
  root.fates = question.fates;
  bool isDead = false;
  settle(root, isDead);
  leaves.push_back(std::move(root));
}

/// Decides what follows from what is decided: D is closed, and its weight is at the level.
void MomentTree::settle(Leaf &leaf, bool &isDead) const {
  const size_t count = core.ops.size(), words = precedence.words();
  std::vector<uint64_t> before(words, 0), later(words, 0);
  for (size_t t = 0; t < count; ++t)
    if (leaf.fates[t] == Fate::Later)
      later[t / 64] |= uint64_t(1) << (t % 64);
    else if (leaf.fates[t] != Fate::Open)
      before[t / 64] |= uint64_t(1) << (t % 64);
  auto close = [&](std::vector<uint64_t> &set, size_t op, bool isAbove) {
    const uint64_t *more = isAbove ? precedence.above(op) : precedence.below(op);
    for (size_t w = 0; w < words; ++w)
      set[w] |= more[w];
  };
  for (size_t t = 0; t < count; ++t)
    if (leaf.fates[t] == Fate::Later)
      close(later, t, /*isAbove=*/false);
    else if (leaf.fates[t] != Fate::Open)
      close(before, t, /*isAbove=*/true);
  if (!question.weights.empty()) {
    auto added = [&](const std::vector<uint64_t> &set, const uint64_t *more) {
      int64_t sum = 0;
      for (size_t w = 0; w < words; ++w)
        for (uint64_t bits = more[w] & ~set[w]; bits; bits &= bits - 1)
          sum += question.weights[w * 64 + static_cast<size_t>(std::countr_zero(bits))];
      return sum;
    };
    const std::vector<uint64_t> none(words, 0);
    // With a limited pull the level falls inside the op that runs at the moment.
    const bool isExact = question.mostPullUp < 0;
    const int64_t most = isExact ? question.level : question.level - 1,
                  least = isExact ? question.level : question.level - largestWeight;
    int64_t weightBefore = added(none, before.data()), weightLater = added(none, later.data());
    bool isChanged = true;
    while (isChanged) {
      isChanged = false;
      for (size_t t = 0; t < count; ++t) {
        if (Precedence::has(before.data(), t) || Precedence::has(later.data(), t))
          continue;
        if (weightBefore + added(before, precedence.above(t)) > most) {
          close(later, t, /*isAbove=*/false);
          weightLater = added(none, later.data());
          isChanged = true;
        } else if (totalWeight - weightLater - added(later, precedence.below(t)) < least) {
          close(before, t, /*isAbove=*/true);
          weightBefore = added(none, before.data());
          isChanged = true;
        }
      }
    }
    isDead |= weightBefore > most || totalWeight - weightLater < least;
  }
  for (size_t t = 0; t < count; ++t) {
    const bool isBefore = Precedence::has(before.data(), t),
               isLater = Precedence::has(later.data(), t);
    isDead |= isBefore && isLater;
    if (leaf.fates[t] == Fate::Open && (isBefore || isLater))
      leaf.fates[t] = isBefore ? Fate::Before : Fate::Later;
  }
}

/// What to decide next: where the answers that meet at the best multipliers differ; the most
/// consequential such op.
void MomentTree::choose(Leaf &leaf, const std::vector<std::vector<Fate>> &answers,
                        bool mayRerun) const {
  double best = -1;
  leaf.branch = -1;
  for (size_t t = 0; t < core.ops.size(); ++t) {
    const Fate fate = leaf.fates[t];
    if (fate != Fate::Open && fate != Fate::Before)
      continue;
    bool isLater = false, isBefore = false, isOnce = false, isAgain = false;
    for (const std::vector<Fate> &answer : answers) {
      isLater |= answer[t] == Fate::Later;
      isBefore |= answer[t] != Fate::Later;
      isOnce |= answer[t] == Fate::Once;
      isAgain |= answer[t] == Fate::Again;
    }
    Bytes bytes = 0;
    for (int32_t value : core.ops[t].outputs)
      bytes += core.values[value].sizeBytes;
    const double size = static_cast<double>(bytes) / static_cast<double>(largestBytes);
    double score = 0;
    const bool isRerun = fate == Fate::Before;
    if (isRerun) {
      if (!mayRerun || !isOnce || !isAgain)
        continue;
      score = 2000 * size + 1000;
    } else {
      int above = 0, below = 0;
      for (size_t w = 0; w < precedence.words(); ++w) {
        for (uint64_t bits = precedence.above(t)[w]; bits; bits &= bits - 1)
          above += leaf.fates[w * 64 + static_cast<size_t>(std::countr_zero(bits))] == Fate::Open;
        for (uint64_t bits = precedence.below(t)[w]; bits; bits &= bits - 1)
          below += leaf.fates[w * 64 + static_cast<size_t>(std::countr_zero(bits))] == Fate::Open;
      }
      score = 100.0 * std::min(above, below) + std::max(above, below) + 50 * size +
              10.0 * static_cast<double>(core.ops[t].inputs.size());
      if ((isLater && isBefore) || (isOnce && isAgain))
        score *= 3;
      else if (question.weights.empty())
        continue;
    }
    if (score > best) {
      best = score;
      leaf.branch = static_cast<int32_t>(t);
      leaf.isRerunBranch = isRerun;
    }
  }
}

/// Bytes at the moment if nothing runs again: the best pull by cutting planes.
void MomentTree::weigh(Leaf &leaf, int64_t &allowance) {
  MomentCut cut(core, question, leaf.fates, costs, /*withReruns=*/false);
  const double unit =
      std::ldexp(1.0, 48 - std::ilogb(1.0 + costPerByte +
                                      bytesPerWeight * static_cast<double>(totalWeight + 1)));
  Planes planes;
  double pull = leaf.pull, reach = bytesPerWeight / 3, best = -1e300, top = 0;
  const bool isLevel = !question.weights.empty();
  for (int round = 0; round < 2; ++round) {
    MomentCut::Answer answer = cut.solve(unit, unit * pull);
    least = std::min(least, isLevel ? bytesOf(answer) : answer.excess);
    answer.cost = 0; // of decided reruns: not a matter of bytes
    const double bytes = answer.excess + pull * answer.weightExcess;
    if (bytes > best) {
      best = bytes;
      leaf.pull = pull;
    }
    planes.add(std::move(answer));
    if (!isLevel)
      break;
    Multipliers next;
    if (!planes.maximize({1, 1, leaf.pull - reach, leaf.pull + reach, question.mostPullUp}, next,
                         top))
      break;
    if (top - best <= 0.05 * static_cast<double>(largestBytes))
      break;
    if (std::abs(next.pull - leaf.pull) > 0.99 * reach)
      reach *= 2;
    pull = next.pull;
  }
  leaf.bytes = std::max(leaf.bytes, best);
  choose(leaf, planes.meeting(top), /*mayRerun=*/false);
  allowance -= cut.work();
}

/// The value of a leaf, better and better multipliers.
void MomentTree::price(Leaf &leaf, int rounds, int64_t &allowance) {
  MomentCut cut(core, question, leaf.fates, costs, /*withReruns=*/true);
  Planes planes;
  Multipliers at = leaf.at, center = leaf.at;
  if (!leaf.isPriced || !(at.price > 0))
    at = center = {usualPrice, usualPrice * leaf.pull};
  double best = -1e300, top = 0, high = at.price;
  constexpr double stretch = 8;
  const bool isLevel = !question.weights.empty();
  // Rounds go on until answers differ: without that there is nothing to decide next.
  constexpr int mostRounds = 24;
  for (int round = 0; round < rounds || (round < mostRounds && planes.meeting(top).size() < 2);
       ++round) {
    MomentCut::Answer answer = cut.solve(at.price, at.pull);
    if (answer.fates.empty())
      break;
    const auto value = static_cast<double>(answer.value);
    if (value > best) {
      best = value;
      center = at;
    }
    if (answer.value > leaf.value) {
      leaf.value = answer.value;
      leaf.at = at;
    }
    planes.add(std::move(answer));
    high = std::max(high, at.price);
    const double reach = isLevel ? std::abs(center.pull) + high * bytesPerWeight : 0;
    if (!planes.maximize(
            {0, high * stretch, center.pull - reach, center.pull + reach, question.mostPullUp}, at,
            top))
      break;
    const double open = top - best;
    if (open <= 1e-7 * std::abs(top) ||
        (open <= 0.01 * std::abs(top) && planes.meeting(top).size() > 1))
      break;
  }
  leaf.isPriced = true;
  if (leaf.at.price > 0)
    usualPrice = leaf.at.price;
  choose(leaf, planes.meeting(top), /*mayRerun=*/true);
  allowance -= cut.work();
}

/// The bytes over the room of a real moment: the set of an answer and the best op that may run
/// next, if the level falls inside it.
double MomentTree::bytesOf(const MomentCut::Answer &answer) const {
  double best = 1e300;
  for (size_t t = 0; t < core.ops.size(); ++t) {
    if (answer.fates[t] != Fate::Later ||
        answer.weightExcess + static_cast<double>(question.weights[t]) < 0)
      continue;
    if (question.mostPullUp < 0 && answer.weightExcess != 0)
      continue;
    if (question.mostPullUp >= 0 && answer.weightExcess >= 0)
      continue;
    bool isReady = true;
    for (int32_t value : core.ops[t].inputs)
      isReady &=
          !core.values[value].producer || answer.fates[*core.values[value].producer] != Fate::Later;
    if (isReady)
      best = std::min(best, answer.excess + static_cast<double>(question.weights[t]));
  }
  return best;
}

double MomentTree::weighAll(int64_t share, int64_t &allowance) {
  const int64_t until = allowance - share;
  auto isWorse = [](const Leaf &a, const Leaf &b) { return a.bytes > b.bytes; };
  if (!isWeighed)
    weigh(leaves.front(), allowance);
  isWeighed = true;
  while (allowance > until && least > 0 && leaves.front().branch >= 0) {
    std::pop_heap(leaves.begin(), leaves.end(), isWorse);
    const Leaf leaf = std::move(leaves.back());
    leaves.pop_back();
    for (Leaf &child : split(leaf)) {
      weigh(child, allowance);
      leaves.push_back(std::move(child));
      std::push_heap(leaves.begin(), leaves.end(), isWorse);
    }
    if (leaves.empty()) { // no set is at this level: cannot be, so nothing is claimed
      least = 0;
      return 0;
    }
  }
  return leaves.front().bytes;
}

std::vector<MomentTree::Leaf> MomentTree::split(const Leaf &leaf) const {
  std::vector<Leaf> children;
  for (bool first : {true, false}) {
    Leaf child = leaf;
    child.isPolished = false;
    child.fates[leaf.branch] = leaf.isRerunBranch ? (first ? Fate::Once : Fate::Again)
                                                  : (first ? Fate::Before : Fate::Later);
    bool isDead = false;
    settle(child, isDead);
    if (!isDead)
      children.push_back(std::move(child));
  }
  return children;
}

/// Where too many bytes are in memory if nothing runs again, something must: at a price at which no
/// rerun pays, the value is above 0 already.
void MomentTree::touch(Leaf &leaf, int64_t &allowance) const {
  Cost least = 0;
  for (Cost cost : costs)
    if (cost > 0 && (least == 0 || cost < least))
      least = cost;
  const double price = static_cast<double>(least) / (2 * totalBytes);
  if (!(price > 0))
    return;
  MomentCut cut(core, question, leaf.fates, costs, /*withReruns=*/true);
  const Multipliers at{price, price * leaf.pull};
  const int64_t value = cut.solve(at.price, at.pull).value;
  allowance -= cut.work();
  if (value > leaf.value) {
    leaf.value = value;
    leaf.at = at;
  }
}

int64_t MomentTree::grow(int64_t target, int64_t &allowance) {
  for (Leaf &leaf : leaves)
    if (leaf.value == 0 && leaf.bytes > 0 && allowance > 0)
      touch(leaf, allowance);
  std::make_heap(leaves.begin(), leaves.end(), isWorse);
  while (allowance > 0 && leaves.front().value < target) {
    std::pop_heap(leaves.begin(), leaves.end(), isWorse);
    Leaf leaf = std::move(leaves.back());
    leaves.pop_back();
    auto push = [&](Leaf item) {
      leaves.push_back(std::move(item));
      std::push_heap(leaves.begin(), leaves.end(), isWorse);
    };
    if (!leaf.isPolished) {
      leaf.isPolished = true;
      price(leaf, leaf.isPriced || isAnyPriced ? 3 : 12, allowance);
      isAnyPriced = true;
      push(std::move(leaf));
      continue;
    }
    if (leaf.branch < 0) {
      push(std::move(leaf));
      break;
    }
    for (Leaf &child : split(leaf))
      push(std::move(child));
    if (leaves.empty())
      return 0;
  }
  return leaves.front().value;
}

void MomentTree::setCosts(std::vector<Cost> newCosts) {
  costs = std::move(newCosts);
  for (Leaf &leaf : leaves) {
    leaf.value = 0;
    leaf.isPolished = leaf.isPriced = false;
  }
}

std::vector<Cost> MomentTree::charges() const {
  std::vector<Cost> most(core.ops.size(), 0);
  for (const Leaf &leaf : leaves) {
    if (leaf.value <= 0)
      continue;
    MomentCut cut(core, question, leaf.fates, costs, /*withReruns=*/true);
    cut.solve(leaf.at.price, leaf.at.pull);
    cut.charges(most);
  }
  return most;
}

} // namespace stow::schedule
