// Small pieces of text that messages and reports of all rooms share.
#pragma once

#include "runtime/base/Layout.h"

#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// "[8,3,224,224]"; "[]" for a scalar.
std::string shapeText(const Shape &shape);

/// "a, b, c".
std::string joined(const std::vector<std::string> &words);

/// `text` between double quotes as YAML, JSON and DOT read it back: quotes and backslashes behind
/// a backslash. Control characters become \xNN, which YAML alone knows; other formats are given
/// text without them.
std::string quotedText(std::string_view text);

/// `part` of `whole` in percent; 0 where there is no whole.
double percent(double part, double whole);

} // namespace stow
