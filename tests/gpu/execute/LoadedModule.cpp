#include "tests/gpu/execute/LoadedModule.h"

#include <cstring>
#include <new>

namespace stow::sim {

static bool hasPlace(const Variable &variable) {
  return variable.space == Space::Global || variable.space == Space::Const;
}

LoadedModule::LoadedModule(const std::string &ptx, DeviceMemory &memory)
    : memory(memory), parsed(std::make_shared<const Module>(parsePtx(ptx))) {
  for (const Variable &variable : parsed->variables)
    if (hasPlace(variable))
      place(variable);
  for (const Variable &variable : parsed->variables)
    if (hasPlace(variable))
      relocate(variable);
  AddressOf addressOf = [&](const Variable &variable) { return variables.at(variable.name).first; };
  for (const Function &function : parsed->functions)
    if (function.isEntry && function.hasBody)
      decoded.emplace(function.name, decodeKernel(parsed, function, addressOf));
}

LoadedModule::~LoadedModule() {
  for (auto &[name, where] : variables)
    memory.release(where.first, DeviceMemory::Kind::Module);
}

void LoadedModule::place(const Variable &variable) {
  if (variable.isExtern)
    throw PtxError("PTX " + parsed->at(variable.line) + ": the variable " + variable.name +
                   " is defined nowhere");
  uint64_t bytes = std::max<uint64_t>(variable.bytes, 1);
  uint64_t address = memory.allocate(bytes, DeviceMemory::Kind::Module, variable.name);
  if (!address)
    throw std::bad_alloc();
  uint8_t *host = memory.host(address, bytes);
  memset(host, 0, bytes);
  if (!variable.initial.empty())
    memcpy(host, variable.initial.data(), variable.initial.size());
  if (variable.space == Space::Const)
    memory.setReadOnly(address);
  variables[variable.name] = {address, variable.bytes};
}

void LoadedModule::relocate(const Variable &variable) {
  for (const Relocation &relocation : variable.relocations) {
    auto target = variables.find(relocation.symbol);
    if (target == variables.end())
      throw PtxError("PTX " + parsed->at(variable.line) + ": the variable " + relocation.symbol +
                     " is defined nowhere");
    uint64_t value = target->second.first + static_cast<uint64_t>(relocation.addend);
    memcpy(memory.host(variables[variable.name].first + relocation.at, 8), &value, 8);
  }
}

const Kernel *LoadedModule::kernel(const std::string &name) const {
  auto found = decoded.find(name);
  return found == decoded.end() ? nullptr : &found->second;
}

std::pair<uint64_t, uint64_t> LoadedModule::variable(const std::string &name) const {
  auto found = variables.find(name);
  return found == variables.end() ? std::pair<uint64_t, uint64_t>() : found->second;
}

} // namespace stow::sim
