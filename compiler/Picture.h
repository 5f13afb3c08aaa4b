// Plans as one HTML file that needs nothing else: the page of viewer/ with the plans inside.
#pragma once

#include "compiler/PictureData.h"
#include "runtime/format/Plan.h"

#include <string>

namespace stow {

/// The page that shows what `data` holds. Nothing of a model's names becomes part of its markup:
/// the data is base64.
std::string drawPage(const PictureData &data);

/// The page of one plan.
std::string drawPlan(const Plan &plan);

} // namespace stow
