#include "passes/solvers/pack/SearchInstance.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace stow::pack {

namespace {

/// Lists longer than this are kept per block of sections instead of per section.
constexpr int64_t maxBlockEntries = 40'000'000;

/// Pieces of an item with one byte range per section: where an item has several, their hull.
std::vector<ModelPiece> hullPieces(const Model &model, const Item &item) {
  std::vector<ModelPiece> pieces(model.pieces.begin() + item.firstPiece,
                                 model.pieces.begin() + item.lastPiece);
  if (pieces.size() == 1)
    return pieces;
  std::vector<int32_t> cuts;
  for (const ModelPiece &piece : pieces) {
    cuts.push_back(piece.begin);
    cuts.push_back(piece.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<ModelPiece> hulls;
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    ModelPiece hull{cuts[c], cuts[c + 1], -1, 0};
    for (const ModelPiece &piece : pieces)
      if (piece.begin <= hull.begin && hull.end <= piece.end) {
        hull.low = hull.low < 0 ? piece.low : std::min(hull.low, piece.low);
        hull.high = std::max(hull.high, piece.high);
      }
    if (hull.low < 0)
      continue;
    if (!hulls.empty() && hulls.back().end == hull.begin && hulls.back().low == hull.low &&
        hulls.back().high == hull.high)
      hulls.back().end = hull.end;
    else
      hulls.push_back(hull);
  }
  return hulls;
}

/// A piece of a fixed item.
struct FixedPiece {
  int32_t position;
  ModelPiece piece; ///< in absolute bytes
};

/// What is put into the search: a free item, or an anchor.
struct Entry {
  int32_t begin, position;
  int32_t anchor; ///< index of a FixedPiece, or -1
};

} // namespace

SearchData::SearchData(const Model &model, const std::vector<int32_t> &items, Bytes groundLevel)
    : total(static_cast<int32_t>(items.size())), fixedBases(items.size(), -1) {
  int32_t firstSection = model.sections, lastSection = 0;
  std::vector<Entry> entries;
  std::vector<FixedPiece> fixed;
  grain = 0;
  for (int32_t position = 0; position < total; ++position) {
    const Item &item = model.items[items[position]];
    firstSection = std::min(firstSection, item.begin);
    lastSection = std::max(lastSection, item.end);
    grain = std::gcd(grain, item.fixedBase ? 0 : item.alignment);
    if (!item.fixedBase) {
      entries.push_back({item.begin, position, -1});
      continue;
    }
    fixedBases[position] = *item.fixedBase;
    fixedTop = std::max(fixedTop, *item.fixedBase + item.size);
    for (int32_t p = item.firstPiece; p < item.lastPiece; ++p) {
      ModelPiece piece = model.pieces[p];
      piece.low += *item.fixedBase;
      piece.high += *item.fixedBase;
      fixed.push_back({position, piece});
    }
  }
  sections = std::max(0, lastSection - firstSection);

  std::sort(fixed.begin(), fixed.end(), [](const FixedPiece &a, const FixedPiece &b) {
    return std::tuple(a.piece.low, a.position, a.piece.begin) <
           std::tuple(b.piece.low, b.position, b.piece.begin);
  });
  // With very many, the bytes under anchors are given up.
  const bool canAnchor = static_cast<int64_t>(fixed.size()) * total <= maxBlockEntries;
  std::vector<Bytes> groundOf(sections, 0);
  for (size_t f = 0; f < fixed.size(); ++f) {
    const ModelPiece &piece = fixed[f].piece;
    const auto first = groundOf.begin() + (piece.begin - firstSection),
               last = groundOf.begin() + (piece.end - firstSection);
    const bool isSolid = std::all_of(first, last, [&](Bytes bytes) { return bytes == piece.low; });
    if (isSolid || !canAnchor) {
      std::transform(first, last, first, [&](Bytes bytes) { return std::max(bytes, piece.high); });
      complete &= isSolid;
      continue;
    }
    entries.push_back({piece.begin, fixed[f].position, static_cast<int32_t>(f)});
    grain = std::gcd(grain, piece.low);
    anchored = true;
  }
  grain = std::max<Bytes>(grain, 1);

  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::tuple(a.begin, a.position, a.anchor) < std::tuple(b.begin, b.position, b.anchor);
  });
  count = static_cast<int32_t>(entries.size());
  firstPiece.push_back(0);
  for (const Entry &entry : entries) {
    source.push_back(entry.position);
    const Item &item = model.items[items[entry.position]];
    if (entry.anchor >= 0)
      addAnchor(item, fixed[entry.anchor].piece, firstSection);
    else
      addItem(model, item, firstSection);
  }
  findGrounds(groundOf, groundLevel);
  buildBlocks();
  buildTwins();
}

void SearchData::addAnchor(const Item &item, const ModelPiece &piece, int32_t firstSection) {
  begin.push_back(piece.begin - firstSection);
  end.push_back(piece.end - firstSection);
  size.push_back(piece.high - piece.low);
  step.push_back(alignUp(size.back(), grain));
  alignment.push_back(grain);
  lifetime.push_back(item.lifetime);
  birth.push_back(item.birth);
  isAnchor.push_back(1);
  ground.push_back(piece.low);
  anchors.push_back(static_cast<int32_t>(isAnchor.size()) - 1);
  pieces.push_back({begin.back(), end.back(), 0, step.back()});
  firstPiece.push_back(static_cast<int32_t>(pieces.size()));
}

/// By item: the lowest base on `groundOf`, by section, and the largest load of its sections.
void SearchData::findGrounds(const std::vector<Bytes> &groundOf, Bytes groundLevel) {
  findAnchors();
  std::vector<Bytes> loadOf(sections + 1, 0);
  for (const ModelPiece &piece : pieces) {
    loadOf[piece.begin] += piece.high - piece.low;
    loadOf[piece.end] -= piece.high - piece.low;
  }
  std::partial_sum(loadOf.begin(), loadOf.end(), loadOf.begin());
  for (int32_t i = 0; i < count; ++i) {
    load.push_back(0);
    Bytes base = groundLevel;
    for (int32_t p = firstPiece[i]; p < firstPiece[i + 1]; ++p)
      for (int32_t s = pieces[p].begin; s < pieces[p].end; ++s) {
        base = std::max(base, groundOf[s] - pieces[p].low);
        load[i] = std::max(load[i], loadOf[s]);
      }
    if (isAnchor[i])
      continue;
    ground[i] = clear(i, alignUp(base, alignment[i]));
  }
}

void SearchData::findAnchors() {
  std::sort(anchors.begin(), anchors.end(), [&](int32_t a, int32_t b) {
    return std::pair(ground[a], a) < std::pair(ground[b], b);
  });
  firstAnchor.assign(count + 1, 0);
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t anchor : anchors)
      if (!isAnchor[i] && begin[anchor] < end[i] && begin[i] < end[anchor])
        anchorsOf.push_back(anchor);
    firstAnchor[i + 1] = static_cast<int32_t>(anchorsOf.size());
  }
}

Bytes SearchData::clear(int32_t item, Bytes base) const {
  for (bool isClear = false; !isClear;) {
    isClear = true;
    for (int32_t k = firstAnchor[item]; k < firstAnchor[item + 1]; ++k) {
      const int32_t anchor = anchorsOf[k];
      for (int32_t p = firstPiece[item]; p < firstPiece[item + 1]; ++p) {
        const ModelPiece &piece = pieces[p];
        if (begin[anchor] < piece.end && piece.begin < end[anchor] &&
            base + piece.low < ground[anchor] + step[anchor] &&
            ground[anchor] < base + piece.high) {
          base = alignUp(ground[anchor] + step[anchor] - piece.low, alignment[item]);
          isClear = false;
        }
      }
    }
  }
  return base;
}

void SearchData::addItem(const Model &model, const Item &item, int32_t firstSection) {
  begin.push_back(item.begin - firstSection);
  end.push_back(item.end - firstSection);
  size.push_back(item.size);
  step.push_back(alignUp(item.size, grain));
  alignment.push_back(item.alignment);
  lifetime.push_back(item.lifetime);
  birth.push_back(item.birth);
  isAnchor.push_back(0);
  ground.push_back(0); // until all anchors are known
  for (ModelPiece piece : hullPieces(model, item)) {
    piece.begin -= firstSection;
    piece.end -= firstSection;
    piece.high = alignUp(piece.high, grain); // lows are multiples: they are offsets of members
    complete &= piece.low == 0;              // bytes under an overhang are not used
    pieces.push_back(piece);
  }
  // Two slices of a storage at one time: the hull takes the bytes between them.
  for (int32_t p = item.firstPiece; p + 1 < item.lastPiece && complete; ++p)
    for (int32_t q = p + 1; q < item.lastPiece; ++q)
      complete &= model.pieces[p].end <= model.pieces[q].begin ||
                  model.pieces[q].end <= model.pieces[p].begin;
  firstPiece.push_back(static_cast<int32_t>(pieces.size()));
  rectangles &= firstPiece[firstPiece.size() - 1] - firstPiece[firstPiece.size() - 2] == 1;
}

void SearchData::buildBlocks() {
  firstFrom.assign(sections + 1, 0);
  for (int32_t i = 0; i < count; ++i)
    ++firstFrom[begin[i]];
  int32_t before = 0;
  for (int32_t &entry : firstFrom)
    before += std::exchange(entry, before);

  auto entries = [&] {
    int64_t sum = 0;
    for (int32_t i = 0; i < count; ++i)
      sum += ((end[i] - 1) >> blockShift) - (begin[i] >> blockShift) + 1;
    return sum;
  };
  while (entries() > maxBlockEntries && (sections >> blockShift) > 1)
    ++blockShift;
  blockStart.assign(static_cast<size_t>((std::max(1, sections) - 1) >> blockShift) + 2, 0);
  for (int32_t i = 0; i < count; ++i)
    for (int32_t block = begin[i] >> blockShift; block <= (end[i] - 1) >> blockShift; ++block)
      ++blockStart[block + 1];
  std::partial_sum(blockStart.begin(), blockStart.end(), blockStart.begin());
  blockItem.resize(blockStart.back());
  std::vector<int64_t> fill(blockStart.begin(), blockStart.end() - 1);
  for (int32_t i = 0; i < count; ++i)
    for (int32_t block = begin[i] >> blockShift; block <= (end[i] - 1) >> blockShift; ++block)
      blockItem[fill[block]++] = i;

  // An item misses those that end before it begins and those that begin after it ends.
  std::vector<int32_t> ended(sections + 1, 0);
  for (int32_t i = 0; i < count; ++i)
    ++ended[end[i]];
  std::partial_sum(ended.begin(), ended.end(), ended.begin());
  for (int32_t i = 0; i < count; ++i)
    overlaps.push_back(firstFrom[end[i]] - ended[begin[i]] - 1);
}

void SearchData::buildTwins() {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int32_t i) { return std::tuple(begin[i], end[i], alignment[i], ground[i]); };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::tuple(key(a), -size[a], a) < std::tuple(key(b), -size[b], b);
  });
  twinBefore.assign(count, -1);
  twinAfter.assign(count, -1);
  auto isRectangle = [&](int32_t i) { return firstPiece[i + 1] - firstPiece[i] == 1; };
  for (int32_t k = 1; k < count; ++k) {
    const int32_t a = order[k - 1], b = order[k];
    if (key(a) != key(b) || !isRectangle(a) || !isRectangle(b) || isAnchor[a] || isAnchor[b])
      continue;
    twinBefore[b] = a;
    twinAfter[a] = b;
  }
}

std::optional<Bytes> SearchData::lift(int32_t lower, int32_t upper) const {
  std::optional<Bytes> most;
  for (int32_t p = firstPiece[lower]; p < firstPiece[lower + 1]; ++p)
    for (int32_t q = firstPiece[upper]; q < firstPiece[upper + 1]; ++q)
      if (pieces[p].begin < pieces[q].end && pieces[q].begin < pieces[p].end)
        most = std::max(most.value_or(0), std::max<Bytes>(1, pieces[p].high - pieces[q].low));
  return most;
}

} // namespace stow::pack
