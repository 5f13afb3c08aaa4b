// The text of Device::algorithms(), as checkpoints keep it:
//
//   question=alternative question=alternative ...
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace stow {

/// The alternatives by question. Throws Error(BadInput) for text of another form, with the first entry that is wrong.
std::map<std::string, std::string> parseAlgorithms(std::string_view text);
std::string textOf(const std::map<std::string, std::string> &alternatives);

} // namespace stow
