#include "passes/solvers/pack/Model.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace stow::pack {

namespace {

/// Sets the sections of all pieces: a section ends when something dies, and the next one starts
/// with the first birth after that.
void assignSections(Model &model, const StorageTable &table, const std::vector<int32_t> &source) {
  struct Event {
    Time time;
    bool birth;
    int32_t piece;
  };
  std::vector<Event> events;
  events.reserve(2 * model.pieces.size());
  for (int32_t i = 0; i < static_cast<int32_t>(model.pieces.size()); ++i) {
    events.push_back({table.pieces[source[i]].life.begin, true, i});
    events.push_back({table.pieces[source[i]].life.end, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
    return std::tuple(a.time, a.birth, a.piece) < std::tuple(b.time, b.birth, b.piece);
  });
  int32_t section = 0;
  bool diedSince = false;
  for (const Event &event : events) {
    if (!event.birth) {
      model.pieces[event.piece].end = section + 1;
      diedSince = true;
      continue;
    }
    section += diedSince;
    diedSince = false;
    model.pieces[event.piece].begin = section;
  }
  model.sections = events.empty() ? 0 : section + 1;
}

} // namespace

Solution Model::solution(const std::vector<Bytes> &bases) const {
  Solution result;
  result.offsets.resize(itemOfBuffer.size());
  for (size_t i = 0; i < itemOfBuffer.size(); ++i)
    result.offsets[i] = relative[i] + (itemOfBuffer[i] < 0 ? emptyBase[i] : bases[itemOfBuffer[i]]);
  result.height = heightOf(*problem, result.offsets);
  return result;
}

Model makeModel(const Problem &problem) { return makeModel(problem, storageTable(problem)); }

Model makeModel(const Problem &problem, StorageTable table) {
  Model model;
  model.problem = &problem;
  std::vector<int32_t> itemOfStorage(table.storages.size(), -1);
  std::vector<int32_t> source;
  model.items.reserve(table.storages.size());
  model.pieces.reserve(table.pieces.size());
  for (size_t s = 0; s < table.storages.size(); ++s) {
    const Storage &storage = table.storages[s];
    if (storage.firstPiece == storage.lastPiece)
      continue;
    itemOfStorage[s] = static_cast<int32_t>(model.items.size());
    Item item{};
    item.firstPiece = static_cast<int32_t>(model.pieces.size());
    item.alignment = storage.alignment;
    item.fixedBase = storage.fixedBase;
    item.birth = table.pieces[storage.firstPiece].life.begin;
    item.low = table.pieces[storage.firstPiece].low;
    Time death = item.birth;
    for (int32_t p = storage.firstPiece; p < storage.lastPiece; ++p) {
      const Piece &piece = table.pieces[p];
      model.pieces.push_back({0, 0, piece.low, piece.high});
      source.push_back(p);
      item.low = std::min(item.low, piece.low);
      item.size = std::max(item.size, piece.high);
      death = std::max(death, piece.life.end);
    }
    item.lifetime = death - item.birth;
    item.lastPiece = static_cast<int32_t>(model.pieces.size());
    model.items.push_back(item);
  }
  assignSections(model, table, source);
  for (Item &item : model.items) {
    item.begin = model.pieces[item.firstPiece].begin;
    item.end = item.begin;
    for (int32_t p = item.firstPiece; p < item.lastPiece; ++p)
      item.end = std::max(item.end, model.pieces[p].end);
  }
  const size_t count = problem.buffers.size();
  model.itemOfBuffer.resize(count);
  model.emptyBase.assign(count, 0);
  for (size_t i = 0; i < count; ++i) {
    const int32_t storage = table.ofBuffer[i];
    model.itemOfBuffer[i] = itemOfStorage[storage];
    if (model.itemOfBuffer[i] < 0)
      model.emptyBase[i] = table.storages[storage].fixedBase.value_or(0);
  }
  model.relative = std::move(table.relative);
  return model;
}

Model restrictTo(const Model &model, const std::vector<int32_t> &items) {
  Model part;
  part.problem = model.problem;
  part.items.reserve(items.size());
  part.pieces.reserve(items.size());
  std::vector<char> isBirth(model.sections + 1, 0), isDeath(model.sections + 1, 0);
  for (int32_t index : items) {
    isBirth[model.items[index].begin] = 1;
    isDeath[model.items[index].end] = 1;
  }
  std::vector<int32_t> sectionOf(model.sections + 1, 0);
  bool diedSince = false;
  for (int32_t s = 0; s < model.sections; ++s) {
    diedSince |= isDeath[s] != 0;
    if (isBirth[s]) {
      part.sections += diedSince;
      diedSince = false;
    }
    sectionOf[s] = part.sections;
  }
  part.sections += !items.empty();
  for (int32_t index : items) {
    Item item = model.items[index];
    ModelPiece piece = model.pieces[item.firstPiece];
    item.begin = piece.begin = sectionOf[item.begin];
    item.end = piece.end = sectionOf[item.end - 1] + 1;
    part.pieces.push_back(piece);
    item.firstPiece = static_cast<int32_t>(part.pieces.size()) - 1;
    item.lastPiece = item.firstPiece + 1;
    part.items.push_back(item);
  }
  return part;
}

std::vector<int64_t> overlapDegrees(const Model &model) {
  // An item misses those that end before it begins and those that begin after it ends.
  std::vector<int64_t> begun(model.sections + 1, 0), ended(model.sections + 1, 0);
  for (const Item &item : model.items) {
    ++begun[item.begin + 1];
    ++ended[item.end];
  }
  for (int32_t s = 0; s < model.sections; ++s) {
    begun[s + 1] += begun[s];
    ended[s + 1] += ended[s];
  }
  std::vector<int64_t> degrees;
  degrees.reserve(model.items.size());
  for (const Item &item : model.items)
    degrees.push_back(begun[item.end] - ended[item.begin] - 1);
  return degrees;
}

int64_t overlappingPairs(const Model &model, const std::vector<int32_t> &items) {
  // Each pair is counted where its later item begins: with those live then and those that begin
  // together with it.
  int32_t first = model.sections, last = 0;
  for (int32_t index : items) {
    first = std::min(first, model.items[index].begin);
    last = std::max(last, model.items[index].end);
  }
  std::vector<int64_t> births(std::max(0, last - first) + 1, 0), deaths(births);
  for (int32_t index : items) {
    ++births[model.items[index].begin - first];
    ++deaths[model.items[index].end - first];
  }
  int64_t live = 0, pairs = 0;
  for (size_t s = 0; s < births.size(); ++s) {
    live -= deaths[s];
    pairs += births[s] * live + births[s] * (births[s] - 1) / 2;
    live += births[s];
  }
  return pairs;
}

std::vector<Bytes> sectionLoads(const Model &model) {
  std::vector<Bytes> load(model.sections + 1, 0);
  for (const ModelPiece &piece : model.pieces) {
    load[piece.begin] += piece.high - piece.low;
    load[piece.end] -= piece.high - piece.low;
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  load.pop_back();
  return load;
}

Bytes modelLoad(const Model &model) {
  const std::vector<Bytes> load = sectionLoads(model);
  return load.empty() ? 0 : *std::max_element(load.begin(), load.end());
}

std::vector<Bytes> largestLoads(const Model &model) {
  // A tree of maxima, its leaves from `sections` on.
  const int32_t sections = model.sections;
  std::vector<Bytes> tree(sections, 0);
  const std::vector<Bytes> load = sectionLoads(model);
  tree.insert(tree.end(), load.begin(), load.end());
  for (int32_t node = sections - 1; node > 0; --node)
    tree[node] = std::max(tree[2 * node], tree[2 * node + 1]);
  std::vector<Bytes> largest;
  for (const Item &item : model.items) {
    Bytes most = 0;
    for (int32_t left = item.begin + sections, right = item.end + sections; left < right;
         left /= 2, right /= 2) {
      if (left & 1)
        most = std::max(most, tree[left++]);
      if (right & 1)
        most = std::max(most, tree[--right]);
    }
    largest.push_back(most);
  }
  return largest;
}

} // namespace stow::pack
