#include "codegen/cuda/Chip.h"

#include "codegen/cuda/ChipFiles.inc"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/base/Names.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <set>
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
  chip.memoryBytes = node.at("cudnn_device").count("totalGlobalMem");
  chip.link = node.text("link");
  chip.linkSource = node.text("link_source");
  chip.desktopBytes = node.count("desktop_bytes");
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

Chip requireChip(const std::string &spelled) {
  const std::vector<std::string> names = chipNames();
  const std::string name = names[oneOf(spelled, names, "GPU", "--target=cuda:GPU")];
  for (const auto &[known, text] : kChipFiles) {
    Chip chip = parseChip(known, text);
    if (name == chip.name)
      return chip;
    if (name != chip.architecture)
      continue;
    chip.name = chip.architecture; // figures of one chip say nothing about another
    chip.deviceJson.clear();
    chip.link.clear(), chip.linkSource.clear();
    chip.memoryBytes = chip.desktopBytes = 0;
    chip.fixed.clear();
    return chip;
  }
  throw Error::internal("the GPU " + name + " has no file");
}

std::vector<Chip> requireChips(const std::string &names) {
  if (names.empty())
    throw Error::badInput("--target=cuda:GPU needs the name of a GPU; known are " +
                          joined(chipNames()));
  std::vector<Chip> chips;
  for (size_t at = 0; at <= names.size();) {
    const size_t comma = std::min(names.find(',', at), names.size());
    Chip chip = requireChip(names.substr(at, comma - at));
    if (std::ranges::find(chips, chip.name, &Chip::name) != chips.end())
      throw Error::badInput("--target=cuda:" + names + " names " + chip.name +
                            " twice; name every GPU once");
    chips.push_back(std::move(chip));
    at = comma + 1;
  }
  return chips;
}

std::string namesOf(std::span<const Chip> chips) {
  std::string names;
  for (const Chip &chip : chips)
    names += (names.empty() ? "" : ",") + chip.name;
  return names;
}

std::string architecturesOf(std::span<const Chip> chips) {
  std::string all;
  std::set<std::string> seen;
  for (const Chip &chip : chips)
    if (seen.insert(chip.architecture).second)
      all += (all.empty() ? "" : ",") + chip.architecture;
  return all;
}

} // namespace stow::cuda
