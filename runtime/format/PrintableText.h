// Names out of files, shown in a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stow {

/// `text` as a terminal may be given it: bytes that are no UTF-8, control characters and those that
/// turn the direction of writing are replaced, and it is cut to `most` characters with ".." in
/// place of its middle, since names differ at both ends.
std::string printableText(std::string_view text, size_t most = 80);

/// Characters of UTF-8 text; what is wider or narrower than one column is not known here.
size_t displayWidth(std::string_view text);

} // namespace stow
