// `stowage remat` alone, for builds of the planner without MLIR.
#include "compiler/plan/RematCommand.h"
#include "compiler/plan/StandAlone.h"

int main(int argc, char **argv) { return stow::runAlone(argc, argv, stow::rematCommand); }
