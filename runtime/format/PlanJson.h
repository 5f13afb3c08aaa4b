// Plans inside other JSON documents. Plan.h has the text form.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/format/Plan.h"

namespace stow {

Json toJsonValue(const Plan &plan);
Plan planFrom(const JsonNode &node);

} // namespace stow
