#include "runtime/host/AllReduce.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/Reduction.h"

#include <cstring>

namespace stow::host {

namespace {

class AllReduceCall : public LibraryCall {
public:
  AllReduceCall(Ranks &ranks, const char *x, char *y, char *scratch, int64_t count)
      : ranks(ranks), x(x), y(y), scratch(scratch), count(count) {}

  void run() override {
    if (x != y)
      std::memcpy(y, x, static_cast<size_t>(count) * sizeof(float));
    ranks.sum(reinterpret_cast<float *>(y), count, scratch);
  }

private:
  Ranks &ranks;
  const char *x;
  char *y, *scratch;
  int64_t count;
};

} // namespace

std::unique_ptr<LibraryCall> bindAllReduce(const Command &command, char *arena, Ranks *ranks) {
  auto fail = [&](const std::string &why) {
    throw Error::badInput("command " + command.title() + ": " + why);
  };
  const auto wanted = command.ints.find("ranks");
  if (wanted == command.ints.end() || wanted->second.size() != 1 || command.operands.size() != 2)
    fail("expected the number of ranks, an operand and a result");
  const int64_t size = wanted->second.front();
  if (!ranks || ranks->size() != size)
    fail(concat("adds up values of ", size, " ranks, and this process is one of ",
                ranks ? ranks->size() : 1,
                "; programs for several devices are started as: mpirun -n ", size,
                " ./model train --data=FILE ..."));
  const Operand &x = command.operands[0], &y = command.operands[1];
  const Bytes bytes = storedBytes(x.layout, x.shape, x.dtype);
  if (x.dtype != DType::F32 || y.dtype != DType::F32 ||
      bytes != storedBytes(y.layout, y.shape, y.dtype))
    fail("expected an operand and a result of f32 and of one size");
  const int64_t count = bytes / static_cast<Bytes>(sizeof(float));
  if (const Bytes needed = reductionScratchBytes(count, size); command.workspaceBytes < needed)
    fail(concat("needs ", needed, " bytes of scratch, the plan has ", command.workspaceBytes));
  return std::make_unique<AllReduceCall>(*ranks, arena + x.offset, arena + y.offset,
                                         arena + command.workspaceOffset, count);
}

} // namespace stow::host
