#include "ir/plan/pack/Bound.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace stow::pack {

namespace {

constexpr size_t maxLevels = 16;

/// The start or end of a piece in the sweep.
struct Event {
  Time time;
  bool birth;
  int32_t piece;
};

/// Events in time order with deaths first, since lifetimes are half-open.
std::vector<Event> eventsOf(const StorageTable &table) {
  std::vector<Event> events;
  events.reserve(2 * table.pieces.size());
  for (int32_t i = 0; i < static_cast<int32_t>(table.pieces.size()); ++i) {
    events.push_back({table.pieces[i].life.begin, true, i});
    events.push_back({table.pieces[i].life.end, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
    return std::tuple(a.time, a.birth, a.piece) < std::tuple(b.time, b.birth, b.piece);
  });
  return events;
}

Bytes loadOf(const StorageTable &table, const std::vector<Event> &events) {
  Bytes live = 0, load = 0;
  for (const Event &event : events) {
    const Piece &piece = table.pieces[event.piece];
    live += event.birth ? piece.high - piece.low : piece.low - piece.high;
    load = std::max(load, live);
  }
  return load;
}

/// The rounded load of the pieces that start at multiples of `level` wherever their storage goes.
Bytes roundedLoad(const StorageTable &table, const std::vector<Event> &events,
                  const std::vector<Bytes> &alignmentOfPiece, Bytes level) {
  Bytes live = 0, bound = 0;
  std::map<Bytes, int64_t> roundings; // rounding -> live pieces that have it
  for (const Event &event : events) {
    const Piece &piece = table.pieces[event.piece];
    if (alignmentOfPiece[event.piece] % level != 0 || piece.low % level != 0)
      continue;
    const Bytes size = piece.high - piece.low, rounded = alignUp(size, level);
    if (event.birth) {
      live += rounded;
      ++roundings[rounded - size];
      bound = std::max(bound, live - roundings.rbegin()->first);
    } else {
      live -= rounded;
      auto entry = roundings.find(rounded - size);
      if (--entry->second == 0)
        roundings.erase(entry);
    }
  }
  return bound;
}

} // namespace

Bytes maxLoad(const Problem &problem) {
  const StorageTable table = storageTable(problem);
  return loadOf(table, eventsOf(table));
}

Bytes lowerBound(const Problem &problem) { return lowerBound(problem, storageTable(problem)); }

Bytes lowerBound(const Problem &problem, const StorageTable &table) {
  const std::vector<Event> events = eventsOf(table);
  Bytes bound = loadOf(table, events);
  std::map<Bytes, int64_t> uses;
  std::vector<Bytes> alignmentOfPiece(table.pieces.size());
  for (const Storage &storage : table.storages) {
    ++uses[storage.alignment];
    for (int32_t i = storage.firstPiece; i < storage.lastPiece; ++i) {
      alignmentOfPiece[i] = storage.alignment;
      if (storage.fixedBase)
        bound = std::max(bound, *storage.fixedBase + table.pieces[i].high);
    }
  }
  for (const Buffer &buffer : problem.buffers) // empty ones have no pieces
    if (buffer.fixedOffset)
      bound = std::max(bound, *buffer.fixedOffset + buffer.size);
  std::vector<std::pair<int64_t, Bytes>> levels;
  for (auto [alignment, count] : uses)
    if (alignment > 1)
      levels.push_back({-count, alignment});
  std::sort(levels.begin(), levels.end());
  levels.resize(std::min(levels.size(), maxLevels));
  for (auto [count, level] : levels)
    bound = std::max(bound, roundedLoad(table, events, alignmentOfPiece, level));
  return bound;
}

} // namespace stow::pack
