#include "runtime/program/EmbeddedProgram.h"

#include "runtime/base/Error.h"

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
// Programs for the host have none.
extern const char stow_device_code[] __attribute__((weak));
extern const uint64_t stow_device_code_size __attribute__((weak));
}

namespace stow {

Program embeddedProgram() {
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
