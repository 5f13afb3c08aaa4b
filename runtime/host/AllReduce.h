// Sums over ranks as commands of the host.
#pragma once

#include "runtime/host/ExchangeLane.h"
#include "runtime/ranks/Ranks.h"

#include <memory>
#include <span>
#include <vector>

namespace stow::host {

/// Binds an all_reduce to `arena`. Throws Error(BadInput) naming the command where this process has joined no ranks, or another
/// number of them, and where operands or scratch are not as the command needs them. A command that is started has its sums made in
/// `laneScratch`, of laneScratchBytes().
std::unique_ptr<Exchange> bindAllReduce(const Command &command, char *arena, Ranks *ranks,
                                        char *laneScratch = nullptr);

/// Sums that are exchanged together, of kMostTogether floats at most.
class SumsTogether : public Exchange {
public:
  /// `scratch`: of laneScratchBytes(), for all of them one behind the other and for their sum.
  SumsTogether(Ranks &ranks, char *scratch) : ranks(ranks), scratch(scratch) {}

  /// Adds the sum of a command, bound as by bindAllReduce(), of which `prepare()` is left to the caller. Throws as that, and where
  /// all have more floats than may be exchanged together.
  void add(const Command &command, char *arena);

  void exchange() override;

private:
  Ranks &ranks;
  char *scratch;
  std::vector<std::span<float>> sums;
  int64_t floats = 0;
};

} // namespace stow::host
