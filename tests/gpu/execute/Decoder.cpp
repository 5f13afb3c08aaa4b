#include "tests/gpu/execute/Decoder.h"

#include "runtime/base/Concat.h"
#include "tests/gpu/execute/Memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace stow::sim {

static const DecodeTable &allInstructions() {
  static const DecodeTable table = [] {
    DecodeTable all;
    addArithmetic(all);
    addLogic(all);
    addConversions(all);
    addMemory(all);
    addAtomics(all);
    addControl(all);
    addWarpwide(all);
    addMatrices(all);
    return all;
  }();
  return table;
}

/// Bytes behind each variable in shared memory whose access is a fault.
static constexpr uint64_t kSharedGap = 256;

static uint64_t roundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

Decoder::Decoder(std::shared_ptr<const Module> module, const Function &function,
                 const AddressOf &addressOf)
    : module(module), entry(function), addressOf(addressOf) {
  kernel.name = function.name;
  kernel.module = module;
  if (function.maxThreads)
    kernel.maxThreads = function.maxThreads;
  std::copy(function.required, function.required + 3, kernel.required);
}

void Decoder::fail(const std::string &why) const {
  throw PtxError("PTX " + module->at(current ? current->line : entry.line) + ": " + why);
}

Kernel Decoder::run() {
  Frame top;
  top.function = &entry;
  for (const Variable &param : entry.params) {
    uint64_t offset = roundUp(kernel.paramBytes, std::max<uint64_t>(1, param.align));
    top.places[param.name] = {Space::Param, offset, &param};
    kernel.params.push_back({offset, param.bytes});
    kernel.paramBytes = offset + param.bytes;
  }
  body(top);
  kernel.sharedBytes = roundUp(kernel.sharedBytes, 16);
  kernel.sharedEnd = roundUp(kernel.sharedEnd, 16);
  kernel.localBytes = roundUp(kernel.localBytes, 16);
  unsigned words = 0;
  for (const Register &reg : entry.registers)
    words += reg.bits == 64 ? 2 : reg.bits == 1 ? 0 : 1;
  // Virtual registers are far more than those that live at once.
  kernel.registers = static_cast<int>(std::clamp(16 + words / 4, 16u, 255u));
  return std::move(kernel);
}

//===-- functions -----------------------------------------------------------------------------===//

void Decoder::declare(Frame &frame) {
  for (const Variable &variable : frame.function->variables) {
    if (variable.space == Space::Shared) {
      frame.places[variable.name] = {Space::Shared, reserveShared(variable), &variable};
      continue;
    }
    // .local, and .param of calls, are memory of the thread.
    kernel.localBytes = roundUp(kernel.localBytes, std::max<uint64_t>(8, variable.align));
    frame.places[variable.name] = {Space::Local, kernel.localBytes, &variable};
    kernel.localBytes += variable.bytes;
  }
}

uint64_t Decoder::reserveShared(const Variable &variable) {
  auto known = sharedPlaces.find(&variable);
  if (known != sharedPlaces.end())
    return known->second;
  const uint64_t align = std::max<uint64_t>(1, variable.align);
  const uint64_t at = roundUp(kernel.sharedEnd, align);
  kernel.shared.push_back({at, variable.bytes});
  kernel.sharedEnd = at + variable.bytes + kSharedGap;
  kernel.sharedBytes = roundUp(kernel.sharedBytes, align) + variable.bytes;
  return sharedPlaces[&variable] = at;
}

void Decoder::body(Frame &inner) {
  Frame *outer = frame;
  const Instruction *caller = current;
  frame = &inner;
  declare(inner);
  inner.registers.assign(inner.function->registers.size(), kNoSlot);
  for (const Instruction &instruction : inner.function->instructions) {
    inner.firstOp.push_back(static_cast<uint32_t>(kernel.ops.size()));
    one(instruction);
  }
  inner.firstOp.push_back(static_cast<uint32_t>(kernel.ops.size()));
  bool last = inner.function->instructions.empty() ||
              inner.function->instructions.back().opcode.rfind("ret", 0) != 0;
  Instruction end;
  if (last && !outer) { // falls out of the kernel
    end.line = inner.function->line;
    end.opcode = "exit";
    one(end);
  }
  finishBranches(inner);
  frame = outer, current = caller;
}

void Decoder::one(const Instruction &instruction) {
  current = &instruction;
  parts.clear();
  for (size_t begin = 0; begin <= instruction.opcode.size();) {
    size_t dot = std::min(instruction.opcode.find('.', begin), instruction.opcode.size());
    parts.push_back(instruction.opcode.substr(begin, dot - begin));
    begin = dot + 1;
  }
  taken.assign(parts.size(), false);
  auto found = allInstructions().find(parts[0]);
  if (found == allInstructions().end())
    fail("the instruction " + parts[0] + " is not known to the simulated device");
  found->second(*this);
  if (&instruction != current) // a call came back
    return;
  for (size_t i = 1; i < parts.size() && i < taken.size(); ++i)
    if (!taken[i])
      fail("the modifier ." + parts[i] + " of " + parts[0] +
           " is not known to the simulated device");
}

void Decoder::finishBranches(Frame &inner) {
  auto target = [&](const std::string &label, int line) {
    auto found = inner.function->labels.find(label);
    if (found == inner.function->labels.end())
      throw PtxError("PTX " + module->at(line) + ": the label " + label + " is not defined");
    return inner.firstOp[found->second];
  };
  for (auto &[op, label] : inner.branches)
    kernel.ops[op].target = target(label, kernel.ops[op].line);
  for (auto &[at, label] : inner.entries)
    kernel.slots[at] = target(label, inner.function->line);
  for (size_t op : inner.returns)
    kernel.ops[op].target = static_cast<uint32_t>(kernel.ops.size());
}

void Decoder::branchTo(Op &op, const std::string &label) {
  frame->branches.push_back({&op - kernel.ops.data(), label});
}

void Decoder::branchEntry(size_t at, const std::string &label) {
  frame->entries.push_back({at, label});
}

const std::vector<std::string> &Decoder::branchTargets(const std::string &name) const {
  auto found = frame->function->branchTargets.find(name);
  if (found == frame->function->branchTargets.end())
    fail("the list of targets " + name + " is not defined");
  return found->second;
}

void Decoder::returnFromFunction() {
  Op &op = emit(nullptr);
  op.control = depth ? Control::Branch : Control::Exit;
  if (depth)
    frame->returns.push_back(kernel.ops.size() - 1);
}

void Decoder::call() {
  const Instruction &at = *current;
  take("uni");
  size_t next = 0;
  std::vector<Operand> results, arguments;
  if (operand(0).kind == Operand::Kind::List)
    results = operand(next++).elements;
  const Operand &callee = operand(next++);
  if (next < operandCount() && operand(next).kind == Operand::Kind::List)
    arguments = operand(next++).elements;
  if (callee.kind != Operand::Kind::Symbol)
    fail("calls through registers are not known to the simulated device");
  const Function *function = module->function(callee.name);
  if (!function || !function->hasBody) {
    builtin(callee.name, arguments, results);
    return;
  }
  if (at.guard >= 0)
    fail("a guarded call is not known to the simulated device");
  if (++depth > 32)
    fail("calls are nested too deeply, or recursive: " + callee.name);
  Frame inner;
  inner.function = function;
  auto bind = [&](const std::vector<Variable> &formals, const std::vector<Operand> &actuals) {
    if (formals.size() != actuals.size())
      fail(concat(callee.name, " takes ", formals.size(), " parameters, found ", actuals.size()));
    for (size_t i = 0; i < formals.size(); ++i) {
      auto where = place(actuals[i].name);
      if (!where)
        fail("the parameter " + actuals[i].name + " is not declared");
      inner.places[formals[i].name] = *where;
    }
  };
  bind(function->params, arguments);
  bind(function->results, results);
  body(inner);
  --depth;
  current = &at;
  parts = {"call"};
  taken = {true};
}

//===-- the instruction -----------------------------------------------------------------------===//

bool Decoder::take(const std::string &name) {
  for (size_t i = 1; i < parts.size(); ++i)
    if (!taken[i] && parts[i] == name)
      return taken[i] = true;
  return false;
}

std::string Decoder::takeOneOf(const std::vector<std::string> &names) {
  for (size_t i = 1; i < parts.size(); ++i)
    if (!taken[i] && std::find(names.begin(), names.end(), parts[i]) != names.end()) {
      taken[i] = true;
      return parts[i];
    }
  return "";
}

Type Decoder::takeTypeOrNone() {
  for (size_t i = 1; i < parts.size(); ++i)
    if (Type type = typeNamed(parts[i]); !taken[i] && type != Type::None) {
      taken[i] = true;
      return type;
    }
  return Type::None;
}

Type Decoder::takeType() {
  Type type = takeTypeOrNone();
  if (type == Type::None)
    fail(parts[0] + " has no type that the simulated device knows");
  return type;
}

const Operand &Decoder::operand(size_t number) const {
  if (number >= current->operands.size())
    fail(concat("expected more than ", current->operands.size(), " operands"));
  return current->operands[number];
}

Op &Decoder::emit(Handler run) {
  Op op;
  op.run = run;
  op.line = current->line;
  if (current->guard >= 0) {
    op.guard = registerSlot(current->guard);
    op.guardNegated = current->guardNegated;
  }
  kernel.ops.push_back(op);
  return kernel.ops.back();
}

//===-- slots ---------------------------------------------------------------------------------===//

uint32_t Decoder::reserve(unsigned bytes) {
  size_t at = roundUp(kernel.file.size(), bytes ? 32 : 4);
  kernel.file.resize(at + (bytes ? bytes * kWarpLanes : 4));
  return static_cast<uint32_t>(at);
}

uint32_t Decoder::scratch(unsigned bytes) { return reserve(bytes); }

unsigned Decoder::registerBytes(int index) const {
  int bits = frame->function->registers.at(index).bits;
  return bits == 1 ? 0 : std::max(2, bits / 8);
}

uint32_t Decoder::registerSlot(int index) {
  uint32_t &slot = frame->registers.at(index);
  if (slot == kNoSlot)
    slot = reserve(registerBytes(index));
  return slot;
}

uint32_t Decoder::constant(uint64_t bits, unsigned bytes) {
  auto [known, isNew] = constants.try_emplace({bits, bytes}, 0);
  if (!isNew)
    return known->second;
  uint32_t slot = known->second = reserve(bytes);
  for (unsigned lane = 0; lane < kWarpLanes && bytes; ++lane)
    memcpy(kernel.file.data() + slot + lane * bytes, &bits, std::min(bytes, 8u));
  if (bytes == 0) { // a predicate
    uint32_t mask = bits ? ~0u : 0;
    memcpy(kernel.file.data() + slot, &mask, 4);
  }
  return slot;
}

uint64_t Decoder::immediate(const Operand &operand, Type type) {
  uint64_t bits = operand.value;
  if (operand.kind == Operand::Kind::Double && type == Type::F32)
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  if (operand.kind == Operand::Kind::Float && type == Type::F64)
    return std::bit_cast<uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  if (operand.kind == Operand::Kind::Integer && isFloatType(type) && bytesOf(type) > 2)
    fail("an integer is no ." + std::string(nameOf(type)) + " value");
  return bits;
}

uint32_t Decoder::source(const Operand &operand, Type type) {
  uint8_t bytes = 0;
  uint32_t slot = wideSource(operand, type, bytes);
  if (operand.kind == Operand::Kind::Register && bytes != std::max(2u, bytesOf(type)))
    fail(concat("the register ", operand.name, " has ", 8 * bytes, " bits, .", nameOf(type),
                " needs ", 8 * bytesOf(type)));
  return slot;
}

uint32_t Decoder::wideSource(const Operand &operand, Type type, uint8_t &bytes) {
  bytes = static_cast<uint8_t>(std::max(2u, bytesOf(type)));
  switch (operand.kind) {
  case Operand::Kind::Register:
    bytes = static_cast<uint8_t>(registerBytes(operand.index));
    if (bytes < bytesOf(type))
      fail(concat("the register ", operand.name, " has ", 8 * bytes, " bits, .", nameOf(type),
                  " needs ", 8 * bytesOf(type)));
    return registerSlot(operand.index);
  case Operand::Kind::Integer:
  case Operand::Kind::Float:
  case Operand::Kind::Double:
    return constant(immediate(operand, type), bytes);
  case Operand::Kind::Symbol:
    if (operand.name[0] == '%')
      return special(operand.name, type);
    if (auto where = place(operand.name)) {
      // The address of a parameter or of local memory is one of its space; cvta makes it generic.
      return constant(where->address + operand.value, bytes);
    }
    fail("the name " + operand.name + " is not declared");
  default:
    fail("expected a register or a constant of type ." + std::string(nameOf(type)));
  }
}

uint32_t Decoder::destination(const Operand &operand, Type type) {
  uint8_t bytes = 0;
  uint32_t slot = wideDestination(operand, type, bytes);
  if (bytes != std::max(2u, bytesOf(type)))
    fail(concat("the register ", operand.name, " has ", 8 * bytes, " bits, .", nameOf(type),
                " needs ", 8 * bytesOf(type)));
  return slot;
}

uint32_t Decoder::wideDestination(const Operand &operand, Type type, uint8_t &bytes) {
  bytes = static_cast<uint8_t>(std::max(2u, bytesOf(type)));
  if (operand.kind == Operand::Kind::Nothing)
    return scratch(bytes);
  if (operand.kind != Operand::Kind::Register)
    fail("expected a register for the result");
  bytes = static_cast<uint8_t>(registerBytes(operand.index));
  if (bytes < bytesOf(type))
    fail("the register " + operand.name + " is too narrow for ." + nameOf(type));
  return registerSlot(operand.index);
}

uint32_t Decoder::predicate(const Operand &operand) {
  if (operand.kind == Operand::Kind::Nothing)
    return scratch(0);
  if (operand.kind == Operand::Kind::Integer)
    return constant(operand.value != 0, 0);
  if (operand.kind != Operand::Kind::Register || registerBytes(operand.index) != 0)
    fail("expected a predicate, found " + operand.name);
  return registerSlot(operand.index);
}

uint32_t Decoder::secondPredicate(const Operand &operand) {
  if (operand.second == -1)
    return kNoSlot;
  if (operand.second == -2)
    return scratch(0);
  if (registerBytes(operand.second) != 0)
    fail("expected a predicate behind |");
  return registerSlot(operand.second);
}

uint32_t Decoder::special(const std::string &name, Type type) {
  static const std::map<std::string, Special> known = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%laneid", Special::Lane},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::WarpCount},
      {"%smid", Special::SmId},
      {"%nsmid", Special::SmCount},
      {"%gridid", Special::GridId},
      {"%lanemask_eq", Special::LaneMaskEq},
      {"%lanemask_lt", Special::LaneMaskLt},
      {"%lanemask_le", Special::LaneMaskLe},
      {"%lanemask_gt", Special::LaneMaskGt},
      {"%lanemask_ge", Special::LaneMaskGe},
      {"%dynamic_smem_size", Special::DynamicShared},
      {"%total_smem_size", Special::TotalShared}};
  auto which = known.find(name);
  if (which == known.end())
    fail("the special register " + name + " is not known to the simulated device");
  unsigned bytes = std::max(2u, bytesOf(type));
  auto [slot, isNew] = specials.try_emplace({name, bytes}, 0);
  if (isNew) {
    slot->second = reserve(bytes);
    kernel.specials.push_back({which->second, slot->second, static_cast<uint8_t>(bytes)});
  }
  return slot->second;
}

std::optional<Decoder::Place> Decoder::place(const std::string &name) {
  auto found = frame->places.find(name);
  if (found != frame->places.end())
    return found->second;
  for (const Variable &variable : module->variables) {
    if (variable.name != name)
      continue;
    if (variable.space != Space::Shared)
      return Place{variable.space, addressOf(variable), &variable};
    if (variable.isExtern && variable.bytes == 0) {
      usesDynamicShared = true;
      return Place{Space::Shared, dynamicBase, &variable};
    }
    return Place{Space::Shared, reserveShared(variable), &variable};
  }
  return std::nullopt;
}

Kernel decodeKernel(std::shared_ptr<const Module> module, const Function &function,
                    const AddressOf &addressOf) {
  Decoder first(module, function, addressOf);
  Kernel kernel = first.run();
  if (!first.usesDynamicShared)
    return kernel;
  // Dynamic shared memory begins where the static ends, which is known only now.
  Decoder again(module, function, addressOf);
  again.dynamicBase = kernel.sharedEnd;
  return again.run();
}

} // namespace stow::sim
