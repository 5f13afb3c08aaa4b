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

} // namespace

SearchData::SearchData(const Model &model, const std::vector<int32_t> &items, Bytes groundLevel)
    : total(static_cast<int32_t>(items.size())), fixedBases(items.size(), -1) {
  int32_t firstSection = model.sections, lastSection = 0;
  std::vector<int32_t> order;
  for (int32_t position = 0; position < total; ++position) {
    const Item &item = model.items[items[position]];
    firstSection = std::min(firstSection, item.begin);
    lastSection = std::max(lastSection, item.end);
    if (!item.fixedBase)
      order.push_back(position);
  }
  sections = std::max(0, lastSection - firstSection);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::pair(model.items[items[a]].begin, a) < std::pair(model.items[items[b]].begin, b);
  });

  // The fixed items are the ground. It is solid where they fill all bytes below their top.
  std::vector<Bytes> groundOf(sections, 0), fixedBytes(sections, 0);
  for (int32_t position = 0; position < total; ++position) {
    const Item &item = model.items[items[position]];
    if (!item.fixedBase)
      continue;
    fixedBases[position] = *item.fixedBase;
    fixedTop = std::max(fixedTop, *item.fixedBase + item.size);
    for (const ModelPiece &piece : hullPieces(model, item))
      for (int32_t s = piece.begin - firstSection; s < piece.end - firstSection; ++s) {
        groundOf[s] = std::max(groundOf[s], *item.fixedBase + piece.high);
        fixedBytes[s] += piece.high - piece.low;
      }
  }
  complete = groundOf == fixedBytes;

  count = static_cast<int32_t>(order.size());
  grain = 0;
  for (int32_t position : order)
    grain = std::gcd(grain, model.items[items[position]].alignment);
  grain = std::max<Bytes>(grain, 1);
  source = order;
  firstPiece.push_back(0);
  for (int32_t position : order)
    addItem(model, model.items[items[position]], firstSection);
  std::vector<Bytes> loadOf(sections + 1, 0);
  for (const ModelPiece &piece : pieces) {
    loadOf[piece.begin] += piece.high - piece.low;
    loadOf[piece.end] -= piece.high - piece.low;
  }
  std::partial_sum(loadOf.begin(), loadOf.end(), loadOf.begin());
  for (int32_t i = 0; i < count; ++i) {
    ground.push_back(alignUp(groundLevel, alignment[i]));
    load.push_back(0);
    for (int32_t p = firstPiece[i]; p < firstPiece[i + 1]; ++p)
      for (int32_t s = pieces[p].begin; s < pieces[p].end; ++s) {
        ground[i] = std::max(
            ground[i], alignUp(std::max<Bytes>(0, groundOf[s] - pieces[p].low), alignment[i]));
        load[i] = std::max(load[i], loadOf[s]);
      }
  }
  buildBlocks();
  buildTwins();
}

void SearchData::addItem(const Model &model, const Item &item, int32_t firstSection) {
  begin.push_back(item.begin - firstSection);
  end.push_back(item.end - firstSection);
  size.push_back(item.size);
  step.push_back(alignUp(item.size, grain));
  alignment.push_back(item.alignment);
  lifetime.push_back(item.lifetime);
  birth.push_back(item.birth);
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
    if (key(a) != key(b) || !isRectangle(a) || !isRectangle(b))
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
