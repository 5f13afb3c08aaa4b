#include "ir/plan/schedule/LowerBound.h"

#include <algorithm>
#include <array>
#include <bit>

namespace stow::schedule {
namespace {

/// Bytes that are certainly in memory while `op` runs: each distinct storage among its inputs and
/// outputs once, less the largest possible in-place credits, plus the smallest workspace.
Bytes footprint(const Problem &problem, const Op &op) {
  std::vector<StorageId> inputs, outputs;
  for (ValueId value : op.inputs)
    inputs.push_back(problem.values[value].storage);
  for (ValueId value : op.outputs)
    outputs.push_back(problem.values[value].storage);
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  std::sort(outputs.begin(), outputs.end());
  outputs.erase(std::unique(outputs.begin(), outputs.end()), outputs.end());

  Bytes sum = 0;
  for (StorageId storage : inputs)
    if (!problem.storages[storage].pinned)
      sum += problem.storages[storage].sizeBytes;
  for (StorageId storage : outputs) {
    if (problem.storages[storage].pinned ||
        std::binary_search(inputs.begin(), inputs.end(), storage))
      continue;
    bool mayShare = false;
    for (const OverwriteOption &option : op.mayOverwrite) {
      const Storage &in = problem.storages[problem.values[option.input].storage];
      mayShare |= problem.values[option.output].storage == storage && !in.pinned &&
                  in.sizeBytes >= problem.storages[storage].sizeBytes;
    }
    if (!mayShare)
      sum += problem.storages[storage].sizeBytes;
  }
  Bytes workspace = op.alternatives.front().workspaceBytes;
  for (const Alternative &alternative : op.alternatives)
    workspace = std::min(workspace, alternative.workspaceBytes);
  return sum + workspace;
}

/// A storage with the op that creates it (absent: it exists from the start) and the ops that read
/// any of its views or versions.
struct StorageUses {
  std::optional<OpId> producer;
  std::vector<OpId> touchers;
  Bytes sizeBytes = 0;
  bool keep = false;
};

std::vector<StorageUses> usesOf(const Problem &problem) {
  std::vector<StorageUses> uses(problem.storages.size());
  std::vector<char> seen(problem.storages.size(), 0);
  for (size_t s = 0; s < uses.size(); ++s)
    uses[s].sizeBytes = problem.storages[s].pinned ? 0 : problem.storages[s].sizeBytes;
  for (size_t v = 0; v < problem.values.size(); ++v)
    uses[problem.values[v].storage].keep |= problem.values[v].keep;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    for (ValueId value : problem.ops[op].inputs) {
      StorageUses &use = uses[problem.values[value].storage];
      seen[problem.values[value].storage] = 1;
      if (use.touchers.empty() || use.touchers.back() != static_cast<OpId>(op))
        use.touchers.push_back(static_cast<OpId>(op));
    }
    for (ValueId value : problem.ops[op].outputs) {
      StorageId storage = problem.values[value].storage;
      if (!seen[storage]) {
        seen[storage] = 1;
        uses[storage].producer = static_cast<OpId>(op);
      }
    }
  }
  return uses;
}

} // namespace

Bytes lowerBound(const Problem &problem) {
  const Bytes pinned = problem.pinnedBytes();
  Bytes best = 0, kept = 0;
  std::vector<char> counted(problem.storages.size(), 0);
  for (const Value &value : problem.values)
    if (value.keep && !problem.storages[value.storage].pinned && !counted[value.storage]) {
      counted[value.storage] = 1;
      kept += problem.storages[value.storage].sizeBytes;
    }
  for (const Op &op : problem.ops)
    best = std::max(best, footprint(problem, op));
  // At the last position every kept storage is live; with no op at all nothing is ever counted.
  return pinned + (problem.ops.empty() ? 0 : std::max(best, kept));
}

Bytes lowerBoundWithoutRecompute(const Problem &problem) {
  const size_t count = problem.ops.size();
  const Bytes pinned = problem.pinnedBytes();
  std::vector<std::optional<OpId>> producers = problem.producers();
  std::vector<StorageUses> uses = usesOf(problem);
  Bytes best = lowerBound(problem);

  // Lane b of a mask speaks about op v = base + b. above[u]: u is v or an ancestor of v.
  // below[u]: u is v or a descendant of v.
  std::vector<uint64_t> above(count), below(count);
  for (size_t base = 0; base < count; base += 64) {
    const size_t end = std::min(count, base + 64);
    std::fill(above.begin(), above.end(), 0);
    std::fill(below.begin(), below.end(), 0);
    for (size_t v = base; v < end; ++v)
      above[v] = below[v] = uint64_t(1) << (v - base);
    for (size_t u = end; u-- > 0;)
      for (ValueId value : problem.ops[u].inputs)
        if (producers[value])
          above[*producers[value]] |= above[u];
    for (size_t u = base; u < count; ++u)
      for (ValueId value : problem.ops[u].inputs)
        if (producers[value])
          below[u] |= below[*producers[value]];

    // Storages live across v, and not among what v itself touches (its footprint has those).
    std::array<Bytes, 64> across{};
    for (const StorageUses &use : uses) {
      if (use.sizeBytes == 0)
        continue;
      uint64_t created = use.producer ? above[*use.producer] : ~uint64_t(0);
      uint64_t read = use.keep ? ~uint64_t(0) : 0, touched = 0;
      for (OpId toucher : use.touchers) {
        read |= below[toucher];
        if (static_cast<size_t>(toucher) >= base && static_cast<size_t>(toucher) < end)
          touched |= uint64_t(1) << (toucher - base);
      }
      if (use.producer && static_cast<size_t>(*use.producer) >= base &&
          static_cast<size_t>(*use.producer) < end)
        touched |= uint64_t(1) << (*use.producer - base);
      if (!use.producer && !use.keep && use.touchers.empty())
        continue;
      for (uint64_t lanes = created & read & ~touched; lanes; lanes &= lanes - 1)
        across[std::countr_zero(lanes)] += use.sizeBytes;
    }
    for (size_t v = base; v < end; ++v)
      best = std::max(best, pinned + across[v - base] + footprint(problem, problem.ops[v]));
  }
  return best;
}

} // namespace stow::schedule
