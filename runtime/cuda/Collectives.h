// Sums over ranks and shards of values as commands of a GPU: NCCL's, on the stream of all other commands, which a graph captures.
//
// NCCL adds up in an order of its own, which its version, the number of ranks and how their GPUs are connected decide: the same
// in every run of one installation, and the same bits on all ranks.
#pragma once

#include "runtime/cuda/Driver.h"
#include "runtime/cuda/LibraryCall.h"
#include "runtime/cuda/NcclApi.h"
#include "runtime/format/Program.h"
#include "runtime/ranks/Ranks.h"

#include <functional>
#include <memory>
#include <string>

namespace stow::cuda {

/// Which GPU this process takes where nobody says: as many as its place among the ranks of its machine, or the one that it sees. Throws
/// Error(BadInput) where the machine has fewer GPUs than ranks.
int64_t gpuOfRank(const Driver &driver);

/// The ranks' GPUs, connected.
class Communicator {
public:
  /// Collective. For the device whose context is current in this thread, as it is in all calls. `ranks` outlive it. `destroyGraphs`
  /// destroys the executable graphs that have its calls, which may still run: NCCL ends when no graph uses it any more.
  /// Throws Error(BadInput) as nccl::openLibrary() does, and where NCCL cannot connect the ranks, with its reason.
  Communicator(const Driver &driver, Ranks &ranks, std::function<void()> destroyGraphs);
  /// Nothing of it may run any more, nor a graph have its calls, unless abort() has ended it.
  ~Communicator();
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  /// Lets NCCL read and write the bytes of the arena where they lie, without buffers of its own. Where it cannot, note() says why.
  void registerArena(Address arena, Bytes bytes);

  /// A command of isOfRanks(), bound to its places in `arena`. Throws Error(BadInput) naming the command where it is for another number of
  /// ranks or its operands are not as it needs them.
  std::unique_ptr<LibraryCall> bind(const Command &command, Address arena);

  /// Waits for `event` or, where it is null, for all that `stream` has: for ranks that do not come no longer than they may take. Throws
  /// RankLost where NCCL has failed or they do not come, and then nothing of this runs any more; Error as Driver::require().
  void wait(Stream stream, Event event, const std::string &what);

  /// Throws RankLost where it has ended.
  void requireConnected();

  /// Ends what runs on the device and waits for other ranks, which may never come. Nothing else is to follow but the destructor.
  void abort();

  /// As Device::notes(); empty where the arena is registered.
  const std::string &note() const { return why; }

private:
  void requireNoError();

  const Driver &driver;
  const nccl::Library &library;
  Ranks &ranks;
  const std::function<void()> destroyGraphs;
  nccl::Comm comm = nullptr;
  void *registration = nullptr;
  std::string why;
};

/// The same of a process that may be alone, without ranks: Error(BadInput) then, with how to start it.
std::unique_ptr<LibraryCall> bindOfRanks(Communicator *communicator, const Command &command,
                                         Address arena);

} // namespace stow::cuda
