// The version of Stowage, as --version prints it.
#pragma once

namespace stow {

/// "0.1.0": the version of the CMake project, which is the only place that states it.
const char *version();

} // namespace stow
