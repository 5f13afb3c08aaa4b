// Which devices an executable has.
#include "runtime/host/HostDevice.h"

namespace stow {

std::unique_ptr<Device> openDevice(std::string_view target, const DeviceOptions &options) {
  static constexpr DeviceKind kinds[] = {{"host", makeDevice<host::HostDevice>}};
  return openDevice(kinds, target, options);
}

} // namespace stow
