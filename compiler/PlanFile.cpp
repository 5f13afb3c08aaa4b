#include "compiler/PlanFile.h"

#include "codegen/Backend.h"
#include "codegen/LinkedFile.h"
#include "codegen/SealFile.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Json.h"
#include "runtime/format/PlanJson.h"
#include "runtime/format/Program.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstring>
#include <filesystem>

using namespace llvm;

namespace stow {
namespace {

constexpr const char *expected =
    "; expected a plan as `stowage plan --format=json` writes it, or what stowage compile has "
    "written";

/// The plan of the program that a linked file carries, and its target.
PlanFile planOfObject(MemoryBufferRef buffer, const std::string &path) {
  auto orThrow = [&](auto value) {
    if (!value)
      throw Error::badInput("cannot read \"" + path + "\": " + toString(value.takeError()) +
                            expected);
    return std::move(*value);
  };
  const ElfObject file = orThrow(openLinkedFile(buffer));
  const StringRef size = orThrow(bytesAtSymbol(file, "stow_program_json_size"));
  const StringRef json = orThrow(bytesAtSymbol(file, "stow_program_json"));
  uint64_t length = 0;
  if (size.size() >= sizeof length)
    std::memcpy(&length, size.data(), sizeof length);
  if (length == 0 || json.size() < length)
    throw Error::badInput("\"" + path + "\" carries no plan" + expected);
  requireSealed(buffer);
  Program program = programFromJson({json.data(), length});
  return {std::move(program.plan), targetOfProgram(program.target), std::nullopt};
}

std::unique_ptr<MemoryBuffer> openPlanFile(const std::string &path) {
  if (std::filesystem::exists(path))
    const InputFile file(path); // which opens no pipe and no device
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    throw Error::badInput("cannot read \"" + path + "\": " + buffer.getError().message() +
                          expected);
  return std::move(*buffer);
}

std::string_view textOf(const MemoryBuffer &buffer) {
  return {buffer.getBufferStart(), buffer.getBufferSize()};
}

bool isJson(const MemoryBuffer &buffer) { return buffer.getBuffer().ltrim().starts_with("{"); }

PlanFile planOfJson(std::string_view text) {
  const Json json = parseJson(text, "plan");
  const JsonNode node(json, "plan");
  PlanFile file{planFrom(node), "", std::nullopt};
  if (node.has("verdict"))
    file.verdict = verdictFrom(node.at("verdict"));
  return file;
}

} // namespace

bool isModelFile(const std::string &path) {
  return path.ends_with(".onnx") || path.ends_with(".mlir");
}

PlanFile readPlanFile(const std::string &path) {
  const std::unique_ptr<MemoryBuffer> buffer = openPlanFile(path);
  if (!isJson(*buffer))
    return planOfObject(*buffer, path);
  try {
    return planOfJson(textOf(*buffer));
  } catch (const Error &error) {
    throw Error::badInput("cannot read \"" + path + "\": " + error.what() + expected);
  }
}

} // namespace stow
