#include "passes/solvers/pack/Conflict.h"
#include "ir/plan/pack/Storage.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace stow::pack {

namespace {

/// The live storages, largest first, that together exceed `capacity` at the instant where the
/// fewest do so. Empty when no instant does. Sizes are taken without alignment.
std::vector<int32_t> overloadedInstant(const StorageTable &table, Bytes capacity) {
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
    if (fewest.empty() || chosen.size() < fewest.size())
      fewest = std::move(chosen);
  }
  std::sort(fewest.begin(), fewest.end());
  fewest.erase(std::unique(fewest.begin(), fewest.end()), fewest.end());
  return fewest;
}

/// The problem restricted to some storages.
Problem restrict(const Problem &problem, const StorageTable &table, const std::vector<char> &kept) {
  Problem part;
  std::vector<BufferId> renumbered(problem.buffers.size(), -1);
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    if (kept[table.ofBuffer[i]]) {
      renumbered[i] = static_cast<BufferId>(part.buffers.size());
      part.buffers.push_back(problem.buffers[i]);
    }
  const Interval whole = horizon(problem);
  for (Buffer &buffer : part.buffers) {
    buffer.life = occupancy(buffer, whole);
    buffer.persistent = false;
    if (buffer.sameAs)
      buffer.sameAs = renumbered[*buffer.sameAs];
    if (buffer.inside)
      buffer.inside->container = renumbered[buffer.inside->container];
  }
  return part;
}

class Shrinker {
public:
  Shrinker(const Problem &problem, const StorageTable &table, std::optional<Bytes> capacity,
           int64_t workPerProof, const PackOptions &options)
      : problem(problem), table(table), options(options) {
    // Any height will do where only fixed offsets are in question.
    this->options.capacity = capacity.value_or(Bytes(1) << 60);
    this->options.workBudget = workPerProof;
    this->options.explain = false;
  }

  Conflict run(std::vector<int32_t> members) {
    // Large storages first: what is tried last stays if it can.
    std::sort(members.begin(), members.end(), [&](int32_t a, int32_t b) {
      return std::tuple(bytesOf(a), a) < std::tuple(bytesOf(b), b);
    });
    bool isMinimal = false;
    for (size_t chunk = std::max<size_t>(1, members.size() / 2);; chunk = (chunk + 1) / 2) {
      isMinimal = true;
      for (size_t i = 0; i < members.size();) {
        std::vector<int32_t> rest(members.begin(), members.begin() + i);
        rest.insert(rest.end(), members.begin() + std::min(i + chunk, members.size()),
                    members.end());
        const PackStatus status = solve(rest);
        if (status == PackStatus::Infeasible)
          members = std::move(rest);
        else
          i += chunk;
        isMinimal &= status != PackStatus::Unknown;
      }
      if (chunk == 1)
        break;
    }
    Conflict conflict;
    std::vector<char> kept(table.storages.size(), 0);
    for (int32_t storage : members)
      kept[storage] = 1;
    for (size_t i = 0; i < problem.buffers.size(); ++i)
      if (kept[table.ofBuffer[i]])
        conflict.buffers.push_back(static_cast<BufferId>(i));
    conflict.isMinimal = isMinimal;
    return conflict;
  }

  PackStatus solve(const std::vector<int32_t> &members) const {
    std::vector<char> kept(table.storages.size(), 0);
    for (int32_t storage : members)
      kept[storage] = 1;
    return packBuffers(restrict(problem, table, kept), options).status;
  }

private:
  Bytes bytesOf(int32_t storage) const {
    return problem.buffers[table.storages[storage].root].size;
  }

  const Problem &problem;
  const StorageTable &table;
  PackOptions options;
};

} // namespace

Conflict findConflict(const Problem &problem, std::optional<Bytes> capacity, int64_t workPerProof,
                      const PackOptions &options) {
  const StorageTable table = storageTable(problem);
  Shrinker shrinker(problem, table, capacity, workPerProof, options);
  std::vector<int32_t> members;
  if (capacity)
    members = overloadedInstant(table, *capacity);
  if (members.empty()) {
    members.resize(table.storages.size());
    std::iota(members.begin(), members.end(), 0);
    // The proof for the whole problem may have needed more work than one proof gets here.
    if (shrinker.solve(members) != PackStatus::Infeasible)
      return {};
  }
  return shrinker.run(std::move(members));
}

} // namespace stow::pack
