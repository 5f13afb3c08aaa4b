// `stowage pack` alone, for builds of the planner without MLIR.
#include "compiler/plan/PackCommand.h"
#include "compiler/plan/StandAlone.h"

int main(int argc, char **argv) { return stow::runAlone(argc, argv, stow::packCommand); }
