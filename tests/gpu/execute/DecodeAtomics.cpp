// Atomic updates. Blocks of a kernel that has them run one after the other, lanes in their order, so
// that sums of floats are the same in every run.
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Narrow.h"
#include "tests/gpu/execute/Resolve.h"

#include <cstring>

namespace stow::sim {
namespace {

struct Add {
  template <class T> T operator()(T old, T b) const { return old + b; }
};
struct Min {
  template <class T> T operator()(T old, T b) const { return b < old ? b : old; }
};
struct Max {
  template <class T> T operator()(T old, T b) const { return old < b ? b : old; }
};
struct And {
  template <class T> T operator()(T old, T b) const { return old & b; }
};
struct Or {
  template <class T> T operator()(T old, T b) const { return old | b; }
};
struct Xor {
  template <class T> T operator()(T old, T b) const { return old ^ b; }
};
struct Exchange {
  template <class T> T operator()(T, T b) const { return b; }
};
struct Increment {
  uint32_t operator()(uint32_t old, uint32_t b) const { return old >= b ? 0 : old + 1; }
};
struct Decrement {
  uint32_t operator()(uint32_t old, uint32_t b) const { return old == 0 || old > b ? b : old - 1; }
};

uint16_t addHalf(uint16_t a, uint16_t b, bool brain) {
  double sum =
      brain ? double{bf16ToFloat(a)} + bf16ToFloat(b) : double{f16ToFloat(a)} + f16ToFloat(b);
  return static_cast<uint16_t>(encode(sum, brain ? kBF16 : kF16, kRoundNearest));
}
template <bool Brain> struct AddHalf {
  uint16_t operator()(uint16_t old, uint16_t b) const { return addHalf(old, b, Brain); }
};
template <bool Brain> struct AddPair {
  uint32_t operator()(uint32_t old, uint32_t b) const {
    uint32_t low = addHalf(static_cast<uint16_t>(old), static_cast<uint16_t>(b), Brain);
    return low | static_cast<uint32_t>(addHalf(static_cast<uint16_t>(old >> 16),
                                               static_cast<uint16_t>(b >> 16), Brain))
                     << 16;
  }
};

/// op.b: the operand; op.dst: the old value, where it is wanted.
template <Space space, class T, class F> void runAtomic(Warp &warp, const Op &op, uint32_t mask) {
  Pointers at;
  resolve<space>(warp, op, mask, sizeof(T), Access::Atomic, at);
  const T *b = warp.lanes<T>(op.b);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1) {
      T old, operand = b[lane];
      memcpy(&old, at[lane], sizeof(T));
      T value = F()(old, operand);
      memcpy(at[lane], &value, sizeof(T));
      if (op.dst != kNoSlot)
        warp.lanes<T>(op.dst)[lane] = old;
    }
}

/// op.c where the old value is op.b.
template <Space space, class T> void runCompareAndSwap(Warp &warp, const Op &op, uint32_t mask) {
  Pointers at;
  resolve<space>(warp, op, mask, sizeof(T), Access::Atomic, at);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1) {
      T old, value = warp.lanes<T>(op.c)[lane];
      memcpy(&old, at[lane], sizeof(T));
      if (old == warp.lanes<T>(op.b)[lane])
        memcpy(at[lane], &value, sizeof(T));
      if (op.dst != kNoSlot)
        warp.lanes<T>(op.dst)[lane] = old;
    }
}

template <class T, class F> Handler inSpace(Space space) {
  switch (space) {
  case Space::Shared:
    return runAtomic<Space::Shared, T, F>;
  case Space::Generic:
    return runAtomic<Space::Generic, T, F>;
  default:
    return runAtomic<Space::Global, T, F>;
  }
}

template <class T> Handler swapInSpace(Space space) {
  switch (space) {
  case Space::Shared:
    return runCompareAndSwap<Space::Shared, T>;
  case Space::Generic:
    return runCompareAndSwap<Space::Generic, T>;
  default:
    return runCompareAndSwap<Space::Global, T>;
  }
}

template <class F> Handler ofIntegers(Type type, Space space) {
  switch (type) {
  case Type::S32:
    return inSpace<int32_t, F>(space);
  case Type::B32:
  case Type::U32:
    return inSpace<uint32_t, F>(space);
  case Type::S64:
    return inSpace<int64_t, F>(space);
  case Type::B64:
  case Type::U64:
    return inSpace<uint64_t, F>(space);
  default:
    return nullptr;
  }
}

Handler addHandler(Type type, Space space) {
  switch (type) {
  case Type::F32:
    return inSpace<float, Add>(space);
  case Type::F64:
    return inSpace<double, Add>(space);
  case Type::F16:
    return inSpace<uint16_t, AddHalf<false>>(space);
  case Type::BF16:
    return inSpace<uint16_t, AddHalf<true>>(space);
  case Type::F16x2:
    return inSpace<uint32_t, AddPair<false>>(space);
  case Type::BF16x2:
    return inSpace<uint32_t, AddPair<true>>(space);
  default:
    return ofIntegers<Add>(type, space);
  }
}

Handler atomicHandler(const std::string &name, Type type, Space space) {
  if (name == "add")
    return addHandler(type, space);
  if (name == "min")
    return ofIntegers<Min>(type, space);
  if (name == "max")
    return ofIntegers<Max>(type, space);
  if (name == "and")
    return ofIntegers<And>(type, space);
  if (name == "or")
    return ofIntegers<Or>(type, space);
  if (name == "xor")
    return ofIntegers<Xor>(type, space);
  if (name == "exch")
    return ofIntegers<Exchange>(type, space);
  if (name == "inc" && type == Type::U32)
    return inSpace<uint32_t, Increment>(space);
  if (name == "dec" && type == Type::U32)
    return inSpace<uint32_t, Decrement>(space);
  if (name != "cas")
    return nullptr;
  return bytesOf(type) == 2   ? swapInSpace<uint16_t>(space)
         : bytesOf(type) == 4 ? swapInSpace<uint32_t>(space)
                              : swapInSpace<uint64_t>(space);
}

void decodeAtomic(Decoder &decoder) {
  bool hasResult = decoder.root() == "atom";
  Space space = decoder.takeSpace();
  decoder.takeOrdering();
  decoder.take("noftz");
  std::string name =
      decoder.takeOneOf({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  Type type = decoder.takeType();
  size_t next = hasResult ? 1 : 0;
  Decoder::AddressSlot address = decoder.address(decoder.operand(next), space);
  Handler run = atomicHandler(name, type, address.space);
  if (!run)
    decoder.fail("the atomic " + name + " of ." + nameOf(type) +
                 " is not known to the simulated device");
  uint32_t b = decoder.source(next + 1, type);
  uint32_t c = name == "cas" ? decoder.source(next + 2, type) : kNoSlot;
  uint32_t dst = hasResult ? decoder.destination(0, type) : kNoSlot;
  Op &op = decoder.emit(run);
  decoder.setAddress(op, address);
  op.b = b, op.c = c, op.dst = dst;
  if (address.space != Space::Shared)
    decoder.kernel.inOrder = true;
}

} // namespace

void addAtomics(DecodeTable &table) { table["atom"] = table["red"] = decodeAtomic; }

} // namespace stow::sim
