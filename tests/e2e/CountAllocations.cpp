// Preloaded into a compiled model: when the process ends, writes what it allocated over its life,
// "<calls> <bytes> <largest>", to the file that STOWAGE_ALLOCATIONS names.
#include "tests/runtime/base/CountAllocations.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace {

struct Report {
  ~Report() {
    const stow::test::Allocations total = stow::test::allocationsSoFar();
    const char *path = std::getenv("STOWAGE_ALLOCATIONS");
    if (FILE *file = path ? std::fopen(path, "w") : nullptr) {
      std::fprintf(file, "%" PRId64 " %" PRId64 " %" PRId64 "\n", total.calls, total.bytes,
                   total.largest);
      std::fclose(file);
    }
  }
} report;

} // namespace
