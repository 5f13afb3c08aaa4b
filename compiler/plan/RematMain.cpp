// `stowage remat` alone, for builds of the planner without MLIR.
#include "compiler/plan/RematCommand.h"

int main(int argc, char **argv) { return stow::runRematCommand(argc, argv); }
