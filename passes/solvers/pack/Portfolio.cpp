#include "passes/solvers/pack/Portfolio.h"

#include <string_view>

namespace stow::pack {

namespace {

// A area, W width, P peak, S sections, O overlaps, Z size, E early, L late; as in SearchKey.
constexpr std::string_view letters = "AWPSOZEL";

// Lower-case initials choose the pick: l lowest, t tightest. In front stand those that, in this
// order, solved a family of 159 derived problems and puzzles (ir/plan/pack/Derive.h) with the least
// work: the first alone solves half of them, the first nine all that any setting solves within
// 3,000 nodes beyond a straight descent. The rest adds variety. Keys without ties (A, W, Z) leave
// nothing to those after them.
constexpr std::string_view settings[] = {
    "lSAP", "lLAS", "lPSA", "lEZA", "tEPA", "tPOA", "lWAP", "tEZA", "tZPA", "tPES",
    "lSPA", "tPLA", "lPOA", "lPLZ", "tLAS", "tAEL", "lPAW", "lSOA", "tPAW", "tZAE",
    "lPSE", "tLPA", "lEAP", "lSEA", "lAPW", "tPZA", "lOPA", "tEAS", "lZPS", "tSAP",
    "lPEZ", "tWAP", "lLPA", "tOPA", "lESP", "tPSA", "lZSA", "tZEA", "lAEL", "tPOE",
};

SearchOptions parseSetting(std::string_view text) {
  SearchOptions options;
  options.pick = text[0] == 'l' ? SearchPick::Lowest : SearchPick::Tightest;
  for (size_t i = 0; i < options.order.size(); ++i)
    options.order[i] = static_cast<SearchKey>(letters.find(text[i + 1]));
  return options;
}

} // namespace

const std::vector<SearchOptions> &searchPortfolio() {
  static const std::vector<SearchOptions> portfolio = [] {
    std::vector<SearchOptions> all;
    for (std::string_view text : settings)
      all.push_back(parseSetting(text));
    return all;
  }();
  return portfolio;
}

std::string describe(const SearchOptions &options) {
  std::string text = options.pick == SearchPick::Lowest ? "lowest " : "tightest ";
  for (SearchKey key : options.order)
    text += letters[static_cast<size_t>(key)];
  return text;
}

} // namespace stow::pack
