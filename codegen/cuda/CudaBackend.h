// A GPU behind codegen/Backend.h.
#pragma once

#include "codegen/Backend.h"

namespace stow::cuda {

/// The backend of --target=cuda:GPU; `options.device` names the GPU. Throws Error(BadInput) listing the
/// known ones.
std::unique_ptr<Backend> createCudaBackend(const BackendOptions &options);

} // namespace stow::cuda
