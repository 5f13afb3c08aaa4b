#include "passes/solvers/schedule/DeathSearch.h"

#include "passes/solvers/schedule/KeepOrRerun.h"
#include "passes/solvers/schedule/MaxFlow.h"
#include "passes/solvers/schedule/Precedence.h"
#include "passes/solvers/schedule/SetTable.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

namespace stow::schedule {
namespace {

bool contains(const uint64_t *set, int32_t op) { return Precedence::has(set, op); }

bool isSubset(const uint64_t *small, const uint64_t *large, size_t words) {
  for (size_t w = 0; w < words; ++w)
    if (small[w] & ~large[w])
      return false;
  return true;
}

constexpr Bytes dead = std::numeric_limits<Bytes>::max() / 4;

} // namespace

/// One search: the path of sets at hand, and what is left to try at each.
class DeathRun {
public:
  DeathRun(const DeathSearch &search, Bytes budget, Cost mostExtra, DeathSearch::Sinks sinks,
           int64_t &allowance)
      : search(search), core(search.core), words(search.words), room(budget - search.baseBytes),
        mostExtra(mostExtra), arePlaced(sinks == DeathSearch::Sinks::Placed), allowance(allowance),
        known(words), killedAt(search.mortals.size(), 0), mayFree(core.ops.size(), 0) {
    // All that any set of reruns for this extra time frees, wherever it is.
    Cost left = mostExtra;
    for (const DeathSearch::Rerun &rerun : search.reruns) {
      if (rerun.cost > mostExtra)
        continue;
      usable.push_back(rerun);
      mayFree[rerun.op] = 1;
      mostFreed += share(rerun.bytes, rerun.cost, left);
    }
    for (const DeathSearch::Mortal &mortal : search.mortals)
      goneForGood.push_back(leastFreed(mortal));
    if (usable.empty() || usable.back().cost == 0)
      return;
    alive.assign(core.ops.size(), 0);
    byListing = usable;
    std::sort(byListing.begin(), byListing.end(),
              [](const auto &a, const auto &b) { return a.op < b.op; });
    const DeathSearch::Rerun &middle = usable[usable.size() / 2];
    const double price = std::ldexp(static_cast<double>(middle.cost), search.shift) /
                         static_cast<double>(middle.bytes);
    for (double factor : {0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 16.0})
      addPrice(factor * price);
    bestPrice = priced.size() / 2;
  }

  DeathSearch::Answer solve() {
    DeathSearch::Answer answer;
    answer.outcome = explore();
    answer.sets = known.size();
    if (answer.outcome == DeathSearch::Outcome::Possible)
      answer.order = order();
    return answer;
  }

private:
  struct Move {
    size_t value = 0; ///< index of a mortal
    Bytes written = 0, after = 0;
    bool fits = false, mayFit = false;
  };
  struct Frame {
    std::vector<uint64_t> ops; ///< E
    Bytes bytes = 0;           ///< alive
    bool fits = true;          ///< the last death did, without reruns
    /// Per mortal: bytes that its death needs beside what is alive; or dead.
    std::vector<Bytes> needed;
    size_t left = 0;         ///< values that are not dead
    std::vector<Move> moves; ///< the best last
  };

  /// Bytes that can be freed by a rerun if this much cost is left, part of it if need be.
  static Bytes share(Bytes bytes, Cost cost, Cost &left) {
    if (cost <= left) {
      left -= cost;
      return bytes;
    }
    const auto part = static_cast<Bytes>(static_cast<__int128>(bytes) * left / cost);
    left = 0;
    return part;
  }

  /// What a death frees in any case. A value that may be written again may be gone before; one
  /// that a rerun may need is kept for it, unless what that op wrote is kept instead.
  Bytes leastFreed(const DeathSearch::Mortal &mortal) const {
    if (mortal.producer && mayFree[*mortal.producer])
      return 0;
    Bytes freed = mortal.bytes;
    for (int32_t reader : mortal.readers)
      if (mayFree[reader])
        freed -= search.written[reader];
    return std::max<Bytes>(freed, 0);
  }

  DeathSearch::Outcome explore() {
    Bytes kept = 0;
    for (const CoreValue &value : core.values)
      kept += value.keep ? value.sizeBytes : 0;
    if (kept > room)
      return DeathSearch::Outcome::Impossible;
    Frame start;
    start.ops.assign(words, 0);
    start.needed = search.needed;
    start.left = arePlaced ? search.mortals.size() : search.valueCount;
    for (const CoreValue &value : core.values)
      if (!value.producer && (value.keep || !value.readers.empty()))
        start.bytes += value.sizeBytes;
    known.insert(start.ops.data());
    if (enter(std::move(start)))
      return DeathSearch::Outcome::Possible;
    std::vector<uint64_t> next(words);
    while (!path.empty()) {
      if (allowance <= 0)
        return DeathSearch::Outcome::Unknown;
      Frame &top = path.back();
      if (top.moves.empty()) {
        path.pop_back();
        continue;
      }
      const Move move = top.moves.back();
      top.moves.pop_back();
      const uint64_t *closure = &search.closures[move.value * words];
      for (size_t w = 0; w < words; ++w)
        next[w] = top.ops[w] | closure[w];
      allowance -= static_cast<int64_t>(words);
      if (!known.insert(next.data()))
        continue;
      Frame frame;
      frame.needed = top.needed;
      subtract(frame.needed, top.ops, next);
      frame.left = top.left;
      kill(top, next.data(), [&](int32_t mortal) {
        frame.needed[mortal] = dead;
        frame.left -= arePlaced || static_cast<size_t>(mortal) < search.valueCount;
      });
      frame.ops = next;
      frame.bytes = move.after;
      frame.fits = move.fits;
      if (enter(std::move(frame)))
        return DeathSearch::Outcome::Possible;
      dropAlternatives();
    }
    return DeathSearch::Outcome::Impossible;
  }

  /// Calls `seen` for every mortal that dies between a frame's set and `next`.
  template <typename Seen> void kill(const Frame &from, const uint64_t *next, Seen seen) {
    ++stamp;
    for (size_t w = 0; w < words; ++w)
      for (uint64_t bits = next[w] & ~from.ops[w]; bits; bits &= bits - 1)
        for (int32_t m : search.reads[w * 64 + std::countr_zero(bits)]) {
          if (killedAt[m] == stamp)
            continue;
          killedAt[m] = stamp;
          const std::vector<int32_t> &readers = search.mortals[m].readers;
          allowance -= static_cast<int64_t>(readers.size());
          if (std::all_of(readers.begin(), readers.end(),
                          [&](int32_t reader) { return contains(next, reader); }))
            seen(m);
        }
  }

  /// Puts a set on the path and finds what may die next; true if all that can die is dead.
  bool enter(Frame frame) {
    std::vector<Move> candidates;
    const Bytes free = room - frame.bytes, most = free + mostFreed;
    allowance -= static_cast<int64_t>(search.mortals.size() / 8 + 8);
    for (size_t m = 0; m < search.mortals.size(); ++m) {
      if (frame.needed[m] > most)
        continue;
      Move move;
      move.value = m;
      move.written = frame.needed[m] - search.mortals[m].beside;
      move.fits = frame.needed[m] <= free;
      // An op that leaves nothing and can run does so.
      if (m < search.valueCount || arePlaced ||
          (move.fits && isReady(frame, search.mortals[m].readers.front())))
        candidates.push_back(move);
    }
    std::sort(candidates.begin(), candidates.end(), [](const Move &a, const Move &b) {
      return std::tie(a.written, a.value) < std::tie(b.written, b.value);
    });
    chooseLeast(frame, candidates);
    const bool isAllDead = frame.left == 0;
    path.push_back(std::move(frame));
    return isAllDead;
  }

  /// Whether the ops that run up to a death and leave nothing alive have room.
  bool sinksFit(const Frame &frame, const std::vector<uint64_t> &next) const {
    for (size_t m = search.valueCount; m < search.mortals.size(); ++m)
      if (frame.needed[m] != dead && frame.needed[m] > room + mostFreed - frame.bytes &&
          contains(next.data(), search.mortals[m].readers.front()))
        return false;
    return true;
  }

  bool isReady(const Frame &frame, int32_t op) const {
    return std::all_of(core.ops[op].inputs.begin(), core.ops[op].inputs.end(), [&](int32_t value) {
      const std::optional<int32_t> &producer = core.values[value].producer;
      return !producer || contains(frame.ops.data(), *producer);
    });
  }

  /// What deaths need at `next`, from what they need at `ops`.
  void subtract(std::vector<Bytes> &needed, const std::vector<uint64_t> &ops,
                const std::vector<uint64_t> &next) {
    for (size_t w = 0; w < words; ++w)
      for (uint64_t bits = next[w] & ~ops[w]; bits; bits &= bits - 1) {
        const size_t op = w * 64 + static_cast<size_t>(std::countr_zero(bits));
        const uint8_t *isMissing = &search.closureOf[op * search.mortals.size()];
        const Bytes written = search.written[op];
        for (size_t m = 0; m < needed.size(); ++m)
          needed[m] -= written & -static_cast<Bytes>(isMissing[m]);
        allowance -= static_cast<int64_t>(needed.size() / 8 + 1);
      }
  }

  /// Of the candidates, ordered by what they write, those whose ops contain no other's and that may
  /// fit. If one of them is safe, it alone.
  void chooseLeast(Frame &frame, const std::vector<Move> &candidates) {
    sets.clear();
    isAliveKnown = false;
    for (Priced &at : priced)
      at.isKnown = false;
    std::vector<uint64_t> missing(words);
    for (Move move : candidates) {
      const uint64_t *closure = &search.closures[move.value * words];
      for (size_t w = 0; w < words; ++w)
        missing[w] = closure[w] & ~frame.ops[w];
      bool isLeast = true;
      for (size_t s = 0; s < sets.size() && isLeast; s += words)
        isLeast = !isSubset(&sets[s], missing.data(), words);
      allowance -= static_cast<int64_t>(sets.size() / 4);
      if (!isLeast)
        continue;
      sets.insert(sets.end(), missing.begin(), missing.end());
      for (size_t w = 0; w < words; ++w)
        missing[w] |= frame.ops[w];
      if ((!move.fits && (priced.empty() ? !canFree(frame, missing.data(), move)
                                         : isTooDear(frame, missing.data(), move))) ||
          (arePlaced && !sinksFit(frame, missing)))
        continue;
      Bytes freed = 0, freedForGood = 0;
      kill(frame, missing.data(), [&](int32_t mortal) {
        freed += search.mortals[mortal].bytes;
        freedForGood += goneForGood[mortal];
      });
      move.after = frame.bytes + move.written - freed;
      if (move.fits && move.written <= freedForGood) {
        frame.moves.assign(1, move);
        return;
      }
      frame.moves.push_back(move);
    }
    std::sort(frame.moves.begin(), frame.moves.end(), [](const Move &a, const Move &b) {
      return std::tie(a.after, a.written, a.value) > std::tie(b.after, b.written, b.value);
    });
  }

  /// The last set needs no more bytes than any between it and one before: going there was safe.
  void dropAlternatives() {
    const Bytes bytes = path.back().bytes;
    size_t first = path.size() - 1;
    std::vector<size_t> open;
    while (first > 0 && path[first].fits && path[first - 1].bytes >= bytes)
      if (!path[--first].moves.empty())
        open.push_back(first);
    if (open.empty())
      return;
    for (const size_t from : {open.back(), open[open.size() / 2], open.front()})
      if (isLeastSince(path[from])) {
        for (size_t i = from; i + 1 < path.size(); ++i)
          path[i].moves.clear();
        return;
      }
  }

  /// Whether no set between one on the path and the last needs fewer bytes than the last, whatever
  /// runs again: a minimum cut. On the sink's side is what such a set contains.
  bool isLeastSince(const Frame &from) {
    const Frame &last = path.back();
    constexpr int32_t source = 0, sink = 1, outside = -1;
    std::vector<int32_t> ops;
    for (size_t w = 0; w < words; ++w)
      for (uint64_t bits = last.ops[w] & ~from.ops[w]; bits; bits &= bits - 1)
        ops.push_back(static_cast<int32_t>(w * 64 + std::countr_zero(bits)));
    nodeOf.resize(core.ops.size(), outside);
    int32_t nodes = 2;
    for (int32_t op : ops)
      nodeOf[op] = nodes++;
    struct Arc {
      int32_t from, to;
      int64_t capacity;
    };
    std::vector<Arc> arcs;
    Bytes most = 0; // of the last set; what both have is left out
    ++stamp;
    for (int32_t op : ops) {
      for (int32_t value : core.ops[op].inputs)
        if (const std::optional<int32_t> &producer = core.values[value].producer;
            producer && nodeOf[*producer] >= 0)
          arcs.push_back({nodeOf[*producer], nodeOf[op], MaxFlow::unbounded});
      Bytes alive = search.written[op];
      for (int32_t m : search.writes[op])
        alive -= last.needed[m] == dead ? search.mortals[m].bytes : 0;
      most += alive;
      arcs.push_back({source, nodeOf[op], alive});
      for (int32_t m : search.reads[op]) { // dies in between: alive in a set without all readers
        const DeathSearch::Mortal &value = search.mortals[m];
        if (killedAt[m] == stamp || last.needed[m] != dead || goneForGood[m] == 0)
          continue;
        killedAt[m] = stamp;
        const int32_t writer = value.producer ? nodeOf[*value.producer] : outside;
        const int32_t need = nodes++;
        arcs.push_back({need, writer == outside ? sink : writer, goneForGood[m]});
        for (int32_t reader : value.readers)
          if (nodeOf[reader] >= 0)
            arcs.push_back({nodeOf[reader], need, MaxFlow::unbounded});
      }
    }
    MaxFlow flow(nodes);
    for (const Arc &arc : arcs)
      flow.addArc(arc.from, arc.to, arc.capacity);
    for (int32_t op : ops)
      nodeOf[op] = outside;
    const bool isLeast = flow.solve(source, sink) >= most;
    allowance -= flow.work() + 4 * static_cast<int64_t>(arcs.size());
    return isLeast;
  }

  /// A price per byte (scaled cost), and what it says about the set at hand.
  struct Priced {
    double price = 0;
    bool isKnown = false;
    int64_t gain = 0;           ///< at most, from reruns of ops of E
    std::vector<int64_t> costs; ///< per op of E: least cost of a rerun and of what it needs
    std::vector<int64_t> kept;  ///< per mortal: to keep it, by reader
    std::vector<int64_t> whole; ///< per op: of all that it writes
  };
  /// Prices at which sums of products are not representable say nothing.
  void addPrice(double price) {
    double bytes = std::abs(static_cast<double>(room)) + static_cast<double>(mostFreed);
    for (size_t t = 0; t < core.ops.size(); ++t)
      bytes +=
          static_cast<double>(search.written[t]) + std::abs(static_cast<double>(search.beside[t]));
    for (const DeathSearch::Mortal &mortal : search.mortals)
      bytes += static_cast<double>(mortal.bytes);
    constexpr double mostProduct = 0x1p57;
    if (!(price > 0 && price * bytes < mostProduct))
      return;
    Priced at;
    at.price = price;
    at.costs.assign(core.ops.size(), 0);
    for (const DeathSearch::Mortal &mortal : search.mortals)
      at.kept.push_back(priceDown(price, mortal.bytes) /
                        static_cast<int64_t>(mortal.readers.size()));
    for (Bytes bytes : search.written)
      at.whole.push_back(priceUp(price, bytes));
    priced.push_back(std::move(at));
  }

  /// What an op that may run again writes and is alive in a set: nothing of `mortal`.
  Bytes aliveOf(const Frame &frame, int32_t op, std::optional<size_t> mortal) const {
    Bytes bytes = search.written[op];
    for (int32_t m : search.writes[op])
      if (frame.needed[m] == dead || static_cast<size_t>(m) == mortal)
        bytes -= search.mortals[m].bytes;
    return bytes;
  }

  int64_t gainOf(const Priced &at, int32_t op, Bytes bytes, int64_t cost) const {
    if (bytes <= 0)
      return 0;
    const int64_t worth = bytes == search.written[op] ? at.whole[op] : priceUp(at.price, bytes);
    return std::max<int64_t>(worth - cost, 0);
  }

  /// A rerun needs its inputs. One that is dead is kept for it, which takes bytes, or written again
  /// too. Either is shared by all that may need it, in equal parts: a flow, so a lower bound.
  void know(const Frame &frame, Priced &at) {
    at.isKnown = true;
    at.gain = 0;
    if (!isAliveKnown)
      for (const DeathSearch::Rerun &rerun : byListing)
        alive[rerun.op] = aliveOf(frame, rerun.op, std::nullopt);
    isAliveKnown = true;
    for (const DeathSearch::Rerun &rerun : byListing) {
      if (!contains(frame.ops.data(), rerun.op))
        continue;
      int64_t cost = rerun.cost << search.shift;
      for (int32_t m : search.reads[rerun.op]) {
        if (frame.needed[m] != dead)
          continue;
        int64_t part = at.kept[m];
        if (const std::optional<int32_t> &writer = search.mortals[m].producer;
            writer && mayFree[*writer])
          part = alive[*writer] > 0
                     ? 0
                     : std::min(part, at.costs[*writer] / search.readsOfOutputs[*writer]);
        cost += part;
      }
      at.costs[rerun.op] = cost;
      at.gain += gainOf(at, rerun.op, alive[rerun.op], cost);
    }
    allowance -= 2 * static_cast<int64_t>(byListing.size());
  }

  /// Whether making room for a death costs more than the extra time at some price: what is over the
  /// room, less all that reruns gain.
  bool isTooDear(const Frame &frame, const uint64_t *ops, const Move &move) {
    const Bytes excess = frame.needed[move.value] + frame.bytes - room;
    const std::optional<int32_t> &writer = search.mortals[move.value].producer;
    const int64_t most = mostExtra << search.shift;
    auto valueAt = [&](size_t index) {
      Priced &at = priced[index];
      if (!at.isKnown)
        know(frame, at);
      int64_t value = priceDown(at.price, excess) - at.gain;
      for (size_t w = 0; w < words; ++w)
        for (uint64_t bits = ops[w] & ~frame.ops[w]; bits; bits &= bits - 1) {
          const auto op = static_cast<int32_t>(w * 64 + std::countr_zero(bits));
          if (mayFree[op])
            value -= gainOf(at, op, aliveOf(frame, op, move.value),
                            core.ops[op].leastCost << search.shift);
          --allowance;
        }
      if (writer && mayFree[*writer] && contains(frame.ops.data(), *writer))
        value += gainOf(at, *writer, alive[*writer], at.costs[*writer]) -
                 gainOf(at, *writer, aliveOf(frame, *writer, move.value), at.costs[*writer]);
      return value;
    };
    // The value is concave, or nearly so: uphill from where it was highest before.
    int64_t value = valueAt(bestPrice);
    for (int step : {1, -1})
      while (value <= most) {
        const size_t next = bestPrice + static_cast<size_t>(step);
        if (next >= priced.size())
          break;
        const int64_t other = valueAt(next);
        if (other <= value)
          break;
        value = other;
        bestPrice = next;
      }
    return value > most;
  }

  /// Whether ops that cost nothing can free what a death needs over the room. What dies is read at
  /// that moment, so it is in memory.
  bool canFree(const Frame &frame, const uint64_t *ops, const Move &move) {
    Bytes excess = frame.needed[move.value] + frame.bytes - room;
    for (const DeathSearch::Rerun &rerun : usable)
      if (contains(ops, rerun.op))
        excess -= aliveOf(frame, rerun.op, move.value);
    allowance -= static_cast<int64_t>(usable.size());
    return excess <= 0;
  }

  /// The ops in the order of the path, then those that nothing waits for. What leaves nothing alive
  /// runs as soon as what it needs has: bytes only grow up to a death.
  Sequence order() const {
    Sequence result;
    std::vector<uint64_t> done(words, 0), all(words, 0);
    auto run = [&](const uint64_t *set, const uint64_t *among) {
      for (size_t w = 0; w < words; ++w) {
        for (uint64_t bits = set[w] & among[w] & ~done[w]; bits; bits &= bits - 1)
          result.push_back(static_cast<int32_t>(w * 64 + std::countr_zero(bits)));
        done[w] |= set[w] & among[w];
      }
    };
    for (const Frame &frame : path) {
      for (size_t m = search.valueCount; m < search.mortals.size(); ++m)
        if (contains(frame.ops.data(), search.mortals[m].readers.front()))
          run(&search.closures[m * words], frame.ops.data());
      run(frame.ops.data(), frame.ops.data());
    }
    for (size_t t = 0; t < core.ops.size(); ++t)
      all[t / 64] |= uint64_t(1) << (t % 64);
    run(all.data(), all.data());
    return result;
  }

  const DeathSearch &search;
  const Core &core;
  const size_t words;
  const Bytes room;
  const Cost mostExtra;
  const bool arePlaced; ///< ops that leave nothing
  int64_t &allowance;
  Bytes mostFreed = 0;
  std::vector<DeathSearch::Rerun> usable, byListing; ///< the least cost per byte first; by op
  std::vector<Priced> priced;                        ///< prices rise
  size_t bestPrice = 0;
  std::vector<Bytes> alive; ///< per op that may run again: what it wrote and is alive in a set
  bool isAliveKnown = false;
  std::vector<Frame> path;
  SetTable known;
  std::vector<uint64_t> sets;     ///< of candidates, scratch
  std::vector<uint32_t> killedAt; ///< per value: stamp
  std::vector<char> mayFree;      ///< per op
  std::vector<Bytes> goneForGood; ///< per mortal: that its death frees in any case
  std::vector<int32_t> nodeOf;    ///< per op, scratch
  uint32_t stamp = 0;
};

DeathSearch::DeathSearch(const Core &core, const CutBound &bound)
    : core(core), baseBytes(core.baseBytes), shift(bound.shift()),
      words((core.ops.size() + 63) / 64), reads(core.ops.size()), writes(core.ops.size()),
      readsOfOutputs(core.ops.size(), 0), written(core.ops.size(), 0), beside(core.ops.size(), 0) {
  const size_t count = core.ops.size();
  const Precedence precedence(core);
  for (size_t t = 0; t < count; ++t) {
    beside[t] = bound.footprint(static_cast<int32_t>(t)) - baseBytes;
    for (int32_t value : core.ops[t].inputs)
      beside[t] -= core.values[value].sizeBytes;
    for (int32_t value : core.ops[t].outputs)
      if (core.values[value].keep || !core.values[value].readers.empty())
        written[t] += core.values[value].sizeBytes;
    beside[t] -= written[t];
    const CoreOp &op = core.ops[t];
    if (op.mayRepeat && written[t] > 0)
      reruns.push_back({static_cast<int32_t>(t), written[t], op.leastCost});
  }
  for (const CoreValue &value : core.values)
    if (value.sizeBytes > 0 && !value.keep && !value.readers.empty())
      addMortal({value.sizeBytes, value.producer, value.readers}, precedence);
  valueCount = mortals.size();
  for (size_t t = 0; t < count; ++t)
    if (written[t] == 0 && beside[t] > 0)
      addMortal({0, std::nullopt, {static_cast<int32_t>(t)}}, precedence);
  closureOf.assign(count * mortals.size(), 0);
  for (size_t m = 0; m < mortals.size(); ++m) {
    needed.push_back(mortals[m].beside);
    for (size_t t = 0; t < count; ++t)
      if (contains(&closures[m * words], static_cast<int32_t>(t))) {
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

void DeathSearch::addMortal(Mortal mortal, const Precedence &precedence) {
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

DeathSearch::Answer DeathSearch::run(Bytes budgetBytes, Cost mostExtra, Sinks sinks,
                                     int64_t &allowance) const {
  return DeathRun(*this, budgetBytes, mostExtra, sinks, allowance).solve();
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

Cost DeathSearch::timeBound(Bytes budgetBytes, Cost provenTime, std::optional<Cost> knownTime,
                            int64_t allowance) const {
  const Cost step = core.costStep;
  if (core.leastExtra == 0)
    return provenTime;
  // No schedule pays more than nothing and less than leastExtra.
  auto leastAbove = [&](Cost extra) { return std::max(core.leastExtra, extra + step); };
  Cost proven = provenTime - core.leastTime;
  std::optional<Cost> notProven;
  if (knownTime)
    notProven = *knownTime - core.leastTime;
  // What cannot be excluded is seen at once; what can takes the longer the more it is.
  // What all ops once more do not pay for, nothing does.
  while (allowance > 0 && proven <= core.leastTime &&
         (!notProven || *notProven - proven > *notProven / 50)) {
    Cost next = 0;
    if (proven > 0)
      next = notProven ? (2 * proven + *notProven - 1) / 3 / step * step : 2 * proven;
    int64_t part = proven > 0 ? allowance / 2 : allowance;
    allowance -= part;
    const Outcome outcome = run(budgetBytes, next, Sinks::WithDeaths, part).outcome;
    allowance += part;
    if (outcome == Outcome::Impossible)
      proven = leastAbove(next);
    else if (next == 0)
      break;
    else
      notProven = next;
  }
  return core.leastTime + (knownTime ? std::min(proven, *knownTime - core.leastTime) : proven);
}

} // namespace stow::schedule
