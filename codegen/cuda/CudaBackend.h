// A GPU behind codegen/Backend.h.
#pragma once

#include "codegen/Backend.h"

namespace stow::cuda {

/// As the row of the table of targets has it.
std::string whyNot(Feature feature);

/// Why times that were measured on the GPU that its driver calls `device` say nothing of a plan for `gpus`, names of --target;
/// empty where it is one of them: its name stands in the device's, of an architecture that of one of its chips.
std::string whyNotMeasuredOn(const std::string &gpus, const std::string &device);

/// The backend of --target=cuda:GPU; `options.device` names the GPU. Throws Error(BadInput) listing the
/// known ones.
std::unique_ptr<Backend> createCudaBackend(const BackendOptions &options);

} // namespace stow::cuda
