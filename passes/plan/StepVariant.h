// Which step of a model is meant: the choice of a step as a value.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stow {

/// What matrix products and convolutions read, and what values are stored in where they may be.
enum class Precision { F32, BF16, F16 };

/// An axis that is left to the planner.
constexpr int64_t kAny = 0;

/// One step among those that compute the same update: how its samples are divided, and what its values are stored in. A new
/// axis is a field here, a row in the table of README.md, and what the source of steps makes of it.
struct StepVariant {
  std::optional<int64_t> samples; ///< of all its batches together; absent: as the file has them
  int64_t batches = 1;    ///< graph runs of a step, with equal shares of the samples; or kAny
  int64_t lossChunks = 1; ///< chunks of rows of the head and its loss; or kAny
  int64_t rowChunks = 1;  ///< chunks of rows of chains between two products; or kAny
  Precision precision = Precision::F32;
  /// Of the optimizer's state that may be stored in 8 bits, the largest tensors first, so much is; absent: open.
  std::optional<int64_t> eightBitPercent = 0;
  /// Of the state that may lie in slow memory, the largest tensors first, so much does; absent: open.
  std::optional<int64_t> awayPercent = 0;
  /// Small kernels and products of few rows stay apart where the target would join them, so that less lives at once.
  bool launchesApart = false;
  /// Of the optimizer's state that may lie in shards on several devices, the largest parameters first, so much does; absent: open.
  std::optional<int64_t> shardPercent = 0;
  /// Of the weights whose state lies in shards, the largest first, so much lies in shards itself; absent: open, as shardPercent is.
  std::optional<int64_t> weightShardPercent = 0;
  std::vector<std::string>
      wideNodes; ///< patterns of the nodes of a step in 16 bits that stay in f32
  /// Number among the shapes that are asked for, the largest first.
  int64_t shape = 0;
  int64_t devices = 1; ///< that run a step together, each on the samples of the variant

  /// Samples of one graph run.
  std::optional<int64_t> samplesPerRun() const {
    return samples ? std::optional(*samples / batches) : std::nullopt;
  }

  auto operator<=>(const StepVariant &) const = default;
};

} // namespace stow
