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

/// The largest of [begin, end), not empty. Four at a time: half of a search is spent here.
Bytes largest(std::vector<Bytes>::const_iterator begin, std::vector<Bytes>::const_iterator end) {
  Bytes most[4] = {*begin, *begin, *begin, *begin};
  for (; end - begin >= 4; begin += 4)
    for (int lane = 0; lane < 4; ++lane)
      most[lane] = std::max(most[lane], begin[lane]);
  for (; begin != end; ++begin)
    most[0] = std::max(most[0], *begin);
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

/// An order of blocks with the tallest chain under and over each of them.
class Chains {
public:
  Chains(std::vector<Block> all, int32_t sections)
      : blocks(std::move(all)), sections(sections), base(blocks.size()), reach(blocks.size()) {
    const size_t marks = blocks.size() / interval + 1;
    risen.resize(marks * sections);
    hung.resize(marks * sections, none);
    skyline.resize(sections);
  }

  const std::vector<Block> blocks;
  std::vector<int32_t> order; ///< blocks from the bottom up
  int64_t work = 0;

  Bytes chainThrough(int32_t block) const { return base[block] + reach[block]; }
  Bytes baseOf(int32_t block) const { return base[block]; }
  Bytes reachOf(int32_t block) const { return reach[block]; }

  Bytes height() const {
    Bytes height = 0;
    for (int32_t block : order)
      height = std::max(height, base[block] + blocks[block].onTop);
    return height;
  }

  /// Takes over another order.
  void setOrder(const std::vector<int32_t> &other) {
    order = other;
    raise(0);
    hang(0);
  }

  /// Another order of the same packing: by bases, by the bytes above, or by both.
  void reorder(int32_t kind) {
    auto key = [&](int32_t block) {
      return kind == 0 ? base[block] : kind == 1 ? -reach[block] : 2 * base[block] - reach[block];
    };
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
    work += static_cast<int64_t>(order.size()) * 4;
    raise(0);
    hang(0);
  }

  /// Takes out the blocks that are marked.
  void remove(const std::vector<char> &isOut) {
    const auto first =
        std::find_if(order.begin(), order.end(), [&](int32_t b) { return isOut[b]; });
    const auto last =
        std::find_if(order.rbegin(), order.rend(), [&](int32_t b) { return isOut[b]; });
    if (first == order.end())
      return;
    const size_t before = first - order.begin(), behind = last - order.rbegin();
    order.erase(std::remove_if(order.begin(), order.end(), [&](int32_t b) { return isOut[b]; }),
                order.end());
    raise(before);
    hang(behind);
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
      above[k] = std::max(above[k + 1], reach[order[met[k]]]);
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
        below = std::max(below, base[order[met[k]]] + blocks[order[met[k]]].size);
    }
    work += static_cast<int64_t>(order.size() + 4 * met.size());
    const size_t behind = order.size() - place;
    order.insert(order.begin() + static_cast<int64_t>(place), block);
    raise(place);
    hang(behind);
  }

private:
  /// Bases of the blocks from this place in the order on.
  void raise(size_t from) {
    size_t at = from / interval * interval;
    std::copy_n(risen.begin() + mark(at), sections, skyline.begin());
    if (at == 0)
      std::fill(skyline.begin(), skyline.end(), 0);
    for (;; ++at) {
      if (at % interval == 0)
        std::copy_n(skyline.begin(), sections, risen.begin() + mark(at));
      if (at == order.size())
        return;
      const Block &block = blocks[order[at]];
      const auto begin = skyline.begin() + block.begin, end = skyline.begin() + block.end;
      base[order[at]] = largest(begin, end);
      std::fill(begin, end, base[order[at]] + block.size);
      work += 4 + (block.end - block.begin) / 4;
    }
  }

  /// Reaches of the blocks before the last `behind` ones.
  void hang(size_t behind) {
    size_t at = behind / interval * interval;
    std::copy_n(hung.begin() + mark(at), sections, skyline.begin());
    if (at == 0)
      std::fill(skyline.begin(), skyline.end(), none);
    for (;; ++at) {
      if (at % interval == 0)
        std::copy_n(skyline.begin(), sections, hung.begin() + mark(at));
      if (at == order.size())
        return;
      const int32_t index = order[order.size() - 1 - at];
      const Block &block = blocks[index];
      const auto begin = skyline.begin() + block.begin, end = skyline.begin() + block.end;
      reach[index] = std::max(block.onTop, largest(begin, end) + block.size);
      std::fill(begin, end, reach[index]);
      work += 4 + (block.end - block.begin) / 4;
    }
  }

  size_t mark(size_t at) const { return at / interval * sections; }

  static constexpr size_t interval = 32; ///< places in the order between kept skylines
  static constexpr Bytes none = std::numeric_limits<Bytes>::min() / 4; ///< nothing lies above

  const int32_t sections;
  std::vector<Bytes> base, reach; ///< by block
  std::vector<Bytes> risen;       ///< by mark: tops of the blocks before that place
  std::vector<Bytes> hung;        ///< by mark: reaches of so many last blocks
  std::vector<Bytes> skyline;
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
