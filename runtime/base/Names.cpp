#include "runtime/base/Names.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <algorithm>

namespace stow {
namespace {

bool isJoint(char c) { return c == '-' || c == '_' || c == ' '; }

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Small letters without what joins the parts of a name.
std::string plain(std::string_view name) {
  std::string letters;
  for (char c : name)
    if (!isJoint(c))
      letters += small(c);
  return letters;
}

/// The parts of a name, each between two "-": "-memory-budget-".
std::string parts(std::string_view name) {
  std::string all = "-";
  for (char c : name)
    if (!isJoint(c))
      all += small(c);
    else if (all.back() != '-')
      all += '-';
  return all.back() == '-' ? all : all + "-";
}

size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

/// How far `word` is from being `candidate`: changed letters, but the beginning of a name or some parts
/// of it are near, the last ones most.
size_t distance(std::string_view word, std::string_view candidate) {
  size_t least = editDistance(plain(word), plain(candidate));
  const std::string wanted = parts(word), all = parts(candidate);
  if (wanted.size() < 4)
    return least;
  if (all.ends_with(wanted))
    return std::min<size_t>(least, 1);
  const bool isBeginning = all.starts_with(wanted.substr(0, wanted.size() - 1));
  return isBeginning || all.find(wanted) != std::string::npos ? std::min<size_t>(least, 2) : least;
}

} // namespace

std::optional<size_t> findName(std::string_view text, const std::vector<std::string> &known) {
  const auto exact = std::ranges::find(known, text);
  const auto found = exact != known.end() ? exact : std::ranges::find(known, plain(text), plain);
  if (found == known.end())
    return std::nullopt;
  return static_cast<size_t>(found - known.begin());
}

size_t oneOf(std::string_view text, const std::vector<std::string> &known, std::string_view what,
             std::string_view flag) {
  if (const std::optional<size_t> found = findName(text, known))
    return *found;
  throw Error::badInput(concat("unknown ", what, " \"", text, "\"", flag.empty() ? "" : " for ",
                               flag, knownNames(text, known)));
}

std::string didYouMean(std::string_view text, const std::vector<std::string> &known) {
  const std::string near = nearest(text, known);
  return near.empty() ? "" : "; did you mean " + near + "?";
}

std::string knownNames(std::string_view text, const std::vector<std::string> &known) {
  return "; known are " + joined(known) + didYouMean(text, known);
}

std::string nearest(std::string_view word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t bestDistance = plain(word).size() / 3 + 2;
  for (const std::string &candidate : candidates) {
    const size_t found = distance(word, candidate);
    if (found < bestDistance) {
      bestDistance = found;
      best = candidate;
    }
  }
  return best;
}

} // namespace stow
