#include "runtime/host/Execution.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <atomic>
#include <optional>

namespace stow::host {

void Execution::addAddend(float *sum, const float *addend, int64_t count) {
  this->sum = sum;
  addends.push_back(addend);
  summed = count;
}

dnnl_status_t Execution::execute(const dnnl::stream &stream) const {
  std::optional<ThreadScope> fewer;
  if (mostThreads < currentThreads())
    fewer.emplace(mostThreads);
  return dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()),
                                arguments.data());
}

dnnl_status_t Execution::executeAt(const std::vector<char *> &places,
                                   const dnnl::stream &stream) const {
  for (size_t i = 0; i < places.size(); ++i)
    if (const dnnl_status_t status = dnnl_memory_set_data_handle(memories[i].get(), places[i]);
        status != dnnl_success)
      return status;
  return execute(stream);
}

dnnl_status_t Execution::executeParts(const dnnl::stream &stream) const {
  std::atomic<dnnl_status_t> failure = dnnl_success;
  const size_t count = parts.size(), runners = partRunners.size();
  parallelFor(static_cast<int64_t>(runners), currentThreads(), [&](int64_t begin, int64_t end) {
    const ThreadScope alone(1);
    for (auto runner = static_cast<size_t>(begin); runner < static_cast<size_t>(end); ++runner)
      for (size_t i = count * runner / runners; i < count * (runner + 1) / runners; ++i)
        if (const dnnl_status_t status =
                partRunners[runner][parts[i].kind].executeAt(parts[i].places, stream);
            status != dnnl_success)
          failure = status;
  });
  return failure;
}

void Execution::addUp() const {
  parallelFor(summed, currentThreads(), [&](int64_t begin, int64_t end) {
    for (const float *addend : addends)
      for (int64_t i = begin; i < end; ++i)
        sum[i] += addend[i];
  });
}

void Execution::run(const dnnl::stream &stream, const std::string &title) const {
  const dnnl_status_t status = parts.empty() ? execute(stream) : executeParts(stream);
  if (status != dnnl_success)
    throw Error::internal(concat(title, " failed with library status ", status));
  if (!addends.empty())
    addUp();
}

} // namespace stow::host
