#include "runtime/host/Execution.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

namespace stow::host {

void Execution::run(const dnnl::stream &stream, const std::string &title) const {
  dnnl_status_t status = dnnl_primitive_execute(
      primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
  if (status != dnnl_success)
    throw Error::internal(concat(title, " failed with library status ", status));
}

} // namespace stow::host
