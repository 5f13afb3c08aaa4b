#include "runtime/ranks/Socket.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace stow {

namespace {

/// Between two questions to somebody who does not listen yet.
constexpr std::chrono::milliseconds kPause(100);

/// A machine that is gone is noticed after about as long.
constexpr int kIdleSeconds = 5, kProbeSeconds = 2, kProbes = 2;

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo *)>;

Addresses addressesOf(const std::string &address, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int problem =
          getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found))
    throw Error::badInput(
        concat("the address '", address,
               "' of rank 0 (MASTER_ADDR) is not known: ", gai_strerror(problem)));
  return {found, freeaddrinfo};
}

void setFlag(int file, int level, int name, int value) {
  setsockopt(file, level, name, &value, sizeof(value));
}

void prepare(int file) {
  setFlag(file, IPPROTO_TCP, TCP_NODELAY, 1);
  setFlag(file, SOL_SOCKET, SO_KEEPALIVE, 1);
  setFlag(file, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  setFlag(file, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  setFlag(file, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

Socket openOne(const addrinfo &address) {
  return Socket(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
}

/// What a call that does not wait has done; none of it where it would have to wait.
ptrdiff_t doneOf(ptrdiff_t result) {
  if (result >= 0)
    return result;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

template <typename Step>
bool all(size_t count, const Step &step, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (size_t done = 0; done < count;) {
    const ptrdiff_t some = step(done);
    if (some < 0 || (some == 0 && std::chrono::steady_clock::now() > end))
      return false;
    done += static_cast<size_t>(some);
  }
  return true;
}

} // namespace

Socket::~Socket() {
  if (file >= 0)
    close(file);
}

Socket::Socket(Socket &&other) noexcept : file(std::exchange(other.file, -1)) {}

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(file, other.file);
  return *this;
}

Socket Socket::listenAt(const std::string &address, int port) {
  const Addresses all = addressesOf(address, port);
  for (const addrinfo *one = all.get(); one; one = one->ai_next) {
    Socket made = openOne(*one);
    setFlag(made.file, SOL_SOCKET, SO_REUSEADDR, 1);
    if (made.isOpen() && bind(made.file, one->ai_addr, one->ai_addrlen) == 0 &&
        listen(made.file, SOMAXCONN) == 0)
      return made;
  }
  throw Error::badInput(
      concat("rank 0 cannot listen at ", address, ", port ", port,
             " (MASTER_ADDR, MASTER_PORT): ", std::strerror(errno),
             "; the address is to be one of rank 0's machine, and the port free"));
}

Socket Socket::connectTo(const std::string &address, int port, std::chrono::milliseconds patience) {
  const Addresses all = addressesOf(address, port);
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    for (const addrinfo *one = all.get(); one; one = one->ai_next) {
      Socket made = openOne(*one);
      if (made.isOpen() && connect(made.file, one->ai_addr, one->ai_addrlen) == 0) {
        prepare(made.file);
        return made;
      }
    }
    const int problem = errno;
    if (std::chrono::steady_clock::now() > end)
      throw Error::badInput(concat("nobody answers at ", address, ", port ", port,
                                   " (MASTER_ADDR, MASTER_PORT): ", std::strerror(problem),
                                   "; rank 0 is to be started there"));
    std::this_thread::sleep_for(kPause);
  }
}

Socket Socket::accept(std::chrono::milliseconds patience) const {
  waitFor(/*toSend=*/false, patience);
  pollfd asked = {file, POLLIN, 0};
  if (poll(&asked, 1, 0) <= 0)
    return {};
  Socket made(accept4(file, nullptr, nullptr, SOCK_CLOEXEC));
  if (made.isOpen())
    prepare(made.file);
  return made;
}

int Socket::port() const {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getsockname(file, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    throw Error::internal(concat("getsockname: ", std::strerror(errno)));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in *>(&address)->sin_port);
}

ptrdiff_t Socket::send(std::span<const char> bytes) const {
  return doneOf(::send(file, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

ptrdiff_t Socket::receive(std::span<char> bytes) const {
  const ptrdiff_t result = recv(file, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return result == 0 && !bytes.empty() ? -1 : doneOf(result);
}

void Socket::waitFor(bool toSend, std::chrono::milliseconds patience) const {
  pollfd asked = {file, static_cast<short>(toSend ? POLLOUT : POLLIN), 0};
  poll(&asked, 1, static_cast<int>(patience.count()));
}

bool Socket::mayReceive() const {
  char byte = 0;
  return recv(file, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

bool Socket::hasEnded() const {
  char byte = 0;
  const ptrdiff_t result = recv(file, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return result == 0 || doneOf(result) < 0;
}

bool Socket::sendAll(std::span<const char> bytes, std::chrono::milliseconds patience) const {
  return all(
      bytes.size(),
      [&](size_t done) {
        waitFor(/*toSend=*/true, std::min(patience, kPause));
        return send(bytes.subspan(done));
      },
      patience);
}

bool Socket::receiveAll(std::span<char> bytes, std::chrono::milliseconds patience) const {
  return all(
      bytes.size(),
      [&](size_t done) {
        waitFor(/*toSend=*/false, std::min(patience, kPause));
        return receive(bytes.subspan(done));
      },
      patience);
}

} // namespace stow
