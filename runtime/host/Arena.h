// The one allocation of a run on the host.
#pragma once

#include "runtime/base/Bytes.h"

#include <cstddef>

namespace stow::host {

/// Address space for `bytes` bytes, aligned to a huge page (or to a page when small), zero at
/// first, backed by memory page by page as it is touched. Its size never changes.
class Arena {
public:
  /// Throws Error(BadInput) when the machine has less memory available than `bytes`.
  explicit Arena(Bytes bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  char *data() const { return base; }
  Bytes size() const { return sizeBytes; }

private:
  void *mapping = nullptr;
  size_t mappingBytes = 0;
  char *base = nullptr;
  Bytes sizeBytes = 0;
};

/// Bytes that a process may still take: memory the kernel calls available plus free swap, at most
/// the limit of the container. Negative is never returned; unknown is the largest Bytes.
Bytes availableMemory();

} // namespace stow::host
