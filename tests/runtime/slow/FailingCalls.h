// File systems and disks that a test machine does not have: calls of the whole test binary that fail on demand.
#pragma once

namespace stow::test {

/// With which errno each call fails; 0: it does not.
struct FailingCalls {
  int nameless = 0;     ///< open(O_TMPFILE)
  int direct = 0;       ///< fcntl(F_SETFL) with O_DIRECT
  int reserve = 0;      ///< fallocate
  int directWrite = 0;  ///< pwrite to a file with O_DIRECT
  int microseconds = 0; ///< that this pwrite takes before it fails
  int read = 0;         ///< pread
  int writeBack = 0;    ///< sync_file_range
};

extern FailingCalls failingCalls;

} // namespace stow::test
