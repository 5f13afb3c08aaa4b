// Instructions to ops. Each family of instructions has its file Decode*.cpp, which adds what it knows
// to the table of all; an opcode or modifier that nobody takes is an error.
#pragma once

#include "tests/gpu/execute/Program.h"

#include <map>
#include <set>

namespace stow::sim {

class Decoder;
using Decode = void (*)(Decoder &);
using DecodeTable = std::map<std::string, Decode>;

void addArithmetic(DecodeTable &table); // DecodeInteger.cpp, DecodeFloat.cpp for floating types
void addLogic(DecodeTable &table);      // moves, selections, comparisons, bits
void addConversions(DecodeTable &table);
void addMemory(DecodeTable &table);
void addAtomics(DecodeTable &table);
void addControl(DecodeTable &table);  // branches, calls, barriers
void addWarpwide(DecodeTable &table); // shuffles, votes
void addMatrices(DecodeTable &table);
/// Arithmetic of floating types; false: `type` is none.
bool decodeFloat(Decoder &decoder, const std::string &name, Type type);
/// A comparison of `type`; null: there is none of that name.
Handler compareHandler(const std::string &comparison, Type type);

class Decoder {
public:
  Decoder(std::shared_ptr<const Module> module, const Function &function,
          const AddressOf &addressOf);
  Kernel run();

  //===-- the instruction ---------------------------------------------------------------------===//

  const Instruction &instruction() const { return *current; }
  const std::string &root() const { return parts[0]; }
  /// Takes modifier `name` if it is there.
  bool take(const std::string &name);
  /// Takes the first modifier of `names`; empty: none is there.
  std::string takeOneOf(const std::vector<std::string> &names);
  /// Takes the first modifier that is a type; fails where there is none.
  Type takeType();
  Type takeTypeOrNone();
  /// Takes rounding and other modifiers of floating-point instructions.
  uint16_t takeFloatOptions();
  [[noreturn]] void fail(const std::string &why) const;

  const Operand &operand(size_t number) const;
  size_t operandCount() const { return current->operands.size(); }

  //===-- slots -------------------------------------------------------------------------------===//

  /// Where an operand is read as `type`: its register, which must have that width, or a constant.
  uint32_t source(const Operand &operand, Type type);
  uint32_t source(size_t number, Type type) { return source(operand(number), type); }
  /// As `source`, of a register at least as wide; `bytes` becomes its width.
  uint32_t wideSource(const Operand &operand, Type type, uint8_t &bytes);
  uint32_t destination(const Operand &operand, Type type);
  uint32_t destination(size_t number, Type type) { return destination(operand(number), type); }
  uint32_t wideDestination(const Operand &operand, Type type, uint8_t &bytes);
  uint32_t predicate(const Operand &operand);
  uint32_t predicateDestination(const Operand &operand) { return predicate(operand); }
  /// The predicate behind `|`.
  uint32_t secondPredicate(const Operand &operand);
  uint32_t constant(uint64_t bits, unsigned bytes);
  uint32_t scratch(unsigned bytes);
  /// Width of a register in bytes; 0 for predicates.
  unsigned registerBytes(int index) const;

  //===-- addresses ---------------------------------------------------------------------------===//

  /// A named variable and where it lies in its space.
  struct Place {
    Space space;
    uint64_t address; ///< in its space
    const Variable *variable;
  };
  std::optional<Place> place(const std::string &name);

  /// An address operand: a slot of 4 or 8 bytes a lane, plus an offset.
  struct AddressSlot {
    uint32_t slot;
    uint8_t bytes;
    int64_t offset;
    Space space;
  };
  Space takeSpace();
  /// Takes modifiers of ordering and caching.
  void takeOrdering();
  void takeCacheHints();
  AddressSlot address(const Operand &operand, Space space);
  void setAddress(Op &op, const AddressSlot &address);
  /// A slot with the whole 64-bit address.
  uint32_t wholeAddress(const Operand &operand, Space space);

  /// Appends an op of this instruction, its guard set.
  Op &emit(Handler run);
  Kernel kernel;
  uint64_t dynamicBase = 0; ///< address of dynamic shared memory
  bool usesDynamicShared = false;
  uint32_t carrySlot = kNoSlot; ///< the condition code register, where it is used

  //===-- control -----------------------------------------------------------------------------===//

  void branchTo(Op &op, const std::string &label);
  /// Where the op's list entry `at` shall hold the op of `label`.
  void branchEntry(size_t at, const std::string &label);
  const std::vector<std::string> &branchTargets(const std::string &name) const;
  void returnFromFunction();
  void call();

private:
  struct Frame {
    const Function *function;
    std::map<std::string, Place> places; ///< parameters and variables
    std::vector<uint32_t> registers;     ///< slots; kNoSlot: not used yet
    std::vector<uint32_t> firstOp;       ///< of each instruction
    std::vector<std::pair<size_t, std::string>> branches, entries;
    std::vector<size_t> returns; ///< ops that leave an inlined function
  };

  void body(Frame &frame);
  void one(const Instruction &instruction);
  void declare(Frame &frame);
  void finishBranches(Frame &frame);
  uint32_t registerSlot(int index);
  uint32_t reserve(unsigned bytes);
  uint64_t immediate(const Operand &operand, Type type);
  uint32_t special(const std::string &name, Type type);
  void builtin(const std::string &name, const std::vector<Operand> &arguments,
               const std::vector<Operand> &results);
  uint64_t reserveShared(const Variable &variable);

  std::shared_ptr<const Module> module;
  const Function &entry;
  const AddressOf &addressOf;
  const Instruction *current = nullptr;
  std::vector<std::string> parts;
  std::vector<bool> taken;
  Frame *frame = nullptr;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants;
  std::map<std::pair<std::string, unsigned>, uint32_t> specials;
  std::map<const Variable *, uint64_t> sharedPlaces;
  std::vector<const Function *> callers;
  int depth = 0;
};

} // namespace stow::sim
