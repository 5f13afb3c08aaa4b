// What copies to a folder take, for plans: measured with the lanes that a run copies with.
#pragma once

#include "runtime/base/Bytes.h"

#include <string>
#include <vector>

namespace stow::slow {

/// Of one direction; a copy takes latency + bytes / bandwidth.
struct LinkSpeed {
  double bytesPerSecond = 0;
  double latencySeconds = 0;
};

struct FolderSpeed {
  LinkSpeed out, in;
  std::vector<std::string> notes; ///< as SlowFile has them
};

/// The most that a measurement writes to the folder at a time.
inline constexpr Bytes kMeasuredBytes = Bytes{64} << 20;

/// Writes kMeasuredBytes to a file in `folder` and reads them back, a few times, and takes the medians. One direction
/// at a time, on a machine that does nothing else: what disks hold in caches of their own counts as theirs. Throws
/// Error(BadInput) as SlowFile and its transfers do.
FolderSpeed measureFolder(const std::string &folder);

} // namespace stow::slow
