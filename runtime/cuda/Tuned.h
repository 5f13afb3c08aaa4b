// Which of a library's kernels run: chosen once for all calls that ask it the same, and kept as text with a checkpoint.
// (runtime/device/AlgorithmText.h).
#pragma once

#include "runtime/cuda/LibraryCall.h"

#include <map>
#include <string>
#include <string_view>

namespace stow::cuda {

class Tuned {
public:
  Tuned() = default;
  /// What text() gave. Throws Error(BadInput) for other text.
  explicit Tuned(std::string_view text);

  std::string text() const;
  bool isEmpty() const { return chosen.empty(); }
  bool knows(const LibraryCall &call) const { return chosen.contains(call.question()); }

  /// Takes alternative `number` for all calls that ask what `call` asks.
  void take(const LibraryCall &call, size_t number);
  /// Lets `call` run what was taken. False where the library does not have that among its first; nothing changes then.
  bool apply(LibraryCall &call) const;
  void forget(const LibraryCall &call) { chosen.erase(call.question()); }

private:
  std::map<std::string, std::string> chosen; ///< by question
};

} // namespace stow::cuda
