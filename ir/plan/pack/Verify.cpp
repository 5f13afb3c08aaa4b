// A sweep over time keeps the live byte ranges in an ordered map. As long as no violation was met
// these ranges are disjoint, so a new range can only collide with its two neighbours. Members of
// one storage may cover each other; they are first cut into disjoint rectangles.
#include "ir/plan/pack/Verify.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <map>
#include <tuple>

namespace stow::pack {

namespace {

constexpr size_t maxViolations = 20;

/// A rectangle in time and bytes that belongs to `buffer`.
struct Rect {
  Time begin, end;
  Bytes low, high;
  BufferId buffer;
};

class Verifier {
public:
  Verifier(const Problem &problem, const Solution &solution)
      : problem(problem), offsets(solution.offsets), solution(solution) {}

  std::vector<Violation> run() {
    if (offsets.size() != problem.buffers.size()) {
      report(ViolationKind::Shape, 0, 0,
             absl::StrCat("solution has ", offsets.size(), " offsets for ", problem.buffers.size(),
                          " buffers"));
      return std::move(violations);
    }
    checkEach();
    if (violations.empty())
      checkOverlaps();
    return std::move(violations);
  }

private:
  void report(ViolationKind kind, BufferId first, BufferId second, const std::string &message) {
    if (violations.size() < maxViolations)
      violations.push_back({kind, first, second, message});
  }

  std::string place(BufferId id) const {
    return absl::StrCat("buffer '", problem.buffers[id].name, "' at ", offsets[id]);
  }

  void checkEach() {
    Bytes height = 0;
    for (BufferId id = 0; id < static_cast<BufferId>(offsets.size()); ++id) {
      const Buffer &buffer = problem.buffers[id];
      const Bytes offset = offsets[id];
      if (offset < 0)
        report(ViolationKind::Range, id, id, place(id) + " lies below the arena");
      if (offset % buffer.alignment != 0)
        report(ViolationKind::Alignment, id, id,
               absl::StrCat(place(id), " is not aligned to ", buffer.alignment));
      if (buffer.fixedOffset && *buffer.fixedOffset != offset)
        report(ViolationKind::Fixed, id, id,
               absl::StrCat(place(id), " was fixed at ", *buffer.fixedOffset));
      if (buffer.sameAs && offsets[*buffer.sameAs] != offset)
        report(ViolationKind::Link, id, *buffer.sameAs,
               place(id) + " does not share the storage of " + place(*buffer.sameAs));
      if (buffer.inside && offsets[buffer.inside->container] + buffer.inside->offset != offset)
        report(ViolationKind::Link, id, buffer.inside->container,
               absl::StrCat(place(id), " is not ", buffer.inside->offset, " bytes inside ",
                            place(buffer.inside->container)));
      height = std::max(height, offset + buffer.size);
    }
    if (height != solution.height)
      report(ViolationKind::Height, 0, 0,
             absl::StrCat("height ", solution.height, " is stated but ", height, " is used"));
  }

  /// The outermost buffer that `id` is tied to.
  BufferId storageOf(BufferId id) const {
    for (;;) {
      const Buffer &buffer = problem.buffers[id];
      if (buffer.sameAs)
        id = *buffer.sameAs;
      else if (buffer.inside)
        id = buffer.inside->container;
      else
        return id;
    }
  }

  /// Cuts the members of one storage, [first, last) of `rects`, at each other's borders, so that
  /// what is left is disjoint, and appends it to `out`.
  static void cut(std::vector<Rect>::iterator first, std::vector<Rect>::iterator last,
                  std::vector<Rect> &out) {
    std::vector<Time> times;
    for (auto it = first; it != last; ++it) {
      times.push_back(it->begin);
      times.push_back(it->end);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    std::vector<Rect> slab;
    for (size_t t = 0; t + 1 < times.size(); ++t) {
      slab.clear();
      for (auto it = first; it != last; ++it)
        if (it->begin <= times[t] && times[t] < it->end)
          slab.push_back(*it);
      std::sort(slab.begin(), slab.end(), [](const Rect &a, const Rect &b) {
        return std::pair(a.low, a.buffer) < std::pair(b.low, b.buffer);
      });
      Bytes covered = -1;
      for (const Rect &rect : slab) {
        Rect rest{times[t], times[t + 1], std::max(rect.low, covered), rect.high, rect.buffer};
        if (rest.low < rest.high)
          out.push_back(rest);
        covered = std::max(covered, rect.high);
      }
    }
  }

  std::vector<Rect> disjointPerStorage() const {
    const Interval whole = horizon(problem);
    std::vector<std::pair<BufferId, Rect>> keyed;
    for (BufferId id = 0; id < static_cast<BufferId>(offsets.size()); ++id) {
      const Buffer &buffer = problem.buffers[id];
      if (buffer.size == 0)
        continue;
      const Interval life = occupancy(buffer, whole);
      keyed.push_back(
          {storageOf(id), {life.begin, life.end, offsets[id], offsets[id] + buffer.size, id}});
    }
    std::sort(keyed.begin(), keyed.end(), [](const auto &a, const auto &b) {
      return std::pair(a.first, a.second.buffer) < std::pair(b.first, b.second.buffer);
    });
    std::vector<Rect> members, out;
    out.reserve(keyed.size());
    for (size_t i = 0; i < keyed.size();) {
      size_t j = i;
      members.clear();
      for (; j < keyed.size() && keyed[j].first == keyed[i].first; ++j)
        members.push_back(keyed[j].second);
      if (members.size() == 1)
        out.push_back(members.front());
      else
        cut(members.begin(), members.end(), out);
      i = j;
    }
    return out;
  }

  void checkOverlaps() {
    std::vector<Rect> rects = disjointPerStorage();
    struct Event {
      Time time;
      bool birth;
      size_t rect;
    };
    std::vector<Event> events;
    events.reserve(2 * rects.size());
    for (size_t i = 0; i < rects.size(); ++i) {
      events.push_back({rects[i].begin, true, i});
      events.push_back({rects[i].end, false, i});
    }
    // Deaths come before births: lifetimes are half-open.
    std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
      return std::tuple(a.time, a.birth, a.rect) < std::tuple(b.time, b.birth, b.rect);
    });
    std::map<Bytes, size_t> live;
    for (const Event &event : events) {
      const Rect &rect = rects[event.rect];
      if (!event.birth) {
        live.erase(rect.low);
        continue;
      }
      auto above = live.lower_bound(rect.low);
      if (above != live.end() && rects[above->second].low < rect.high)
        return reportOverlap(rect, rects[above->second]);
      if (above != live.begin() && rects[std::prev(above)->second].high > rect.low)
        return reportOverlap(rect, rects[std::prev(above)->second]);
      live.emplace_hint(above, rect.low, event.rect);
    }
  }

  void reportOverlap(const Rect &a, const Rect &b) {
    report(ViolationKind::Overlap, a.buffer, b.buffer,
           absl::StrCat(place(a.buffer), " and ", place(b.buffer), " share bytes at time ",
                        std::max(a.begin, b.begin)));
  }

  const Problem &problem;
  const std::vector<Bytes> &offsets;
  const Solution &solution;
  std::vector<Violation> violations;
};

} // namespace

std::vector<Violation> verify(const Problem &problem, const Solution &solution) {
  return Verifier(problem, solution).run();
}

} // namespace stow::pack
