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

/// One of two plans beside each other.
struct LabelledPlan {
  const Plan &plan;
  std::string label;        ///< tells it from the other: a file name, for example
  std::optional<Card> card; ///< that it is to fit, where one is known
};

/// The page of two plans beside each other.
std::string drawComparison(const LabelledPlan &before, const LabelledPlan &after);

} // namespace stow
