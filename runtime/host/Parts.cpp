#include "runtime/host/Parts.h"

#include <algorithm>

namespace stow::host {

static bool isInParts(const Preparation &preparation) {
  return preparation.parts && !preparation.parts->parts.empty();
}

int64_t primitiveCount(const Preparation &preparation) {
  return isInParts(preparation) ? static_cast<int64_t>(preparation.parts->parts.size()) : 1;
}

dnnl::primitive wholePrimitive(const Preparation &preparation, int64_t threads) {
  if (isInParts(preparation))
    return {};
  const ThreadScope scope(preparation.parts ? std::min(preparation.parts->mostThreads, threads)
                                            : threads);
  return dnnl::primitive(preparation.descriptor.get());
}

Bytes primitiveScratch(const Preparation &preparation) {
  if (isInParts(preparation))
    return preparation.parts->scratchBytes;
  return static_cast<Bytes>(preparation.descriptor.scratchpad_desc().get_size());
}

void addParts(Execution &execution, const Preparation &whole, const std::vector<char *> &addresses,
              char *scratch) {
  if (!whole.parts)
    return;
  const Parts &cut = *whole.parts;
  execution.limitThreads(cut.mostThreads);
  std::vector<dnnl::primitive> primitives;
  const ThreadScope alone(1); // as their descriptors were made
  for (const dnnl::primitive_desc_base &kind : cut.kinds)
    primitives.emplace_back(kind.get());
  for (const Parts::Part &part : cut.parts) {
    Execution bound(primitives[part.kind]);
    for (size_t i = 0; i < part.views.size(); ++i) {
      const Parts::View &view = part.views[i];
      char *address = (view.inScratch ? scratch : addresses[i]) + view.offset;
      bound.add(whole.arguments[i].dnnlArgument, dnnl::memory(view.desc, cpuEngine(), address));
      if (view.inScratch)
        execution.addAddend(reinterpret_cast<float *>(addresses[i]),
                            reinterpret_cast<const float *>(address), cut.summed);
    }
    if (const dnnl::memory::desc own = cut.kinds[part.kind].scratchpad_desc(); own.get_size() != 0)
      bound.add(DNNL_ARG_SCRATCHPAD, dnnl::memory(own, cpuEngine(), scratch + part.libraryScratch));
    execution.addPart(std::move(bound));
  }
}

} // namespace stow::host
