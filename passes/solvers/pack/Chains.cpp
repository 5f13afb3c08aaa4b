#include "passes/solvers/pack/Chains.h"

#include "ir/plan/Random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace stow::pack {

namespace {

/// An item without its model; sections of the items at hand.
struct Block {
  int32_t begin = 0, end = 0;
  Bytes size = 0;   ///< rounded up to the alignment
  Bytes onTop = 0;  ///< what it takes where nothing lies on it
  int32_t item = 0; ///< of the model

  bool meets(const Block &other) const { return begin < other.end && other.begin < end; }
};

// Spans of 64-bit numbers, which SSE2 cannot compare, are looked at by functions that are compiled for AVX2 as well. The
// numbers are the same.
#define STOW_INLINE __attribute__((always_inline)) inline
#if defined(__x86_64__)
#define STOW_AVX2 __attribute__((target("avx2")))
const bool hasAvx2 = __builtin_cpu_supports("avx2");
#else
#define STOW_AVX2
constexpr bool hasAvx2 = false;
#endif

/// The largest of [begin, end), not empty; and a value for all of them.
struct OneByOne {
  static STOW_INLINE Bytes largest(const Bytes *begin, const Bytes *end) {
    Bytes most[4] = {*begin, *begin, *begin, *begin}; // four at a time
    for (; end - begin >= 4; begin += 4)
      for (int lane = 0; lane < 4; ++lane)
        most[lane] = std::max(most[lane], begin[lane]);
    for (; begin != end; ++begin)
      most[0] = std::max(most[0], *begin);
    return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
  }
  static STOW_INLINE void fill(Bytes *begin, Bytes *end, Bytes value) {
    std::fill(begin, end, value);
  }
};

/// The same by vectors; the last one overlaps the one before it.
struct ByVectors {
  typedef Bytes Vector __attribute__((vector_size(32), aligned(8), may_alias));
  static constexpr int64_t lanes = 4;

  static STOW_INLINE Vector at(const Bytes *place) {
    return *reinterpret_cast<const Vector *>(place);
  }
  static STOW_INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }

  static STOW_INLINE Bytes largest(const Bytes *begin, const Bytes *end) {
    if (end - begin < lanes)
      return OneByOne::largest(begin, end);
    const Bytes *const last = end - lanes;
    Vector most = at(last), others = most;
    for (; last - begin >= lanes; begin += 2 * lanes) {
      most = larger(most, at(begin));
      others = larger(others, at(begin + lanes));
    }
    if (begin < last)
      most = larger(most, at(begin));
    most = larger(most, others);
    return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
  }
  static STOW_INLINE void fill(Bytes *begin, Bytes *end, Bytes value) {
    if (end - begin < lanes) {
      OneByOne::fill(begin, end, value);
      return;
    }
    const Vector all = {value, value, value, value};
    Bytes *const last = end - lanes;
    for (; begin < last; begin += lanes)
      *reinterpret_cast<Vector *>(begin) = all;
    *reinterpret_cast<Vector *>(last) = all;
  }
};

/// An order of blocks with the tallest chain under and over each of them.
class Chains {
public:
  Chains(std::vector<Block> all, int32_t sections)
      : blocks(std::move(all)), sections(sections), under(*this, 0), over(*this, none) {
    skyline.resize(sections);
  }

  const std::vector<Block> blocks;
  std::vector<int32_t> order; ///< blocks from the bottom up
  int64_t work = 0;

  Bytes chainThrough(int32_t block) const { return baseOf(block) + reachOf(block); }
  Bytes baseOf(int32_t block) const { return under.chain[block]; }
  Bytes reachOf(int32_t block) const { return over.chain[block]; }

  Bytes height() const {
    Bytes height = 0;
    for (int32_t block : order)
      height = std::max(height, baseOf(block) + blocks[block].onTop);
    return height;
  }

  /// Takes over another order.
  void setOrder(const std::vector<int32_t> &other) {
    order = other;
    countWork(0);
    renew(all(), all());
  }

  /// Another order of the same packing: by bases, by the bytes above, or by both.
  void reorder(int32_t kind) {
    auto key = [&](int32_t block) {
      return kind == 0   ? baseOf(block)
             : kind == 1 ? -reachOf(block)
                         : 2 * baseOf(block) - reachOf(block);
    };
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
    work += static_cast<int64_t>(order.size()) * 4;
    countWork(0);
    renew(all(), all());
  }

  /// Takes out the blocks that are marked.
  void remove(const std::vector<char> &isOut) {
    size_t first = order.size(), behind = 0, count = 0;
    Change change = {.begin = sections, .end = 0};
    for (size_t at = 0; at < order.size(); ++at) {
      if (!isOut[order[at]])
        continue;
      const Block &block = blocks[order[at]];
      first = std::min(first, at);
      behind = order.size() - 1 - at;
      ++count;
      change.begin = std::min(change.begin, block.begin);
      change.end = std::max(change.end, block.end);
    }
    if (count == 0)
      return;
    order.erase(std::remove_if(order.begin(), order.end(), [&](int32_t b) { return isOut[b]; }),
                order.end());
    countWork(first);
    Change below = change, above = change;
    below.from = first;
    below.settled = order.size() - behind;
    above.from = behind;
    above.settled = order.size() - first;
    renew(below, above);
  }

  /// Puts `block` where the tallest chain through it is the least; with `overlooked`, places are
  /// overlooked that often.
  void insert(int32_t block, Random &random, double overlooked) {
    const Block &added = blocks[block];
    met.clear();
    for (size_t at = 0; at < order.size(); ++at)
      if (blocks[order[at]].meets(added))
        met.push_back(at);
    above.assign(met.size() + 1, none);
    for (size_t k = met.size(); k-- > 0;)
      above[k] = std::max(above[k + 1], reachOf(order[met[k]]));
    Bytes below = 0, least = std::numeric_limits<Bytes>::max();
    size_t place = order.size(), equals = 0;
    for (size_t k = 0; k <= met.size(); ++k) {
      const Bytes chain = below + (above[k] == none ? added.onTop : added.size + above[k]);
      if (least == std::numeric_limits<Bytes>::max() || !random.chance(overlooked)) {
        if (chain < least) {
          least = chain;
          equals = 0;
        }
        if (chain == least && random.below(++equals) == 0)
          place = k < met.size() ? met[k] : order.size();
      }
      if (k < met.size())
        below = std::max(below, baseOf(order[met[k]]) + blocks[order[met[k]]].size);
    }
    work += static_cast<int64_t>(order.size() + 4 * met.size());
    const size_t behind = order.size() - place;
    order.insert(order.begin() + static_cast<int64_t>(place), block);
    countWork(place);
    under.chain[block] = over.chain[block] = unknown;
    renew({place, place + 1, added.begin, added.end}, {behind, behind + 1, added.begin, added.end});
  }

private:
  /// What is another way than before: blocks were put in or taken out at places [from, settled), in
  /// sections [begin, end). Places are counted from the bottom for what lies under a block, from the top
  /// for what lies over it.
  struct Change {
    size_t from = 0, settled = 0;
    int32_t begin = 0, end = 0;
  };
  Change all() const { return {0, order.size(), 0, sections}; }

  /// Under a block: its base, the height of what it lies on. Over it: its reach.
  struct Side {
    Side(const Chains &chains, Bytes ground)
        : chain(chains.blocks.size()), ground(ground),
          kept((chains.blocks.size() / interval + 1) * chains.sections) {}

    std::vector<Bytes> chain; ///< by block
    Bytes ground;             ///< the skyline without blocks
    /// By mark: the skyline of so many blocks, for the first marks; all later ones are out of date.
    std::vector<Bytes> kept;
    size_t upToDate = 0;
  };

  void renew(const Change &below, const Change &above) {
    const size_t count = order.size();
    const auto marked = [](size_t at) { return at / interval * interval; };
    work += workBefore[count] - workBefore[marked(below.from)];
    work += workBefore[count - marked(above.from)];
    if (hasAvx2)
      renewByVectors(below, above);
    else
      renewBy<OneByOne>(below, above);
  }
  STOW_AVX2 void renewByVectors(const Change &below, const Change &above) {
    renewBy<ByVectors>(below, above);
  }
  template <typename Spans> STOW_INLINE void renewBy(const Change &below, const Change &above) {
    renewSide<Spans>(
        under, below, [&](size_t at) { return order[at]; },
        [](const Block &, Bytes most) { return most; },
        [](const Block &block, Bytes base) { return base + block.size; });
    renewSide<Spans>(
        over, above, [&](size_t at) { return order[order.size() - 1 - at]; },
        [](const Block &block, Bytes most) { return std::max(block.onTop, most + block.size); },
        [](const Block &, Bytes reach) { return reach; });
  }

  /// The chains of the blocks from the change on. It is followed from block to block: who meets no section in
  /// which the skyline is another one keeps its chain; where there is no such section left, all others do.
  template <typename Spans, typename BlockAt, typename ChainOn, typename Top>
  STOW_INLINE void renewSide(Side &side, const Change &change, const BlockAt &blockAt,
                             const ChainOn &chainOn, const Top &top) {
    side.upToDate = std::min(side.upToDate, change.from / interval + 1);
    size_t at = side.upToDate > 0 ? (side.upToDate - 1) * interval : 0;
    if (at == 0)
      std::fill(skyline.begin(), skyline.end(), side.ground);
    else
      std::copy_n(side.kept.begin() + mark(at), sections, skyline.begin());
    int32_t begin = change.begin, end = change.end;
    for (;; ++at) {
      if (at % interval == 0 && at / interval >= side.upToDate) {
        std::copy_n(skyline.begin(), sections, side.kept.begin() + mark(at));
        side.upToDate = at / interval + 1;
      }
      if (at == order.size() || (at >= change.settled && begin >= end))
        return;
      const int32_t index = blockAt(at);
      const Block &block = blocks[index];
      Bytes *const from = skyline.data() + block.begin, *const to = skyline.data() + block.end;
      if (at >= change.from && block.begin < end && begin < block.end) {
        const Bytes chain = chainOn(block, Spans::largest(from, to));
        if (chain != side.chain[index]) {
          side.chain[index] = chain;
          begin = std::min(begin, block.begin);
          end = std::max(end, block.end);
        } else if (at >= change.settled) {
          if (block.begin <= begin)
            begin = std::min(block.end, end);
          if (end <= block.end)
            end = std::max(block.begin, begin);
        }
      }
      Spans::fill(from, to, top(block, side.chain[index]));
    }
  }

  /// `workBefore` for places behind this one.
  void countWork(size_t place) {
    workBefore.resize(order.size() + 1, 0);
    for (size_t at = place; at < order.size(); ++at) {
      const Block &block = blocks[order[at]];
      workBefore[at + 1] = workBefore[at] + 4 + (block.end - block.begin) / 4;
    }
  }

  size_t mark(size_t at) const { return at / interval * sections; }

  static constexpr size_t interval = 32; ///< places in the order between kept skylines
  static constexpr Bytes none = std::numeric_limits<Bytes>::min() / 4; ///< nothing lies above
  static constexpr Bytes unknown = std::numeric_limits<Bytes>::min();

  const int32_t sections;
  Side under, over;
  std::vector<Bytes> skyline;
  std::vector<int64_t> workBefore; ///< by place: steps of a look at all blocks before it
  std::vector<size_t> met;
  std::vector<Bytes> above;
};

/// Lowers the packing of some items.
class ChainSearch {
public:
  /// The items of the part are `items` of the model; the first ones are in order, the others are
  /// put in.
  ChainSearch(const Model &part, const std::vector<int32_t> &items, size_t inOrder,
              const ChainOptions &options)
      : options(options), random(options.seed), chains(blocksOf(part, items), part.sections),
        isOut(items.size(), 0) {
    std::vector<int32_t> known(inOrder);
    std::iota(known.begin(), known.end(), 0);
    chains.setOrder(known);
    for (size_t block = inOrder; block < items.size(); ++block)
      chains.insert(static_cast<int32_t>(block), random, 0);
  }

  ChainPacking run() {
    lowest = chains.order;
    lowestHeight = height = chains.height();
    improve();
    chains.setOrder(lowest);
    ChainPacking packing;
    for (int32_t block : lowest) {
      packing.order.push_back(chains.blocks[block].item);
      packing.bases.push_back(chains.baseOf(block));
    }
    packing.height = lowestHeight;
    return packing;
  }

  int64_t work() const { return chains.work; }

private:
  static std::vector<Block> blocksOf(const Model &part, const std::vector<int32_t> &items) {
    std::vector<Block> blocks;
    for (size_t k = 0; k < items.size(); ++k) {
      const Item &item = part.items[k];
      blocks.push_back(
          {item.begin, item.end, alignUp(item.size, item.alignment), item.size, items[k]});
    }
    return blocks;
  }

  void improve() {
    // The first threshold, as a share of the excess, and the last one, as a share of the first.
    constexpr double warm = 0.3, cold = 0.01;
    constexpr int64_t perTemperature = 32, perOrder = 8;
    double temperature = 0;
    for (int64_t round = 0; lowestHeight > options.goal; ++round) {
      if (round % perTemperature == 0) {
        const double spent =
            static_cast<double>(chains.work) / static_cast<double>(options.workLimit);
        if (chains.work >= options.workLimit || (options.stop && options.stop()))
          return;
        temperature =
            static_cast<double>(lowestHeight - options.goal) * warm * std::pow(cold, spent);
      }
      if (round % perOrder == 0)
        chains.reorder(random.below(3));
      const std::vector<int32_t> before = chains.order;
      ruin();
      recreate();
      const Bytes now = chains.height();
      if (now > height &&
          random.real() >= std::exp(static_cast<double>(height - now) / temperature)) {
        chains.setOrder(before);
        continue;
      }
      height = now;
      if (height < lowestHeight) {
        lowestHeight = height;
        lowest = chains.order;
      }
    }
  }

  /// Takes out an item of a chain that is too tall, and some that it meets: close to it in bytes or
  /// in time, or any.
  void ruin() {
    constexpr int32_t most = 10;
    // Half of the time of one that is among the tallest.
    const Bytes low = random.chance(0.5) ? options.goal : height - (height - options.goal) / 10 - 1;
    near.clear();
    for (int32_t block : chains.order)
      if (chains.chainThrough(block) > low)
        near.push_back({0, block});
    const int32_t seed = near[random.below(near.size())].second;
    const Block &center = chains.blocks[seed];
    out.assign(1, seed);
    const int32_t others = random.below(most), kind = random.below(3);
    if (others > 0) {
      near.clear();
      for (int32_t block : chains.order) {
        const Block &other = chains.blocks[block];
        if (block == seed || !other.meets(center))
          continue;
        const int64_t distance =
            kind == 0   ? std::abs(2 * (chains.baseOf(block) - chains.baseOf(seed)) + other.size -
                                   center.size)
            : kind == 1 ? std::abs(other.begin + other.end - center.begin - center.end)
                        : static_cast<int64_t>(random.bits() >> 1);
        near.push_back({distance, block});
      }
      const auto count = std::min(near.size(), static_cast<size_t>(others));
      std::partial_sort(near.begin(), near.begin() + static_cast<int64_t>(count), near.end());
      for (size_t k = 0; k < count; ++k)
        out.push_back(near[k].second);
    }
    for (int32_t block : out)
      isOut[block] = 1;
    chains.remove(isOut);
    for (int32_t block : out)
      isOut[block] = 0;
  }

  void recreate() {
    constexpr double overlooked = 0.02;
    const int32_t kind = random.below(4);
    auto key = [&](int32_t block) {
      const Block &of = chains.blocks[block];
      const auto size = static_cast<double>(of.size);
      const double length = of.end - of.begin;
      return kind == 1 ? size : kind == 2 ? length : size * length;
    };
    if (kind == 0)
      for (size_t k = out.size(); k > 1; --k)
        std::swap(out[k - 1], out[random.below(k)]);
    else
      std::sort(out.begin(), out.end(), [&](int32_t a, int32_t b) {
        return std::pair(-key(a), a) < std::pair(-key(b), b);
      });
    for (int32_t block : out)
      chains.insert(block, random, overlooked);
  }

  const ChainOptions &options;
  Random random;
  Chains chains;
  std::vector<int32_t> lowest;
  Bytes height = 0, lowestHeight = 0;
  std::vector<char> isOut;
  std::vector<int32_t> out;
  std::vector<std::pair<int64_t, int32_t>> near;
};

} // namespace

bool isChainable(const Model &model) {
  return std::all_of(model.items.begin(), model.items.end(), [&](const Item &item) {
    return item.isRectangle() && !item.fixedBase && item.alignment == model.items.front().alignment;
  });
}

ChainPacking packByChains(const Model &model, std::vector<int32_t> order,
                          std::vector<int32_t> added, const ChainOptions &options, int64_t &work) {
  auto area = [&](int32_t index) {
    const Item &item = model.items[index];
    return static_cast<double>(item.size) * (item.end - item.begin);
  };
  std::sort(added.begin(), added.end(),
            [&](int32_t a, int32_t b) { return std::pair(-area(a), a) < std::pair(-area(b), b); });
  order.insert(order.end(), added.begin(), added.end());
  ChainSearch search(restrictTo(model, order), order, order.size() - added.size(), options);
  ChainPacking packing = search.run();
  work += search.work();
  return packing;
}

} // namespace stow::pack
