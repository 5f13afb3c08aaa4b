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

/// "text", "csv" and "html".
std::vector<std::string> frontierFormats();

/// In one of these formats; the page has a place for a card.
std::string renderFrontier(const Frontier &frontier, const std::string &format,
                           const std::optional<Card> &card = std::nullopt);

} // namespace stow
