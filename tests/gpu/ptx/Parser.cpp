// Recursive descent over the directives and instructions that compilers write.
#include "runtime/base/Concat.h"
#include "tests/gpu/ptx/Lexer.h"
#include "tests/gpu/ptx/Module.h"

#include <algorithm>
#include <sstream>

namespace stow::sim {
namespace {

/// Bits of a fundamental type ".b32"; 0 for no type.
int bitsOfType(const std::string &type) {
  static const std::map<std::string, int> bits = {
      {".pred", 1}, {".b8", 8},     {".u8", 8},    {".s8", 8},     {".b16", 16},
      {".u16", 16}, {".s16", 16},   {".f16", 16},  {".b32", 32},   {".u32", 32},
      {".s32", 32}, {".f32", 32},   {".b64", 64},  {".u64", 64},   {".s64", 64},
      {".f64", 64}, {".b128", 128}, {".bf16", 16}, {".f16x2", 32}, {".bf16x2", 32}};
  auto found = bits.find(type);
  return found == bits.end() ? 0 : found->second;
}

std::optional<Space> spaceOf(const std::string &name) {
  if (name == ".global")
    return Space::Global;
  if (name == ".shared")
    return Space::Shared;
  if (name == ".local")
    return Space::Local;
  if (name == ".const")
    return Space::Const;
  if (name == ".param")
    return Space::Param;
  return std::nullopt;
}

/// Reads tokens one after the other; what is not as expected is an error at its line.
class TokenReader {
protected:
  explicit TokenReader(const std::string &text) : tokens(lexPtx(text)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      module.source.push_back(line);
  }

  const Token &look(size_t ahead = 0) const {
    return tokens[std::min(at + ahead, tokens.size() - 1)];
  }
  const Token &take() { return tokens[at < tokens.size() - 1 ? at++ : at]; }
  bool isSign(char sign, size_t ahead = 0) const {
    return look(ahead).kind == Token::Kind::Sign && look(ahead).text[0] == sign;
  }
  bool takeSign(char sign) { return isSign(sign) ? (++at, true) : false; }
  bool takeName(const char *name) {
    return look().kind == Token::Kind::Name && look().text == name ? (++at, true) : false;
  }
  void expect(char sign) {
    if (!takeSign(sign))
      fail(std::string("expected '") + sign + "', found '" + look().text + "'");
  }
  std::string takeAnyName() {
    if (look().kind != Token::Kind::Name)
      fail("expected a name, found '" + look().text + "'");
    return take().text;
  }
  uint64_t takeInteger() {
    bool negative = takeSign('-');
    if (look().kind != Token::Kind::Integer)
      fail("expected a number, found '" + look().text + "'");
    uint64_t value = take().value;
    return negative ? 0 - value : value;
  }
  [[noreturn]] void fail(const std::string &why) const {
    throw PtxError("PTX " + module.at(look().line) + ": " + why);
  }
  void skipTo(char sign) {
    while (!takeSign(sign))
      if (take().kind == Token::Kind::End)
        fail(std::string("expected '") + sign + "'");
  }
  void skipSection() {
    while (!isSign('{') && look().kind != Token::Kind::End)
      ++at;
    while (!isSign('}') && look().kind != Token::Kind::End)
      ++at;
    expect('}');
  }
  void skipLine() {
    for (int line = look().line; look().line == line && look().kind != Token::Kind::End;)
      ++at;
  }

  std::vector<Token> tokens;
  size_t at = 0;
  Module module;
};

/// The registers of nested scopes.
class Scopes {
public:
  void restart() { scopes.assign(1, {}); }
  void open() { scopes.push_back({{}, ++scopeCount}); }
  void close() { scopes.pop_back(); }
  bool areNested() const { return scopes.size() > 1; }

  /// A label of the innermost scope, whose name other scopes may have, too.
  std::string labelHere(const std::string &name) const {
    return areNested() ? concat(name, "@", scopes.back().number) : name;
  }
  void define(const std::string &name, int number) { scopes.back().registers[name] = number; }
  int find(const std::string &name) const {
    for (size_t i = scopes.size(); i-- > 0;) {
      auto found = scopes[i].registers.find(name);
      if (found != scopes[i].registers.end())
        return found->second;
    }
    return -1;
  }
  /// From the innermost on, without the function's own.
  std::vector<int> numbers() const {
    std::vector<int> numbers;
    for (size_t i = scopes.size(); i-- > 1;)
      numbers.push_back(scopes[i].number);
    return numbers;
  }

private:
  struct Scope {
    std::map<std::string, int> registers;
    int number = 0;
  };
  std::vector<Scope> scopes;
  int scopeCount = 0;
};

/// A label that was used before it was known which one it is.
struct Pending {
  size_t instruction;
  long operand;
  std::vector<int> scopes;
};

class Parser : TokenReader {
public:
  explicit Parser(const std::string &text) : TokenReader(text) {}

  Module run() {
    while (look().kind != Token::Kind::End)
      directive();
    return std::move(module);
  }

private:
  //===-- directives --------------------------------------------------------------------------===//

  void directive() {
    if (takeName(".version"))
      return skipLine();
    if (takeName(".target")) {
      std::string name = takeAnyName();
      size_t digit = name.find_first_of("0123456789");
      if (name.rfind("sm_", 0) != 0 || digit == std::string::npos)
        fail("the target " + name + " is no sm_...");
      module.target = atoi(name.c_str() + digit);
      return skipLine();
    }
    if (takeName(".address_size")) {
      if (takeInteger() != 64)
        fail("addresses must have 64 bits");
      return;
    }
    if (look().text == ".file" || look().text == ".loc")
      return skipLine();
    if (takeName(".section"))
      return skipSection();
    linked();
  }

  /// A variable or function behind its linkage.
  void linked() {
    bool isExtern = false;
    for (;;) {
      if (takeName(".extern"))
        isExtern = true;
      else if (!takeName(".visible") && !takeName(".weak") && !takeName(".common"))
        break;
    }
    if (takeName(".entry") || takeName(".func")) {
      bool isEntry = tokens[at - 1].text == ".entry";
      return function(isEntry, isExtern);
    }
    if (auto space = spaceOf(look().text)) {
      ++at;
      do
        module.variables.push_back(variable(*space, isExtern));
      while (takeSign(','));
      return expect(';');
    }
    fail("the directive " + look().text + " is not known");
  }

  //===-- variables ---------------------------------------------------------------------------===//

  /// Behind the space: attributes, type, name, dimensions, initial value.
  Variable variable(Space space, bool isExtern) {
    Variable result;
    result.space = space, result.isExtern = isExtern, result.line = look().line;
    int bits = 0;
    uint64_t align = 0, vector = 1;
    for (;;) {
      if (takeName(".align"))
        align = takeInteger();
      else if (takeName(".v2"))
        vector = 2;
      else if (takeName(".v4"))
        vector = 4;
      else if (takeName(".ptr")) // what a parameter points to
        while (look().kind == Token::Kind::Name && look().text[0] == '.') {
          if (take().text == ".align")
            takeInteger();
        }
      else if (takeName(".attribute")) {
        expect('(');
        while (!takeSign(')'))
          ++at;
      } else if (int found = bitsOfType(look().text))
        bits = found, ++at;
      else
        break;
    }
    if (bits < 8)
      fail("a variable needs a type of bytes, found '" + look().text + "'");
    result.name = takeAnyName();
    uint64_t count = 1, element = bits / 8;
    while (takeSign('[')) {
      count *= isSign(']') ? 0 : takeInteger();
      expect(']');
    }
    result.bytes = count * element * vector;
    result.align = align ? align : element * vector;
    if (takeSign('=')) {
      initialValue(result, element);
      result.bytes = std::max<uint64_t>(result.bytes, result.initial.size());
      result.initial.resize(result.bytes);
    }
    return result;
  }

  void initialValue(Variable &variable, uint64_t element) {
    if (takeSign('{')) {
      if (!isSign('}'))
        do
          initialValue(variable, element);
        while (takeSign(','));
      return expect('}');
    }
    uint64_t bits = 0;
    if (look().kind == Token::Kind::Name) {
      std::string name = takeAnyName();
      bool wrapped = name == "generic" && takeSign('(');
      if (wrapped)
        name = takeAnyName();
      Relocation relocation{variable.initial.size(), name, 0};
      if (wrapped)
        expect(')');
      if (takeSign('+'))
        relocation.addend = static_cast<int64_t>(takeInteger());
      if (element != 8)
        fail(concat("an address needs 8 bytes, not ", element));
      variable.relocations.push_back(relocation);
    } else if (look().kind == Token::Kind::Integer || isSign('-'))
      bits = takeInteger();
    else if (look().kind == Token::Kind::Float || look().kind == Token::Kind::Double)
      bits = take().value;
    else
      fail("expected an initial value, found '" + look().text + "'");
    for (uint64_t i = 0; i < element; ++i)
      variable.initial.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }

  //===-- functions ---------------------------------------------------------------------------===//

  std::vector<Variable> parameters() {
    std::vector<Variable> result;
    expect('(');
    while (!takeSign(')')) {
      if (takeName(".reg"))
        fail("parameters in registers are not understood");
      if (!takeName(".param"))
        fail("expected .param, found '" + look().text + "'");
      result.push_back(variable(Space::Param, false));
      takeSign(',');
    }
    return result;
  }

  void function(bool isEntry, bool isExtern) {
    current = Function();
    current.isEntry = isEntry, current.line = look().line;
    if (isSign('('))
      current.results = parameters();
    current.name = takeAnyName();
    if (isSign('('))
      current.params = parameters();
    while (!isSign('{') && !isSign(';'))
      tuning();
    if (takeSign(';')) {
      current.hasBody = false;
    } else {
      current.hasBody = true;
      expect('{');
      scopes.restart();
      while (!isSign('}'))
        statement();
      expect('}');
      resolveLabels();
    }
    // A declaration is followed by the definition, or not.
    auto same = [&](const Function &other) { return other.name == current.name; };
    auto known = std::find_if(module.functions.begin(), module.functions.end(), same);
    if (known == module.functions.end())
      module.functions.push_back(std::move(current));
    else if (current.hasBody)
      *known = std::move(current);
  }

  void tuning() {
    std::string name = takeAnyName();
    if (name == ".maxntid" || name == ".reqntid") {
      int extents[3] = {1, 1, 1}, count = 0;
      do
        extents[std::min(count++, 2)] = static_cast<int>(takeInteger());
      while (takeSign(','));
      current.maxThreads = extents[0] * extents[1] * extents[2];
      if (name == ".reqntid")
        std::copy(extents, extents + 3, current.required);
    } else if (name == ".minnctapersm" || name == ".maxnreg" || name == ".maxnctapersm") {
      takeInteger();
    } else if (name == ".pragma") {
      skipTo(';');
    } else if (name != ".noreturn" && name != ".blocksareclusters")
      fail("the directive " + name + " of a function is not known");
  }

  //===-- statements --------------------------------------------------------------------------===//

  void statement() {
    const Token &token = look();
    if (takeSign('{')) {
      scopes.open();
      while (!isSign('}')) {
        if (look().kind == Token::Kind::End)
          fail("expected '}'");
        statement();
      }
      scopes.close();
      return expect('}');
    }
    if (takeSign(';'))
      return;
    if (token.text == ".reg")
      return registers();
    if (token.text == ".loc" || token.text == ".file")
      return skipLine();
    if (takeName(".pragma"))
      return skipTo(';');
    if (auto space = spaceOf(token.text); space && token.kind == Token::Kind::Name) {
      ++at;
      do
        current.variables.push_back(variable(*space, false));
      while (takeSign(','));
      return expect(';');
    }
    if (token.kind == Token::Kind::Name && isSign(':', 1))
      return label();
    instruction();
  }

  void label() {
    std::string name = takeAnyName();
    expect(':');
    if (takeName(".branchtargets")) {
      std::vector<std::string> &targets = current.branchTargets[name];
      do
        targets.push_back(takeAnyName());
      while (takeSign(','));
      return expect(';');
    }
    if (takeName(".callprototype") || takeName(".calltargets"))
      return skipTo(';');
    if (!current.labels
             .emplace(scopes.labelHere(name), static_cast<int>(current.instructions.size()))
             .second)
      fail("the label " + name + " is defined twice");
  }

  void registers() {
    takeName(".reg");
    int bits = bitsOfType(takeAnyName());
    if (bits == 0)
      fail("the register type " + tokens[at - 1].text + " is not known");
    do {
      std::string name = takeAnyName();
      if (takeSign('<')) {
        uint64_t count = takeInteger();
        expect('>');
        for (uint64_t i = 0; i < count; ++i)
          defineRegister(concat(name, i), bits);
      } else {
        defineRegister(name, bits);
      }
    } while (takeSign(','));
    expect(';');
  }

  void defineRegister(const std::string &name, int bits) {
    scopes.define(name, static_cast<int>(current.registers.size()));
    current.registers.push_back({name, bits});
  }

  void instruction() {
    Instruction instruction;
    if (takeSign('@')) {
      instruction.guardNegated = takeSign('!');
      instruction.guard = scopes.find(takeAnyName());
      if (instruction.guard < 0)
        fail("the guard " + tokens[at - 1].text + " is no register");
    }
    instruction.line = look().line;
    instruction.opcode = takeAnyName();
    if (instruction.opcode[0] == '.' || instruction.opcode[0] == '%')
      fail("the statement " + instruction.opcode + " is not known");
    if (!isSign(';'))
      do
        instruction.operands.push_back(operand());
      while (takeSign(','));
    expect(';');
    bool branches = instruction.opcode.rfind("bra", 0) == 0;
    if (branches)
      for (Operand &target : instruction.operands)
        pending.push_back(
            {current.instructions.size(), &target - &instruction.operands[0], scopes.numbers()});
    current.instructions.push_back(std::move(instruction));
  }

  /// Labels may be used before they are defined: the innermost scope that has the name wins.
  void resolveLabels() {
    for (const Pending &use : pending) {
      Operand &target = current.instructions[use.instruction].operands[use.operand];
      for (int number : use.scopes)
        if (current.labels.count(concat(target.name, "@", number))) {
          append(target.name, "@", number);
          break;
        }
    }
    pending.clear();
  }

  //===-- operands ----------------------------------------------------------------------------===//

  Operand operand() {
    Operand result;
    if (takeSign('{')) {
      result.kind = Operand::Kind::Vector;
      do
        result.elements.push_back(operand());
      while (takeSign(','));
      expect('}');
      return result;
    }
    if (takeSign('(')) {
      result.kind = Operand::Kind::List;
      while (!takeSign(')')) {
        result.elements.push_back(operand());
        takeSign(',');
      }
      return result;
    }
    if (takeSign('[')) {
      result.kind = Operand::Kind::Address;
      result.elements.push_back(operand());
      if (takeSign('+'))
        result.value = takeInteger();
      // An address that begins with a number or symbol has its offset inside already.
      expect(']');
      return result;
    }
    bool negated = takeSign('!');
    result = simpleOperand();
    result.negated = negated;
    return result;
  }

  Operand simpleOperand() {
    Operand result;
    if (look().kind == Token::Kind::Name) {
      result.name = take().text;
      if (result.name == "_")
        return result;
      if (result.name == "WARP_SZ") {
        result.kind = Operand::Kind::Integer, result.value = 32;
        return result;
      }
      result.index = scopes.find(result.name);
      result.kind = result.index >= 0 ? Operand::Kind::Register : Operand::Kind::Symbol;
      if (takeSign('|')) {
        std::string name = takeAnyName();
        result.second = name == "_" ? -2 : scopes.find(name);
        if (result.second == -1)
          fail("the register " + name + " is not declared");
      }
      if (result.kind == Operand::Kind::Symbol && isSign('+') &&
          look(1).kind == Token::Kind::Integer)
        ++at, result.value = takeInteger();
      return result;
    }
    bool negative = takeSign('-');
    const Token &token = take();
    result.value = token.value;
    if (token.kind == Token::Kind::Integer) {
      result.kind = Operand::Kind::Integer;
      result.value = negative ? 0 - token.value : token.value;
    } else if (token.kind == Token::Kind::Float) {
      result.kind = Operand::Kind::Float;
      result.value ^= negative ? uint64_t{1} << 31 : 0;
    } else if (token.kind == Token::Kind::Double) {
      result.kind = Operand::Kind::Double;
      result.value ^= negative ? uint64_t{1} << 63 : 0;
    } else {
      fail("expected an operand, found '" + token.text + "'");
    }
    return result;
  }

  Function current;
  Scopes scopes;
  std::vector<Pending> pending;
};

} // namespace

const Function *Module::function(const std::string &name) const {
  for (const Function &function : functions)
    if (function.name == name)
      return &function;
  return nullptr;
}

std::string Module::at(int line) const {
  std::string text = line >= 1 && line <= static_cast<int>(source.size()) ? source[line - 1] : "";
  size_t first = text.find_first_not_of(" \t");
  size_t last = text.find_last_not_of(" \t\r");
  text = first == std::string::npos ? "" : text.substr(first, last - first + 1);
  for (char &c : text)
    c = c == '\t' ? ' ' : c;
  return concat("line ", line, ": ", text);
}

Module parsePtx(const std::string &text) { return Parser(text).run(); }

} // namespace stow::sim
