#include "runtime/program/EventFile.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace stow {

namespace {

constexpr std::array<uint32_t, 256> crcTable = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    table[i] = crc;
  }
  return table;
}();

/// The checksum of a record that may itself hold checksums.
uint32_t maskedCrc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

/// Protobuf's wire format into a fixed buffer that holds the largest event.
class Message {
public:
  void varint(uint32_t field, uint64_t value) {
    raw(field << 3);
    raw(value);
  }
  void text(uint32_t field, std::string_view value) {
    raw(field << 3 | 2);
    raw(value.size());
    append(value.data(), value.size());
  }
  void real64(uint32_t field, double value) {
    fixed(field << 3 | 1, std::bit_cast<uint64_t>(value));
  }
  void real32(uint32_t field, float value) {
    fixed(field << 3 | 5, std::bit_cast<uint32_t>(value));
  }
  template <typename Word> void word(Word value) {
    for (size_t i = 0; i < sizeof value; ++i)
      bytes[size++] = static_cast<char>(value >> (8 * i));
  }
  void append(const char *data, size_t count) {
    std::memcpy(bytes.data() + size, data, count);
    size += count;
  }
  std::string_view view() const { return {bytes.data(), size}; }

private:
  void raw(uint64_t value) {
    for (; value >= 128; value >>= 7)
      bytes[size++] = static_cast<char>(value | 128);
    bytes[size++] = static_cast<char>(value);
  }
  template <typename Word> void fixed(uint32_t key, Word value) {
    raw(key);
    word(value);
  }

  std::array<char, 1024> bytes; ///< 8 values of 76 bytes, a record's frame and more
  size_t size = 0;
};

// Field numbers of event.proto and summary.proto.
constexpr uint32_t eventWallTime = 1, eventStep = 2, eventFileVersion = 3, eventSummary = 5,
                   eventSessionLog = 7, summaryValue = 1, valueTag = 1, valueSimple = 2,
                   sessionStatus = 1, sessionStart = 1;

double now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

Message eventAt(int64_t step) {
  Message event;
  event.real64(eventWallTime, now());
  event.varint(eventStep, static_cast<uint64_t>(step));
  return event;
}

std::string hostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] ? name : "localhost";
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (char byte : bytes)
    crc = crc >> 8 ^ crcTable[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return ~crc;
}

EventFile::EventFile(const std::string &folder, int64_t firstStep) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  const std::string stem = concat(folder, "/events.out.tfevents.", static_cast<int64_t>(now()), ".",
                                  hostName(), ".", ::getpid(), ".");
  for (int number = 0; file < 0; ++number) {
    filePath = concat(stem, number);
    file = ::open(filePath.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST)
      throw Error::badInput("cannot write '" + filePath + "': " + std::strerror(errno));
  }
  Message version;
  version.real64(eventWallTime, now());
  version.text(eventFileVersion, "brain.Event:2");
  writeRecord(version.view());
  if (firstStep > 0) {
    Message session, event = eventAt(firstStep + 1);
    session.varint(sessionStatus, sessionStart);
    event.text(eventSessionLog, session.view());
    writeRecord(event.view());
  }
  if (!lastProblem.empty()) {
    ::close(file);
    throw Error::badInput(lastProblem);
  }
}

EventFile::~EventFile() {
  if (file >= 0)
    ::close(file);
}

void EventFile::add(int64_t step, std::span<const Scalar> values) {
  Message summary, event = eventAt(step);
  for (const Scalar &scalar : values.first(std::min<size_t>(values.size(), 8))) {
    Message value;
    value.text(valueTag, scalar.tag.substr(0, 64));
    value.real32(valueSimple, static_cast<float>(scalar.value));
    summary.text(summaryValue, value.view());
  }
  event.text(eventSummary, summary.view());
  writeRecord(event.view());
}

/// Half a record ends what a reader sees, so nothing follows it.
void EventFile::writeRecord(std::string_view event) {
  if (!lastProblem.empty())
    return;
  Message record;
  record.word<uint64_t>(event.size());
  record.word<uint32_t>(maskedCrc(record.view()));
  record.append(event.data(), event.size());
  record.word<uint32_t>(maskedCrc(event));
  const std::string_view whole = record.view();
  ssize_t written = 0;
  do
    written = ::write(file, whole.data(), whole.size());
  while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(whole.size()))
    lastProblem = "cannot write '" + filePath +
                  "': " + (written < 0 ? std::strerror(errno) : "no space left on the device");
}

} // namespace stow
