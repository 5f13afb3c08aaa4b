// Plans as one HTML file that needs nothing else: the page of viewer/ with the plans inside.
#pragma once

#include "compiler/PictureData.h"
#include "runtime/format/Plan.h"

#include <optional>
#include <string>

namespace stow {

/// The page that shows what `data` holds. Nothing of a model's names becomes part of its markup:
/// the data is base64.
std::string drawPage(const PictureData &data);

/// The page of one plan, with the card that it is to fit where one is known.
std::string drawPlan(const Plan &plan, const std::optional<Card> &card);

/// The same with what a run of the plan took beside what was planned.
std::string drawTimes(const Plan &plan, const StepTimes &times, const std::optional<Card> &card);

/// The page of two plans beside each other. The labels tell them apart: file names, for example.
std::string drawComparison(const Plan &before, const Plan &after, const std::string &beforeLabel,
                           const std::string &afterLabel);

} // namespace stow
