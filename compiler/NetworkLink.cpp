#include "compiler/NetworkLink.h"

#include "runtime/base/Error.h"
#include "runtime/base/Names.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include <cmath>
#include <vector>

namespace stow {
namespace {

struct Kind {
  const char *name;
  double gigabits; ///< a second, each way
  double payload;  ///< of these, bytes of a message
  double microseconds;
  const char *source;
};

/// Of a frame's 1538 bytes on the wire TCP over IPv4 leaves 1448 (IEEE 802.3, RFC 791, RFC 9293 with timestamps).
constexpr double kOfFrames = 1448.0 / 1538;

/// An exchange through the kernel's TCP, and one that the adapter makes: orders of magnitude. Who knows better states them.
constexpr double kThroughKernel = 50, kThroughAdapter = 5;

constexpr Kind kKinds[] = {
    {"1gbe", 1, kOfFrames, kThroughKernel, "1000BASE-T, TCP in frames of 1500 bytes"},
    {"10gbe", 10, kOfFrames, kThroughKernel, "10GBASE, TCP in frames of 1500 bytes"},
    {"25gbe", 25, kOfFrames, kThroughKernel, "25GBASE, TCP in frames of 1500 bytes"},
    {"100gbe", 100, kOfFrames, kThroughKernel, "100GBASE, TCP in frames of 1500 bytes"},
    {"hdr", 200, 1, kThroughAdapter, "InfiniBand HDR, 4 lanes of 50 Gbit/s"},
    {"ndr", 400, 1, kThroughAdapter, "InfiniBand NDR, 4 lanes of 100 Gbit/s"},
};

double numberIn(const std::string &text, const std::string &all, double most) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !(number >= 0.001 || (number == 0 && most > 1e5)) ||
      number > most)
    throw Error::badInput("--network=" + all +
                          ": expected gigabytes a second from 0.001 to 100000 and perhaps, behind "
                          "a comma, the microseconds of an exchange, at most 1000000");
  return number;
}

} // namespace

NetworkLink parseNetwork(const std::string &text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (double ignored = 0; parts.size() > 2 || absl::SimpleAtod(parts.front(), &ignored)) {
    NetworkLink link = {text, numberIn(parts.front(), text, 1e5), kThroughKernel,
                        "as --network says"};
    if (parts.size() > 1)
      link.microseconds = parts.size() == 2 ? numberIn(parts[1], text, 1e6) : numberIn("", text, 0);
    return link;
  }
  std::vector<std::string> names;
  for (const Kind &kind : kKinds)
    names.emplace_back(kind.name);
  const Kind &kind = kKinds[oneOf(text, names, "network", "--network")];
  return {kind.name, kind.gigabits / 8 * kind.payload, kind.microseconds, kind.source};
}

std::optional<Network> networkOf(const NetworkLink &link) {
  if (!link.isKnown())
    return std::nullopt;
  Network network;
  network.link.bandwidthBytes = std::llround(link.gigabytesPerSecond * 1e9);
  network.link.perCost = 1'000'000'000;
  network.link.latency = std::llround(link.microseconds * 1e3);
  return network;
}

std::string noteOf(const NetworkLink &link) {
  return link.isKnown()
             ? absl::StrFormat("ranks are taken to send %.3f GB/s each way, %g us an "
                               "exchange: %s (%s)",
                               link.gigabytesPerSecond, link.microseconds, link.name, link.source)
             : "";
}

} // namespace stow
