#include "ir/plan/pack/Problem.h"
#include "runtime/base/Error.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_cat.h>
#include <algorithm>
#include <numeric>

namespace stow::pack {

namespace {

constexpr size_t maxFindings = 20;
constexpr Bytes maxTotal = Bytes(1) << 60;
constexpr Bytes maxAlignment = Bytes(1) << 40;

/// Collects findings up to the limit.
class Findings {
public:
  void add(const Buffer &buffer, const std::string &text) {
    if (texts.size() < maxFindings)
      texts.push_back(absl::StrCat("buffer '", buffer.name, "' ", text));
  }
  bool empty() const { return texts.empty(); }
  std::vector<std::string> take() { return std::move(texts); }

private:
  std::vector<std::string> texts;
};

/// The buffer that `buffer` hangs on, if any.
std::optional<BufferId> parentOf(const Buffer &buffer) {
  if (buffer.sameAs)
    return buffer.sameAs;
  if (buffer.inside)
    return buffer.inside->container;
  return std::nullopt;
}

void checkNames(const Problem &problem, Findings &findings) {
  absl::flat_hash_set<std::string_view> known;
  for (const Buffer &buffer : problem.buffers)
    if (!known.insert(buffer.name).second)
      findings.add(buffer, "is named twice; give each buffer its own name");
}

void checkScalars(const Problem &problem, Findings &findings) {
  Bytes total = 0;
  for (const Buffer &buffer : problem.buffers) {
    if (buffer.life.begin >= buffer.life.end)
      findings.add(buffer, absl::StrCat("has the empty lifetime [", buffer.life.begin, ", ",
                                        buffer.life.end, "); expected begin < end"));
    if (buffer.size < 0) {
      findings.add(buffer, absl::StrCat("has the negative size ", buffer.size));
      continue;
    }
    if (buffer.alignment < 1 || buffer.alignment > maxAlignment) {
      findings.add(buffer,
                   absl::StrCat("has alignment ", buffer.alignment, "; expected 1 to 2^40"));
      continue;
    }
    // Offsets never exceed the sum of sizes with padding, so this keeps all sums within 64 bits.
    Bytes room = std::max(buffer.size, buffer.fixedOffset.value_or(0));
    if (room > maxTotal - total || buffer.alignment > maxTotal - total - room) {
      findings.add(buffer, "brings the sum of sizes above 2^60 bytes");
      return;
    }
    total += room + buffer.alignment;
    if (!buffer.fixedOffset)
      continue;
    if (*buffer.fixedOffset < 0 || *buffer.fixedOffset % buffer.alignment != 0)
      findings.add(buffer, absl::StrCat("has the fixed offset ", *buffer.fixedOffset,
                                        "; expected a multiple of its alignment ", buffer.alignment,
                                        ", not negative"));
  }
}

void checkLinks(const Problem &problem, Findings &findings) {
  const auto count = static_cast<BufferId>(problem.buffers.size());
  for (BufferId id = 0; id < count; ++id) {
    const Buffer &buffer = problem.buffers[id];
    if (buffer.sameAs && buffer.inside) {
      findings.add(buffer, "is both the same as and inside another buffer; keep one of the two");
      continue;
    }
    std::optional<BufferId> parent = parentOf(buffer);
    if (parent && (*parent < 0 || *parent >= count || *parent == id))
      findings.add(buffer, absl::StrCat("refers to buffer number ", *parent,
                                        "; expected another one below ", count));
    else if (buffer.inside) {
      const Buffer &container = problem.buffers[*parent];
      if (buffer.inside->offset < 0 || buffer.inside->offset > container.size - buffer.size)
        findings.add(buffer, absl::StrCat("of ", buffer.size, " bytes does not fit at offset ",
                                          buffer.inside->offset, " of '", container.name,
                                          "', which has ", container.size, " bytes"));
    }
  }
  if (!findings.empty())
    return;
  // Links are now in range: 0 = unseen, 1 = on the current path, 2 = known to end at a root.
  std::vector<char> state(count, 0);
  for (BufferId start = 0; start < count; ++start) {
    BufferId id = start;
    while (state[id] == 0) {
      state[id] = 1;
      std::optional<BufferId> parent = parentOf(problem.buffers[id]);
      if (!parent)
        break;
      id = *parent;
    }
    if (state[id] == 1 && parentOf(problem.buffers[id])) {
      findings.add(problem.buffers[id], "is part of a cycle of same-as / inside links");
      return;
    }
    for (BufferId back = start; state[back] == 1;) {
      state[back] = 2;
      std::optional<BufferId> parent = parentOf(problem.buffers[back]);
      if (!parent)
        break;
      back = *parent;
    }
  }
}

/// A set of buffers that occupy the same bytes from their first one on, through sameAs.
BufferId sameClass(const Problem &problem, BufferId id) {
  while (problem.buffers[id].sameAs)
    id = *problem.buffers[id].sameAs;
  return id;
}

/// True when `inner` is the same as, or lies (deep) inside, `outer`.
bool isWithin(const Problem &problem, BufferId inner, BufferId outer) {
  const BufferId target = sameClass(problem, outer);
  for (BufferId id = sameClass(problem, inner);; id = sameClass(problem, id)) {
    if (id == target)
      return true;
    if (!problem.buffers[id].inside)
      return false;
    id = problem.buffers[id].inside->container;
  }
}

/// Members of one storage: alignment, fixed offsets, and slices that would overwrite each other.
/// The pair test is quadratic in the members that are live together.
void checkStorages(const Problem &problem, Findings &findings) {
  const Storages storages = resolveStorages(problem);
  const Interval whole = horizon(problem);
  const auto count = static_cast<BufferId>(problem.buffers.size());
  std::vector<std::optional<BufferId>> fixedBy(count);
  std::vector<std::vector<BufferId>> members(count);
  for (BufferId id = 0; id < count; ++id) {
    const Buffer &buffer = problem.buffers[id];
    const BufferId root = storages.root[id];
    if (parentOf(buffer) || root != id)
      members[root].push_back(id);
    if (storages.relative[id] % buffer.alignment != 0)
      findings.add(buffer, absl::StrCat("lies ", storages.relative[id],
                                        " bytes into its storage, which breaks its alignment ",
                                        buffer.alignment));
    if (!buffer.fixedOffset)
      continue;
    if (*buffer.fixedOffset < storages.relative[id])
      findings.add(buffer, absl::StrCat("is fixed at ", *buffer.fixedOffset,
                                        ", below its place in its storage"));
    std::optional<BufferId> &other = fixedBy[root];
    if (!other)
      other = id;
    else if (*buffer.fixedOffset - storages.relative[id] !=
             *problem.buffers[*other].fixedOffset - storages.relative[*other])
      findings.add(buffer, "and '" + problem.buffers[*other].name +
                               "' share a storage but have fixed offsets that disagree");
  }
  for (BufferId id = 0; id < count; ++id) {
    const std::optional<BufferId> fixed = fixedBy[storages.root[id]];
    if (fixed && *fixed != id &&
        (*problem.buffers[*fixed].fixedOffset - storages.relative[*fixed]) %
                problem.buffers[id].alignment !=
            0)
      findings.add(problem.buffers[id],
                   absl::StrCat("has alignment ", problem.buffers[id].alignment,
                                ", which the fixed offset of '", problem.buffers[*fixed].name,
                                "' in the same storage breaks"));
  }
  for (BufferId root = 0; root < count; ++root) {
    if (members[root].empty())
      continue;
    std::vector<BufferId> group = members[root];
    group.push_back(root);
    auto life = [&](BufferId id) { return occupancy(problem.buffers[id], whole); };
    std::sort(group.begin(), group.end(), [&](BufferId a, BufferId b) {
      return std::pair(life(a).begin, a) < std::pair(life(b).begin, b);
    });
    for (size_t i = 0; i < group.size(); ++i)
      for (size_t j = i + 1; j < group.size(); ++j) {
        const BufferId a = group[i], b = group[j];
        if (life(b).begin >= life(a).end)
          break;
        const Bytes lowA = storages.relative[a], lowB = storages.relative[b];
        if (lowA < lowB + problem.buffers[b].size && lowB < lowA + problem.buffers[a].size &&
            !isWithin(problem, a, b) && !isWithin(problem, b, a))
          findings.add(problem.buffers[b], "and '" + problem.buffers[a].name +
                                               "' are live together on the same bytes of '" +
                                               problem.buffers[root].name + "'");
      }
  }
}

} // namespace

Interval horizon(const Problem &problem) {
  if (problem.buffers.empty())
    return {};
  Interval whole = problem.buffers.front().life;
  for (const Buffer &buffer : problem.buffers) {
    whole.begin = std::min(whole.begin, buffer.life.begin);
    whole.end = std::max(whole.end, buffer.life.end);
  }
  return whole;
}

Interval occupancy(const Buffer &buffer, const Interval &horizon) {
  return buffer.persistent ? horizon : buffer.life;
}

Storages resolveStorages(const Problem &problem) {
  const auto count = static_cast<BufferId>(problem.buffers.size());
  Storages storages{std::vector<BufferId>(count, -1), std::vector<Bytes>(count, 0)};
  std::vector<BufferId> path;
  for (BufferId start = 0; start < count; ++start) {
    BufferId id = start;
    path.clear();
    while (storages.root[id] < 0) {
      path.push_back(id);
      std::optional<BufferId> parent = parentOf(problem.buffers[id]);
      if (!parent) {
        storages.root[id] = id;
        path.pop_back();
        break;
      }
      id = *parent;
    }
    while (!path.empty()) {
      const BufferId child = path.back();
      path.pop_back();
      const Buffer &buffer = problem.buffers[child];
      const BufferId parent = *parentOf(buffer);
      storages.root[child] = storages.root[parent];
      storages.relative[child] =
          storages.relative[parent] + (buffer.inside ? buffer.inside->offset : 0);
    }
  }
  return storages;
}

std::vector<std::string> check(const Problem &problem) {
  Findings findings;
  checkNames(problem, findings);
  checkScalars(problem, findings);
  checkLinks(problem, findings);
  if (findings.empty())
    checkStorages(problem, findings);
  return findings.take();
}

void requireValid(const Problem &problem) {
  std::vector<std::string> findings = check(problem);
  if (!findings.empty())
    throw Error::badInput(findings.front());
}

Bytes heightOf(const Problem &problem, const std::vector<Bytes> &offsets) {
  Bytes height = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    height = std::max(height, offsets[i] + problem.buffers[i].size);
  return height;
}

} // namespace stow::pack
