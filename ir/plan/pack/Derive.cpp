#include "ir/plan/pack/Derive.h"
#include "ir/plan/Random.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <numeric>
#include <tuple>

namespace stow::pack {

namespace {

/// A placed buffer.
struct Rectangle {
  Time begin, end;
  Bytes low, high;

  bool overlaps(const Rectangle &other) const {
    return begin < other.end && other.begin < end && low < other.high && other.low < high;
  }
};

/// A packing under change. Steps in time and bytes are multiples of the greatest common divisors.
class Canvas {
public:
  Canvas(const Certified &original, uint64_t seed)
      : random(seed * 64 + 17), height(original.packing.height) {
    for (size_t i = 0; i < original.problem.buffers.size(); ++i) {
      const Buffer &buffer = original.problem.buffers[i];
      const Bytes low = original.packing.offsets[i];
      boxes.push_back({buffer.life.begin, buffer.life.end, low, low + buffer.size});
      byteStep = std::gcd(std::gcd(byteStep, buffer.size), low);
    }
    first = boxes.empty() ? 0 : boxes[0].begin;
    last = first;
    for (const Rectangle &box : boxes) {
      first = std::min(first, box.begin);
      last = std::max(last, box.end);
    }
    for (const Rectangle &box : boxes)
      timeStep = std::gcd(std::gcd(timeStep, box.begin - first), box.end - first);
    byteStep = std::max<Bytes>(1, std::gcd(byteStep, height));
    timeStep = std::max<Time>(1, timeStep);
  }

  void change(Derivation derivation);
  Certified finish();

private:
  void reverse() {
    for (Rectangle &box : boxes)
      box = {first + last - box.end, first + last - box.begin, box.low, box.high};
  }
  void shrink();
  void drop();
  void cutSome(double share, double inTime);
  bool cut(size_t index, bool inTime);
  int32_t mergeOnce(size_t index);
  void mergeAll();
  void scramble();
  bool isFree(const Rectangle &space, size_t except) const;
  void lengthen();
  void grow();
  void fill();
  void stackTime();
  void stackBytes();
  void join(bool inTime, int64_t seam);
  void shuffle() {
    for (size_t i = boxes.size(); i > 1; --i)
      std::swap(boxes[i - 1], boxes[random.integer(0, static_cast<int64_t>(i) - 1)]);
  }

  Random random;
  Bytes height;
  Bytes byteStep = 0;
  Time timeStep = 0, first = 0, last = 0;
  std::vector<Rectangle> boxes;
};

void Canvas::shrink() {
  for (Rectangle &box : boxes) {
    if (!random.chance(1.0 / 3))
      continue;
    const int64_t bytes = (box.high - box.low) / byteStep, times = (box.end - box.begin) / timeStep;
    switch (random.integer(0, 2)) {
    case 0:
      box.high -= random.integer(0, bytes / 2) * byteStep;
      break;
    case 1:
      box.begin += random.integer(0, times / 2) * timeStep;
      break;
    default:
      box.end -= random.integer(0, times / 2) * timeStep;
      break;
    }
  }
}

void Canvas::drop() {
  const size_t before = boxes.size();
  std::erase_if(boxes, [&](const Rectangle &) { return random.chance(0.1); });
  if (boxes.empty() && before > 0)
    boxes.push_back({first, last, 0, height});
}

/// Cuts a buffer in two at random; false when it is a single step long.
bool Canvas::cut(size_t index, bool inTime) {
  Rectangle &box = boxes[index];
  Rectangle rest = box;
  if (inTime) {
    const int64_t steps = (box.end - box.begin) / timeStep;
    if (steps < 2)
      return false;
    rest.begin = box.end = box.begin + random.integer(1, steps - 1) * timeStep;
  } else {
    const int64_t steps = (box.high - box.low) / byteStep;
    if (steps < 2)
      return false;
    rest.low = box.high = box.low + random.integer(1, steps - 1) * byteStep;
  }
  boxes.push_back(rest);
  return true;
}

void Canvas::cutSome(double share, double inTime) {
  for (size_t i = 0, count = boxes.size(); i < count; ++i)
    if (random.chance(share))
      cut(i, random.chance(inTime));
}

/// Joins the buffer with one that shares a whole edge; gives the position of the latter, which is
/// removed, or -1.
int32_t Canvas::mergeOnce(size_t index) {
  Rectangle &box = boxes[index];
  for (size_t other = 0; other < boxes.size(); ++other) {
    const Rectangle &next = boxes[other];
    const bool above = next.begin == box.begin && next.end == box.end && next.low == box.high;
    const bool after = next.low == box.low && next.high == box.high && next.begin == box.end;
    if (!above && !after)
      continue;
    box.end = next.end;
    box.high = next.high;
    boxes.erase(boxes.begin() + static_cast<int64_t>(other));
    return static_cast<int32_t>(other);
  }
  return -1;
}

void Canvas::mergeAll() {
  shuffle();
  for (size_t i = 0; i < boxes.size();) {
    const int32_t gone = mergeOnce(i);
    if (gone < 0)
      ++i;
    else if (gone < static_cast<int32_t>(i))
      --i;
  }
}

void Canvas::scramble() {
  const size_t count = boxes.size();
  for (int round = 0; round < 6; ++round) {
    cutSome(0.3, 0.5);
    mergeAll();
  }
  while (boxes.size() > count + count / 4) { // few can be merged again: leave the smallest out
    auto area = [](const Rectangle &box) {
      return static_cast<double>(box.end - box.begin) * static_cast<double>(box.high - box.low);
    };
    boxes.erase(std::min_element(boxes.begin(), boxes.end(), [&](const auto &a, const auto &b) {
      return std::tuple(area(a), a.begin, a.low) < std::tuple(area(b), b.begin, b.low);
    }));
  }
}

bool Canvas::isFree(const Rectangle &space, size_t except) const {
  for (size_t i = 0; i < boxes.size(); ++i)
    if (i != except && boxes[i].overlaps(space))
      return false;
  return space.begin >= first && space.end <= last && space.low >= 0 && space.high <= height;
}

/// Lives reach back and forth to the next buffer in the way.
void Canvas::lengthen() {
  shuffle();
  for (size_t i = 0; i < boxes.size(); ++i) {
    Time begin = first, end = last;
    for (const Rectangle &other : boxes)
      if (other.low < boxes[i].high && boxes[i].low < other.high) {
        if (other.end <= boxes[i].begin)
          begin = std::max(begin, other.end);
        if (other.begin >= boxes[i].end)
          end = std::min(end, other.begin);
      }
    boxes[i].begin = begin;
    boxes[i].end = end;
  }
}

/// Sizes reach down and up to the next buffer in the way.
void Canvas::grow() {
  shuffle();
  for (size_t i = 0; i < boxes.size(); ++i) {
    Bytes low = 0, high = height;
    for (const Rectangle &other : boxes)
      if (other.begin < boxes[i].end && boxes[i].begin < other.end) {
        if (other.high <= boxes[i].low)
          low = std::max(low, other.high);
        if (other.low >= boxes[i].high)
          high = std::min(high, other.low);
      }
    boxes[i].low = low;
    boxes[i].high = high;
  }
}

/// New buffers in all free space: each starts where a buffer ends and reaches as far as it can.
void Canvas::fill() {
  std::vector<Time> times{first, last};
  for (const Rectangle &box : boxes) {
    times.push_back(box.begin);
    times.push_back(box.end);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  for (size_t t = 0; t + 1 < times.size(); ++t) {
    std::vector<std::pair<Bytes, Bytes>> taken{{height, height}};
    for (const Rectangle &box : boxes)
      if (box.begin <= times[t] && times[t] < box.end)
        taken.push_back({box.low, box.high});
    std::sort(taken.begin(), taken.end());
    Bytes top = 0;
    for (const auto &[low, high] : taken) {
      if (low > top) {
        Rectangle space{times[t], times[t + 1], top, low};
        for (size_t u = t + 2; u < times.size(); ++u) {
          Rectangle longer = space;
          longer.end = times[u];
          if (!isFree(longer, boxes.size()))
            break;
          space = longer;
        }
        boxes.push_back(space);
      }
      top = std::max(top, high);
    }
  }
}

/// Joins buffers across a seam (a time, or a height): where two meet along part of their edges,
/// the common part becomes one buffer and what juts out is cut off.
void Canvas::join(bool inTime, int64_t seam) {
  // Seen along the seam; `side` is where the buffer ends.
  auto from = [&](const Rectangle &box) { return inTime ? box.low : box.begin; };
  auto to = [&](const Rectangle &box) { return inTime ? box.high : box.end; };
  auto setFrom = [&](Rectangle &box, int64_t v) { (inTime ? box.low : box.begin) = v; };
  auto setTo = [&](Rectangle &box, int64_t v) { (inTime ? box.high : box.end) = v; };
  for (size_t i = 0, count = boxes.size(); i < count; ++i) {
    if ((inTime ? boxes[i].end : boxes[i].high) != seam || !random.chance(0.4))
      continue;
    for (size_t j = 0; j < boxes.size(); ++j) {
      if ((inTime ? boxes[j].begin : boxes[j].low) != seam || i == j)
        continue;
      const int64_t low = std::max(from(boxes[i]), from(boxes[j]));
      const int64_t high = std::min(to(boxes[i]), to(boxes[j]));
      if (low >= high)
        continue;
      for (size_t k : {i, j}) {
        Rectangle rest = boxes[k];
        if (from(boxes[k]) < low) {
          setTo(rest, low);
          boxes.push_back(rest);
          rest = boxes[k];
        }
        if (to(boxes[k]) > high) {
          setFrom(rest, high);
          boxes.push_back(rest);
        }
        setFrom(boxes[k], low);
        setTo(boxes[k], high);
      }
      (inTime ? boxes[i].end : boxes[i].high) = inTime ? boxes[j].end : boxes[j].high;
      boxes[j].end = boxes[j].begin; // empty; swept below
      break;
    }
  }
  std::erase_if(boxes, [](const Rectangle &box) { return box.begin == box.end; });
}

void Canvas::stackTime() {
  const size_t count = boxes.size();
  for (size_t i = 0; i < count; ++i) { // mirrored in time and bytes
    const Rectangle &box = boxes[i];
    boxes.push_back(
        {2 * last - box.end, 2 * last - box.begin, height - box.high, height - box.low});
  }
  join(true, last);
  last = 2 * last - first;
}

void Canvas::stackBytes() {
  const size_t count = boxes.size();
  for (size_t i = 0; i < count; ++i) {
    const Rectangle &box = boxes[i];
    boxes.push_back({first + last - box.end, first + last - box.begin, 2 * height - box.high,
                     2 * height - box.low});
  }
  join(false, height);
  height *= 2;
}

void Canvas::change(Derivation derivation) {
  switch (derivation) {
  case Derivation::Reverse:
    return reverse();
  case Derivation::Shrink:
    return shrink();
  case Derivation::Drop:
    return drop();
  case Derivation::CutTime:
    return cutSome(0.25, 1);
  case Derivation::CutBytes:
    return cutSome(0.25, 0);
  case Derivation::Merge:
    return mergeAll();
  case Derivation::Scramble:
    return scramble();
  case Derivation::Lengthen:
    return lengthen();
  case Derivation::Grow:
    return grow();
  case Derivation::Saturate:
    lengthen();
    grow();
    return fill();
  case Derivation::StackTime:
    return stackTime();
  case Derivation::StackBytes:
    return stackBytes();
  }
}

Certified Canvas::finish() {
  shuffle();
  Certified result;
  for (size_t i = 0; i < boxes.size(); ++i) {
    Buffer buffer;
    buffer.name = absl::StrCat("d", i);
    buffer.life = {boxes[i].begin, boxes[i].end};
    buffer.size = boxes[i].high - boxes[i].low;
    result.problem.buffers.push_back(std::move(buffer));
    result.packing.offsets.push_back(boxes[i].low);
  }
  result.packing.height = heightOf(result.problem, result.packing.offsets);
  return result;
}

} // namespace

const char *name(Derivation derivation) {
  constexpr const char *names[] = {"reverse",   "shrink",   "drop",       "cut-time",
                                   "cut-bytes", "merge",    "scramble",   "lengthen",
                                   "grow",      "saturate", "stack-time", "stack-bytes"};
  return names[static_cast<size_t>(derivation)];
}

Certified derive(const Certified &original, Derivation derivation, uint64_t seed) {
  Canvas canvas(original, seed);
  canvas.change(derivation);
  return canvas.finish();
}

} // namespace stow::pack
