#include "passes/solvers/pack/Conflict.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace stow::pack {

namespace {

/// The live buffers of the storages, largest first, that together exceed `capacity` at the instant
/// where the fewest do so. Empty when no instant does. Sizes are taken without alignment.
std::vector<BufferId> overloadedInstant(const Problem &problem, const StorageTable &table,
                                        Bytes capacity) {
  struct Event {
    Time time;
    bool birth;
    int32_t piece, storage;
  };
  std::vector<Event> events;
  for (int32_t s = 0; s < static_cast<int32_t>(table.storages.size()); ++s)
    for (int32_t p = table.storages[s].firstPiece; p < table.storages[s].lastPiece; ++p) {
      events.push_back({table.pieces[p].life.begin, true, p, s});
      events.push_back({table.pieces[p].life.end, false, p, s});
    }
  std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
    return std::tuple(a.time, a.birth, a.piece) < std::tuple(b.time, b.birth, b.piece);
  });
  std::set<std::pair<Bytes, int32_t>> live; // (-bytes, piece)
  std::vector<int32_t> storageOf(table.pieces.size());
  for (const Event &event : events)
    storageOf[event.piece] = event.storage;
  Bytes sum = 0;
  std::vector<int32_t> fewest;
  Time instant = 0;
  for (const Event &event : events) {
    const Piece &piece = table.pieces[event.piece];
    const Bytes bytes = piece.high - piece.low;
    if (!event.birth) {
      live.erase({-bytes, event.piece});
      sum -= bytes;
      continue;
    }
    live.insert({-bytes, event.piece});
    sum += bytes;
    if (sum <= capacity)
      continue;
    std::vector<int32_t> chosen;
    Bytes taken = 0;
    for (auto it = live.begin(); taken <= capacity; ++it) {
      taken -= it->first;
      chosen.push_back(storageOf[it->second]);
      if (!fewest.empty() && chosen.size() >= fewest.size())
        break;
    }
    if (fewest.empty() || chosen.size() < fewest.size()) {
      fewest = std::move(chosen);
      instant = event.time;
    }
  }
  std::sort(fewest.begin(), fewest.end());
  const Interval whole = horizon(problem), now{instant, instant + 1};
  std::vector<BufferId> buffers;
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    if (std::binary_search(fewest.begin(), fewest.end(), table.ofBuffer[i]) &&
        occupancy(problem.buffers[i], whole).overlaps(now))
      buffers.push_back(static_cast<BufferId>(i));
  return buffers;
}

class Shrinker {
public:
  Shrinker(const Problem &problem, const StorageTable &table, std::optional<Bytes> capacity,
           int64_t workPerProof, const PackOptions &options)
      : problem(problem), table(table), whole(horizon(problem)), options(options) {
    // Any height will do where only fixed offsets are in question.
    this->options.capacity = capacity.value_or(Bytes(1) << 60);
    this->options.workBudget = workPerProof;
    this->options.explain = false;
  }

  Conflict run(std::vector<BufferId> members) {
    // Large buffers first: what is tried last stays if it can.
    std::sort(members.begin(), members.end(), [&](BufferId a, BufferId b) {
      return std::tuple(problem.buffers[a].size, a) < std::tuple(problem.buffers[b].size, b);
    });
    Conflict conflict;
    for (size_t chunk = std::max<size_t>(1, members.size() / 2);; chunk = (chunk + 1) / 2) {
      conflict.isMinimal = true;
      for (size_t i = 0; i < members.size();) {
        std::vector<BufferId> rest(members.begin(), members.begin() + i);
        rest.insert(rest.end(), members.begin() + std::min(i + chunk, members.size()),
                    members.end());
        const PackStatus status = solve(rest);
        if (status == PackStatus::Infeasible)
          members = std::move(rest);
        else
          i += chunk;
        conflict.isMinimal &= status != PackStatus::Unknown;
      }
      if (chunk == 1)
        break;
    }
    std::sort(members.begin(), members.end());
    conflict.buffers = std::move(members);
    return conflict;
  }

  /// Packs the members alone. What is left of a storage may sink: its base is the highest aligned
  /// byte not above its members with bytes, so that it can be anything from 0 on.
  PackStatus solve(const std::vector<BufferId> &members) const {
    struct Left {
      BufferId root = -1;
      std::optional<Bytes> low; ///< of members with bytes
      Bytes alignment = 1;
    };
    std::vector<Left> left(table.storages.size());
    Problem part;
    for (BufferId id : members) {
      Left &storage = left[table.ofBuffer[id]];
      if (storage.root < 0)
        storage.root = static_cast<BufferId>(part.buffers.size());
      const Buffer &buffer = problem.buffers[id];
      if (buffer.size > 0)
        storage.low = std::min(storage.low.value_or(table.relative[id]), table.relative[id]);
      storage.alignment = std::lcm(storage.alignment, buffer.alignment);
      part.buffers.push_back(buffer);
      part.buffers.back().life = occupancy(buffer, whole);
      part.buffers.back().persistent = false;
    }
    Storages ties;
    for (BufferId id : members) {
      const Left &storage = left[table.ofBuffer[id]];
      ties.root.push_back(storage.root);
      ties.relative.push_back(table.relative[id] -
                              storage.low.value_or(0) / storage.alignment * storage.alignment);
    }
    return packStorages(part, storageTable(part, std::move(ties)), options);
  }

private:
  const Problem &problem;
  const StorageTable &table;
  const Interval whole;
  PackOptions options;
};

} // namespace

Conflict findConflict(const Problem &problem, std::optional<Bytes> capacity, int64_t workPerProof,
                      const PackOptions &options) {
  const StorageTable table = storageTable(problem);
  Shrinker shrinker(problem, table, capacity, workPerProof, options);
  std::vector<BufferId> members;
  if (capacity)
    members = overloadedInstant(problem, table, *capacity);
  if (members.empty()) {
    members.resize(problem.buffers.size());
    std::iota(members.begin(), members.end(), 0);
    // The proof for the whole problem may have needed more work than one proof gets here.
    if (shrinker.solve(members) != PackStatus::Infeasible)
      return {};
  }
  return shrinker.run(std::move(members));
}

} // namespace stow::pack
