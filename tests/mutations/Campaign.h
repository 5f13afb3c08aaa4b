// Many damaged files of one format.
#pragma once

#include "tests/mutations/Formats.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stow::test {

struct CampaignOptions {
  int64_t first = 1; ///< seed
  int64_t count = 0;
  std::string keep;        ///< where files that fail are written; empty: the system's folder
  size_t mostFailures = 5; ///< more are not looked for
};

struct CampaignResult {
  int64_t accepted = 0, refused = 0;
  double processorSeconds = 0;
  std::vector<std::string> failures; ///< in full: seed, cause, smallest edits, file, last words
};

CampaignResult runCampaign(const Format &format, const CampaignOptions &options);

/// runtimeFormats, bareFormats and, in builds with MLIR, compilerFormats.
std::vector<Format> allFormats();

} // namespace stow::test
