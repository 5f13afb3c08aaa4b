// Blocks: their warps in turn, and the barriers between them.
#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Options.h"
#include "tests/gpu/execute/Resolve.h"
#include "tests/gpu/execute/Warp.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

namespace stow::sim {

static constexpr unsigned kBarriers = 16;
/// Instructions that a warp runs before the next one's turn.
static constexpr uint64_t kSlice = 1 << 20;

Worker::Worker(const Launch &launch, DeviceMemory &memory)
    : launch(launch), kernel(*launch.kernel), memory(memory), windows(kernel.ops.size()) {
  if (launch.checks.races)
    races = std::make_unique<Races>(launch.checks.racePages);
}

Block::Block(Worker &worker, uint64_t number)
    : worker(worker), number(number), barriers(kBarriers) {
  const Launch &launch = worker.launch;
  index = {static_cast<uint32_t>(number % launch.grid[0]),
           static_cast<uint32_t>(number / launch.grid[0] % launch.grid[1]),
           static_cast<uint32_t>(number / launch.grid[0] / launch.grid[1])};
  threads = launch.block[0] * launch.block[1] * launch.block[2];
  layOutShared();
  unsigned count = (threads + kWarpLanes - 1) / kWarpLanes;
  for (unsigned warp = 0; warp < count; ++warp) {
    unsigned lanes = std::min(kWarpLanes, threads - warp * kWarpLanes);
    warps.push_back(std::make_unique<Warp>(*this, warp, lanes == 32 ? ~0u : (1u << lanes) - 1));
    warps.back()->clock.known.assign(count, 0);
  }
  if (worker.races)
    worker.races->forgetShared();
}

void Block::layOutShared() {
  const Kernel &kernel = worker.kernel;
  const uint64_t dynamic = worker.launch.dynamicSharedBytes;
  shared.assign(kernel.sharedEnd + dynamic, 0xFF);
  written.assign(shared.size(), kOutside);
  for (const Extent &variable : kernel.shared)
    std::fill_n(written.begin() + static_cast<ptrdiff_t>(variable.offset), variable.bytes,
                kNeverWritten);
  std::fill_n(written.begin() + static_cast<ptrdiff_t>(kernel.sharedEnd), dynamic, kNeverWritten);
}

std::string Block::name() const {
  return concat("block (", index[0], ",", index[1], ",", index[2], ") of kernel ",
                worker.kernel.name);
}

void Block::run() {
  uint64_t before = worker.instructions;
  for (;;) {
    bool ran = false, alive = false;
    for (auto &warp : warps) {
      if (warp->alive())
        ran |= warp->run(kSlice);
      alive |= warp->alive() != 0;
    }
    if (!alive)
      return;
    if (!ran)
      failDeadlock();
    if (worker.instructions - before > worker.launch.checks.instructionLimit)
      throw Fault(Fault::Kind::Timeout,
                  concat(name(), " took more than ", worker.launch.checks.instructionLimit,
                         " thread instructions: it never ends, or waits for another block"));
  }
}

//===-- barriers ------------------------------------------------------------------------------===//

void Block::arrive(Warp &warp, const Op &op, uint32_t mask) {
  unsigned lane = std::countr_zero(mask);
  uint64_t id = op.a == kNoSlot ? op.immediate : warp.lanes<uint32_t>(op.a)[lane];
  if (id >= kBarriers)
    warp.fail(Fault::Kind::Barrier, op, lane, concat("barrier ", id, " of ", kBarriers));
  uint32_t expected = op.b == kNoSlot ? threads : warp.lanes<uint32_t>(op.b)[lane];
  Barrier &barrier = barriers[id];
  if (op.b != kNoSlot && (expected == 0 || expected % kWarpLanes))
    warp.fail(Fault::Kind::Barrier, op, lane,
              concat("a barrier counts whole warps, not ", expected, " threads"));
  if (barrier.arrived && barrier.expected != expected)
    warp.fail(
        Fault::Kind::Barrier, op, lane,
        concat("barrier ", id, " waits for ", barrier.expected, " threads, here for ", expected));
  barrier.expected = expected;
  barrier.arrived += std::popcount(mask);
  // The lanes that the last warp lacks are counted where whole warps are.
  unsigned present = std::min(kWarpLanes, threads - warp.number * kWarpLanes);
  if (op.b != kNoSlot && present < kWarpLanes)
    barrier.arrived += kWarpLanes - present;
  if (op.c != kNoSlot) {
    uint32_t holds = warp.predicate(op.c) ^ (op.options & kBarrierNegated ? ~0u : 0);
    barrier.votes += std::popcount(holds & mask);
  }
  auto pc = static_cast<uint32_t>(&op - worker.kernel.ops.data());
  bool waits = (op.options & kBarrierKind) != kBarrierArrive;
  warp.all.push_back({waits ? pc : pc + 1, mask,
                      waits ? Warp::State::AtBarrier : Warp::State::Ready, warp.ticks,
                      static_cast<uint32_t>(id)});
  barrier.known.resize(warps.size());
  for (size_t i = 0; i < warps.size(); ++i)
    barrier.known[i] = std::max(barrier.known[i], warp.clock.known[i]);
  barrier.known[warp.number] = std::max(barrier.known[warp.number], warp.clock.time);
  warp.clock.time++;
  if (barrier.arrived > expected)
    warp.fail(Fault::Kind::Barrier, op, lane,
              concat(barrier.arrived, " threads at barrier ", id, ", which is for ", expected));
  if (barrier.arrived == expected)
    release(static_cast<uint32_t>(id));
}

/// The lanes of a warp must come to an aligned barrier at one instruction.
void Block::checkAligned(uint32_t id) {
  for (auto &warp : warps) {
    const Warp::Group *first = nullptr;
    for (const Warp::Group &group : warp->all) {
      if (group.state != Warp::State::AtBarrier || group.barrier != id)
        continue;
      const Op &op = worker.kernel.ops[group.pc];
      if (first && first->pc != group.pc && (op.options & kBarrierAligned))
        warp->fail(Fault::Kind::Barrier, op, std::countr_zero(group.mask),
                   concat("lanes of one warp wait at different instructions for barrier ", id,
                          ", the others at PTX ",
                          worker.kernel.module->at(worker.kernel.ops[first->pc].line)));
      first = &group;
    }
  }
}

void Block::release(uint32_t id) {
  Barrier &barrier = barriers[id];
  checkAligned(id);
  for (auto &warp : warps) {
    uint32_t waited = 0;
    for (Warp::Group &group : warp->all) {
      if (group.state != Warp::State::AtBarrier || group.barrier != id)
        continue;
      waited |= group.mask;
      const Op &op = worker.kernel.ops[group.pc];
      unsigned kind = op.options & kBarrierKind;
      if (kind == kBarrierPopc) {
        for (unsigned lane = 0; lane < kWarpLanes; ++lane)
          if (group.mask >> lane & 1)
            warp->lanes<uint32_t>(op.dst)[lane] = barrier.votes;
      } else if (kind == kBarrierAnd || kind == kBarrierOr) {
        bool result = kind == kBarrierAnd ? barrier.votes == barrier.arrived : barrier.votes > 0;
        uint32_t &bits = warp->predicate(op.dst);
        bits = (bits & ~group.mask) | (result ? group.mask : 0);
      }
      group.state = Warp::State::Ready;
      group.pc++;
      for (size_t i = 0; i < warps.size(); ++i)
        warp->clock.known[i] = std::max(warp->clock.known[i], barrier.known[i]);
    }
    if (waited)
      warp->clock.meet(waited, warp->alive());
  }
  barrier = Barrier();
}

void Block::failDeadlock() {
  const Op *first = nullptr;
  Warp *owner = nullptr;
  uint32_t id = 0, waiting = 0, ended = threads;
  unsigned lane = 0;
  std::string elsewhere;
  for (auto &warp : warps) {
    ended -= std::popcount(warp->alive());
    for (const Warp::Group &group : warp->all) {
      const Op &op = worker.kernel.ops[group.pc];
      if (!first && group.state == Warp::State::AtBarrier)
        first = &op, owner = warp.get(), id = group.barrier, lane = std::countr_zero(group.mask);
      if (first && group.state == Warp::State::AtBarrier && group.barrier == id)
        waiting += std::popcount(group.mask);
      else if (elsewhere.empty())
        elsewhere = ", others wait at PTX " + worker.kernel.module->at(op.line);
    }
  }
  if (!first)
    throw Fault(Fault::Kind::Barrier, name() + " cannot go on" + elsewhere);
  std::string why = concat("barrier ", id, " is never complete: ", waiting, " of ",
                           barriers[id].expected, " threads wait");
  if (ended)
    append(why, ", ", ended, " have ended without it");
  owner->fail(Fault::Kind::Barrier, *first, lane, why + elsewhere);
}

//===-- grids ---------------------------------------------------------------------------------===//

static void checkLaunch(const Launch &launch) {
  const Kernel &kernel = *launch.kernel;
  auto refuse = [&](const std::string &why) {
    throw Fault(Fault::Kind::BadLaunch, "kernel " + kernel.name + " cannot be launched: " + why);
  };
  uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  if (threads == 0 || threads > 1024 || blocks == 0)
    refuse(concat(blocks, " blocks of ", threads, " threads"));
  if (threads > static_cast<uint64_t>(kernel.maxThreads))
    refuse(concat("blocks of ", threads, " threads, it was compiled for ", kernel.maxThreads));
  for (int i = 0; i < 3 && kernel.required[0]; ++i)
    if (launch.block[i] != static_cast<uint32_t>(kernel.required[i]))
      refuse("it requires other blocks (.reqntid)");
  for (uint64_t block : launch.blocks)
    if (block >= blocks)
      refuse(concat("block ", block, " of ", blocks));
  if (launch.params.size() != kernel.paramBytes)
    refuse(concat(launch.params.size(), " bytes of parameters instead of ", kernel.paramBytes));
}

LaunchCounts execute(const Launch &launch, DeviceMemory &memory) {
  checkLaunch(launch);
  const uint64_t all = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const uint64_t blocks = launch.blocks.empty() ? all : launch.blocks.size();
  // Sums of atomics and what is printed depend on the order of blocks, what is known of races on
  // having seen all.
  bool ordered = launch.kernel->inOrder || launch.checks.races;
  unsigned count = ordered ? 1 : std::clamp<uint64_t>(launch.threads, 1, blocks);
  std::atomic<uint64_t> next{0}, failed{blocks}, instructions{0};
  std::vector<std::unique_ptr<Fault>> faults(count);
  std::vector<uint64_t> faultBlocks(count, blocks);
  auto work = [&](unsigned self) {
    Worker worker(launch, memory);
    // Blocks before the first failed one still run: theirs is the fault to report.
    for (uint64_t block = next++; block < failed; block = next++) {
      try {
        Block(worker, launch.blocks.empty() ? block : launch.blocks[block]).run();
      } catch (const Fault &fault) {
        faults[self] = std::make_unique<Fault>(fault);
        faultBlocks[self] = block;
        uint64_t known = failed;
        while (block < known && !failed.compare_exchange_weak(known, block))
          continue;
        break;
      }
    }
    instructions += worker.instructions;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < count; ++i)
    threads.emplace_back(work, i);
  work(0);
  for (std::thread &thread : threads)
    thread.join();
  size_t first = std::min_element(faultBlocks.begin(), faultBlocks.end()) - faultBlocks.begin();
  if (faults[first])
    throw Fault(*faults[first]);
  return {instructions};
}

} // namespace stow::sim
