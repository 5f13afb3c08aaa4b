// A GPU behind codegen/Backend.h.
#pragma once

#include "codegen/Backend.h"

namespace stow::cuda {

/// As the row of the table of targets has it.
std::string whyNot(Feature feature);

/// The backend of --target=cuda:GPU; `options.device` names the GPU. Throws Error(BadInput) listing the
/// known ones.
std::unique_ptr<Backend> createCudaBackend(const BackendOptions &options);

} // namespace stow::cuda
