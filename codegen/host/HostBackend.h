// The processor that the compiler itself runs on, or one like it.
#pragma once

#include "codegen/Backend.h"

namespace stow::host {

std::unique_ptr<Backend> createHostBackend(const BackendOptions &options);

} // namespace stow::host
