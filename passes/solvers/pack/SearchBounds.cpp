#include "passes/solvers/pack/Search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stow::pack {

double Search::keyOf(int32_t item, SearchKey key) const {
  switch (key) {
  case SearchKey::Area:
    return static_cast<double>(data.size[item]) * (data.end[item] - data.begin[item]);
  case SearchKey::Width:
    return static_cast<double>(data.lifetime[item]);
  case SearchKey::Peak:
    return static_cast<double>(data.load[item]);
  case SearchKey::Sections:
    return data.end[item] - data.begin[item];
  case SearchKey::Overlaps:
    return static_cast<double>(data.overlaps[item]);
  case SearchKey::Size:
    return static_cast<double>(data.size[item]);
  case SearchKey::Early:
    return -static_cast<double>(data.birth[item]);
  case SearchKey::Late:
    return static_cast<double>(data.birth[item] + data.lifetime[item]);
  }
  return 0;
}

void Search::makeRanks() {
  uint64_t random = options.seed * 0x9E3779B97F4A7C15ull + 0x1234567;
  auto next = [&] { // xorshift
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return static_cast<double>(random >> 11) * 0x1.0p-53;
  };
  std::vector<std::array<double, 4>> keys(data.count);
  for (int32_t i = 0; i < data.count; ++i) {
    for (size_t k = 0; k < options.order.size(); ++k)
      keys[i][k] = keyOf(i, options.order[k]);
    keys[i][3] = keyOf(i, SearchKey::Area);
    if (options.noise > 0)
      keys[i][0] *= std::exp2(options.noise * (2 * next() - 1));
  }
  std::vector<int32_t> order(data.count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return keys[a] != keys[b] ? keys[a] > keys[b] : data.source[a] < data.source[b];
  });
  rank.resize(data.count);
  for (int32_t i = 0; i < data.count; ++i)
    rank[order[i]] = i;
  tie.assign(data.sections, 0);
  if (options.noise > 0)
    for (uint32_t &value : tie)
      value = static_cast<uint32_t>(next() * 1e6);
}

/// Adds (+1) or removes (-1) `item` to or from what is to come in its sections.
void Search::shiftSections(int32_t item, int sign) {
  for (int32_t p = data.firstPiece[item]; p < data.firstPiece[item + 1]; ++p) {
    const ModelPiece &piece = data.pieces[p];
    const Bytes change = sign * (piece.high - piece.low);
    for (int32_t s = piece.begin; s < piece.end; ++s) {
      remaining[s] += change;
      coming[s] += sign;
    }
  }
  int32_t zeros = 0;
  for (int32_t s = data.begin[item] + 1; s < data.end[item]; ++s) {
    crossing[s] += sign;
    zeros += crossing[s] == 0;
  }
  cutAppeared = zeros > 0;
  work += data.end[item] - data.begin[item];
}

void Search::undo(size_t mark) {
  while (trailEnd() > mark) {
    const TrailEntry entry = trail.back();
    trail.pop_back();
    switch (entry.change) {
    case Change::Placing:
      shiftSections(entry.index, 1);
      break;
    case Change::Support:
      support[entry.index] = entry.value;
      groupIsStale[entry.index / groupSize] = 1;
      break;
    case Change::Lowest:
      lowest[entry.index] = entry.value;
      break;
    case Change::Status:
      state[entry.index] = static_cast<State>(entry.value);
      groupIsStale[entry.index / groupSize] = 1;
      break;
    case Change::Floor:
      floorOf[entry.index] = entry.value;
      break;
    case Change::Choices:
      choices[entry.index] = entry.value;
      break;
    case Change::Witness:
      watch(entry.index, static_cast<int32_t>(entry.value));
      break;
    }
  }
}

bool Search::initialise() {
  if (data.fixedTop > capacity)
    return false;
  state.assign(data.count, State::Open);
  support = data.ground;
  lowest = support;
  lifter.assign(data.count, -1);
  remaining.assign(data.sections, 0);
  coming.assign(data.sections, 0);
  crossing.assign(data.sections + 1, 0);
  groupBest.assign(data.count / groupSize + 1, -1);
  groupIsStale.assign(groupBest.size(), 1);
  if (watching) {
    witness.assign(data.sections, -1);
    firstWatched.assign(data.count, -1);
    nextWatched.assign(data.sections, -1);
    previousWatched.assign(data.sections, -1);
  } else {
    floorOf.assign(data.sections, 0);
    choices.assign(data.sections, 0);
    stamp.assign(data.sections, 0);
  }
  startChange();
  for (int32_t i = 0; i < data.count; ++i) {
    if (support[i] + data.size[i] > capacity)
      return false;
    shiftSections(i, 1);
  }
  for (int32_t i = 0; i < data.count; ++i) {
    if (watching)
      for (int32_t p = data.firstPiece[i]; p < data.firstPiece[i + 1]; ++p)
        for (int32_t s = data.pieces[p].begin; s < data.pieces[p].end; ++s)
          if (witness[s] < 0)
            watch(s, i);
    touch(i);
  }
  makeRanks();
  failures.resize(data.sections, 0);
  if (explaining) {
    reasons.reset(data.ground, 2 * data.count + 2);
    conflict.assign(reasons.wordCount(), 0);
    levelOf.assign(data.count, 0);
  }
  return settle();
}

/// Brings the touched sections and the deferred items up to date; false on a dead end.
bool Search::settle() {
  if (options.rules.support || options.rules.deadline)
    for (int32_t item : deferredItems)
      if (state[item] == State::Deferred && !refreshDeferred(item))
        return false;
  for (int32_t section : touched)
    if (!refreshSection(section))
      return false;
  if (options.rules.floor)
    for (int32_t item : raised)
      if (!refreshWitnesses(item))
        return false;
  return true;
}

/// A deferred item needs a neighbour below it that starts under its present top.
bool Search::refreshDeferred(int32_t item) {
  const bool isInFrame = progressBegin <= data.begin[item] && data.begin[item] < progressEnd;
  const Bytes least = isInFrame && data.count <= smallCount ? progress : 0;
  const Bytes top = support[item] + data.size[item];
  auto liftBy = [&](int32_t other) {
    return std::max(lowest[other], least) + (data.rectangles ? data.step[other] : 1);
  };
  ++work;
  if (const int32_t hint = lifter[item]; hint >= 0 && !isPlaced(hint) && lowest[hint] < top &&
                                         least < top && liftBy(hint) <= lowest[item])
    return true;
  Bytes lifted = unlimited, start = unlimited;
  work += data.forNeighbours(item, [&](int32_t other) {
    if (isPlaced(other) || data.isAnchor[other]) // `item` lies clear of the anchors
      return;
    start = std::min(start, std::max(lowest[other], least));
    if (liftBy(other) < lifted) {
      lifted = liftBy(other);
      lifter[item] = other;
    }
  });
  if (lifted == unlimited || (options.rules.deadline && start >= top)) {
    explainDeferred(item, unlimited, top);
    return false;
  }
  if (!options.rules.support)
    return true;
  const Bytes raised = data.clear(item, alignUp(lifted, data.alignment[item]));
  if (raised <= lowest[item])
    return true;
  explainDeferred(item, lifted, unlimited);
  if (raised + data.size[item] > capacity)
    return false;
  if (explaining)
    reasons.record(item, raised, conflict);
  setLowest(item, raised);
  touch(item);
  return true;
}

/// Recomputes ef and the number of choices of a section; false when its bytes no longer fit.
bool Search::refreshSection(int32_t section) {
  const Bytes limit = ceiling - remaining[section];
  Bytes floor = unlimited, low = 0;
  int64_t count = 0;
  if (coming[section] > 0) {
    const int32_t block = section >> data.blockShift;
    for (int64_t e = data.blockStart[block]; e < data.blockStart[block + 1]; ++e) {
      const int32_t item = data.blockItem[e];
      if (isPlaced(item) || !data.isLive(item, section, low))
        continue;
      floor = std::min(floor, lowest[item] + low);
      count += lowest[item] + low <= limit;
    }
    work += data.blockStart[block + 1] - data.blockStart[block];
  }
  if (floorOf[section] != floor) {
    trail.push_back({Change::Floor, section, floorOf[section]});
    floorOf[section] = floor;
  }
  if (choices[section] != count) {
    trail.push_back({Change::Choices, section, choices[section]});
    choices[section] = count;
  }
  if (!options.rules.floor || floor <= limit || coming[section] == 0)
    return true;
  explainSection(section, limit + 1);
  blameSection(section);
  return false;
}

/// Makes `item` the witness of `section`.
void Search::watch(int32_t section, int32_t item) {
  if (const int32_t old = witness[section]; old >= 0) {
    const int32_t next = nextWatched[section], previous = previousWatched[section];
    (previous >= 0 ? nextWatched[previous] : firstWatched[old]) = next;
    if (next >= 0)
      previousWatched[next] = previous;
  }
  witness[section] = item;
  previousWatched[section] = -1;
  nextWatched[section] = firstWatched[item];
  if (firstWatched[item] >= 0)
    previousWatched[firstWatched[item]] = section;
  firstWatched[item] = section;
}

/// Looks for other witnesses where `item` can no longer be the lowest; false where there is none.
bool Search::refreshWitnesses(int32_t item) {
  Bytes low = 0;
  for (int32_t section = firstWatched[item]; section >= 0;) {
    const int32_t next = nextWatched[section];
    const Bytes limit = ceiling - remaining[section];
    ++work;
    if (coming[section] > 0 &&
        (isPlaced(item) || !data.isLive(item, section, low) || lowest[item] + low > limit)) {
      const int32_t block = section >> data.blockShift;
      const int64_t first = data.blockStart[block], last = data.blockStart[block + 1];
      int64_t e = first;
      for (; e < last; ++e) {
        const int32_t other = data.blockItem[e];
        if (!isPlaced(other) && lowest[other] <= limit && data.isLive(other, section, low) &&
            lowest[other] + low <= limit)
          break;
      }
      work += e - first;
      if (e == last) {
        explainSection(section, limit + 1);
        blameSection(section);
        return false;
      }
      trail.push_back({Change::Witness, section, item});
      watch(section, data.blockItem[e]);
    }
    section = next;
  }
  return true;
}

bool Search::place(int32_t item) {
  ++nodes;
  startChange();
  setState(item, State::Placed);
  if (explaining)
    levelOf[item] = levelAt(frames.size() - 1);
  trail.push_back({Change::Placing, item, 0});
  shiftSections(item, -1);
  touch(item);
  const Bytes base = support[item], top = base + data.step[item];
  bool fits = true;
  work += data.forNeighbours(item, [&](int32_t other) {
    if (isPlaced(other) || data.isAnchor[other])
      return;
    Bytes above = top;
    if (!data.rectangles) {
      const std::optional<Bytes> lift = data.lift(item, other);
      if (!lift)
        return;
      above = base + *lift;
    }
    if (above <= support[other])
      return;
    above = data.clear(other, alignUp(above, data.alignment[other]));
    if (above > lowest[other])
      explainRaise(other, item, above);
    if (fits && above + data.size[other] > capacity) {
      fits = false;
      if (explaining) {
        conflict.assign(conflict.size(), 0);
        reasons.add(other, capacity - data.size[other] + 1, conflict);
      }
    }
    setSupport(other, above);
    if (state[other] == State::Deferred)
      setState(other, State::Open);
    if (above > lowest[other]) {
      setLowest(other, above);
      touch(other);
    }
  });
  return fits && settle();
}

bool Search::deferIn(const Frame &frame) {
  if (data.isAnchor[frame.item])
    return false; // nothing lifts it
  if (watching) {
    progress = support[frame.item];
    progressBegin = frame.begin;
    progressEnd = frame.end;
  }
  startChange();
  setState(frame.item, State::Deferred);
  if (explaining)
    reasons.record(frame.item, support[frame.item] + 1, levelAt(frames.size() - 1), 0);
  deferredItems.push_back(frame.item);
  return settle();
}

} // namespace stow::pack
