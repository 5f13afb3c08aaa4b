#include "codegen/cuda/Chip.h"

#include "codegen/cuda/ChipFiles.inc"
#include "runtime/base/Json.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace stow::cuda {
namespace {

Chip parseChip(const char *name, const char *text) {
  const std::string document = std::string("chip ") + name;
  const Json json = parseJson(text, document);
  const JsonNode node(json, document);
  Chip chip;
  chip.name = name;
  chip.architecture = node.text("architecture");
  chip.dataSheet = node.text("data_sheet");
  chip.deviceJson = dumpJson(node.at("cudnn_device").value(), -1);
  chip.matmulWorkspaceBytes = node.count("matmul_workspace_bytes");
  node.forEach("fixed", [&](const JsonNode &part) {
    chip.fixed.push_back({part.text("driver"), part.count("bytes"), part.text("source")});
  });
  return chip;
}

} // namespace

std::vector<std::string> chipNames() {
  std::vector<std::string> names;
  std::set<std::string> architectures;
  for (const auto &[name, text] : kChipFiles) {
    names.emplace_back(name);
    architectures.insert(parseChip(name, text).architecture);
  }
  std::sort(names.begin(), names.end());
  names.insert(names.end(), architectures.begin(), architectures.end());
  return names;
}

std::string chipsOf(const std::string &architecture) {
  std::vector<std::string> names;
  for (const auto &[name, text] : kChipFiles)
    if (parseChip(name, text).architecture == architecture)
      names.emplace_back(name);
  return joined(names);
}

static Chip requireOneChip(const std::string &name) {
  for (const auto &[known, text] : kChipFiles) {
    Chip chip = parseChip(known, text);
    if (name == chip.name)
      return chip;
    if (name != chip.architecture)
      continue;
    chip.name = chip.architecture; // figures of one chip say nothing about another
    chip.deviceJson.clear();
    chip.fixed.clear();
    return chip;
  }
  throw Error::badInput("unknown GPU \"" + name + "\" for --target=cuda:GPU; known are " +
                        joined(chipNames()));
}

Chip requireChip(const std::string &names) {
  std::vector<Chip> chips;
  for (size_t at = 0; at <= names.size();) {
    const size_t comma = std::min(names.find(',', at), names.size());
    chips.push_back(requireOneChip(names.substr(at, comma - at)));
    at = comma + 1;
  }
  Chip all = chips.front();
  if (chips.size() == 1)
    return all;
  std::set<std::string> architectures = {all.architecture};
  all.deviceJson.clear();
  all.fixed.clear();
  for (const Chip &chip : std::span(chips).subspan(1)) {
    all.name += "," + chip.name;
    all.matmulWorkspaceBytes = std::max(all.matmulWorkspaceBytes, chip.matmulWorkspaceBytes);
    if (architectures.insert(chip.architecture).second)
      all.architecture += "," + chip.architecture;
  }
  return all;
}

} // namespace stow::cuda
