// The loss curve for TensorBoard: an event file.
//
// A file is records, each [length u64][masked CRC-32C of the length][bytes][masked CRC-32C of the
// bytes], little-endian; the bytes are tensorflow.Event messages in protobuf's wire format. Both
// are public: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stow {

/// A value of one step.
struct Scalar {
  std::string_view tag; ///< e.g. "train/loss"; at most 64 bytes
  double value = 0;     ///< written as f32
};

/// CRC-32C (Castagnoli) of the bytes, as RFC 3720 defines it.
uint32_t crc32c(std::string_view bytes);

/// Appends whole records with one write each. A file that takes no more is left as it is, and the
/// run goes on.
class EventFile {
public:
  /// Makes the folder where it is missing, and a file of its own in it. After `firstStep` > 0 a
  /// reader drops what earlier files say of later steps. Throws Error(BadInput).
  EventFile(const std::string &folder, int64_t firstStep);
  ~EventFile();
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;

  /// Adds the values of a step, at most 8. Allocates nothing while the file takes them.
  void add(int64_t step, std::span<const Scalar> values);

  const std::string &path() const { return filePath; }

  /// What keeps values from the file; empty while it holds all of them.
  const std::string &problem() const { return lastProblem; }

private:
  void writeRecord(std::string_view event);

  std::string filePath;
  std::string lastProblem;
  int file = -1;
};

} // namespace stow
