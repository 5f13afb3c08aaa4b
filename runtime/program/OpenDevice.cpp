// Which devices an executable has.
#include "runtime/host/HostDevice.h"

namespace stow {

std::unique_ptr<Device> openDevice(const DeviceOptions &options) {
  return std::make_unique<host::HostDevice>(options);
}

} // namespace stow
