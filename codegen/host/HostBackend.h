// The processor that the compiler itself runs on, or one like it.
#pragma once

#include "codegen/Backend.h"

namespace stow::host {

/// As the row of the table of targets has it.
std::string whyNot(Feature feature);

std::unique_ptr<Backend> createHostBackend(const BackendOptions &options);

} // namespace stow::host
