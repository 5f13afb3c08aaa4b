#include "runtime/slow/MeasureFolder.h"

#include "runtime/slow/CopyLanes.h"

#include <algorithm>
#include <array>
#include <vector>

namespace stow::slow {

namespace {

constexpr Bytes copyBytes = Bytes{16} << 20;
constexpr int64_t copyCount = kMeasuredBytes / copyBytes;
constexpr Bytes shortBytes = SlowFile::alignment;
constexpr int rounds = 5;

double median(std::array<double, rounds> values) {
  std::ranges::sort(values);
  return values[rounds / 2];
}

/// Runs copies of one direction one behind the other, as a lane does, for each round the time of all.
class Measurement {
public:
  explicit Measurement(const std::string &folder)
      : file(folder, kMeasuredBytes), bytes(copyBytes), lanes(file, {}) {
    // What compresses would be faster than activations are.
    uint32_t word = 1;
    for (char &byte : bytes)
      byte = static_cast<char>((word = word * 1664525 + 1013904223) >> 24);
    for (int64_t i = 0; i < copyCount; ++i)
      outs.push_back(add(true, copyBytes, i * copyBytes, 0));
    for (int64_t i = 0; i < copyCount; ++i)
      ins.push_back(add(false, copyBytes, i * copyBytes, outs[static_cast<size_t>(i)]));
    shortOut = add(true, shortBytes, 0, 0);
    shortIn = add(false, shortBytes, 0, shortOut);
  }

  FolderSpeed run() {
    time(outs); // the first time a file system may have to find the blocks
    FolderSpeed speed;
    speed.notes = file.notes();
    std::array<double, rounds> out, in, outLatency, inLatency;
    for (int round = 0; round < rounds; ++round) {
      out[round] = time(outs);
      in[round] = time(ins);
    }
    for (int round = 0; round < rounds; ++round) {
      outLatency[round] = time({shortOut});
      inLatency[round] = time({shortIn});
    }
    speed.out = link(median(out), median(outLatency));
    speed.in = link(median(in), median(inLatency));
    return speed;
  }

private:
  size_t add(bool isOut, Bytes count, Bytes offset, size_t source) {
    return lanes.add({isOut, bytes.data(), count, offset, source, "a measurement"});
  }

  double time(const std::vector<size_t> &copies) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t copy : copies)
      lanes.start(copy);
    for (size_t copy : copies)
      lanes.await(copy);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Copies stand in a queue, so that of all of them one latency shows.
  static LinkSpeed link(double seconds, double latency) {
    return {static_cast<double>(kMeasuredBytes) / std::max(seconds - latency, seconds / 2),
            latency};
  }

  const SlowFile file;
  std::vector<char> bytes;
  CopyLanes lanes; ///< what it has begun ends before the bytes do
  std::vector<size_t> outs, ins;
  size_t shortOut = 0, shortIn = 0;
};

} // namespace

FolderSpeed measureFolder(const std::string &folder) { return Measurement(folder).run(); }

} // namespace stow::slow
