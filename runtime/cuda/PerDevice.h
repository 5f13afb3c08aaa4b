// What a library holds of one device, shared by all that use it there.
#pragma once

#include "runtime/cuda/Driver.h"

#include <map>
#include <memory>
#include <mutex>

namespace stow::cuda {

/// One `T` for each device, from its first use on until nobody holds it: what belongs to a context does not outlive those who keep that.
/// Any thread may ask.
template <typename T> class PerDevice {
public:
  /// That of the device which is current in this thread; `make` makes it where there is none.
  template <typename Make> std::shared_ptr<T> get(const Make &make) {
    const Driver &driver = openDriver();
    int device = 0;
    driver.require(driver.ctxGetDevice(&device), "asking for the GPU of this thread");
    const std::lock_guard guard(lock);
    std::weak_ptr<T> &known = held[device];
    std::shared_ptr<T> found = known.lock();
    if (!found)
      known = found = make();
    return found;
  }

private:
  std::mutex lock;
  std::map<int, std::weak_ptr<T>> held;
};

} // namespace stow::cuda
