#include "runtime/report/TextTable.h"

#include "runtime/format/PlanReport.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace stow {

namespace {

template <typename... Values> std::string format(const char *pattern, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

} // namespace

std::string TextTable::text(const std::string &indent) const {
  std::vector<size_t> widths(alignment.size(), 0);
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], displayWidth(row[i]));
  std::string out;
  for (const auto &row : rows) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - displayWidth(row[i]), ' ');
      line += i ? "  " : "";
      line += alignment[i] == 'r' ? blanks + row[i] : row[i] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string signedDigits(int64_t value) { return (value > 0 ? "+" : "") + groupDigits(value); }

std::string formatSeconds(double seconds) {
  if (std::abs(seconds) < 1e-3)
    return format("%.1f us", seconds * 1e6);
  if (std::abs(seconds) < 1)
    return format("%.3f ms", seconds * 1e3);
  return format("%.2f s", seconds);
}

std::string formatPercent(double fraction) { return format("%.1f %%", 100 * fraction); }

} // namespace stow
