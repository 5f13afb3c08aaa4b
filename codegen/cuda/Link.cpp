#include "codegen/cuda/Link.h"

#include "codegen/cuda/Chip.h"
#include "runtime/base/Error.h"
#include "runtime/base/Names.h"
#include "runtime/base/Text.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <vector>

namespace stow::cuda {
namespace {

struct Link {
  const char *name;
  double gigabytesPerSecond; ///< each way
  const char *source;
};

/// 16 lanes of 16 or 32 GT/s, of whose bits 128 in 130 are bytes; a packet of 256 of these has 24 more of header and check
/// (PCI Express Base Specification 5.0, sections 2.2, 3.5 and 4.2).
constexpr double kOfPackets = 128.0 / 130 * 256 / 280;

constexpr Link kLinks[] = {
    {"pcie4", 16 * 16 / 8.0 * kOfPackets, "PCI Express 4.0, 16 lanes, packets of 256 bytes"},
    {"pcie5", 16 * 32 / 8.0 * kOfPackets, "PCI Express 5.0, 16 lanes, packets of 256 bytes"},
    {"nvlink-c2c", 450, "NVIDIA Grace Hopper data sheet: NVLink-C2C, 900 GB/s both ways together"},
};

/// What a copy takes beside its bytes: the same that a copy of the next batch is taken to be worth (stow-place-next-inputs).
constexpr double kCopyMicroseconds = 10;

HostLink made(const std::string &name, double gigabytes, const std::string &source) {
  return {name, gigabytes, kCopyMicroseconds, source};
}

HostLink linkNamed(const std::string &name) {
  if (double gigabytes = 0; absl::SimpleAtod(name, &gigabytes)) {
    if (!(gigabytes >= 0.001 && gigabytes <= 1e5))
      throw Error::badInput("--link=" + name +
                            ": expected gigabytes a second from 0.001 to 100000");
    return made(absl::StrCat(name, " GB/s"), gigabytes, "as --link says");
  }
  std::vector<std::string> names;
  for (const Link &link : kLinks)
    names.emplace_back(link.name);
  const Link &link = kLinks[oneOf(name, names, "link", "--link")];
  return made(link.name, link.gigabytesPerSecond, link.source);
}

} // namespace

HostLink requireLink(const std::string &chips, const std::string &named) {
  if (!named.empty())
    return linkNamed(named);
  HostLink slowest;
  for (const Chip &chip : requireChips(chips)) {
    if (chip.link.empty())
      throw Error::badInput(chip.name + " is no chip, whose link to its host would be known; say " +
                            "--link=pcie4, pcie5, nvlink-c2c or gigabytes a second");
    HostLink link = linkNamed(chip.link);
    link.source = chip.linkSource + "; " + link.source;
    if (slowest.name.empty() || link.gigabytesPerSecond < slowest.gigabytesPerSecond)
      slowest = link;
  }
  return slowest;
}

} // namespace stow::cuda
