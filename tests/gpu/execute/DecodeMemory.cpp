// Loads and stores, and copies from global to shared memory.
#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Resolve.h"

#include <algorithm>
#include <cstring>

namespace stow::sim {
namespace {

//===-- execution -----------------------------------------------------------------------------===//

/// Loads op.count elements of type M into registers of type R, extended.
template <Space space, class M, class R> void runLoad(Warp &warp, const Op &op, uint32_t mask) {
  Pointers at;
  resolve<space>(warp, op, mask, sizeof(M) * op.count, Access::Read, at);
  const uint32_t *slots = warp.worker.kernel.slots.data() + op.list;
  for (unsigned element = 0; element < op.count; ++element) {
    R *dst = warp.lanes<R>(slots[element]);
    for (unsigned lane = 0; lane < kWarpLanes; ++lane)
      if (mask >> lane & 1) {
        M value;
        memcpy(&value, at[lane] + element * sizeof(M), sizeof(M));
        dst[lane] = static_cast<R>(value);
      }
  }
}

template <Space space, class M, class R> void runStore(Warp &warp, const Op &op, uint32_t mask) {
  Pointers at;
  resolve<space>(warp, op, mask, sizeof(M) * op.count, Access::Write, at);
  const uint32_t *slots = warp.worker.kernel.slots.data() + op.list;
  for (unsigned element = 0; element < op.count; ++element) {
    const R *src = warp.lanes<R>(slots[element]);
    for (unsigned lane = 0; lane < kWarpLanes; ++lane)
      if (mask >> lane & 1) {
        M value = static_cast<M>(src[lane]);
        memcpy(at[lane] + element * sizeof(M), &value, sizeof(M));
      }
  }
}

//===-- handlers by space, type and width -----------------------------------------------------===//

template <Space space, class M> Handler loadInto(unsigned bytes) {
  switch (bytes) {
  case 2:
    if constexpr (sizeof(M) <= 2)
      return runLoad<space, M, std::conditional_t<std::is_signed_v<M>, int16_t, uint16_t>>;
    return nullptr;
  case 4:
    if constexpr (sizeof(M) <= 4)
      return runLoad<space, M, std::conditional_t<std::is_signed_v<M>, int32_t, uint32_t>>;
    return nullptr;
  default:
    return runLoad<space, M, std::conditional_t<std::is_signed_v<M>, int64_t, uint64_t>>;
  }
}

template <Space space> Handler loadHandler(Type type, unsigned bytes) {
  bool isSigned = isSignedType(type);
  switch (bytesOf(type)) {
  case 1:
    return isSigned ? loadInto<space, int8_t>(bytes) : loadInto<space, uint8_t>(bytes);
  case 2:
    return isSigned ? loadInto<space, int16_t>(bytes) : loadInto<space, uint16_t>(bytes);
  case 4:
    return isSigned ? loadInto<space, int32_t>(bytes) : loadInto<space, uint32_t>(bytes);
  case 8:
    return loadInto<space, uint64_t>(bytes);
  default:
    return nullptr;
  }
}

template <Space space, class M> Handler storeFrom(unsigned bytes) {
  switch (bytes) {
  case 2:
    return runStore<space, M, uint16_t>;
  case 4:
    return runStore<space, M, uint32_t>;
  default:
    return runStore<space, M, uint64_t>;
  }
}

template <Space space> Handler storeHandler(Type type, unsigned bytes) {
  switch (bytesOf(type)) {
  case 1:
    return storeFrom<space, uint8_t>(bytes);
  case 2:
    return storeFrom<space, uint16_t>(bytes);
  case 4:
    return storeFrom<space, uint32_t>(bytes);
  case 8:
    return storeFrom<space, uint64_t>(bytes);
  default:
    return nullptr;
  }
}

template <bool Load> Handler accessHandler(Space space, Type type, unsigned bytes) {
  switch (space) {
  case Space::Shared:
    return Load ? loadHandler<Space::Shared>(type, bytes)
                : storeHandler<Space::Shared>(type, bytes);
  case Space::Local:
    return Load ? loadHandler<Space::Local>(type, bytes) : storeHandler<Space::Local>(type, bytes);
  case Space::Param:
    return Load ? loadHandler<Space::Param>(type, bytes) : storeHandler<Space::Param>(type, bytes);
  case Space::Generic:
    return Load ? loadHandler<Space::Generic>(type, bytes)
                : storeHandler<Space::Generic>(type, bytes);
  default:
    return Load ? loadHandler<Space::Global>(type, bytes)
                : storeHandler<Space::Global>(type, bytes);
  }
}

//===-- decoding ------------------------------------------------------------------------------===//

void decodeLoadStore(Decoder &decoder) {
  bool load = decoder.root() != "st";
  Space space = decoder.takeSpace();
  decoder.takeOrdering();
  unsigned count = decoder.take("v2") ? 2 : decoder.take("v4") ? 4 : decoder.take("v8") ? 8 : 1;
  Type type = decoder.takeType();
  const Operand &registers = decoder.operand(load ? 0 : 1);
  std::vector<Operand> elements =
      registers.kind == Operand::Kind::Vector ? registers.elements : std::vector{registers};
  if (elements.size() != count)
    decoder.fail(concat("expected ", count, " registers, found ", elements.size()));
  if (bytesOf(type) * count > 32 || bytesOf(type) > 8)
    decoder.fail(concat("accesses of .v", count, ".", nameOf(type),
                        " are not known to the simulated device"));
  std::vector<uint32_t> slots;
  uint8_t width = 0;
  for (const Operand &element : elements) {
    uint8_t bytes = 0;
    slots.push_back(load ? decoder.wideDestination(element, type, bytes)
                         : decoder.wideSource(element, type, bytes));
    if (width && bytes != width)
      decoder.fail("the registers have different widths");
    width = bytes;
  }
  Decoder::AddressSlot address = decoder.address(decoder.operand(load ? 1 : 0), space);
  Handler run = load ? accessHandler<true>(address.space, type, width)
                     : accessHandler<false>(address.space, type, width);
  Op &op = decoder.emit(run);
  decoder.setAddress(op, address);
  op.count = static_cast<uint8_t>(count);
  op.list = static_cast<uint32_t>(decoder.kernel.slots.size());
  decoder.kernel.slots.insert(decoder.kernel.slots.end(), slots.begin(), slots.end());
}

/// A hint: the address need not even be valid.
void decodePrefetch(Decoder &decoder) {
  decoder.takeOneOf({"global", "local", "const", "param"});
  decoder.takeOneOf({"L1", "L2", "tensormap"});
  decoder.takeOrdering();
}

//===-- cp.async ------------------------------------------------------------------------------===//

void complete(Warp &warp, const PendingCopy &copy) {
  uint8_t *to = warp.block.shared.data() + copy.to;
  memcpy(to, copy.from, copy.fromBytes);
  memset(to + copy.fromBytes, 0, copy.bytes - copy.fromBytes);
  memset(warp.block.written.data() + copy.to, kWritten, copy.bytes);
}

/// op.a: address in shared memory, op.b: in global memory, both of 64 bits; op.bytes: the copy's;
/// op.c: bytes that are read, the rest are zeros.
void runCopy(Warp &warp, const Op &op, uint32_t mask) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    uint64_t to = warp.lanes<uint64_t>(op.a)[lane], from = warp.lanes<uint64_t>(op.b)[lane];
    unsigned read =
        op.c == kNoSlot ? op.bytes : std::min<unsigned>(warp.lanes<uint32_t>(op.c)[lane], op.bytes);
    if (to - kSharedWindow < kWindowBytes)
      to -= kSharedWindow;
    uint8_t *target = sharedBytes(warp, op, lane, to, op.bytes, Access::Write);
    memset(warp.block.written.data() + (target - warp.block.shared.data()), kCopyPending, op.bytes);
    if (from & (op.bytes - 1u))
      warp.fail(Fault::Kind::Misaligned, op, lane,
                "the source of a copy is not aligned to its size");
    const uint8_t *source = read ? globalBytes(warp, op, lane, from, 1, Access::Read) : nullptr;
    if (read)
      globalBytes(warp, op, lane, from + read - 1, 1, Access::Read);
    warp.copies.push_back({lane, kNoSlot, source, to, op.bytes, read, &op});
  }
}

void runCommit(Warp &warp, const Op &, uint32_t mask) {
  for (PendingCopy &copy : warp.copies)
    if (copy.group == kNoSlot && (mask >> copy.lane & 1))
      copy.group = warp.copyGroups[copy.lane];
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    warp.copyGroups[lane] += mask >> lane & 1;
}

/// Completes all groups but the last op.immediate; all copies where that is negative.
void runWait(Warp &warp, const Op &op, uint32_t mask) {
  std::erase_if(warp.copies, [&](const PendingCopy &copy) {
    if (!(mask >> copy.lane & 1))
      return false;
    bool done = op.immediate < 0 ||
                (copy.group != kNoSlot && copy.group + op.immediate < warp.copyGroups[copy.lane]);
    if (done)
      complete(warp, copy);
    return done;
  });
}

void decodeCopy(Decoder &decoder) {
  if (!decoder.take("async"))
    decoder.fail("only cp.async is known to the simulated device");
  if (decoder.take("commit_group")) {
    decoder.emit(runCommit);
    return;
  }
  if (decoder.take("wait_all")) {
    decoder.emit(runWait).immediate = -1;
    return;
  }
  if (decoder.take("wait_group")) {
    if (decoder.operand(0).kind != Operand::Kind::Integer)
      decoder.fail("expected the number of groups as a constant");
    auto groups = static_cast<int64_t>(decoder.operand(0).value);
    decoder.emit(runWait).immediate = groups;
    return;
  }
  if (!decoder.take("ca") && !decoder.take("cg"))
    decoder.fail("expected .ca or .cg");
  if (!decoder.take("shared") && !decoder.take("shared::cta"))
    decoder.fail("expected .shared");
  if (!decoder.take("global"))
    decoder.fail("expected .global");
  decoder.takeOrdering();
  const Operand &size = decoder.operand(2);
  if (size.kind != Operand::Kind::Integer ||
      (size.value != 4 && size.value != 8 && size.value != 16))
    decoder.fail("copies have 4, 8 or 16 bytes");
  uint32_t to = decoder.wholeAddress(decoder.operand(0), Space::Shared);
  uint32_t from = decoder.wholeAddress(decoder.operand(1), Space::Global);
  uint32_t read = decoder.operandCount() > 3 ? decoder.source(3, Type::U32) : kNoSlot;
  Op &op = decoder.emit(runCopy);
  op.a = to, op.b = from, op.c = read, op.bytes = static_cast<uint8_t>(size.value);
}

/// 64-bit address of op.a, whose width is op.target, plus op.immediate.
void runAddress(Warp &warp, const Op &op, uint32_t mask) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      warp.lanes<uint64_t>(op.dst)[lane] = laneAddress(warp, op, lane);
}

} // namespace

Space Decoder::takeSpace() {
  std::string name = takeOneOf({"global", "shared", "shared::cta", "local", "const", "param",
                                "param::entry", "param::func"});
  if (name == "global")
    return Space::Global;
  if (name == "shared" || name == "shared::cta")
    return Space::Shared;
  if (name == "local")
    return Space::Local;
  if (name == "const")
    return Space::Const;
  return name.empty() ? Space::Generic : Space::Param;
}

void Decoder::takeOrdering() {
  // One thread's accesses take effect in their order, so that every ordering holds.
  while (!takeOneOf({"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio",
                     "sc",   "cta",     "cluster", "gpu",     "sys",     "ca",       "cg",
                     "cs",   "lu",      "cv",      "wb",      "wt",      "nc"})
              .empty())
    continue;
  takeCacheHints();
}

void Decoder::takeCacheHints() {
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].rfind("L1::", 0) == 0 || parts[i].rfind("L2::", 0) == 0)
      taken[i] = true;
}

Decoder::AddressSlot Decoder::address(const Operand &operand, Space space) {
  if (operand.kind != Operand::Kind::Address)
    fail("expected an address in brackets");
  const Operand &base = operand.elements[0];
  AddressSlot result{0, 8, static_cast<int64_t>(operand.value), space};
  if (base.kind == Operand::Kind::Symbol && base.name[0] != '%') {
    auto where = place(base.name);
    if (!where)
      fail("the name " + base.name + " is not declared");
    // Parameters of calls are memory of the thread.
    if (space == Space::Param)
      result.space = where->space;
    else if (space == Space::Generic)
      result.space = where->space;
    else if (where->space != space)
      fail(base.name + " lies in another space");
    result.slot = constant(where->address, 8);
    result.offset += static_cast<int64_t>(base.value);
    return result;
  }
  if (base.kind == Operand::Kind::Integer) {
    result.slot = constant(base.value, 8);
    return result;
  }
  result.slot = wideSource(base, Type::U32, result.bytes);
  if (result.bytes != 8 && (space == Space::Global || space == Space::Generic))
    fail("addresses must have 64 bits");
  return result;
}

void Decoder::setAddress(Op &op, const AddressSlot &address) {
  op.a = address.slot;
  op.target = address.bytes;
  op.immediate = address.offset;
}

uint32_t Decoder::wholeAddress(const Operand &operand, Space space) {
  AddressSlot where = address(operand, space);
  uint32_t slot = scratch(8);
  Op &op = emit(runAddress);
  setAddress(op, where);
  op.dst = slot;
  return slot;
}

void addMemory(DecodeTable &table) {
  table["ld"] = table["ldu"] = table["st"] = decodeLoadStore;
  table["prefetch"] = table["prefetchu"] = decodePrefetch;
  table["cp"] = decodeCopy;
}

} // namespace stow::sim
