#include "runtime/base/Bytes.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace stow {
namespace {

struct Unit {
  std::string_view suffix;
  double bytes;
};

constexpr Unit kUnits[] = {
    {"TiB", 1099511627776.0},
    {"GiB", 1073741824.0},
    {"MiB", 1048576.0},
    {"KiB", 1024.0},
    {"TB", 1e12},
    {"GB", 1e9},
    {"MB", 1e6},
    {"KB", 1e3},
    {"B", 1.0},
    {"", 1.0},
};

[[noreturn]] void failToParse(std::string_view text, const std::string &meant = "") {
  throw Error::badInput(
      "cannot read \"" + std::string(text) + "\" as a byte count" +
      (meant.empty() ? "; write for example 2GiB, 512MiB, 900MB, 1048576 or 70%" : meant));
}

/// But for capitals.
bool isSame(std::string_view a, std::string_view b) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; };
  return std::ranges::equal(a, b, {}, small, small);
}

/// Whether a suffix means this unit alone: "gib" and "Gi" GiB, "gb" GB, but "Gb" may be bits.
bool means(std::string_view suffix, std::string_view unit) {
  const bool isOfBits = suffix.size() == 2 && suffix[0] < 'a' && suffix[1] == 'b';
  return (isSame(suffix, unit) && !isOfBits) ||
         (unit.ends_with("iB") && isSame(suffix, unit.substr(0, 2)));
}

/// "; did you mean 4GiB (4294967296 bytes) or 4GB (4000000000 bytes)?" of what may be either.
std::string eitherOf(std::string_view number, double value, std::string_view suffix) {
  std::string meant;
  for (const Unit &unit : kUnits)
    if (unit.suffix.size() > 1 && isSame(suffix.substr(0, 1), unit.suffix.substr(0, 1)) &&
        value * unit.bytes < 9.2e18)
      append(meant, meant.empty() ? "; did you mean " : " or ", number, unit.suffix, " (",
             static_cast<Bytes>(value * unit.bytes), " bytes)");
  return meant.empty() ? "" : meant + "?";
}

} // namespace

ByteBudget parseByteBudget(std::string_view text) {
  std::string owned(text);
  if (owned.empty() || !((owned[0] >= '0' && owned[0] <= '9') || owned[0] == '.'))
    failToParse(text);
  size_t numberLength = owned.find_first_not_of("0123456789.");
  std::string number = owned.substr(0, numberLength);
  std::string suffix = numberLength == std::string::npos ? "" : owned.substr(numberLength);
  while (!suffix.empty() && suffix.front() == ' ')
    suffix.erase(0, 1);
  char *end = nullptr;
  double value = std::strtod(number.c_str(), &end);
  if (*end != '\0')
    failToParse(text);
  if (suffix == "%")
    return {std::nullopt, value};
  if (suffix.empty() && number.find('.') == std::string::npos) {
    errno = 0;
    long long exact = std::strtoll(number.c_str(), &end, 10);
    if (errno != 0)
      failToParse(text);
    return {exact, std::nullopt};
  }
  for (const Unit &unit : kUnits)
    if (means(suffix, unit.suffix)) {
      double bytes = std::floor(value * unit.bytes);
      if (bytes >= 9.2e18)
        failToParse(text);
      return {static_cast<Bytes>(bytes), std::nullopt};
    }
  failToParse(text, eitherOf(number, value, suffix));
}

Bytes parseBytes(std::string_view text) {
  ByteBudget budget = parseByteBudget(text);
  if (!budget.bytes)
    throw Error::badInput("\"" + std::string(text) +
                          "\" is a share; expected bytes, for example 2GiB, 900MB or 1048576");
  return *budget.bytes;
}

std::string formatBytes(Bytes bytes) {
  for (size_t i = 0; i < 4; ++i)
    if (std::abs(static_cast<double>(bytes)) >= kUnits[i].bytes) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "%.2f %s", static_cast<double>(bytes) / kUnits[i].bytes,
                    std::string(kUnits[i].suffix).c_str());
      return buffer;
    }
  return concat(bytes, " B");
}

std::string formatBytesExact(Bytes bytes) {
  return concat(formatBytes(bytes), " (", bytes, " bytes)");
}

} // namespace stow
