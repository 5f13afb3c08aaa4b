// The entry point of a compiled model.
#include "runtime/base/Error.h"
#include "runtime/base/Signals.h"
#include "runtime/program/Cli.h"
#include "runtime/program/EmbeddedProgram.h"

#include <cstdio>

int main(int argc, char **argv) {
  stow::takeSignals();
  stow::Program program;
  try {
    program = stow::embeddedProgram();
  } catch (const stow::Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exitCode();
  }
  return stow::stowMain(argc, argv, program, stow::embeddedImage());
}
