// Layout and element type conversion.
#include "runtime/host/Primitive.h"

#include <algorithm>

namespace stow::host {

Preparation prepareReorder(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "dst"});
  if (std::ranges::find(anyLayout, true) != anyLayout.end())
    call.fail("both layouts must be given");
  if (call.shape(0) != call.shape(1))
    call.fail("shapes differ: " + call.describe(0) + ", " + call.describe(1));
  dnnl::memory::desc src = call.desc(0), dst = call.desc(1);
  // Grouped weights have one dimension more; the other side is the same bytes with it split.
  if (src.data.ndims < dst.data.ndims)
    src = call.choose([&] { return src.reshape(dimsOf(dst)); });
  else if (dst.data.ndims < src.data.ndims)
    dst = call.choose([&] { return dst.reshape(dimsOf(src)); });
  else if (dimsOf(src) != dimsOf(dst))
    call.fail("groups differ: " + call.describe(0) + ", " + call.describe(1));
  auto chosen = call.choose([&] {
    return dnnl::reorder::primitive_desc(cpuEngine(), src, cpuEngine(), dst, callAttributes());
  });
  return {chosen,
          {{0, DNNL_ARG_FROM, src, call.operand(0).layout},
           {1, DNNL_ARG_TO, dst, call.operand(1).layout}}};
}

} // namespace stow::host
