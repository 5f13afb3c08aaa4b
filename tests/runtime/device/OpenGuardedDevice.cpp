// Linked in place of runtime/program/OpenDevice.cpp: every run of the process is on a guarded
// device. STOWAGE_GUARD_REPORT names a file for the totals at the end, so that a test can see that
// it was.
#include "tests/runtime/device/GuardedDevice.h"

#include <cstdio>
#include <cstdlib>

namespace stow {

namespace {

struct Report {
  ~Report() {
    const char *path = std::getenv("STOWAGE_GUARD_REPORT");
    if (FILE *file = path ? std::fopen(path, "w") : nullptr) {
      std::fprintf(file, "%s\n", test::GuardedDevice::report().c_str());
      std::fclose(file);
    }
  }
} report;

} // namespace

std::unique_ptr<Device> openDevice(std::string_view target, const DeviceOptions &options) {
  static constexpr DeviceKind kinds[] = {{"host", makeDevice<test::GuardedDevice>}};
  return openDevice(kinds, target, options);
}

} // namespace stow
