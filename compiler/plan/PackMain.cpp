// `stowage pack` alone, for builds of the planner without MLIR.
#include "compiler/plan/PackCommand.h"

int main(int argc, char **argv) { return stow::runPackCommand(argc, argv); }
