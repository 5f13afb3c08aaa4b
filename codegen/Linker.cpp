// Runs a compiler driver as linker.
#include "codegen/Linker.h"

#include "codegen/SealFile.h"
#include "codegen/TemporaryFolder.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <filesystem>
#include <fstream>

namespace stow {
namespace {

struct Driver {
  std::string path;
  std::vector<std::string> flags;
};

/// The first driver of the configured list that is there, with lld where it can be used.
Driver findDriver() {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(STOWAGE_LINKER_DRIVERS).split(names, ',');
  std::string lld;
  if (auto found = llvm::sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"}))
    lld = *found;
  for (llvm::StringRef name : names) {
    auto found = llvm::sys::findProgramByName(name);
    if (!found)
      continue;
    Driver driver{*found, {}};
    if (!lld.empty()) // -B: g++ looks for ld.lld beside its own tools only
      driver.flags = {"-fuse-ld=lld", "-B" + llvm::sys::path::parent_path(lld).str()};
    return driver;
  }
  throw Error(ErrorKind::BadInput, "no linker found, looked for " + llvm::join(names, ", ") +
                                       "; install one, e.g. apt-get install g++");
}

std::string readAll(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().trim().str() : std::string();
}

/// Keeps all symbols but those of the pattern inside the library. An inner call never leaves it
/// then, whatever else the process has loaded.
void writeVersionScript(const std::string &visible, const std::string &path) {
  std::ofstream file(path);
  file << "{ global: " << visible << "; local: *; };\n";
  if (!file.flush())
    throw Error(ErrorKind::BadInput, "cannot write \"" + path + "\"");
}

/// Throws when a failed link is explained by a disk without room for the output. lld maps its
/// output, so that a full disk ends it with a bus error and not with a message.
void requireRoom(const LinkInput &input, const std::string &output) {
  uint64_t needed = 0; // what is linked, which is what is written but for headers
  for (const std::string &object : input.objects) {
    uint64_t size = 0;
    if (!llvm::sys::fs::file_size(object, size))
      needed += size;
  }
  llvm::StringRef folder = llvm::sys::path::parent_path(output);
  auto space = llvm::sys::fs::disk_space(folder.empty() ? "." : folder);
  if (space && space->available < needed)
    throw Error::badInput("cannot write \"" + output + "\": no space left on device; about " +
                          formatBytes(static_cast<Bytes>(needed)) + " are needed and " +
                          formatBytes(static_cast<Bytes>(space->available)) +
                          " are free; free some or choose another folder with -o");
}

} // namespace

void link(const LinkInput &input, const std::string &output) {
  Driver driver = findDriver();
  // The linker has a temporary file of its own beside its output, which it leaves when it crashes.
  const std::filesystem::path parent = std::filesystem::path(output).parent_path();
  TemporaryFolder folder, beside(parent.empty() ? "." : parent);
  const std::string partial = beside.file("linked");
  const std::string messages = folder.file("messages");
  std::vector<std::string> arguments{driver.path};
  llvm::append_range(arguments, driver.flags);
  arguments.push_back(input.shared ? "-shared" : "-pie");
  if (!std::string_view(STOWAGE_SANITIZE).empty()) // which the runtime's archive calls
    arguments.push_back("-fsanitize=" STOWAGE_SANITIZE);
  arguments.insert(arguments.end(),
                   {"-o", partial, "-Wl,--gc-sections", "-Wl,--as-needed", "-Wl,--build-id=none"});
  if (!input.visible.empty()) {
    writeVersionScript(input.visible, folder.file("version-script"));
    arguments.push_back("-Wl,--version-script=" + folder.file("version-script"));
  }
  if (!input.entry.empty())
    arguments.push_back("-Wl,--undefined=" + input.entry);
  for (const std::string &pattern : input.exported)
    arguments.push_back("-Wl,--export-dynamic-symbol=" + pattern);
  llvm::append_range(arguments, input.objects);
  llvm::append_range(arguments, input.libraries);

  llvm::SmallVector<llvm::StringRef> references(arguments.begin(), arguments.end());
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, messages, messages};
  std::string failure;
  int status =
      llvm::sys::ExecuteAndWait(driver.path, references, std::nullopt, redirects, 0, 0, &failure);
  if (status != 0) {
    requireRoom(input, output);
    throw Error(ErrorKind::BadInput, "linking \"" + output + "\" with " + driver.path +
                                         " failed: " + failure + readAll(messages));
  }
  sealFile(partial);
  llvm::sys::fs::setPermissions(partial, llvm::sys::fs::all_exe | llvm::sys::fs::all_read |
                                             llvm::sys::fs::owner_write);
  if (auto error = llvm::sys::fs::rename(partial, output))
    throw Error(ErrorKind::BadInput, "cannot write \"" + output + "\": " + error.message());
}

} // namespace stow
