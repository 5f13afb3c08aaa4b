// PTX as parsed: names resolved to registers, labels and variables, nothing decoded yet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace stow::sim {

/// PTX that cannot be read or decoded; the message names line and text.
struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where a variable lives. Generic addresses name any of them.
enum class Space : uint8_t { Generic, Global, Shared, Local, Const, Param };

/// A pointer inside an initial value: the generic address of `symbol` plus `addend`, 8 bytes at `at`.
struct Relocation {
  uint64_t at = 0;
  std::string symbol;
  int64_t addend = 0;
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  uint64_t align = 1;
  uint64_t bytes = 0; ///< 0: an extern array whose size the launch gives
  bool isExtern = false;
  std::vector<uint8_t> initial; ///< empty: zeros
  std::vector<Relocation> relocations;
  int line = 0;
};

/// A virtual register; predicates have one bit.
struct Register {
  std::string name;
  int bits = 0;
};

/// One operand of an instruction.
struct Operand {
  enum class Kind {
    Register, ///< `index`; `negated` for !%p
    Integer,  ///< `value`, two's complement
    Float,    ///< bits of an f32 literal (0f...) in `value`
    Double,   ///< bits of an f64 literal (0d... or decimal) in `value`
    Symbol,   ///< `name` + `value`: a variable, function, label or special register
    Address,  ///< [elements[0] + value]
    Vector,   ///< {elements...}
    List,     ///< (elements...) of a call
    Nothing,  ///< _
  };
  Kind kind = Kind::Nothing;
  int index = -1;
  uint64_t value = 0;
  std::string name;
  bool negated = false;
  std::vector<Operand> elements;
  int second = -1; ///< register behind `|` in %r1|%p1; -2: `_`
};

struct Instruction {
  int line = 0;
  std::string opcode; ///< with all modifiers: "ld.global.v4.b32"
  int guard = -1;     ///< register of the guard predicate
  bool guardNegated = false;
  std::vector<Operand> operands;
};

struct Function {
  std::string name;
  bool isEntry = false;
  bool hasBody = false;
  std::vector<Variable> results, params;
  std::vector<Variable> variables; ///< .shared, .local and .param declared in the body
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
  std::map<std::string, int> labels; ///< of the instruction that follows
  std::map<std::string, std::vector<std::string>> branchTargets;
  int maxThreads = 0;   ///< product of .maxntid or .reqntid; 0: none given
  int required[3] = {}; ///< .reqntid; zeros: none
  int line = 0;
};

struct Module {
  int target = 0; ///< 90 for sm_90
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<std::string> source; ///< lines, for messages

  const Function *function(const std::string &name) const;
  /// "line 12: add.s32 %r1, %r2;"
  std::string at(int line) const;
};

/// Parses a whole module. Throws PtxError.
Module parsePtx(const std::string &text);

} // namespace stow::sim
