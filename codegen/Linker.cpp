// Runs a compiler driver as linker, or the linker that a wheel's compiler has inside.
#include "codegen/Linker.h"

#include "codegen/BundledLinker.h"
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

/// What joins the files: flags that only a linker knows reach it through a driver as -Wl,FLAG.
struct Driver {
  std::string path, name; ///< what is run, and as what
  std::string toLinker;   ///< before a linker's flag
  std::vector<std::string> flags, last;
};

/// The linker inside this program (BundledLinker.h), with the start files, libraries and system stubs of `folder`. What it links finds
/// oneDNN where this program is installed, or beside itself, and NVIDIA's libraries where pip puts them.
Driver bundledDriver(const std::string &self, const std::string &folder, bool shared) {
  const std::filesystem::path libraries = std::filesystem::path(folder).parent_path();
  const std::filesystem::path packages = libraries.parent_path().parent_path().parent_path();
  std::string search = libraries.string() + ":$ORIGIN";
  for (const char *nvidia : {"cudnn", "cu13"})
    search += ":" + (packages / "nvidia" / nvidia / "lib").string();
  auto file = [&](const char *name) { return folder + "/" + name; };
  Driver driver{self, kBundledLinkerName, "", {"-m", "elf_x86_64", "--eh-frame-hdr"}, {}};
  if (!shared)
    driver.flags.insert(driver.flags.end(),
                        {"--dynamic-linker", "/lib64/ld-linux-x86-64.so.2", file("Scrt1.o")});
  driver.flags.insert(driver.flags.end(),
                      {file("crti.o"), file("crtbeginS.o"), "-L" + folder,
                       "-L" + libraries.string(), "-rpath", search, "-z", "relro"});
  driver.last = {"-lstowage_glibc", "-lgcc", "-lgcc_eh", "-lc", file("crtendS.o"), file("crtn.o")};
  return driver;
}

/// The linker of a wheel, which has what links take in lib/link beside the bin/ this program runs from; elsewhere the first driver of
/// the configured list that is there, with lld where it can be used.
Driver findDriver(bool shared) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path bundle = self.parent_path().parent_path() / "lib" / "link";
  if (std::filesystem::exists(bundle))
    return bundledDriver(self, bundle, shared);
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(STOWAGE_LINKER_DRIVERS).split(names, ',');
  std::string lld;
  if (auto found = llvm::sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"}))
    lld = *found;
  for (llvm::StringRef name : names) {
    auto found = llvm::sys::findProgramByName(name);
    if (!found)
      continue;
    Driver driver{*found, *found, "-Wl,", {}, {}};
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
  const Driver driver = findDriver(input.shared);
  auto toLinker = [&](const std::string &flag) { return driver.toLinker + flag; };
  // The linker has a temporary file of its own beside its output, which it leaves when it crashes.
  const std::filesystem::path parent = std::filesystem::path(output).parent_path();
  TemporaryFolder folder, beside(parent.empty() ? "." : parent);
  const std::string partial = beside.file("linked");
  const std::string messages = folder.file("messages");
  std::vector<std::string> arguments{driver.name};
  llvm::append_range(arguments, driver.flags);
  arguments.push_back(input.shared ? "-shared" : "-pie");
  if (!input
           .shared) // or a table that is written later lies behind the interpreter's path (SealFile.h)
    arguments.insert(arguments.end(), {toLinker("-z"), toLinker("now")});
  if (!std::string_view(STOWAGE_SANITIZE).empty()) // which the runtime's archive calls
    arguments.push_back("-fsanitize=" STOWAGE_SANITIZE);
  arguments.insert(arguments.end(), {"-o", partial, toLinker("--gc-sections"),
                                     toLinker("--as-needed"), toLinker("--build-id=none")});
  // A wheel's executables have a C++ library of their own, which oneDNN is not to find beside that of the machine.
  const bool hides = !driver.last.empty() && !input.exported.empty();
  const std::string visible = hides ? llvm::join(input.exported, "; ") : input.visible;
  if (!visible.empty()) {
    writeVersionScript(visible, folder.file("version-script"));
    arguments.push_back(toLinker("--version-script=" + folder.file("version-script")));
  }
  if (!input.entry.empty())
    arguments.push_back(toLinker("--undefined=" + input.entry));
  for (const std::string &pattern : input.exported)
    arguments.push_back(toLinker("--export-dynamic-symbol=" + pattern));
  llvm::append_range(arguments, input.objects);
  llvm::append_range(arguments, input.libraries);
  llvm::append_range(arguments, driver.last);

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
