#include "runtime/device/AlgorithmText.h"

#include "runtime/base/Error.h"

#include <algorithm>

namespace stow {

std::map<std::string, std::string> parseAlgorithms(std::string_view text) {
  std::map<std::string, std::string> alternatives;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(' '));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == entry.size() ||
        entry.find('=', equals + 1) != std::string_view::npos)
      throw Error::badInput(
          "the algorithms of an earlier run: expected QUESTION=ALGORITHM, found \"" +
          std::string(entry) + "\"; --autotune=off does without what the checkpoint says");
    if (!alternatives.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second)
      throw Error::badInput(
          "the algorithms of an earlier run: expected one for each question, found two for \"" +
          std::string(entry.substr(0, equals)) +
          "\"; --autotune=off does without what the checkpoint says");
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
  return alternatives;
}

std::string textOf(const std::map<std::string, std::string> &alternatives) {
  std::string all;
  for (const auto &[question, alternative] : alternatives)
    all += (all.empty() ? "" : " ") + question + "=" + alternative;
  return all;
}

} // namespace stow
