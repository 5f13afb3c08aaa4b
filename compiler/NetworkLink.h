// The network between the ranks of a step, as --network names it.
#pragma once

#include "passes/order/CostModel.h"

#include <optional>
#include <string>

namespace stow {

/// What --network says; empty: nothing is said, and the time on the network is not known.
struct NetworkLink {
  std::string name;
  double gigabytesPerSecond = 0; ///< each way, of what ranks send
  double microseconds = 0;       ///< of an exchange, beside its bytes
  std::string source;

  bool isKnown() const { return !name.empty(); }
};

/// The value of --network: a kind of link, "GB/S", or "GB/S,MICROSECONDS". Throws Error(BadInput).
NetworkLink parseNetwork(const std::string &text);

/// The lane of a cost model; absent where nothing is said.
std::optional<Network> networkOf(const NetworkLink &link);

/// A sentence for the plan; empty where nothing is said.
std::string noteOf(const NetworkLink &link);

} // namespace stow
