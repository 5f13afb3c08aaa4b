// `stowage inspect`: reads the plan out of an executable, without running it.
#include "compiler/Commands.h"
#include "runtime/base/Error.h"
#include "runtime/format/PlanReport.h"
#include "runtime/format/Program.h"

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Object/ObjectFile.h"

#include <cstdio>
#include <cstring>

using namespace llvm;

namespace stow {
namespace {

/// The bytes from the symbol's address to the end of its section, or nothing.
StringRef bytesAtSymbol(const object::ObjectFile &file, StringRef wanted) {
  for (const object::SymbolRef &symbol : file.symbols()) {
    Expected<StringRef> name = symbol.getName();
    Expected<uint64_t> address = symbol.getAddress();
    Expected<object::section_iterator> section = symbol.getSection();
    if (!name || !address || !section) {
      consumeError(name.takeError());
      consumeError(address.takeError());
      consumeError(section.takeError());
      continue;
    }
    if (*name != wanted || *section == file.section_end())
      continue;
    Expected<StringRef> contents = (*section)->getContents();
    if (!contents) {
      consumeError(contents.takeError());
      return {};
    }
    uint64_t offset = *address - (*section)->getAddress();
    return offset <= contents->size() ? contents->substr(offset) : StringRef();
  }
  return {};
}

/// The program that the executable at `path` carries.
Program readProgram(const std::string &path) {
  std::string advice = "; expected an executable that stowage compile has written";
  Expected<object::OwningBinary<object::ObjectFile>> file =
      object::ObjectFile::createObjectFile(path);
  if (!file)
    throw Error::badInput("cannot read \"" + path + "\": " + toString(file.takeError()) + advice);
  StringRef size = bytesAtSymbol(*file->getBinary(), "stow_program_json_size");
  StringRef json = bytesAtSymbol(*file->getBinary(), "stow_program_json");
  uint64_t length = 0;
  if (size.size() >= sizeof length)
    std::memcpy(&length, size.data(), sizeof length);
  if (length == 0 || json.size() < length)
    throw Error::badInput("\"" + path + "\" carries no plan" + advice);
  return programFromJson({json.data(), length});
}

} // namespace

int inspectCommand(const std::vector<std::string> &arguments) {
  std::vector<std::string> words = arguments;
  std::string path, format = takePlanFormat(words);
  for (const std::string &word : words)
    if (word.starts_with("-"))
      throw Error::badInput("unknown flag \"" + word + "\"; known is --format=text|json|csv");
    else if (path.empty())
      path = word;
    else
      throw Error::badInput("two executables given: \"" + path + "\" and \"" + word + "\"");
  if (path.empty())
    throw Error::badInput("no executable given; expected one that stowage compile has written");
  printPlan(readProgram(path).plan, format);
  return 0;
}

} // namespace stow
