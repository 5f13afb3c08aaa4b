#include "runtime/program/ShardedState.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"
#include "runtime/data/Safetensors.h"
#include "runtime/format/Reduction.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

namespace stow {

namespace {

/// What rank 0 says when it needs nothing more, and when all write to a file; else the position that it collects, counted from 1.
constexpr uint64_t kFinished = 0, kWrites = std::numeric_limits<uint64_t>::max();

/// "rank 2: No space left on device"; empty where no rank has a problem.
std::string describeProblems(std::span<const uint64_t> errors) {
  const auto found = std::ranges::find_if(errors, [](uint64_t error) { return error != 0; });
  if (found == errors.end())
    return "";
  return concat("rank ", found - errors.begin(), ": ", std::strerror(static_cast<int>(*found)));
}

} // namespace

const Shape &wholeShape(const StateTensor &tensor) {
  return tensor.shardOf ? *tensor.shardOf : tensor.place.shape;
}

ShardedState::ShardedState(Executor &executor, Ranks &ranks) : executor(executor), ranks(ranks) {
  int64_t most = 0;
  for (const StateTensor &tensor : executor.program().state)
    if (tensor.shardOf)
      most = std::max(most, shardPiece(elementCount(*tensor.shardOf), ranks.size()));
  own.resize(static_cast<size_t>(most));
  all.resize(static_cast<size_t>(most * ranks.size()));
  std::vector<SafetensorsEntry> entries;
  Bytes largest = 0;
  for (const StateTensor &tensor : executor.program().state) {
    if (!tensor.saved)
      continue;
    saved.push_back(&tensor);
    entries.push_back({tensor.name, tensor.place.dtype, wholeShape(tensor)});
    if (!tensor.shardOf && !tensor.place.layout.isRowMajor())
      largest = std::max(largest, elementCount(tensor.place.shape) * sizeOf(tensor.place.dtype));
  }
  begins = layOut(entries, {}).begins;
  rowMajor.resize(static_cast<size_t>(largest));
}

bool ShardedState::write(const std::string &part, Bytes begin, std::string &why) {
  ranks.gather(kWrites);
  bool isOpen = false;
  why = describeProblems(writeParts(std::filesystem::absolute(part).string(), begin, isOpen));
  if (isOpen && !why.empty())
    throw Error::badInput(concat("cannot write '", part, "': ", why));
  return isOpen;
}

/// What went wrong by rank, in numbers of errno; where the file could not be opened by all, nothing was written.
std::vector<uint64_t> ShardedState::writeParts(std::string part, Bytes begin, bool &isOpen) {
  part.resize(ranks.gather(uint64_t{part.size()}).front());
  ranks.broadcast(part);
  begin = static_cast<Bytes>(ranks.gather(static_cast<uint64_t>(begin)).front());
  FilePart file(part);
  std::vector<uint64_t> errors = ranks.gather(static_cast<uint64_t>(file.problem()));
  isOpen = std::ranges::all_of(errors, [](uint64_t error) { return error == 0; });
  if (!isOpen)
    return errors;
  for (size_t i = 0; i < saved.size(); ++i)
    writePart(file, *saved[i], begin + begins[i]);
  file.finish();
  return ranks.gather(static_cast<uint64_t>(file.problem()));
}

/// Of a tensor in shards its own, of one that all have an equal part, and of running statistics, which are of each rank's batches, rank 0 all.
void ShardedState::writePart(FilePart &file, const StateTensor &tensor, Bytes begin) {
  const Operand &place = tensor.place;
  const Bytes size = sizeOf(place.dtype);
  const int64_t count = elementCount(wholeShape(tensor));
  const bool isOfFirst = tensor.kind == BufferKind::Statistic;
  if (isOfFirst && ranks.rank() != 0)
    return;
  const ShardRange part =
      isOfFirst ? ShardRange{0, count} : shardRange(count, ranks.size(), ranks.rank());
  const Bytes bytes = part.size() * size, at = begin + part.begin * size;
  if (tensor.shardOf)
    return writeStored(file, place.offset, bytes, at);
  if (place.layout.isRowMajor())
    return writeStored(file, place.offset + part.begin * size, bytes, at);
  executor.readTensor(place, rowMajor.data());
  file.write(rowMajor.data() + part.begin * size, static_cast<size_t>(bytes), at);
}

void ShardedState::writeStored(FilePart &file, Bytes offset, Bytes bytes, Bytes begin) {
  Device &device = executor.device();
  for (Bytes done = 0; done < bytes;) {
    const Bytes piece = std::min(bytes - done, device.transferBytes(offset));
    file.write(device.download(offset + done, piece), static_cast<size_t>(piece), begin + done);
    done += piece;
  }
}

void ShardedState::collect(size_t position, float *elements) {
  ranks.gather(uint64_t{position} + 1);
  exchange(position, elements);
}

void ShardedState::finish() { ranks.gather(kFinished); }

void ShardedState::serve() {
  for (uint64_t wanted = ranks.gather(kFinished).front(); wanted != kFinished;
       wanted = ranks.gather(kFinished).front())
    if (bool isOpen = false; wanted == kWrites)
      writeParts("", 0, isOpen);
    else
      exchange(static_cast<size_t>(wanted - 1), nullptr);
}

void ShardedState::exchange(size_t position, float *elements) {
  const StateTensor &tensor = executor.program().state[position];
  const int64_t count = elementCount(*tensor.shardOf), size = ranks.size();
  const int64_t shard = shardElements(count, size), most = shardPiece(count, size);
  for (int64_t first = 0; first < shard; first += most) {
    const int64_t piece = std::min(most, shard - first);
    const Bytes begin = tensor.place.offset + first * static_cast<Bytes>(sizeof(float));
    executor.device().download(own.data(), begin, piece * static_cast<Bytes>(sizeof(float)));
    ranks.gather(own.data(), piece, all.data());
    if (!elements)
      continue;
    for (int64_t rank = 0; rank < size; ++rank) {
      const ShardRange range = shardRange(count, size, rank);
      const int64_t from = std::min(range.begin + first, range.end),
                    to = std::min(from + piece, range.end);
      std::memcpy(elements + from, all.data() + rank * piece,
                  static_cast<size_t>(to - from) * sizeof(float));
    }
  }
}

} // namespace stow
