#include "runtime/program/EmbeddedProgram.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/Seal.h"

#include <algorithm>
#include <cstdio>
#include <link.h>
#include <span>
#include <string_view>

#ifdef __GLIBC__
#include <malloc.h>
#endif

extern "C" {
extern const char stow_program_json[];
extern const uint64_t stow_program_json_size;
extern const char stow_constants[];
extern const uint64_t stow_constants_size;
extern const StowKernelFn stow_kernels[];
extern const uint64_t stow_kernel_count;
// Programs that no compiler has linked have none.
extern const volatile stow::Seal stow_seal __attribute__((weak));
// Programs for the host have none.
extern const char stow_device_code[] __attribute__((weak));
extern const uint64_t stow_device_code_size __attribute__((weak));
}

namespace stow {

namespace {

/// Where a segment of a file of the process lies.
std::string_view placeOf(const dl_phdr_info &info, const ElfW(Phdr) & header) {
  return {reinterpret_cast<const char *>(info.dlpi_addr + header.p_vaddr), header.p_filesz};
}

/// Visits the files of the process until one holds the program, this one; gives its checksum then. Nothing of the others is read: a
/// process may have mapped gigabytes that it never touches.
int sumThisFile(dl_phdr_info *info, size_t, void *sum) {
  const std::span headers(info->dlpi_phdr, info->dlpi_phnum);
  const bool isThis = std::ranges::any_of(headers, [&](const ElfW(Phdr) & header) {
    const std::string_view place = placeOf(*info, header);
    return header.p_type == PT_LOAD && stow_program_json >= place.data() &&
           stow_program_json < place.data() + place.size();
  });
  if (!isThis)
    return 0;
  uint64_t added = 0;
  for (const ElfW(Phdr) &header : headers)
    added =
        addSegment(added, {header.p_type, header.p_flags, header.p_offset, placeOf(*info, header)});
  *static_cast<uint64_t *>(sum) = added;
  return 1;
}

/// Throws unless what was loaded is what the compiler linked.
void requireSealed() {
  if (!&stow_seal)
    return;
  uint64_t found = 0;
  const uint64_t expected = stow_seal.loaded;
  if (dl_iterate_phdr(sumThisFile, &found) == 0 || found != expected) {
    char sums[64];
    std::snprintf(sums, sizeof sums, "%08llx when it was linked and is %08llx now",
                  static_cast<unsigned long long>(expected),
                  static_cast<unsigned long long>(found));
    throw Error::internal(concat("this file is damaged: its checksum was ", sums,
                                 "; compile the model again, or copy the file anew (breakpoints "
                                 "that a debugger sets before the start change it, too)"));
  }
}

} // namespace

Program embeddedProgram() {
  requireSealed();
  Program program;
  try {
    program = programFromJson({stow_program_json, stow_program_json_size});
  } catch (const Error &error) {
    throw Error::internal(std::string("this file is damaged: ") + error.what());
  }
#ifdef __GLIBC__
  // The parsed document was several times larger than the program: what is free goes back to the
  // system before the arena is taken.
  malloc_trim(0);
#endif
  return program;
}

ProgramImage embeddedImage() {
  ProgramImage image = {
      {stow_kernels, stow_kernel_count}, {stow_constants, stow_constants_size}, {}};
  if (&stow_device_code_size)
    image.deviceCode = {stow_device_code, stow_device_code_size};
  return image;
}

} // namespace stow
