#include "tests/gpu/execute/Warp.h"
#include "runtime/base/Concat.h"

#include <algorithm>
#include <bit>

namespace stow::sim {

/// Instructions of a group after which another group that could run gets its turn.
static constexpr uint64_t kPatience = 1 << 16;

static void fill(Warp &warp, const SpecialSlot &special, unsigned lane, uint64_t value) {
  if (special.bytes == 8)
    warp.lanes<uint64_t>(special.slot)[lane] = value;
  else if (special.bytes == 4)
    warp.lanes<uint32_t>(special.slot)[lane] = static_cast<uint32_t>(value);
  else
    warp.lanes<uint16_t>(special.slot)[lane] = static_cast<uint16_t>(value);
}

static uint64_t valueOf(const Warp &warp, Special which, unsigned lane) {
  const Launch &launch = warp.worker.launch;
  auto number = static_cast<unsigned>(which);
  if (number <= static_cast<unsigned>(Special::TidZ))
    return warp.threadOf(lane)[number];
  if (number <= static_cast<unsigned>(Special::NtidZ))
    return launch.block[number - static_cast<unsigned>(Special::NtidX)];
  if (number <= static_cast<unsigned>(Special::CtaidZ))
    return warp.block.index[number - static_cast<unsigned>(Special::CtaidX)];
  if (number <= static_cast<unsigned>(Special::NctaidZ))
    return launch.grid[number - static_cast<unsigned>(Special::NctaidX)];
  switch (which) {
  case Special::Lane:
    return lane;
  case Special::WarpId:
    return warp.number;
  case Special::WarpCount:
    return (warp.block.threads + 31) / 32;
  case Special::SmId:
    return warp.block.number % launch.multiprocessors;
  case Special::SmCount:
    return launch.multiprocessors;
  case Special::LaneMaskEq:
    return 1u << lane;
  case Special::LaneMaskLt:
    return (1u << lane) - 1;
  case Special::LaneMaskLe:
    return (2u << lane) - 1;
  case Special::LaneMaskGt:
    return ~((2u << lane) - 1);
  case Special::LaneMaskGe:
    return ~((1u << lane) - 1);
  case Special::DynamicShared:
    return launch.dynamicSharedBytes;
  case Special::TotalShared:
    return launch.kernel->sharedBytes + launch.dynamicSharedBytes;
  default:
    return 0;
  }
}

Warp::Warp(Block &block, unsigned number, uint32_t lanes)
    : block(block), worker(block.worker), number(number), file(worker.kernel.file),
      local(worker.kernel.localBytes * kWarpLanes, 0xFF) {
  for (const SpecialSlot &special : worker.kernel.specials)
    for (unsigned lane = 0; lane < kWarpLanes; ++lane)
      fill(*this, special, lane, valueOf(*this, special.which, lane));
  all.push_back({0, lanes, State::Ready, 0, 0});
}

Extents Warp::threadOf(unsigned lane) const {
  const Extents &extents = worker.launch.block;
  uint32_t linear = number * kWarpLanes + lane;
  return {linear % extents[0], linear / extents[0] % extents[1],
          linear / (extents[0] * extents[1])};
}

uint32_t Warp::alive() const {
  uint32_t mask = 0;
  for (const Group &group : all)
    mask |= group.mask;
  return mask;
}

static std::string text(const Extents &at) {
  return concat("(", at[0], ",", at[1], ",", at[2], ")");
}

std::string Warp::where(const Op &op, unsigned lane) const {
  return "thread " + text(threadOf(lane)) + " of block " + text(block.index) + ", kernel " +
         worker.kernel.name + " at PTX " + worker.kernel.module->at(op.line);
}

void Warp::fail(Fault::Kind kind, const Op &op, unsigned lane, const std::string &why) {
  throw Fault(kind, why + "; " + where(op, lane));
}

//===-- groups --------------------------------------------------------------------------------===//

/// The first group in the program that can run; all.size(): none.
size_t Warp::pick() {
  // Groups at one instruction are one group.
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = all.size(); k-- > i + 1;)
      if (all[i].pc == all[k].pc && all[i].state != State::AtBarrier &&
          all[k].state != State::AtBarrier) {
        all[i].mask |= all[k].mask;
        all[i].state = State::Ready; // what waited for lanes tries again
        all.erase(all.begin() + static_cast<long>(k));
      }
  size_t best = all.size();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].state == State::Ready && (best == all.size() || all[i].pc < all[best].pc))
      best = i;
  if (best == all.size())
    return best;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].state == State::Ready && ticks - all[i].turn > kPatience)
      return i;
  return best;
}

void Warp::split(uint32_t pc, uint32_t mask) { all.push_back({pc, mask, State::Ready, ticks, 0}); }

/// Takes lanes out of a group that goes on elsewhere.
void Warp::leave(size_t index, uint32_t mask) { all[index].mask &= ~mask; }

bool Warp::run(uint64_t slice) {
  bool ran = false;
  while (slice > 0) {
    size_t index = pick();
    if (index == all.size()) {
      bool stuck = std::any_of(all.begin(), all.end(), [](const Group &group) {
        return group.state == State::AtCollective;
      });
      bool waits = std::any_of(all.begin(), all.end(),
                               [](const Group &group) { return group.state == State::AtBarrier; });
      if (stuck && !waits)
        failStuck();
      return ran;
    }
    ran = true;
    uint64_t before = slice;
    runGroup(index, slice);
    ticks += before - slice;
    all[index].turn = ticks;
    std::erase_if(all, [](const Group &group) { return group.mask == 0; });
  }
  return ran;
}

void Warp::runGroup(size_t index, uint64_t &slice) {
  const Op *ops = worker.kernel.ops.data();
  uint32_t meeting = ~0u; // where the next group stands
  bool others = false;
  for (size_t i = 0; i < all.size(); ++i)
    if (i != index) {
      others |= all[i].state == State::Ready;
      if (all[i].pc > all[index].pc && all[i].state != State::AtBarrier)
        meeting = std::min(meeting, all[i].pc);
    }
  uint64_t left = others ? std::min(slice, kPatience) : slice, before = left;
  uint32_t pc = all[index].pc, mask = all[index].mask;
  const unsigned lanes = std::popcount(mask);
  while (left > 0) {
    const Op &op = ops[pc];
    --left;
    uint32_t active = mask;
    if (op.guard != kNoSlot)
      active &= op.guardNegated ? ~predicate(op.guard) : predicate(op.guard);
    if (op.control == Control::None) {
      if (active)
        op.run(*this, op, active);
      ++pc;
    } else {
      all[index].pc = pc;
      if (control(index, op, active))
        break;
      pc = all[index].pc;
    }
    if (pc >= meeting) {
      all[index].pc = pc;
      break;
    }
    all[index].pc = pc;
  }
  worker.instructions += (before - left) * lanes;
  slice -= before - left;
}

bool Warp::control(size_t index, const Op &op, uint32_t active) {
  uint32_t pc = all[index].pc, mask = all[index].mask;
  switch (op.control) {
  case Control::Branch:
    if (active == mask) {
      all[index].pc = op.target;
      return op.target <= pc && all.size() > 1; // a loop: look for whom it meets
    }
    all[index].pc = pc + 1;
    if (active == 0)
      return false;
    leave(index, active);
    split(op.target, active);
    return true;
  case Control::Indexed:
    leave(index, active);
    all[index].pc = pc + 1;
    for (unsigned lane = 0; lane < kWarpLanes; ++lane)
      if (active >> lane & 1) {
        uint32_t choice = lanes<uint32_t>(op.a)[lane];
        if (choice >= op.count)
          fail(Fault::Kind::IllegalInstruction, op, lane,
               concat("branch ", choice, " of a table of ", op.count));
        split(worker.kernel.slots[op.list + choice], 1u << lane);
      }
    return true;
  case Control::Exit:
    leave(index, active);
    all[index].pc = pc + 1;
    return active != 0;
  case Control::Barrier:
    all[index].pc = pc + 1;
    if (active == 0)
      return false;
    leave(index, active);
    block.arrive(*this, op, active);
    return true;
  case Control::Collective:
    if (active != mask) { // the others go past it
      all[index].pc = pc + 1;
      leave(index, active);
      if (active)
        split(pc, active);
      return true;
    }
    if (!collectiveReady(op, active)) {
      all[index].state = State::AtCollective;
      return true;
    }
    op.run(*this, op, active);
    all[index].pc = pc + 1;
    return false;
  case Control::None:
    break;
  }
  return false;
}

/// Lanes that have ended need not come.
bool Warp::collectiveReady(const Op &op, uint32_t active) const {
  if (op.d == kNoSlot)
    return true;
  auto *masks = const_cast<Warp *>(this)->lanes<uint32_t>(op.d);
  uint32_t wanted = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (active >> lane & 1)
      wanted |= masks[lane];
  return (wanted & alive() & ~active) == 0;
}

void Warp::failStuck() {
  for (Group &group : all)
    if (group.state == State::AtCollective) {
      const Op &op = worker.kernel.ops[group.pc];
      unsigned lane = std::countr_zero(group.mask);
      char masks[80];
      snprintf(masks, sizeof masks, "0x%08x of the mask 0x%08x have come, 0x%08x never do",
               group.mask, lanes<uint32_t>(op.d)[lane],
               lanes<uint32_t>(op.d)[lane] & alive() & ~group.mask);
      fail(Fault::Kind::Barrier, op, lane, std::string("lanes wait for each other: ") + masks);
    }
  throw Fault(Fault::Kind::Barrier, "a warp cannot go on");
}

} // namespace stow::sim
