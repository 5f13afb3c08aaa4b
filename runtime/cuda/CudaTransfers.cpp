// Bytes on their way between the host and a GPU's arena (CudaDevice.h).
#include "runtime/cuda/CudaDevice.h"

#include "runtime/base/Concat.h"

#include <algorithm>
#include <cstring>

namespace stow::cuda {

namespace {

/// Of every transfer's place in a pinned block.
constexpr Bytes kStagingAlignment = 64;

} // namespace

/// Marks the stream behind what was put on it so far.
void CudaDevice::mark(Block &block) {
  driver.require(driver.eventRecord(block.done, stream), "recording an event");
  block.mark = ++marks;
  block.used = 0;
}

/// Waits until the stream has passed the block's mark; that may be known already.
void CudaDevice::waitFor(const Block &block, const char *what) {
  if (block.mark <= passedMarks)
    return;
  if (collectives)
    collectives->wait(stream, block.done, what);
  else
    driver.require(driver.eventSynchronize(block.done), what);
  passedMarks = block.mark;
}

/// Until all that the stream has is done.
void CudaDevice::waitForStream(const char *what) {
  if (collectives)
    collectives->wait(stream, nullptr, what);
  else
    driver.require(driver.streamSynchronize(stream), what);
}

/// The block at hand is taken up again when all that was put on the stream so far has happened.
void CudaDevice::leaveBlock() {
  bringArrivals();
  if (uploads[nextUpload].used == 0)
    return;
  mark(uploads[nextUpload]);
  nextUpload = 1 - nextUpload;
}

char *CudaDevice::stage(Bytes offset, Bytes bytes) {
  enterWithArena();
  if (isSlow(offset))
    return slowBytesAt(offset);
  if (uploads[nextUpload].used > options.stagingBytes - bytes)
    leaveBlock();
  Block &block = uploads[nextUpload];
  if (block.used == 0)
    waitFor(block, "an upload");
  return block.bytes + block.used;
}

void CudaDevice::commit(Bytes offset, Bytes bytes) {
  send(offset, bytes, bytes);
  giveUp(bytes);
}

void CudaDevice::send(Bytes offset, Bytes bytes, Bytes end) {
  if (isSlow(offset))
    return; // what was staged lies there
  enterWithArena();
  if (!sent) {
    const std::optional<Bytes> room = roomFor(offset, bytes);
    if (!room)
      bringArrivals();
    sent = {room.value_or(offset), 0, room ? copies : stream};
  }
  if (end <= sent->end)
    return;
  driver.require(
      driver.memcpyHtoDAsync(arena + static_cast<Address>(sent->to + sent->end),
                             uploads[nextUpload].bytes + uploads[nextUpload].used + sent->end,
                             static_cast<size_t>(end - sent->end), sent->by),
      "an upload of " + formatBytesExact(bytes));
  sent->end = end;
}

/// What is sent is read from the block until the mark behind it.
void CudaDevice::giveUp(Bytes bytes) {
  if (sent)
    uploads[nextUpload].used +=
        std::max<Bytes>(alignUp(bytes, kStagingAlignment), kStagingAlignment);
  sent.reset();
}

/// Where an upload may come beside the commands that were launched last: a room of its size, unless it
/// belongs into a room itself. The copies' stream waits for the rooms then.
std::optional<Bytes> CudaDevice::roomFor(Bytes offset, Bytes bytes) {
  if (!launched)
    return std::nullopt;
  const std::vector<Room> &rooms = launched->rooms;
  const bool liesInRoom = std::ranges::any_of(rooms, [&](const Room &room) {
    return offset < room.offset + room.bytes && room.offset < offset + bytes;
  });
  const auto found = std::ranges::find_if(rooms, [&](const Room &room) {
    return room.bytes == bytes && std::ranges::none_of(arrivals, [&](const Arrival &arrival) {
             return arrival.room == room.offset;
           });
  });
  if (liesInRoom || found == rooms.end())
    return std::nullopt;
  if (arrivals.empty())
    driver.require(driver.streamWaitEvent(copies, launched->roomsAreFree, 0),
                   "waiting for room beside a step");
  arrivals.push_back({found->offset, offset, bytes});
  return found->offset;
}

/// Brings what came beside the commands to where it belongs, before anything else is put on the stream.
void CudaDevice::bringArrivals() {
  launched = nullptr;
  if (arrivals.empty())
    return;
  driver.require(driver.eventRecord(arrived, copies), "recording an event");
  driver.require(driver.streamWaitEvent(stream, arrived, 0), "waiting for the next inputs");
  for (const Arrival &arrival : arrivals)
    driver.require(driver.memcpyDtoDAsync(arena + static_cast<Address>(arrival.offset),
                                          arena + static_cast<Address>(arrival.room),
                                          static_cast<size_t>(arrival.bytes), stream),
                   "bringing an input to its place");
  arrivals.clear();
}

/// State that lies in slow memory, once the runs before have sent theirs.
char *CudaDevice::slowBytesAt(Bytes offset) {
  if (!slow)
    throw Error::internal("a transfer from or to slow memory, of which the bound program has none");
  waitForStream("the commands before a transfer");
  return slow->at(offset - slowBeginOf(arenaBytes()));
}

const char *CudaDevice::fetch(Bytes offset, Bytes bytes) {
  enterWithArena();
  if (isSlow(offset))
    return slowBytesAt(offset);
  bringArrivals();
  driver.require(driver.memcpyDtoHAsync(downloads.bytes, arena + static_cast<Address>(offset),
                                        static_cast<size_t>(bytes), stream),
                 "a download of " + formatBytesExact(bytes));
  mark(downloads);
  waitFor(downloads, "the commands before a download");
  return downloads.bytes;
}

void CudaDevice::startReadback(std::span<const Readback> ranges) {
  enterWithArena();
  if (ranges.size() > requested.size())
    throw Error::internal(concat("more ranges are requested than ", requested.size()));
  if (!arrivals.empty())
    bringArrivals();
  requestedCount = ranges.size();
  std::ranges::copy(ranges, requested.begin());
  char *at = readbacks.bytes;
  for (const Readback &range : ranges) {
    driver.require(driver.memcpyDtoHAsync(at, arena + static_cast<Address>(range.offset),
                                          static_cast<size_t>(range.bytes), stream),
                   "a download of " + formatBytesExact(range.bytes));
    at += range.bytes;
  }
  mark(readbacks);
}

void CudaDevice::finishReadback() {
  enter();
  waitFor(readbacks, "the commands of a step");
  if (arrivals.empty())
    launched = nullptr; // they have run: nothing comes beside them any more
  const char *at = readbacks.bytes;
  for (const Readback &range : std::span(requested).first(requestedCount)) {
    std::memcpy(range.to, at, static_cast<size_t>(range.bytes));
    at += range.bytes;
  }
}

void CudaDevice::set(Bytes offset, Bytes bytes, uint8_t value) {
  enterWithArena();
  bringArrivals();
  fillInOrder(offset, bytes, value);
}

/// Behind what the stream has so far; also while it is captured, when nothing else may be asked of the driver.
void CudaDevice::fillInOrder(Bytes offset, Bytes bytes, uint8_t value) {
  if (bytes > 0)
    driver.require(driver.memsetD8Async(arena + static_cast<Address>(offset), value,
                                        static_cast<size_t>(bytes), stream),
                   "a fill of " + formatBytesExact(bytes));
}

} // namespace stow::cuda
