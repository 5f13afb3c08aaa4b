#include "runtime/host/BoundCommand.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/loops/ProductRows.h"

#include <algorithm>
#include <cstring>

namespace stow::host {

namespace {

/// Kernels that move fewer bytes (or do fewer operations) than this run on the calling thread: one
/// core does them in 2 to 7 microseconds, from cache or memory, and handing them to the pool takes
/// about as long.
constexpr double parallelCost = 1 << 17;

int64_t payingThreads(const Command &command, int64_t threads) {
  const double cost = std::max(command.flops, command.bytes);
  const bool pays = cost <= 0 || cost >= parallelCost; // 0: unknown
  return pays ? threads : 1;
}

} // namespace

BoundCommand::BoundCommand(const Command &command, const ProgramImage &image, char *arena,
                           int64_t threads, Poison poison) {
  if (command.op == CommandOp::Kernel)
    bindKernel(command, image, arena, threads);
  else if (command.op == CommandOp::Sequence)
    for (const Command &part : command.parts)
      parts.emplace_back(part, image, arena, threads, Poison::None);
  else if (command.op == CommandOp::ProductMap)
    call = bindProductRows(command, image, arena, payingThreads(command, threads));
  else
    call = bindLibraryCall(command, arena, threads);
  bindDying(command, arena, poison);
}

BoundCommand::BoundCommand(const Command &command, char *arena, Poison poison, const CopyStep &step)
    : step(step) {
  bindDying(command, arena, poison);
}

BoundCommand::BoundCommand(const Command &command, char *arena, Poison poison,
                           std::unique_ptr<LibraryCall> call)
    : call(std::move(call)) {
  bindDying(command, arena, poison);
}

void BoundCommand::bindDying(const Command &command, char *arena, Poison poison) {
  if (poison == Poison::None)
    return;
  for (const Operand &dead : command.dying)
    dying.push_back({arena + dead.offset,
                     static_cast<size_t>(storedBytes(dead.layout, dead.shape, dead.dtype))});
  // Library scratch dies with its command.
  dying.push_back({arena + command.workspaceOffset, static_cast<size_t>(command.workspaceBytes)});
}

void BoundCommand::bindKernel(const Command &command, const ProgramImage &image, char *arena,
                              int64_t availableThreads) {
  if (command.kernel < 0 || static_cast<size_t>(command.kernel) >= image.kernels.size())
    throw Error::badInput(concat("command ", command.title(), " runs kernel ", command.kernel,
                                 ", the executable has ", image.kernels.size()));
  kernel = image.kernels[static_cast<size_t>(command.kernel)];
  tasks = command.tasks;
  threads = payingThreads(command, availableThreads);
  for (const Operand &operand : command.operands)
    arguments.push_back(arena + operand.offset);
}

Bytes BoundCommand::heapBytes() const {
  Bytes most = call ? call->heapBytes() : 0;
  for (const BoundCommand &part : parts)
    most = std::max(most, part.heapBytes());
  return most;
}

void BoundCommand::run() const {
  for (const BoundCommand &part : parts)
    part.run();
  if (call)
    call->run();
  else if (kernel)
    parallelFor(tasks, threads,
                [&](int64_t begin, int64_t end) { kernel(begin, end, arguments.data()); });
  else if (step.lanes)
    step.isStart ? step.lanes->start(step.copy) : step.lanes->await(step.copy);
  for (const Range &dead : dying)
    std::memset(dead.begin, poisonByte, dead.bytes);
}

} // namespace stow::host
