// Rows of cells under each other, for reports in a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// `text` for a terminal: control characters are shown as "?", and it is cut to `most` characters
/// with ".." in place of what is left out: its middle, since names differ at both ends.
std::string printableText(std::string_view text, size_t most = 80);

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
