// What the packing benchmarks have in common: which instances they are asked for.
#pragma once

#include "runtime/base/Bytes.h"
#include "runtime/base/Error.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace stow::pack {

/// The whole file. Throws Error(BadInput).
inline std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error::badInput("cannot open '" + path + "'");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Adds `text`, or, if it is a folder, all .csv files in it.
inline void addInstances(const std::string &text, std::vector<std::string> &instances) {
  if (!std::filesystem::is_directory(text)) {
    instances.push_back(text);
    return;
  }
  for (const auto &entry : std::filesystem::directory_iterator(text))
    if (entry.path().extension() == ".csv")
      instances.push_back(entry.path().string());
}

/// "x.1048576" -> 1048576.
inline std::optional<Bytes> capacityInName(const std::string &stem) {
  const size_t dot = stem.rfind('.');
  const std::string digits = dot == std::string::npos ? "" : stem.substr(dot + 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoll(digits);
}

} // namespace stow::pack
