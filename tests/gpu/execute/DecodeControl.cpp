// Branches, barriers, the end of threads, and the functions that every device has.
#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Decoder.h"
#include "tests/gpu/execute/Resolve.h"

#include <bit>
#include <cstring>

namespace stow::sim {
namespace {

void decodeBra(Decoder &decoder) {
  decoder.take("uni");
  Op &op = decoder.emit(nullptr);
  op.control = Control::Branch;
  decoder.branchTo(op, decoder.operand(0).name);
}

void decodeBrx(Decoder &decoder) {
  decoder.take("uni");
  if (!decoder.take("idx"))
    decoder.fail("expected .idx");
  uint32_t index = decoder.source(0, Type::U32);
  const std::vector<std::string> &targets = decoder.branchTargets(decoder.operand(1).name);
  if (targets.size() > 255)
    decoder.fail("tables of more than 255 branches are not known to the simulated device");
  Op &op = decoder.emit(nullptr);
  op.control = Control::Indexed;
  op.a = index, op.count = static_cast<uint8_t>(targets.size());
  op.list = static_cast<uint32_t>(decoder.kernel.slots.size());
  for (const std::string &target : targets) {
    decoder.branchEntry(decoder.kernel.slots.size(), target);
    decoder.kernel.slots.push_back(0);
  }
}

void decodeRet(Decoder &decoder) {
  decoder.take("uni");
  decoder.returnFromFunction();
}

void decodeExit(Decoder &decoder) { decoder.emit(nullptr).control = Control::Exit; }

void runTrap(Warp &warp, const Op &op, uint32_t mask) {
  warp.fail(Fault::Kind::Trap, op, std::countr_zero(mask), "trap");
}

void decodeTrap(Decoder &decoder) { decoder.emit(runTrap); }

void runNothing(Warp &, const Op &, uint32_t) {}

/// Order among the accesses of one thread holds anyway: blocks run on one memory.
void decodeFence(Decoder &decoder) {
  decoder.takeOneOf({"gl", "cta", "sys"});
  decoder.takeOrdering();
  decoder.emit(runNothing);
}

void decodeNanosleep(Decoder &decoder) {
  decoder.takeType();
  decoder.source(0, Type::U32);
  decoder.emit(runNothing);
}

//===-- barriers ------------------------------------------------------------------------------===//

/// Lanes of a warp meet: what they did before is ordered before what they do next.
void runWarpBarrier(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t *masks = warp.lanes<uint32_t>(op.d);
  uint32_t left = mask; // lanes with other masks meet apart
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    if (!(masks[lane] >> lane & 1))
      warp.fail(Fault::Kind::Barrier, op, lane, "the lane is not in its own mask");
    if (left >> lane & 1)
      warp.clock.meet(masks[lane] & mask, warp.alive());
    left &= ~masks[lane];
  }
}

void decodeBarrier(Decoder &decoder) {
  if (decoder.take("warp")) {
    if (!decoder.take("sync"))
      decoder.fail("expected .sync");
    uint32_t members = decoder.source(0, Type::B32);
    Op &op = decoder.emit(runWarpBarrier);
    op.control = Control::Collective, op.d = members;
    return;
  }
  decoder.take("cta");
  bool aligned = decoder.take("aligned") || decoder.root() == "bar";
  uint16_t options = aligned ? kBarrierAligned : 0;
  size_t next = 0;
  uint32_t dst = kNoSlot, c = kNoSlot;
  if (decoder.take("red")) {
    std::string kind = decoder.takeOneOf({"popc", "and", "or"});
    decoder.takeType();
    options |= kind == "popc" ? kBarrierPopc : kind == "and" ? kBarrierAnd : kBarrierOr;
    dst = kind == "popc" ? decoder.destination(0, Type::U32)
                         : decoder.predicateDestination(decoder.operand(0));
    const Operand &vote = decoder.operand(decoder.operandCount() - 1);
    c = decoder.predicate(vote);
    options |= vote.negated ? kBarrierNegated : 0;
    next = 1;
  } else if (decoder.take("arrive")) {
    options |= kBarrierArrive;
  } else if (!decoder.take("sync")) {
    decoder.fail("expected .sync, .arrive or .red");
  }
  size_t last = decoder.operandCount() - (c == kNoSlot ? 0 : 1);
  uint32_t id = decoder.source(next, Type::U32);
  uint32_t count = next + 1 < last ? decoder.source(next + 1, Type::U32) : kNoSlot;
  if ((options & kBarrierKind) == kBarrierArrive && count == kNoSlot)
    decoder.fail("an arrival needs the number of threads");
  Op &op = decoder.emit(nullptr);
  op.control = Control::Barrier;
  op.a = id, op.b = count, op.c = c, op.dst = dst, op.options = options;
}

//===-- functions that the device has ---------------------------------------------------------===//

/// Any bytes of a generic address, without the checks of races and plans: text and arguments.
uint8_t *genericBytes(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes) {
  if (address - kLocalWindow < kWindowBytes) {
    uint64_t at = address - kLocalWindow, size = warp.worker.kernel.localBytes;
    return at + bytes <= size ? warp.local.data() + lane * size + at : nullptr;
  }
  return warp.worker.memory.host(address, bytes);
}

std::string textAt(Warp &warp, const Op &op, unsigned lane, uint64_t address) {
  std::string text;
  for (uint8_t *c; (c = genericBytes(warp, op, lane, address, 1)) && *c; ++address)
    text += static_cast<char>(*c);
  return text;
}

/// The parameter of a call: 8 or fewer bytes of local memory at slots[op.list + number].
uint64_t parameter(Warp &warp, const Op &op, unsigned lane, unsigned number, unsigned bytes) {
  uint64_t at = warp.worker.kernel.slots[op.list + number], value = 0;
  memcpy(&value, warp.local.data() + lane * warp.worker.kernel.localBytes + at, bytes);
  return value;
}

std::string formatted(Warp &warp, const Op &op, unsigned lane, const std::string &format,
                      uint64_t arguments) {
  std::string out;
  auto next = [&](unsigned bytes) {
    arguments = (arguments + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    if (uint8_t *at = genericBytes(warp, op, lane, arguments, bytes))
      memcpy(&value, at, bytes);
    arguments += bytes;
    return value;
  };
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    size_t end = format.find_first_of("diouxXeEfFgGaAcsp%", i + 1);
    if (end == std::string::npos)
      break;
    std::string piece = format.substr(i, end - i + 1);
    char kind = format[end], buffer[256];
    bool isLong = piece.find('l') != std::string::npos;
    std::erase(piece, 'l');
    if (kind == '%')
      out += '%';
    else if (kind == 's')
      out += textAt(warp, op, lane, next(8));
    else {
      if (std::strchr("eEfFgGaA", kind))
        snprintf(buffer, sizeof buffer, piece.c_str(), std::bit_cast<double>(next(8)));
      else if (kind == 'p')
        snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(next(8)));
      else if (isLong)
        snprintf(buffer, sizeof buffer, piece.insert(piece.size() - 1, "ll").c_str(), next(8));
      else
        snprintf(buffer, sizeof buffer, piece.c_str(), static_cast<int>(next(4)));
      out += buffer;
    }
    i = end;
  }
  return out;
}

void runPrint(Warp &warp, const Op &op, uint32_t mask) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if ((mask >> lane & 1) && warp.worker.launch.print) {
      std::string format = textAt(warp, op, lane, parameter(warp, op, lane, 0, 8));
      warp.worker.launch.print(formatted(warp, op, lane, format, parameter(warp, op, lane, 1, 8)));
    }
  if (op.count > 2) // the result: the number of arguments, which nobody reads
    for (unsigned lane = 0; lane < kWarpLanes; ++lane)
      memset(warp.local.data() + lane * warp.worker.kernel.localBytes +
                 warp.worker.kernel.slots[op.list + 2],
             0, 4);
}

void runAssertion(Warp &warp, const Op &op, uint32_t mask) {
  unsigned lane = std::countr_zero(mask);
  auto text = [&](unsigned number) {
    return textAt(warp, op, lane, parameter(warp, op, lane, number, 8));
  };
  warp.fail(Fault::Kind::Assertion, op, lane,
            concat("assertion `", text(0), "' failed in ", text(3), " (", text(1), ":",
                   parameter(warp, op, lane, 2, 4), ")"));
}

} // namespace

void Decoder::builtin(const std::string &name, const std::vector<Operand> &arguments,
                      const std::vector<Operand> &results) {
  Handler run = name == "vprintf" ? runPrint : name == "__assertfail" ? runAssertion : nullptr;
  if (!run)
    fail("the function " + name + " is defined nowhere");
  if (arguments.size() != (name == "vprintf" ? 2 : 5))
    fail("the function " + name + " has other parameters");
  std::vector<uint32_t> places;
  for (const auto *list : {&arguments, &results})
    for (const Operand &operand : *list) {
      auto where = place(operand.name);
      if (!where || where->space != Space::Local)
        fail("the parameter " + operand.name + " is not declared");
      places.push_back(static_cast<uint32_t>(where->address));
    }
  kernel.inOrder |= run == runPrint;
  Op &op = emit(run);
  op.list = static_cast<uint32_t>(kernel.slots.size());
  op.count = static_cast<uint8_t>(places.size());
  kernel.slots.insert(kernel.slots.end(), places.begin(), places.end());
}

void addControl(DecodeTable &table) {
  table["bra"] = decodeBra;
  table["brx"] = decodeBrx;
  table["ret"] = decodeRet;
  table["exit"] = decodeExit;
  table["trap"] = table["brkpt"] = decodeTrap;
  table["call"] = [](Decoder &decoder) { decoder.call(); };
  table["bar"] = table["barrier"] = decodeBarrier;
  table["membar"] = table["fence"] = decodeFence;
  table["nanosleep"] = decodeNanosleep;
}

} // namespace stow::sim
