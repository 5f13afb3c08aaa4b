// The time/memory frontier as a table, as CSV and as a page for a browser.
#pragma once

#include "passes/plan/Frontier.h"
#include "runtime/format/Card.h"

#include <optional>
#include <string>
#include <vector>

namespace stow {

/// As a page for a browser, with the points' plans and the card that they are to fit where one is known.
std::string drawFrontierPage(const Frontier &frontier, const std::optional<Card> &card);

/// "text", "csv", "json" and "html".
std::vector<std::string> frontierFormats();

/// In one of these formats; the page has a place for a card.
std::string renderFrontier(const Frontier &frontier, const std::string &format,
                           const std::optional<Card> &card = std::nullopt);

/// That of one way to run the step.
struct FrontierOfDevices {
  int64_t devices = 1;
  std::string shards; ///< what lies in shards
  Frontier frontier;
};

/// One behind the other, in one of these formats but the page. CSV has two columns more.
std::string renderFrontiers(const std::vector<FrontierOfDevices> &all, const std::string &format);

} // namespace stow
