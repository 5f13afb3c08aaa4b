// The keys and values that torchrun's agent keeps for the processes that it starts.
#pragma once

#include "runtime/ranks/Socket.h"

#include <chrono>
#include <string>

namespace stow {

/// A connection to it, by the protocol of torch.distributed.TCPStore.
class AgentStore {
public:
  /// Throws Error(BadInput) where nobody answers, or somebody else than such a store.
  AgentStore(const std::string &address, int port, std::chrono::milliseconds patience);

  void set(const std::string &key, const std::string &value);
  /// Waits until somebody has set it. Throws Error(BadInput) where nobody has within `patience`.
  std::string get(const std::string &key);

private:
  void send(const std::string &bytes);
  std::string receive(size_t count);

  Socket socket;
  std::chrono::milliseconds patience;
};

} // namespace stow
