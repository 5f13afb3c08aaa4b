// Which devices an executable has.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/host/HostDevice.h"

namespace stow {

std::unique_ptr<Device> openDevice(std::string_view target, const DeviceOptions &options) {
  static constexpr DeviceKind kinds[] = {{"host", makeDevice<host::HostDevice>},
                                         {"cuda", makeDevice<cuda::CudaDevice>}};
  return openDevice(kinds, target, options);
}

} // namespace stow
