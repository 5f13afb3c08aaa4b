#include "ir/plan/schedule/Capacity.h"

#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <limits>

namespace stow::schedule {

Bytes Capacity::leastBytes() const {
  Bytes least = budgetBytes;
  for (const Window &window : windows)
    least -= window.withheldBytes;
  return least;
}

void check(const Problem &problem, const Capacity &capacity) {
  const auto count = static_cast<OpId>(problem.ops.size());
  Bytes left = std::numeric_limits<Bytes>::max();
  for (size_t i = 0; i < capacity.windows.size(); ++i) {
    const Window &window = capacity.windows[i];
    const std::string name = absl::StrCat("window ", i);
    for (OpId op : {window.first, window.last})
      if (op < 0 || op >= count)
        throw Error::badInput(
            absl::StrCat(name, ": op ", op, " does not exist; expected 0 to ", count - 1));
    if (window.withheldBytes < 0 || window.withheldBytes > left)
      throw Error::badInput(
          absl::StrCat(name, ": withholds ", window.withheldBytes,
                       " bytes; expected at least 0, and a sum of all windows below 2^63"));
    left -= window.withheldBytes;
  }
}

} // namespace stow::schedule
