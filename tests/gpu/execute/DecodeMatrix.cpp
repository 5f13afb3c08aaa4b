// Products of small matrices that the lanes of a warp hold together, and their loads and stores.
//
// Where the elements lie, for lane l with group g = l / 4 and t = l % 4, is PTX's (sections of mma and
// ldmatrix). Sums are taken in double and rounded once: hardware loses more.
#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Narrow.h"
#include "tests/gpu/execute/Resolve.h"

#include <cstring>

namespace stow::sim {
namespace {

/// A warp must be whole for these.
void requireWholeWarp(Warp &warp, const Op &op, uint32_t mask) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (!(mask >> lane & 1))
      warp.fail(Fault::Kind::Barrier, op, lane,
                "the lane does not take part in a matrix instruction");
}

//===-- mma -----------------------------------------------------------------------------------===//

enum class Element : uint8_t { Half, Brain, Tf32 };

double elementOf(uint32_t bits, Element element) {
  switch (element) {
  case Element::Half:
    return f16ToFloat(static_cast<uint16_t>(bits));
  case Element::Brain:
    return bf16ToFloat(static_cast<uint16_t>(bits));
  default:
    return std::bit_cast<float>(bits & ~0x1FFFu);
  }
}

/// The rows and columns of A (16 x k) and B (k x 8) that register `number` of a lane holds: two
/// neighbouring elements along k for 16 bits, one for tf32.
struct Fragment {
  unsigned row, k;
};
Fragment fragmentOfA(unsigned lane, unsigned number, bool narrow) {
  unsigned step = narrow ? 8 : 4;
  return {lane / 4 + 8 * (number % 2), (lane % 4) * (narrow ? 2 : 1) + step * (number / 2)};
}
Fragment fragmentOfB(unsigned lane, unsigned number, bool narrow) {
  unsigned step = narrow ? 8 : 4;
  return {lane / 4, (lane % 4) * (narrow ? 2 : 1) + step * number};
}

/// op.count: k; op.bytes: the element's type; op.options: 1 where sums are f16. The lists are the
/// registers of D, A, B and C.
void runProduct(Warp &warp, const Op &op, uint32_t mask) {
  requireWholeWarp(warp, op, mask);
  auto element = static_cast<Element>(op.bytes);
  bool narrow = element != Element::Tf32, halfSums = op.options & 1;
  const unsigned depth = op.count, parts = narrow ? 2 : 1;
  const unsigned registersOfB = depth / (narrow ? 8 : 4), registersOfA = 2 * registersOfB;
  const unsigned registersOfC = halfSums ? 2 : 4;
  const uint32_t *slots = warp.worker.kernel.slots.data() + op.list;
  const uint32_t *d = slots, *a = d + registersOfC, *b = a + registersOfA, *c = b + registersOfB;
  double left[16][16], right[16][8];
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    for (unsigned i = 0; i < registersOfA; ++i)
      for (unsigned part = 0; part < parts; ++part) {
        Fragment at = fragmentOfA(lane, i, narrow);
        left[at.row][at.k + part] =
            elementOf(warp.lanes<uint32_t>(a[i])[lane] >> (16 * part), element);
      }
    for (unsigned i = 0; i < registersOfB; ++i)
      for (unsigned part = 0; part < parts; ++part) {
        Fragment at = fragmentOfB(lane, i, narrow);
        right[at.k + part][at.row] =
            elementOf(warp.lanes<uint32_t>(b[i])[lane] >> (16 * part), element);
      }
  }
  uint32_t result[kWarpLanes][4] = {};
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      uint32_t start = halfSums ? warp.lanes<uint32_t>(c[i / 2])[lane] >> (16 * (i % 2))
                                : warp.lanes<uint32_t>(c[i])[lane];
      double sum = halfSums ? elementOf(start, Element::Half) : std::bit_cast<float>(start);
      for (unsigned k = 0; k < depth; ++k)
        sum += left[row][k] * right[k][column];
      if (halfSums)
        result[lane][i / 2] |= encode(sum, kF16, kRoundNearest) << (16 * (i % 2));
      else
        result[lane][i] = encode(sum, kF32, kRoundNearest);
    }
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned i = 0; i < registersOfC; ++i)
      warp.lanes<uint32_t>(d[i])[lane] = result[lane][i];
}

void addSlots(Decoder &decoder, const Operand &operand, unsigned count, bool isResult,
              std::vector<uint32_t> &slots) {
  std::vector<Operand> registers =
      operand.kind == Operand::Kind::Vector ? operand.elements : std::vector{operand};
  if (registers.size() != count)
    decoder.fail(concat("expected ", count, " registers, found ", registers.size()));
  for (const Operand &reg : registers)
    slots.push_back(isResult ? decoder.destination(reg, Type::B32)
                             : decoder.source(reg, Type::B32));
}

/// All lanes that are there must come.
Op &emitWhole(Decoder &decoder, Handler run) {
  uint32_t all = decoder.constant(~0u, 4);
  Op &op = decoder.emit(run);
  op.control = Control::Collective, op.d = all;
  return op;
}

void decodeMma(Decoder &decoder) {
  bool shaped = decoder.take("sync") && decoder.take("aligned");
  std::string shape = decoder.takeOneOf({"m16n8k16", "m16n8k8", "m16n8k4"});
  if (!shaped || shape.empty() || !decoder.take("row") || !decoder.take("col"))
    decoder.fail(
        "the simulated device knows mma.sync.aligned of m16n8k16, m16n8k8 and m16n8k4, .row.col");
  Type sum = decoder.takeType(), a = decoder.takeType(), b = decoder.takeType(),
       start = decoder.takeType();
  unsigned depth = static_cast<unsigned>(atoi(shape.c_str() + 6));
  bool known = a == b && sum == start &&
               (sum == Type::F32 || (sum == Type::F16 && a == Type::F16)) &&
               (a == Type::F16 || a == Type::BF16 ? depth >= 8 : a == Type::TF32 && depth <= 8);
  if (!known)
    decoder.fail("this combination of types is not known to the simulated device");
  bool narrow = a != Type::TF32, halfSums = sum == Type::F16;
  unsigned registersOfB = depth / (narrow ? 8 : 4), registersOfC = halfSums ? 2 : 4;
  std::vector<uint32_t> slots;
  addSlots(decoder, decoder.operand(0), registersOfC, true, slots);
  addSlots(decoder, decoder.operand(1), 2 * registersOfB, false, slots);
  addSlots(decoder, decoder.operand(2), registersOfB, false, slots);
  addSlots(decoder, decoder.operand(3), registersOfC, false, slots);
  Op &op = emitWhole(decoder, runProduct);
  op.list = static_cast<uint32_t>(decoder.kernel.slots.size());
  op.count = static_cast<uint8_t>(depth);
  op.bytes = static_cast<uint8_t>(a == Type::F16    ? Element::Half
                                  : a == Type::BF16 ? Element::Brain
                                                    : Element::Tf32);
  op.options = halfSums;
  decoder.kernel.slots.insert(decoder.kernel.slots.end(), slots.begin(), slots.end());
}

//===-- ldmatrix, stmatrix --------------------------------------------------------------------===//

/// The two elements of an 8 x 8 matrix that a lane holds: bytes into a row of the address of lane
/// `8 * matrix + row`.
struct Place {
  unsigned row, bytes;
};
Place placeOf(unsigned lane, unsigned part, bool transposed) {
  unsigned along = 2 * (lane % 4) + part, across = lane / 4;
  return transposed ? Place{along, 2 * across} : Place{across, 2 * along};
}

/// op.count matrices; op.options 1: transposed; op.b: 64-bit addresses in shared memory.
template <bool Load> void runMatrices(Warp &warp, const Op &op, uint32_t mask) {
  requireWholeWarp(warp, op, mask);
  const uint32_t *slots = warp.worker.kernel.slots.data() + op.list;
  uint8_t *rows[kWarpLanes];
  for (unsigned lane = 0; lane < 8u * op.count; ++lane) {
    uint64_t address = warp.lanes<uint64_t>(op.b)[lane];
    if (address - kSharedWindow < kWindowBytes)
      address -= kSharedWindow;
    rows[lane] = sharedBytes(warp, op, lane, address, 16, Load ? Access::Read : Access::Write);
  }
  for (unsigned matrix = 0; matrix < op.count; ++matrix)
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      auto *halves = warp.lanes<uint16_t>(slots[matrix]) + 2 * lane;
      for (unsigned part = 0; part < 2; ++part) {
        Place at = placeOf(lane, part, op.options & 1);
        uint8_t *memory = rows[8 * matrix + at.row] + at.bytes;
        if (Load)
          memcpy(&halves[part], memory, 2);
        else
          memcpy(memory, &halves[part], 2);
      }
    }
}

void decodeMatrices(Decoder &decoder) {
  bool load = decoder.root() == "ldmatrix";
  std::string count = decoder.takeOneOf({"x1", "x2", "x4"});
  bool known =
      decoder.take("sync") && decoder.take("aligned") && decoder.take("m8n8") && !count.empty();
  bool transposed = decoder.take("trans");
  known &= decoder.takeSpace() == Space::Shared && decoder.takeTypeOrNone() == Type::B16;
  if (!known)
    decoder.fail("the simulated device knows " + decoder.root() +
                 ".sync.aligned.m8n8.x1/x2/x4{.trans}.shared.b16");
  unsigned matrices = static_cast<unsigned>(count[1] - '0');
  std::vector<uint32_t> slots;
  addSlots(decoder, decoder.operand(load ? 0 : 1), matrices, load, slots);
  uint32_t address = decoder.wholeAddress(decoder.operand(load ? 1 : 0), Space::Shared);
  Op &op = emitWhole(decoder, load ? runMatrices<true> : runMatrices<false>);
  op.list = static_cast<uint32_t>(decoder.kernel.slots.size());
  op.count = static_cast<uint8_t>(matrices), op.options = transposed, op.b = address;
  decoder.kernel.slots.insert(decoder.kernel.slots.end(), slots.begin(), slots.end());
}

} // namespace

void addMatrices(DecodeTable &table) {
  table["mma"] = decodeMma;
  table["ldmatrix"] = table["stmatrix"] = decodeMatrices;
}

} // namespace stow::sim
