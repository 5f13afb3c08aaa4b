// Connections of TCP between the ranks of a launch.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace stow {

/// One end of a connection, or what listens for them; closed with its owner.
class Socket {
public:
  Socket() = default;
  explicit Socket(int file) : file(file) {}
  ~Socket();
  Socket(Socket &&other) noexcept;
  Socket &operator=(Socket &&other) noexcept;

  /// Listens at that address of this machine alone; port 0: one that is free. Throws Error(BadInput) with the reason.
  static Socket listenAt(const std::string &address, int port);
  /// Asks there until somebody answers. Throws Error(BadInput) where nobody has within `patience`.
  static Socket connectTo(const std::string &address, int port, std::chrono::milliseconds patience);
  /// The next that asks; none where nobody has within `patience`.
  Socket accept(std::chrono::milliseconds patience) const;

  bool isOpen() const { return file >= 0; }
  int port() const; ///< that it listens at

  /// As much as goes without waiting: bytes sent or received. -1: the other end has closed the connection.
  ptrdiff_t send(std::span<const char> bytes) const;
  ptrdiff_t receive(std::span<char> bytes) const;
  /// Until something may be received, or sent, or the time is over.
  void waitFor(bool toSend, std::chrono::milliseconds patience) const;
  /// Whether bytes have come.
  bool mayReceive() const;
  /// Whether the other end has closed the connection and left nothing to receive.
  bool hasEnded() const;

  /// All of them, within `patience`. False where the other end closes the connection before, or the time is over.
  bool sendAll(std::span<const char> bytes, std::chrono::milliseconds patience) const;
  bool receiveAll(std::span<char> bytes, std::chrono::milliseconds patience) const;

private:
  int file = -1;
};

} // namespace stow
