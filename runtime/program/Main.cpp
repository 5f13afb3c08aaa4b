// The entry point of a compiled model. Its program lies in symbols that codegen emits, see
// runtime/format/Program.h.
#include "runtime/base/Error.h"
#include "runtime/program/Cli.h"

#include <cstdio>
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
}

int main(int argc, char **argv) {
  stow::Program program;
  try {
    program = stow::programFromJson({stow_program_json, stow_program_json_size});
  } catch (const stow::Error &error) {
    std::fprintf(stderr, "error: this executable is damaged: %s\n", error.what());
    return static_cast<int>(stow::ErrorKind::Internal);
  }
#ifdef __GLIBC__
  // The parsed document was several times larger than the program: what is free goes back to the
  // system before the arena is taken.
  malloc_trim(0);
#endif
  return stow::stowMain(argc, argv, program,
                        {{stow_kernels, stow_kernel_count}, {stow_constants, stow_constants_size}});
}
