// How fast a GPU reaches the memory of its host: --link, and the link that a chip usually has.
#pragma once

#include "codegen/Backend.h"

#include <string>

namespace stow::cuda {

/// The link of a target's chips: of several the slowest. `named` is a link's name, "pcie4", or gigabytes a second each way,
/// "25"; empty: the one that each chip's file has. Throws Error(BadInput) listing the known ones, and where nothing is
/// named and a chip has none.
HostLink requireLink(const std::string &chips, const std::string &named);

} // namespace stow::cuda
