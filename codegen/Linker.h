// Links a program with the runtime.
#pragma once

#include <string>
#include <vector>

namespace stow {

struct LinkInput {
  std::vector<std::string> objects;   ///< object files and static libraries, in link order
  std::vector<std::string> libraries; ///< shared libraries: paths or -l flags
  bool shared = false;                ///< a shared object instead of an executable
  /// Of a shared object: a symbol that is taken out of the static libraries although no object asks
  /// for it, and the pattern of the symbols that stay visible. Empty: nothing, and all.
  std::string entry, visible;
  /// Of an executable: patterns of the symbols that shared libraries find in it.
  std::vector<std::string> exported;
};

/// Links with the first compiler driver found; `output` appears whole or not at all. Throws Error
/// with the driver's messages.
void link(const LinkInput &input, const std::string &output);

} // namespace stow
