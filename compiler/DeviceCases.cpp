#include "compiler/DeviceCases.h"

#include <algorithm>

namespace stow {

const char *shardsOf(const CompileOptions &options) {
  return !options.shardPercent            ? "auto"
         : options.weightShardPercent > 0 ? "parameters"
         : options.shardPercent > 0       ? "optimizer"
                                          : "none";
}

std::vector<CompileOptions> deviceCases(const CompileOptions &asked) {
  std::vector<int64_t> counts = asked.deviceCounts;
  std::ranges::sort(counts);
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  std::vector<CompileOptions> cases;
  auto add = [&](int64_t devices, std::optional<int64_t> state, std::optional<int64_t> weights) {
    CompileOptions &options = cases.emplace_back(asked);
    options.deviceCounts.clear();
    options.devices = devices;
    options.shardPercent = state;
    options.weightShardPercent = weights;
    if (devices == 1)
      options.network = {};
    finishOptions(options);
  };
  for (const int64_t devices : counts) {
    if (devices == 1)
      add(devices, 0, 0);
    else if (asked.shardPercent)
      add(devices, asked.shardPercent, asked.weightShardPercent);
    else
      for (const auto &[state, weights] : {std::pair(0, 0), std::pair(100, 0), std::pair(100, 100)})
        add(devices, state, weights);
  }
  return cases;
}

} // namespace stow
