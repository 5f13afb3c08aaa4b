#include "runtime/device/Device.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cstring>

namespace stow {

Device::Device(const DeviceOptions &options) : options(options) {
  if (options.arenaBytes > 0 && options.stagingBytes < 1)
    throw Error::internal("a device with an arena and no staging memory");
}

Device::~Device() = default;

Bytes Device::transferBytes(Bytes offset) const {
  return isSlow(offset) ? kSlowPieceBytes : options.stagingBytes;
}

bool Device::isSlow(Bytes offset) const {
  return options.slowBytes > 0 && offset >= slowBeginOf(arenaBytes());
}

void Device::requireInside(const char *what, Bytes offset, Bytes bytes) const {
  if (isSlow(offset)) {
    const Bytes at = offset - slowBeginOf(arenaBytes());
    if (bytes < 0 || bytes > options.slowBytes || at > options.slowBytes - bytes)
      throw Error::internal(concat(what, " of ", formatBytesExact(bytes), " at offset ", at,
                                   " leaves the slow memory of ",
                                   formatBytesExact(options.slowBytes)));
    return;
  }
  if (offset < 0 || bytes < 0 || bytes > arenaBytes() || offset > arenaBytes() - bytes)
    throw Error::internal(concat(what, " of ", formatBytesExact(bytes), " at offset ", offset,
                                 " leaves the arena of ", formatBytesExact(arenaBytes())));
}

void Device::requireTransfer(const char *what, Bytes offset, Bytes bytes) const {
  requireInside(what, offset, bytes);
  if (pending)
    throw Error::internal(concat(what, " inside the upload at offset ", pending->offset));
  if (bytes > transferBytes(offset))
    throw Error::internal(std::string(what) + " of " + formatBytesExact(bytes) +
                          " is larger than the staging memory of " +
                          formatBytesExact(transferBytes(offset)));
}

char *Device::beginUpload(Bytes offset, Bytes bytes) {
  requireTransfer("an upload", offset, bytes);
  char *staging = stage(offset, bytes);
  pending = {offset, bytes};
  return staging;
}

void Device::sendUpload(Bytes end) {
  if (!pending || end < 0 || end > pending->bytes)
    throw Error::internal(concat(end, " bytes of an upload are sent, ",
                                 pending ? concat("which has ", pending->bytes)
                                         : std::string("which was not begun")));
  send(pending->offset, pending->bytes, end);
}

void Device::endUpload() {
  if (!pending)
    throw Error::internal("an upload ends that was not begun");
  commit(pending->offset, pending->bytes);
  pending.reset();
}

void Device::cancelUpload() {
  if (pending)
    giveUp(pending->bytes);
  pending.reset();
}

const char *Device::download(Bytes offset, Bytes bytes) {
  requireTransfer("a download", offset, bytes);
  return fetch(offset, bytes);
}

void Device::upload(Bytes offset, const void *from, Bytes bytes) {
  requireInside("an upload", offset, bytes);
  for (Bytes done = 0; done < bytes;) {
    Bytes piece = std::min(bytes - done, transferBytes(offset));
    char *staging = beginUpload(offset + done, piece);
    std::memcpy(staging, static_cast<const char *>(from) + done, static_cast<size_t>(piece));
    endUpload();
    done += piece;
  }
}

void Device::download(void *to, Bytes offset, Bytes bytes) {
  requireInside("a download", offset, bytes);
  for (Bytes done = 0; done < bytes;) {
    Bytes piece = std::min(bytes - done, transferBytes(offset));
    std::memcpy(static_cast<char *>(to) + done, download(offset + done, piece),
                static_cast<size_t>(piece));
    done += piece;
  }
}

void Device::startReadback(std::span<const Readback> ranges) {
  for (const Readback &range : ranges)
    download(range.to, range.offset, range.bytes);
}

void Device::request(std::span<const Readback> ranges) {
  if (isRequested)
    throw Error::internal("a request before the one before it was awaited");
  Bytes sum = 0;
  for (const Readback &range : ranges) {
    requireTransfer("a request", range.offset, range.bytes);
    sum += range.bytes;
  }
  if (sum > mostReadbackBytes)
    throw Error::internal("a request of " + formatBytesExact(sum) + ", more than " +
                          formatBytesExact(mostReadbackBytes));
  startReadback(ranges);
  isRequested = true;
}

void Device::await() {
  if (!isRequested)
    throw Error::internal("nothing was requested that could be awaited");
  isRequested = false;
  finishReadback();
}

void Device::runCommand(size_t, size_t) {
  throw Error::badInput("this device does not run single commands; leave --check out");
}

void Device::fill(Bytes offset, Bytes bytes, uint8_t value) {
  requireInside("a fill", offset, bytes);
  if (isSlow(offset))
    throw Error::internal(concat("a fill at offset ", offset, ", in slow memory"));
  set(offset, bytes, value);
}

std::unique_ptr<Device> openDevice(std::span<const DeviceKind> kinds, std::string_view target,
                                   const DeviceOptions &options) {
  std::vector<std::string> names;
  for (const DeviceKind &kind : kinds) {
    if (kind.name == target.substr(0, target.find(':')))
      return kind.open(options);
    names.emplace_back(kind.name);
  }
  throw Error::badInput("the program was compiled for target \"" + std::string(target) +
                        "\", and this runtime has no such device; it runs programs for " +
                        joined(names) + ": compile the model again with --target=" + names.front());
}

} // namespace stow
