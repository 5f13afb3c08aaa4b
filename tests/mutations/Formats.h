// The files that Stowage reads, with good ones to damage and what is done with a damaged one.
#pragma once

#include "tests/mutations/Edits.h"

#include <functional>
#include <string>
#include <vector>

namespace stow::test {

struct Sample {
  std::string name, bytes;
};

struct Format {
  std::string name, extension;
  Content content = Content::Binary;
  std::vector<Sample> samples; ///< at least one
  /// Reads a file and uses what it holds; `path` has the same bytes. Throws Error where it is refused.
  std::function<void(const std::string &bytes, const std::string &path)> use;
  int byDay = 0, byNight = 0; ///< files
  bool isEverAccepted = true; ///< a damaged file may be a good one
};

/// Data, weights, checkpoints, logs, programs and plans: what executables read.
std::vector<Format> runtimeFormats();
/// Bare instances.
std::vector<Format> bareFormats();
/// Models, executables and profiles: what the compiler reads.
std::vector<Format> compilerFormats();

} // namespace stow::test
