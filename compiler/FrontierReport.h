// The time/memory frontier as a table, as CSV, as a chart and as a page for a browser.
#pragma once

#include "passes/plan/Frontier.h"

#include <string>
#include <vector>

namespace stow {

/// As a line chart, an SVG file.
std::string drawFrontier(const Frontier &frontier);

/// As a page for a browser, with the points' plans.
std::string drawFrontierPage(const Frontier &frontier);

/// "text", "csv", "svg" and "html".
std::vector<std::string> frontierFormats();

/// In one of these formats.
std::string renderFrontier(const Frontier &frontier, const std::string &format);

} // namespace stow
