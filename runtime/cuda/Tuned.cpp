#include "runtime/cuda/Tuned.h"

#include "runtime/device/AlgorithmText.h"

namespace stow::cuda {

Tuned::Tuned(std::string_view text) : chosen(parseAlgorithms(text)) {}

std::string Tuned::text() const { return textOf(chosen); }

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
