#include "runtime/cuda/Tuned.h"

#include "runtime/base/Error.h"

namespace stow::cuda {

Tuned::Tuned(std::string_view text) {
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(' '));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == entry.size())
      throw Error::badInput(
          "the algorithms of an earlier run: expected QUESTION=ALGORITHM, found \"" +
          std::string(entry) + "\"; --autotune=off does without what the checkpoint says");
    chosen[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
}

std::string Tuned::text() const {
  std::string all;
  for (const auto &[question, alternative] : chosen)
    all += (all.empty() ? "" : " ") + question + "=" + alternative;
  return all;
}

void Tuned::take(const LibraryCall &call, size_t number) {
  chosen[call.question()] = call.alternative(number);
}

bool Tuned::apply(LibraryCall &call) const {
  const auto found = chosen.find(call.question());
  if (found == chosen.end())
    return false;
  for (size_t i = 0; i < call.alternatives(); ++i)
    if (call.alternative(i) == found->second) {
      call.choose(i);
      return true;
    }
  return false;
}

} // namespace stow::cuda
