#include "runtime/ranks/AgentStore.h"

#include "runtime/base/Error.h"

#include <cstdint>
#include <cstring>

namespace stow {

namespace {

// Questions, and what a connection begins with.
constexpr char kValidate = 0, kSet = 1, kGet = 3, kWait = 6, kPing = 13;
constexpr uint32_t kMagic = 0x3C85F7CE, kNonce = 0x53544F57;

/// An answer to kWait: all keys are there.
constexpr char kThere = 0;

/// What TCPStore puts before every key.
constexpr const char *kPrefix = "/";

constexpr uint64_t kMostBytes = uint64_t{1} << 16;

template <typename Number> std::string bytesOf(Number number) {
  return {reinterpret_cast<const char *>(&number), sizeof(number)};
}

template <typename Number> Number numberOf(const std::string &bytes) {
  Number number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

std::string textOf(const std::string &text) { return bytesOf(uint64_t{text.size()}) + text; }

[[noreturn]] void refuse() {
  throw Error::badInput("who listens at MASTER_ADDR and MASTER_PORT is no store of torchrun's "
                        "agent, as TORCHELASTIC_USE_AGENT_STORE says: "
                        "expected that of PyTorch 2");
}

} // namespace

AgentStore::AgentStore(const std::string &address, int port, std::chrono::milliseconds patience)
    : socket(Socket::connectTo(address, port, patience)), patience(patience) {
  send(kValidate + bytesOf(kMagic) + kPing + bytesOf(kNonce));
  if (numberOf<uint32_t>(receive(sizeof(kNonce))) != kNonce)
    refuse();
}

void AgentStore::set(const std::string &key, const std::string &value) {
  send(kSet + textOf(kPrefix + key) + textOf(value));
}

std::string AgentStore::get(const std::string &key) {
  send(kWait + bytesOf(uint64_t{1}) + textOf(kPrefix + key));
  if (receive(1).front() != kThere)
    refuse();
  send(kGet + textOf(kPrefix + key));
  const auto bytes = numberOf<uint64_t>(receive(sizeof(uint64_t)));
  if (bytes > kMostBytes)
    refuse();
  return receive(bytes);
}

void AgentStore::send(const std::string &bytes) {
  if (!socket.sendAll(bytes, patience))
    refuse();
}

std::string AgentStore::receive(size_t count) {
  std::string bytes(count, '\0');
  if (!socket.receiveAll(bytes, patience))
    refuse();
  return bytes;
}

} // namespace stow
