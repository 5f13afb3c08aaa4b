// Rows of cells under each other, for reports in a terminal.
#pragma once

#include "runtime/format/PrintableText.h"

#include <string>
#include <vector>

namespace stow {

class TextTable {
public:
  /// A letter per column: 'r' pushes its cells to the right, 'l' to the left.
  explicit TextTable(std::string alignment) : alignment(std::move(alignment)) {}

  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }

  /// Every row behind `indent`, columns two blanks apart; ends in a newline unless empty.
  std::string text(const std::string &indent) const;

private:
  std::string alignment;
  std::vector<std::vector<std::string>> rows;
};

/// "+1,234", "-5", "0".
std::string signedDigits(int64_t value);

/// "12.345 ms", "81.0 us", "2.10 s".
std::string formatSeconds(double seconds);

/// "12.3 %".
std::string formatPercent(double fraction);

} // namespace stow
