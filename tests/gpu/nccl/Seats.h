// Where the processes of a communicator meet: memory that they share, with a seat for each rank.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace stow::sim {

enum class Collective : int { AllReduce, ReduceScatter, AllGather, Reduce, Broadcast };

/// What all ranks have to agree on, in the order of their collectives.
struct Operation {
  Collective kind = Collective::AllReduce;
  int root = 0;
  uint64_t count = 0; ///< as its call takes it, in floats

  bool operator==(const Operation &) const = default;
};
std::string describe(const Operation &operation);

inline constexpr int kMostRanks = 16;
inline constexpr uint64_t kPiece = uint64_t{1} << 14; ///< floats that a rank shows at once

/// A rank shows a piece by raising `shown`, and has read those of all others when it raises `read` to the same.
struct Seat {
  std::atomic<int> process, device, hasLeft;
  std::atomic<uint64_t> shown, read;
  Operation operation; ///< that the piece is of
  std::array<float, kPiece> piece;
};

struct Table {
  std::atomic<int> arrived;
  std::array<Seat, kMostRanks> seats;
};

/// A new table by a name that `id` gets, which has room for 128 characters. False where the system has none.
bool makeTable(char *id);
/// The table of that name; null where there is none.
Table *openTable(const char *id);
/// Nobody opens it any more.
void forgetTable(const char *id);
void closeTable(Table *table);

/// Whether a process runs: one that has ended may stay in the list until somebody asks for its exit code.
bool runs(int process);

} // namespace stow::sim
