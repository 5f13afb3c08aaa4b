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

/// The kinds of parts, each with memory objects without places for its arguments and, where it needs any, for scratch.
static std::vector<Execution> runnerOf(const Preparation &whole) {
  const Parts &cut = *whole.parts;
  std::vector<Execution> kinds;
  auto add = [](Execution &kind, int argument, const dnnl::memory::desc &desc) {
    kind.add(argument, dnnl::memory(desc, cpuEngine(), DNNL_MEMORY_NONE));
  };
  for (size_t i = 0; i < cut.kinds.size(); ++i) {
    const auto part = std::ranges::find(cut.parts, i, &Parts::Part::kind);
    Execution &kind = kinds.emplace_back(dnnl::primitive(cut.kinds[i].get()));
    for (size_t j = 0; j < part->views.size(); ++j)
      add(kind, whole.arguments[j].dnnlArgument, part->views[j].desc);
    if (const dnnl::memory::desc own = cut.kinds[i].scratchpad_desc(); own.get_size() != 0)
      add(kind, DNNL_ARG_SCRATCHPAD, own);
  }
  return kinds;
}

void addParts(Execution &execution, const Preparation &whole, const std::vector<char *> &addresses,
              char *scratch, int64_t threads) {
  if (!whole.parts)
    return;
  const Parts &cut = *whole.parts;
  execution.limitThreads(cut.mostThreads);
  const ThreadScope alone(1); // as their descriptors were made
  for (int64_t i = 0; i < std::min(threads, static_cast<int64_t>(cut.parts.size())); ++i)
    execution.addPartRunner(runnerOf(whole));
  for (const Parts::Part &part : cut.parts) {
    std::vector<char *> places;
    for (size_t i = 0; i < part.views.size(); ++i) {
      const Parts::View &view = part.views[i];
      places.push_back((view.inScratch ? scratch : addresses[i]) + view.offset);
      if (view.inScratch)
        execution.addAddend(reinterpret_cast<float *>(addresses[i]),
                            reinterpret_cast<const float *>(places.back()), cut.summed);
    }
    if (cut.kinds[part.kind].scratchpad_desc().get_size() != 0)
      places.push_back(scratch + part.libraryScratch);
    execution.addPart(part.kind, std::move(places));
  }
}

} // namespace stow::host
