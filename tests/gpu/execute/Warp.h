// The state of running blocks.
//
// A warp executes one instruction at a time for all of its lanes that are there. Lanes that branch
// apart form groups; the group that stands first in the program runs until it meets another, so that
// lanes join again where their paths do. Nothing depends on that order but the time it takes: a group
// that others wait for gets its turn.
#pragma once

#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/Races.h"

#include <memory>

namespace stow::sim {

class Block;

/// What a host thread needs to run blocks of one launch.
struct Worker {
  Worker(const Launch &launch, DeviceMemory &memory);

  const Launch &launch;
  const Kernel &kernel;
  DeviceMemory &memory;
  /// Per instruction, the last range of memory that it was allowed to touch.
  struct Window {
    uint64_t begin = 0, room = 0; ///< first address, bytes
    uint8_t *host = nullptr;      ///< of `begin`
  };
  std::vector<Window> windows;
  std::unique_ptr<Races> races; ///< null: not checked
  uint64_t instructions = 0;
};

/// A cp.async on its way: it reads and writes when it is waited for, the latest that it may.
struct PendingCopy {
  unsigned lane;
  uint32_t group; ///< kNoSlot: not committed yet
  const uint8_t *from;
  uint64_t to; ///< in shared memory
  unsigned bytes, fromBytes;
  const Op *op;
};

class Warp {
public:
  Warp(Block &block, unsigned number, uint32_t lanes);

  template <class T> T *lanes(uint32_t slot) { return reinterpret_cast<T *>(file.data() + slot); }
  uint32_t &predicate(uint32_t slot) { return *reinterpret_cast<uint32_t *>(file.data() + slot); }

  enum class State { Ready, AtBarrier, AtCollective };
  /// Lanes that stand at the same instruction.
  struct Group {
    uint32_t pc = 0, mask = 0;
    State state = State::Ready;
    uint64_t turn = 0;    ///< ticks when it ran last
    uint32_t barrier = 0; ///< that it waits at
  };

  /// Runs until all lanes have ended or wait for the block, or `slice` instructions are done.
  /// Returns whether anything ran.
  bool run(uint64_t slice);
  uint32_t alive() const;
  std::vector<Group> &groups() { return all; }

  /// "thread (3,0,0) of block (1,0,0), kernel k at PTX line 12: add.s32 ..."
  std::string where(const Op &op, unsigned lane) const;
  [[noreturn]] void fail(Fault::Kind kind, const Op &op, unsigned lane, const std::string &why);
  Extents threadOf(unsigned lane) const;

  Block &block;
  Worker &worker;
  const unsigned number;
  std::vector<uint8_t> file;
  std::vector<uint8_t> local;           ///< localBytes of lane 0, of lane 1, ...
  std::vector<PendingCopy> copies;      ///< of cp.async, not waited for
  uint32_t copyGroups[kWarpLanes] = {}; ///< that each lane has committed
  WarpClock clock;

private:
  friend class Block;
  size_t pick();
  void runGroup(size_t index, uint64_t &slice);
  /// Instructions that are more than a handler; true ends the group's turn.
  bool control(size_t index, const Op &op, uint32_t active);
  void leave(size_t index, uint32_t mask);
  void split(uint32_t pc, uint32_t mask);
  bool collectiveReady(const Op &op, uint32_t active) const;
  [[noreturn]] void failStuck();

  std::vector<Group> all;
  uint64_t ticks = 0; ///< instructions
};

class Block {
public:
  Block(Worker &worker, uint64_t number);

  /// Runs all warps to their end.
  void run();

  struct Barrier {
    uint32_t arrived = 0, expected = 0; ///< threads; expected 0: nobody has come
    uint32_t votes = 0;                 ///< threads whose predicate held
    std::vector<uint32_t> known;        ///< what who came knew, see Races.h
  };
  /// `mask` of a warp's group arrives at the barrier of `op`.
  void arrive(Warp &warp, const Op &op, uint32_t mask);
  std::string name() const;

  Worker &worker;
  Extents index{};
  uint64_t number;
  uint32_t threads;
  std::vector<uint8_t> shared;
  std::vector<uint8_t> written; ///< per byte of `shared`: what Resolve.h says of it
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<Barrier> barriers;

private:
  void layOutShared();
  void release(uint32_t id);
  void checkAligned(uint32_t id);
  [[noreturn]] void failDeadlock();
};

} // namespace stow::sim
