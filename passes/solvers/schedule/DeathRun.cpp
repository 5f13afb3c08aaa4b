// One run of DeathSearch: depth first over sets of ops, each with what its deaths need.
#include "passes/solvers/schedule/DeathSearch.h"

#include "passes/solvers/schedule/KeepOrRerun.h"
#include "passes/solvers/schedule/MaxFlow.h"
#include "passes/solvers/schedule/Precedence.h"
#include "passes/solvers/schedule/SetTable.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <iterator>
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
constexpr size_t block = 16; ///< mortals

} // namespace

/// One search: the path of sets at hand, and what is left to try at each.
class DeathRun {
public:
  DeathRun(const DeathSearch &search, Bytes budget, Cost mostExtra, DeathSearch::Sinks sinks,
           int64_t &allowance)
      : search(search), core(search.core), words(search.words), room(budget - search.baseBytes),
        mostExtra(mostExtra), arePlaced(sinks == DeathSearch::Sinks::Placed), allowance(allowance),
        blocks((search.mortals.size() + block - 1) / block), known(words),
        killedAt(search.mortals.size(), 0), mayFree(core.ops.size(), 0) {
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
    openAt.assign(core.ops.size(), 0);
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
    std::vector<uint64_t> ops;  ///< E
    std::vector<uint64_t> gone; ///< mortals that are dead
    Bytes bytes = 0;            ///< alive
    bool fits = true;           ///< the last death did, without reruns
    /// Per mortal of a near block: bytes that its death needs beside what is alive; or dead.
    std::vector<Bytes> needed;
    std::vector<int32_t> near;   ///< blocks in which a mortal may die soon
    std::vector<Bytes> farLeast; ///< per other block: no mortal needs less
    size_t left = 0;             ///< values that are not dead
    size_t entered = 0;          ///< sets known by then
    std::vector<Move> moves;     ///< the best last
    std::vector<int32_t> open;   ///< ops whose rerun may cost less here than where all is dead
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
    Frame &start = push();
    start.ops.assign(words, 0);
    start.gone.assign((search.mortals.size() + 63) / 64, 0);
    start.needed.assign(search.mortals.size(), 0);
    start.farLeast.assign(blocks, 0);
    start.left = arePlaced ? search.mortals.size() : search.valueCount;
    for (const CoreValue &value : core.values)
      if (!value.producer && (value.keep || !value.readers.empty()))
        start.bytes += value.sizeBytes;
    known.insert(start.ops.data());
    enter(start);
    std::vector<uint64_t> next(words);
    while (depth > 0 && path[depth - 1].left > 0) {
      if (allowance <= 0)
        return DeathSearch::Outcome::Unknown;
      Frame &top = path[depth - 1];
      if (top.moves.empty()) {
        leaveWaist();
        --depth;
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
      Frame &frame = push();
      follow(frame, path[depth - 2], next);
      frame.bytes = move.after;
      frame.fits = move.fits;
      frame.entered = known.size();
      enter(frame);
      dropAlternatives();
    }
    return depth > 0 ? DeathSearch::Outcome::Possible : DeathSearch::Outcome::Impossible;
  }

  /// One more frame on the path; those that were left are used again.
  Frame &push() {
    if (depth == path.size())
      path.emplace_back();
    return path[depth++];
  }

  static bool isDead(const Frame &frame, int32_t mortal) {
    return contains(frame.gone.data(), mortal);
  }

  /// What holds at `next`, from what holds at a frame's set.
  void follow(Frame &frame, const Frame &from, const std::vector<uint64_t> &next) {
    frame.ops = next;
    frame.gone = from.gone;
    frame.near = from.near;
    frame.left = from.left;
    frame.farLeast = from.farLeast;
    frame.needed.resize(search.mortals.size());
    for (int32_t b : from.near)
      std::copy(from.needed.begin() + b * block, from.needed.begin() + endOf(b),
                frame.needed.begin() + b * block);
    Bytes bytes = 0;
    added.clear();
    for (size_t w = 0; w < words; ++w)
      for (uint64_t bits = next[w] & ~from.ops[w]; bits; bits &= bits - 1) {
        const size_t op = w * 64 + static_cast<size_t>(std::countr_zero(bits));
        const uint8_t *isMissing = &search.closureOf[op * search.mortals.size()];
        const Bytes written = search.written[op];
        bytes += written;
        for (int32_t b : frame.near)
          for (size_t m = b * block; m < endOf(b); ++m)
            frame.needed[m] -= written & -static_cast<Bytes>(isMissing[m]);
        if (!priced.empty() && mayFree[op])
          added.push_back(static_cast<int32_t>(op));
        allowance -= static_cast<int64_t>(frame.near.size() * block / 8 + 1);
      }
    for (Bytes &least : frame.farLeast)
      least -= bytes;
    kill(from, next.data(), [&](int32_t mortal) {
      frame.needed[mortal] = dead;
      frame.gone[mortal / 64] |= uint64_t(1) << (mortal % 64);
      frame.left -= arePlaced || static_cast<size_t>(mortal) < search.valueCount;
    });
    if (!priced.empty()) {
      frame.open.clear();
      std::merge(from.open.begin(), from.open.end(), added.begin(), added.end(),
                 std::back_inserter(frame.open));
    }
    allowance -= static_cast<int64_t>(words + blocks + frame.near.size() * block / 8);
  }

  size_t endOf(int32_t b) const { return std::min((b + 1) * block, search.mortals.size()); }

  /// Finds out what the mortals of blocks need in which one may die now or soon.
  void bringNear(Frame &frame) {
    const Bytes most = room - frame.bytes + mostFreed;
    constexpr Bytes soon = 2, far = 3; // times what there is room for
    std::erase_if(frame.near, [&](int32_t b) {
      Bytes least = dead;
      for (size_t m = b * block; m < endOf(b); ++m)
        least = std::min(least, frame.needed[m]);
      frame.farLeast[b] = least;
      return least > far * most;
    });
    const size_t before = frame.near.size();
    for (size_t b = 0, i = 0; b < blocks; ++b) {
      while (i < before && static_cast<size_t>(frame.near[i]) < b)
        ++i;
      const bool isNear = i < before && static_cast<size_t>(frame.near[i]) == b;
      if (isNear || frame.farLeast[b] > soon * most)
        continue;
      const auto index = static_cast<int32_t>(b);
      Bytes least = dead;
      for (size_t m = b * block; m < endOf(index); ++m) {
        frame.needed[m] = isDead(frame, static_cast<int32_t>(m)) ? dead : neededAt(frame, m);
        least = std::min(least, frame.needed[m]);
      }
      frame.farLeast[b] = least;
      if (least <= far * most)
        frame.near.push_back(index);
    }
    std::sort(frame.near.begin(), frame.near.end());
  }

  Bytes neededAt(const Frame &frame, size_t mortal) {
    Bytes bytes = search.mortals[mortal].beside;
    const uint64_t *closure = &search.closures[mortal * words];
    for (size_t w = 0; w < words; ++w)
      for (uint64_t bits = closure[w] & ~frame.ops[w]; bits; bits &= bits - 1) {
        bytes += search.written[w * 64 + static_cast<size_t>(std::countr_zero(bits))];
        --allowance;
      }
    allowance -= static_cast<int64_t>(words);
    return bytes;
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
          // The last reader is missing most often.
          const std::vector<int32_t> &readers = search.mortals[m].readers;
          allowance -= 2;
          if (std::all_of(readers.rbegin(), readers.rend(),
                          [&](int32_t reader) { return contains(next, reader); }))
            seen(m);
        }
  }

  /// Finds what may die next at the last frame.
  void enter(Frame &frame) {
    frame.moves.clear();
    bringNear(frame);
    candidates.clear();
    const Bytes free = room - frame.bytes, most = free + mostFreed;
    allowance -= static_cast<int64_t>(frame.near.size() * block / 8 + 8);
    for (int32_t b : frame.near)
      for (size_t m = b * block; m < endOf(b); ++m) {
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
    chooseLeast(frame);
  }

  /// Whether the ops that run up to a death and leave nothing alive have room.
  bool sinksFit(const Frame &frame, const std::vector<uint64_t> &next) const {
    for (size_t m = search.valueCount; m < search.mortals.size(); ++m)
      if (contains(next.data(), search.mortals[m].readers.front()) &&
          !isDead(frame, static_cast<int32_t>(m)) && !isNear(frame, m))
        return false;
    return true;
  }

  /// Whether a death may fit.
  bool isNear(const Frame &frame, size_t mortal) const {
    const auto b = static_cast<int32_t>(mortal / block);
    return std::binary_search(frame.near.begin(), frame.near.end(), b) &&
           frame.needed[mortal] <= room + mostFreed - frame.bytes;
  }

  bool isReady(const Frame &frame, int32_t op) const {
    return std::all_of(core.ops[op].inputs.begin(), core.ops[op].inputs.end(), [&](int32_t value) {
      const std::optional<int32_t> &producer = core.values[value].producer;
      return !producer || contains(frame.ops.data(), *producer);
    });
  }

  /// Of `candidates`, ordered by what they write, those whose ops contain no other's and that may
  /// fit. If one of them is safe, it alone.
  void chooseLeast(Frame &frame) {
    sets.clear();
    isOpenKnown = false;
    for (Priced &at : priced)
      at.isKnown = false;
    missing.resize(words);
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
    const Bytes bytes = path[depth - 1].bytes;
    size_t first = depth - 1;
    std::vector<size_t> open;
    while (first > 0 && path[first].fits && path[first - 1].bytes >= bytes)
      if (!path[--first].moves.empty())
        open.push_back(first);
    if (open.empty())
      return;
    for (const size_t from : {open.back(), open[open.size() / 2], open.front()})
      if (isLeastSince(path[from].ops.data())) {
        for (size_t i = from; i + 1 < depth; ++i)
          path[i].moves.clear();
        return;
      }
  }

  /// Whether no set between one on the path and the last needs fewer bytes than the last, whatever
  /// runs again: a minimum cut. On the sink's side is what such a set contains.
  bool isLeastSince(const uint64_t *from) {
    const Frame &last = path[depth - 1];
    constexpr int32_t source = 0, sink = 1, outside = -1;
    std::vector<int32_t> ops;
    for (size_t w = 0; w < words; ++w)
      for (uint64_t bits = last.ops[w] & ~from[w]; bits; bits &= bits - 1)
        ops.push_back(static_cast<int32_t>(w * 64 + std::countr_zero(bits)));
    if (ops.empty())
      return true;
    nodeOf.resize(core.ops.size(), outside);
    int32_t nodes = 2;
    for (int32_t op : ops)
      nodeOf[op] = nodes++;
    struct Arc {
      int32_t from, to;
      int64_t capacity;
    };
    std::vector<Arc> arcs;
    Bytes most = 0, before = 0; // of the last set and the one on the path, less what both have
    ++stamp;
    for (int32_t op : ops) {
      for (int32_t value : core.ops[op].inputs)
        if (const std::optional<int32_t> &producer = core.values[value].producer;
            producer && nodeOf[*producer] >= 0)
          arcs.push_back({nodeOf[*producer], nodeOf[op], MaxFlow::unbounded});
      Bytes alive = search.written[op];
      for (int32_t m : search.writes[op])
        alive -= isDead(last, m) ? search.mortals[m].bytes : 0;
      most += alive;
      arcs.push_back({source, nodeOf[op], alive});
      for (int32_t m : search.reads[op]) { // dies in between: alive in a set without all readers
        const DeathSearch::Mortal &value = search.mortals[m];
        if (killedAt[m] == stamp || !isDead(last, m) || goneForGood[m] == 0)
          continue;
        killedAt[m] = stamp;
        const int32_t writer = value.producer ? nodeOf[*value.producer] : outside;
        const int32_t need = nodes++;
        before += writer == outside ? goneForGood[m] : 0;
        arcs.push_back({need, writer == outside ? sink : writer, goneForGood[m]});
        for (int32_t reader : value.readers)
          if (nodeOf[reader] >= 0)
            arcs.push_back({nodeOf[reader], need, MaxFlow::unbounded});
      }
    }
    for (int32_t op : ops)
      nodeOf[op] = outside;
    allowance -= 2 * static_cast<int64_t>(arcs.size());
    if (before < most)
      return false;
    MaxFlow flow(nodes);
    for (const Arc &arc : arcs)
      flow.addArc(arc.from, arc.to, arc.capacity);
    const bool isLeast = flow.solve(source, sink) >= most;
    allowance -= flow.work() + 2 * static_cast<int64_t>(arcs.size());
    return isLeast;
  }

  /// Nothing follows from the last set. If all may be assumed to pass it, what is left at the sets
  /// before it is not needed: as far up as that is found.
  void leaveWaist() {
    constexpr size_t worthwhile = 100; // sets
    const Frame &last = path[depth - 1];
    if (known.size() - last.entered < worthwhile)
      return;
    std::vector<size_t> open;
    for (size_t i = 0; i + 1 < depth; ++i)
      if (!path[i].moves.empty())
        open.push_back(i);
    if (open.empty() || !isWaistSince(path[open.back()]))
      return;
    size_t least = 0, proven = open.size() - 1;
    while (least < proven) {
      const size_t middle = (least + proven) / 2;
      if (isWaistSince(path[open[middle]]))
        proven = middle;
      else
        least = middle + 1;
    }
    for (size_t i = open[proven]; i + 1 < depth; ++i)
      path[i].moves.clear();
  }

  /// Whether what follows from a set on the path also follows from the last, W (see the header): a
  /// minimum cut per op that may run before all of W has.
  bool isWaistSince(const Frame &from) {
    const Frame &last = path[depth - 1];
    Bytes bytes = last.bytes;
    std::vector<char> isEarly(core.ops.size(), 0);
    std::vector<uint64_t> part(words);
    allowance -= static_cast<int64_t>(core.ops.size());
    for (size_t t = 0; t < core.ops.size(); ++t) {
      const auto op = static_cast<int32_t>(t);
      if (contains(last.ops.data(), op))
        continue;
      const CoreOp &at = core.ops[t];
      const bool mayBeEarly = std::all_of(at.inputs.begin(), at.inputs.end(), [&](int32_t value) {
        const std::optional<int32_t> &producer = core.values[value].producer;
        return !producer || contains(last.ops.data(), *producer) || isEarly[*producer];
      });
      if (!mayBeEarly)
        continue;
      allowance -= static_cast<int64_t>(words);
      const uint64_t *above = search.precedence.above(t);
      for (size_t w = 0; w < words; ++w)
        part[w] = from.ops[w] | (above[w] & last.ops[w]);
      if (isLeastSince(part.data()))
        continue;
      isEarly[t] = 1;
      bytes += search.written[t] + std::max<Bytes>(search.beside[t], 0);
      if (bytes > room)
        return false;
    }
    return true;
  }

  /// A price per byte (scaled cost), and what it says about the set at hand.
  struct Priced {
    double price = 0;
    bool isKnown = false;
    int64_t gain = 0;            ///< at most, from reruns of ops of E
    std::vector<int64_t> costs;  ///< per open op: least cost of a rerun and of what it needs
    std::vector<int64_t> shares; ///< per open op: of that, per read of its outputs
    std::vector<int64_t> finals; ///< per mortal: to have it for a rerun where all above it is dead
    std::vector<int64_t> kept;   ///< per mortal: to keep it, by reader
    std::vector<int64_t> whole;  ///< per op: of all that it writes
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
    at.shares = at.costs;
    at.finals = at.kept;
    for (const DeathSearch::Rerun &rerun : byListing) {
      int64_t cost = rerun.cost << search.shift;
      for (int32_t m : search.reads[rerun.op])
        cost += at.finals[m];
      for (int32_t m : search.writes[rerun.op])
        at.finals[m] = std::min(at.kept[m], cost / search.readsOfOutputs[rerun.op]);
    }
    priced.push_back(std::move(at));
  }

  /// What an op that may run again writes and is alive in a set: nothing of `mortal`.
  Bytes aliveOf(const Frame &frame, int32_t op, std::optional<size_t> mortal) const {
    Bytes bytes = search.written[op];
    for (int32_t m : search.writes[op])
      if (isDead(frame, m) || static_cast<size_t>(m) == mortal)
        bytes -= search.mortals[m].bytes;
    return bytes;
  }

  int64_t gainOf(const Priced &at, int32_t op, Bytes bytes, int64_t cost) const {
    if (bytes <= 0)
      return 0;
    const int64_t worth = bytes == search.written[op] ? at.whole[op] : priceUp(at.price, bytes);
    return std::max<int64_t>(worth - cost, 0);
  }

  bool isOpen(int32_t op) const { return openAt[op] == openStamp; }

  /// The ops of E that may run again, but for those of which all above them is dead: what is alive
  /// of their outputs, and what they read that is dead. Once all is dead, it stays so.
  void findOpen(Frame &frame) {
    isOpenKnown = true;
    ++openStamp;
    deadReads.clear();
    readsUpTo.clear();
    std::erase_if(frame.open, [&](int32_t op) {
      alive[op] = aliveOf(frame, op, std::nullopt);
      bool isClosed = alive[op] == 0;
      const size_t first = deadReads.size();
      for (int32_t m : search.reads[op]) {
        if (!isDead(frame, m)) {
          isClosed = false;
          continue;
        }
        const std::optional<int32_t> &writer = search.mortals[m].producer;
        if (!writer || !isOpen(*writer)) {
          deadReads.push_back({m, std::nullopt});
          continue;
        }
        isClosed = false;
        if (alive[*writer] == 0)
          deadReads.push_back({m, *writer});
      }
      if (isClosed) {
        deadReads.resize(first);
        return true;
      }
      openAt[op] = openStamp;
      readsUpTo.push_back(deadReads.size());
      return false;
    });
    allowance -= 8 * static_cast<int64_t>(frame.open.size());
  }

  /// A rerun needs its inputs. One that is dead is kept for it, which takes bytes, or written again
  /// too. Either is shared by all that may need it, in equal parts: a flow, so a lower bound.
  void know(Frame &frame, Priced &at) {
    if (!isOpenKnown)
      findOpen(frame);
    at.isKnown = true;
    at.gain = 0;
    size_t read = 0;
    for (size_t i = 0; i < frame.open.size(); ++i) {
      const int32_t op = frame.open[i];
      int64_t cost = core.ops[op].leastCost << search.shift;
      for (; read < readsUpTo[i]; ++read) {
        const auto &[m, writer] = deadReads[read];
        cost += writer ? std::min(at.kept[m], at.shares[*writer]) : at.finals[m];
      }
      at.costs[op] = cost;
      if (search.readsOfOutputs[op] > 0)
        at.shares[op] = cost / search.readsOfOutputs[op];
      at.gain += gainOf(at, op, alive[op], cost);
    }
    allowance -= static_cast<int64_t>(frame.open.size() + deadReads.size() / 2);
  }

  /// Whether making room for a death costs more than the extra time at some price: what is over the
  /// room, less all that reruns gain.
  bool isTooDear(Frame &frame, const uint64_t *ops, const Move &move) {
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
    for (size_t i = 0; i < depth; ++i) {
      const Frame &frame = path[i];
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
  bool isOpenKnown = false;
  /// What open ops read that is dead, op by op: a mortal, and its writer if that is open.
  std::vector<std::pair<int32_t, std::optional<int32_t>>> deadReads;
  std::vector<size_t> readsUpTo; ///< per open op: end of its part
  uint32_t openStamp = 0;
  std::vector<uint32_t>
      openAt;             ///< per op: stamp, if its rerun may cost less than where all is dead
  const size_t blocks;    ///< of mortals
  std::deque<Frame> path; ///< and frames for later use
  size_t depth = 0;       ///< frames on the path
  SetTable known;
  std::vector<Move> candidates;   ///< scratch
  std::vector<int32_t> added;     ///< ops, scratch
  std::vector<uint64_t> missing;  ///< scratch
  std::vector<uint64_t> sets;     ///< of candidates, scratch
  std::vector<uint32_t> killedAt; ///< per value: stamp
  std::vector<char> mayFree;      ///< per op
  std::vector<Bytes> goneForGood; ///< per mortal: that its death frees in any case
  std::vector<int32_t> nodeOf;    ///< per op, scratch
  uint32_t stamp = 0;
};

DeathSearch::Answer DeathSearch::run(Bytes budgetBytes, Cost mostExtra, Sinks sinks,
                                     int64_t &allowance) const {
  return DeathRun(*this, budgetBytes, mostExtra, sinks, allowance).solve();
}

} // namespace stow::schedule
