#include "runtime/program/WeightNames.h"

#include <algorithm>

namespace stow {

namespace {

std::vector<std::string_view> partsOf(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct PathChange {
  std::string removed, added;

  /// Nothing where the name does not begin with what is to be removed.
  std::optional<std::string> of(const std::string &bare) const {
    if (!bare.starts_with(removed))
      return std::nullopt;
    return added + bare.substr(removed.size());
  }
};

/// Changes of path that would find this name.
void addCandidates(const std::string &bare, const WeightFiles &files,
                   std::vector<PathChange> &candidates) {
  auto add = [&](PathChange change) {
    const bool isKnown = std::ranges::any_of(candidates, [&](const PathChange &other) {
      return other.removed == change.removed && other.added == change.added;
    });
    if (!isKnown)
      candidates.push_back(std::move(change));
  };
  for (size_t dot = bare.find('.'); dot != std::string::npos; dot = bare.find('.', dot + 1))
    if (files.find(bare.substr(dot + 1)))
      add({bare.substr(0, dot + 1), ""});
  for (const auto &[name, tensor] : files.tensors())
    if (name.size() > bare.size() && name.ends_with("." + bare))
      add({"", name.substr(0, name.size() - bare.size())});
}

} // namespace

std::string bareName(std::string_view name) {
  constexpr std::string_view wrapper = "base_model.model.";
  if (name.starts_with(wrapper))
    name.remove_prefix(wrapper.size());
  std::string bare;
  const std::vector<std::string_view> parts = partsOf(name);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool isOfAdapter = parts[i] == "base_layer" || parts[i] == "original_module";
    if (parts[i] == "modules_to_save")
      ++i; // and its adapter's name
    else if (!isOfAdapter)
      bare.append(bare.empty() ? "" : ".").append(parts[i]);
  }
  return bare;
}

std::string trainedName(std::string_view name) {
  std::string saved;
  const std::vector<std::string_view> parts = partsOf(name);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "modules_to_save" && i + 2 < parts.size()) {
      ++i; // and its adapter's name
      continue;
    }
    saved.append(saved.empty() ? "" : ".").append(parts[i]);
    const bool isNamed = parts[i].starts_with("lora_") && i + 1 < parts.size() &&
                         parts[i + 1] != "weight" && parts[i + 1] != "bias";
    if (isNamed)
      return saved.append(i + 2 < parts.size() ? "." : "")
          .append(i + 2 < parts.size() ? name.substr(parts[i + 2].data() - name.data()) : "");
  }
  return saved;
}

bool isAdapterName(std::string_view name) {
  return std::ranges::any_of(partsOf(name),
                             [](std::string_view part) { return part.starts_with("lora_"); });
}

WeightNames::WeightNames(const WeightFiles &files, const std::vector<std::string> &wanted)
    : files(files) {
  std::vector<std::string> there, missing;
  for (const std::string &name : wanted)
    if (!isAdapterName(name))
      (files.find(name) || files.find(bareName(name)) ? there : missing).push_back(bareName(name));
  std::vector<PathChange> candidates;
  constexpr size_t enough = 8; // names that say what differs
  for (size_t i = 0; i < std::min(missing.size(), enough); ++i)
    addCandidates(missing[i], files, candidates);
  // A change is one of all names that begin alike: none of them is found without it.
  std::erase_if(candidates, [&](const PathChange &change) {
    return std::ranges::any_of(
        there, [&](const std::string &bare) { return change.of(bare).has_value(); });
  });
  int64_t most = static_cast<int64_t>(missing.size() / 2), alike = 0;
  for (const PathChange &change : candidates) {
    const int64_t found = std::ranges::count_if(missing, [&](const std::string &bare) {
      const std::optional<std::string> name = change.of(bare);
      return name && files.find(*name);
    });
    alike = found > most ? 1 : alike + (found == most);
    if (found <= most)
      continue;
    most = found;
    removed = change.removed;
    added = change.added;
  }
  if (alike > 1)
    removed = added = "";
}

std::vector<std::string> WeightNames::namesOf(const std::string &name) const {
  const std::string bare = bareName(name);
  std::vector<std::string> names = {name, bare};
  if (const auto changed = PathChange{removed, added}.of(bare))
    names.push_back(*changed);
  return names;
}

const SafetensorsTensor *WeightNames::find(const std::string &name) const {
  for (const std::string &known : namesOf(name))
    if (const SafetensorsTensor *tensor = files.find(known))
      return tensor;
  return nullptr;
}

} // namespace stow
