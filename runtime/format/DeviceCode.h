// Code for GPUs inside an executable: the same kernels for several architectures, as cubins and as PTX.
//
//   "STOWGPU1"  number of images  { kind, architecture, where, bytes } of each   images, each at 64 bytes
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stow {

struct DeviceImage {
  /// A cubin runs on its architecture and on later ones of the same generation (8.0 on 8.9), PTX is
  /// translated at load for its architecture and all later ones.
  enum class Kind : uint32_t { Cubin = 1, Ptx = 2 };
  Kind kind = Kind::Ptx;
  uint32_t architecture = 0; ///< 90: compute capability 9.0
  std::string_view bytes;    ///< PTX with a zero at its end, as the driver takes it
};

/// "sm_90" as 90. Throws Error(BadInput) for anything else.
uint32_t architectureNumber(std::string_view name);

std::string packDeviceCode(std::span<const DeviceImage> images);

/// Throws Error(BadInput) where `code` is not what packDeviceCode writes. The images point into it.
std::vector<DeviceImage> unpackDeviceCode(std::span<const char> code);

/// Those that a device of `architecture` may load, the best first: cubins, then PTX, each from the
/// nearest architecture on.
std::vector<DeviceImage> loadableOn(std::span<const DeviceImage> images, uint32_t architecture);

/// "cubins for sm_80, sm_90, PTX for sm_80, sm_90".
std::string describe(std::span<const DeviceImage> images);

} // namespace stow
