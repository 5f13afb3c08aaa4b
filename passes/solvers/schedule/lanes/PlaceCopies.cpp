#include "passes/solvers/schedule/lanes/PlaceCopies.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <queue>

namespace stow::schedule {
namespace {

class Placer {
public:
  Placer(const Residency &residency, const std::vector<int32_t> &idle, Bytes budgetBytes)
      : residency(residency), budgetBytes(budgetBytes), peaks(residency.bytesAt),
        state(residency.spells.size(), State::Here), whole(residency.groupCount, 0),
        outOf(residency.groupCount, -1) {
    for (int32_t number : idle) {
      const Spell &spell = residency.spells[number];
      peaks.add(spell.from + 1, spell.to - 1, -spell.bytes);
    }
    std::merge(idle.begin(), idle.end(), residency.copied.begin(), residency.copied.end(),
               std::back_inserter(away));
    byFrom = away;
    std::sort(byFrom.begin(), byFrom.end(), [&](int32_t a, int32_t b) {
      return std::pair(residency.spells[a].from, a) < std::pair(residency.spells[b].from, b);
    });
    findOuts();
  }

  Placement place(Cost ahead) {
    for (int32_t position = 0; position <= residency.runs(); ++position) {
      startOuts(position);
      begin(position);
      const size_t first = due;
      end(position);
      makeRoom(position);
      startIns(position, ahead);
      for (size_t i = first; i < due; ++i) // of what this run reads
        if (state[away[i]] == State::ComesIn)
          result.events.push_back({Step::Kind::AwaitIn, away[i]});
      if (position < residency.runs() && !residency.isCopy[position])
        result.events.push_back({Step::Kind::Run, position});
    }
    awaitSent();
    finish();
    return std::move(result);
  }

private:
  enum class State : int8_t { Here, Leaving, Away, ComesIn, Stayed };

  /// The first spell of every group has the copy out.
  void findOuts() {
    std::vector<char> seen(residency.groupCount, 0);
    int32_t earliest = 0;
    for (int32_t number : byFrom) {
      const Spell &spell = residency.spells[number];
      if (spell.kind != Spell::Kind::Idle || seen[spell.group]++)
        continue;
      earliest = std::max(earliest, spell.ready);
      outs.push_back({number, earliest});
    }
  }

  void startOuts(int32_t position) {
    for (; nextOut < outs.size() && outs[nextOut].second <= position; ++nextOut)
      result.events.push_back({Step::Kind::Out, outs[nextOut].first});
  }

  /// Spells that begin with this position.
  void begin(int32_t position) {
    for (; nextFrom < byFrom.size() && residency.spells[byFrom[nextFrom]].from < position;
         ++nextFrom) {
      const int32_t number = byFrom[nextFrom];
      const Spell &spell = residency.spells[number];
      if (spell.kind == Spell::Kind::Fetch) {
        state[number] = State::Away;
        gone.push({spell.to, number});
        continue;
      }
      if (spell.kind == Spell::Kind::Send) {
        result.events.push_back({Step::Kind::Out, number});
        outOf[spell.group] = number;
      }
      if (whole[spell.group] &&
          peaks.peak(position, spell.to - 1) + leavingBytes + spell.bytes <= budgetBytes) {
        state[number] = State::Stayed; // there is room until its reader
        peaks.add(position, spell.to - 1, spell.bytes);
      } else if (whole[spell.group]) {
        state[number] = State::Away;
        gone.push({spell.to, number});
      } else {
        state[number] = State::Leaving;
        leaving.push_back(number);
        leavingBytes += spell.bytes;
      }
    }
  }

  /// Spells whose reader this position is.
  void end(int32_t position) {
    for (; due < away.size() && residency.spells[away[due]].to == position; ++due) {
      State &at = state[away[due]];
      if (at != State::Leaving)
        continue;
      if (residency.spells[away[due]].kind == Spell::Kind::Send)
        awaitOut(away[due]); // it is written to again
      at = State::Stayed;    // its room was not needed
      leavingBytes -= residency.spells[away[due]].bytes;
    }
  }

  void awaitOut(int32_t number) {
    const int32_t group = residency.spells[number].group;
    outOf[group] = number; // what is away until its reader: the copy out is named after it
    result.events.push_back({Step::Kind::AwaitOut, number});
    whole[group] = 1;
  }

  /// Copies of state whose room nobody needed are awaited behind the last run.
  void awaitSent() {
    for (int32_t number : leaving)
      if (state[number] == State::Leaving && residency.spells[number].kind == Spell::Kind::Send)
        awaitOut(number);
  }

  void makeRoom(int32_t position) {
    const Bytes others = peaks.peak(position, position);
    while (others + leavingBytes > budgetBytes) {
      const int32_t number = leaving.front();
      leaving.pop_front();
      if (state[number] != State::Leaving)
        continue;
      const Spell &spell = residency.spells[number];
      if (!whole[spell.group])
        awaitOut(number);
      leavingBytes -= spell.bytes;
      state[number] = State::Away;
      if (spell.kind == Spell::Kind::Idle)
        gone.push({spell.to, number});
    }
  }

  void startIns(int32_t position, Cost ahead) {
    while (!gone.empty()) {
      const int32_t number = gone.top().second;
      const Spell &spell = residency.spells[number];
      if (spell.to > position) {
        if (residency.startOf[spell.to] - residency.startOf[position] > ahead ||
            peaks.peak(position, position) + leavingBytes + spell.bytes > budgetBytes ||
            peaks.peak(position, spell.to - 1) + spell.bytes > budgetBytes)
          return;
        peaks.add(position, spell.to - 1, spell.bytes);
      }
      gone.pop();
      state[number] = State::ComesIn;
      result.events.push_back({Step::Kind::In, number});
    }
  }

  /// Copies out that nobody awaits are taken out again; what remains is counted.
  void finish() {
    std::erase_if(result.events, [&](const Event &event) {
      return event.kind == Step::Kind::Out && !whole[residency.spells[event.number].group];
    });
    std::vector<int32_t> readers(residency.groupCount, 0);
    for (Event &event : result.events)
      if (event.kind == Step::Kind::AwaitIn)
        ++readers[residency.spells[event.number].group];
      else if (event.kind == Step::Kind::Out)
        event.number = outOf[residency.spells[event.number].group];
    Bytes slow = 0;
    for (const Event &event : result.events) {
      if (event.kind == Step::Kind::Run)
        continue;
      const Spell &spell = residency.spells[event.number];
      const bool isState = spell.kind != Spell::Kind::Idle; // whose place is its own
      if (event.kind == Step::Kind::Out) {
        slow += isState ? 0 : spell.bytes;
        result.bytesOut += spell.bytes;
        result.slowPeakBytes = std::max(result.slowPeakBytes, slow);
      } else if (event.kind == Step::Kind::In) {
        result.bytesIn += spell.bytes;
      } else if (event.kind == Step::Kind::AwaitIn && --readers[spell.group] == 0 && !isState) {
        slow -= spell.bytes;
      }
    }
  }

  const Residency &residency;
  std::vector<int32_t> away; ///< by `to`, as spells are
  const Bytes budgetBytes;
  RangePeak peaks; ///< without what is away, with what has come in ahead
  std::vector<State> state;
  std::vector<char> whole;    ///< per group: its copy out has been awaited
  std::vector<int32_t> outOf; ///< per group: the spell for which it has
  std::vector<int32_t> byFrom;
  std::vector<std::pair<int32_t, int32_t>> outs; ///< spell, position
  std::deque<int32_t> leaving; ///< spells whose bytes are still here, in order of their copies
  /// Spells that are away, by reader.
  std::priority_queue<std::pair<int32_t, int32_t>, std::vector<std::pair<int32_t, int32_t>>,
                      std::greater<>>
      gone;
  size_t nextOut = 0, nextFrom = 0, due = 0;
  Bytes leavingBytes = 0;
  Placement result;
};

} // namespace

Placement placeCopies(const Residency &residency, const std::vector<int32_t> &away,
                      Bytes budgetBytes, Cost ahead) {
  return Placer(residency, away, budgetBytes).place(ahead);
}

Cost timeOf(const Residency &residency, const Lanes &lanes, const Placement &placement) {
  std::vector<Cost> outEnd(residency.groupCount, 0), inEnd(residency.spells.size(), 0);
  Cost now = 0, outFree = 0, inFree = 0;
  for (const Event &event : placement.events) {
    if (std::max({now, outFree, inFree}) > mostLaneTime)
      return std::numeric_limits<Cost>::max(); // no answer: the checker refuses it
    if (event.kind == Step::Kind::Run) {
      now += residency.startOf[event.number + 1] - residency.startOf[event.number];
      continue;
    }
    const Spell &spell = residency.spells[event.number];
    switch (event.kind) {
    case Step::Kind::Out:
      outEnd[spell.group] = outFree = std::max(now, outFree) + lanes.out.duration(spell.bytes);
      break;
    case Step::Kind::In:
      inEnd[event.number] = inFree = std::max(now, inFree) + lanes.in.duration(spell.bytes);
      break;
    case Step::Kind::AwaitOut:
      now = std::max(now, outEnd[spell.group]);
      break;
    case Step::Kind::AwaitIn:
      now = std::max(now, inEnd[event.number]);
      break;
    case Step::Kind::Run:
      break;
    }
  }
  return now;
}

LaneSolution stepsOf(const Residency &residency, const Solution &solution,
                     const Placement &placement) {
  LaneSolution result;
  result.steps.reserve(placement.events.size());
  for (const Event &event : placement.events) {
    if (event.kind == Step::Kind::Run) {
      result.steps.push_back(
          {event.kind, solution.runs[event.number].op, solution.runs[event.number].alternative});
      continue;
    }
    const Spell &spell = residency.spells[event.number];
    const bool isStart = event.kind == Step::Kind::Out || event.kind == Step::Kind::In;
    if (isStart && spell.kind != Spell::Kind::Idle)
      result.steps.push_back({Step::Kind::Run, spell.op, 0});
    else
      result.steps.push_back({event.kind, spell.value, 0});
  }
  return result;
}

} // namespace stow::schedule
