#include "runtime/host/AllReduce.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/Reduction.h"
#include "runtime/host/Shards.h"

#include <algorithm>
#include <cstring>

namespace stow::host {

namespace {

class AllReduceCall : public Exchange {
public:
  AllReduceCall(Ranks &ranks, const char *x, char *y, char *scratch, int64_t count)
      : ranks(ranks), x(x), y(y), scratch(scratch), count(count) {}

  void prepare() override {
    if (x != y)
      std::memcpy(y, x, static_cast<size_t>(count) * sizeof(float));
  }
  void exchange() override { ranks.sum(reinterpret_cast<float *>(y), count, scratch); }

private:
  Ranks &ranks;
  const char *x;
  char *y, *scratch;
  int64_t count;
};

} // namespace

std::unique_ptr<Exchange> bindAllReduce(const Command &command, char *arena, Ranks *ranks,
                                        char *laneScratch) {
  auto fail = [&](const std::string &why) {
    throw Error::badInput("command " + command.title() + ": " + why);
  };
  const int64_t size = ranksOf(command, ranks).size();
  if (command.operands.size() != 2)
    fail("expected an operand and a result");
  const Operand &x = command.operands[0], &y = command.operands[1];
  const Bytes bytes = storedBytes(x.layout, x.shape, x.dtype);
  if (x.dtype != DType::F32 || y.dtype != DType::F32 ||
      bytes != storedBytes(y.layout, y.shape, y.dtype))
    fail("expected an operand and a result of f32 and of one size");
  const int64_t count = bytes / static_cast<Bytes>(sizeof(float));
  if (const Bytes needed = reductionScratchBytes(count, size);
      !laneScratch && command.workspaceBytes < needed)
    fail(concat("needs ", needed, " bytes of scratch, the plan has ", command.workspaceBytes));
  return std::make_unique<AllReduceCall>(
      *ranks, arena + x.offset, arena + y.offset,
      laneScratch ? laneScratch : arena + command.workspaceOffset, count);
}

void SumsTogether::add(const Command &command, char *arena) {
  const Operand &y = command.operands.back();
  const int64_t count = storedBytes(y.layout, y.shape, y.dtype) / static_cast<Bytes>(sizeof(float));
  floats += count;
  if (floats > kMostTogether)
    throw Error::badInput(concat("command ", command.title(), ": is exchanged with others of ",
                                 floats - count, " floats; expected ", kMostTogether,
                                 " of all at most, found ", floats));
  sums.emplace_back(reinterpret_cast<float *>(arena + y.offset), static_cast<size_t>(count));
}

void SumsTogether::exchange() {
  auto *all = reinterpret_cast<float *>(scratch), *to = all;
  for (std::span<const float> sum : sums)
    to = std::ranges::copy(sum, to).out;
  ranks.sum(all, floats, reinterpret_cast<char *>(to));
  const float *from = all;
  for (std::span<float> sum : sums) {
    std::copy_n(from, sum.size(), sum.data());
    from += sum.size();
  }
}

} // namespace stow::host
