// `stowage remat`: schedules a bare graph under a memory budget, without a model around it.
//
//   stowage remat graph.json --memory-budget=70%|BYTES [-o schedule.json]
//                 [--prove[=SECONDS]] [--method=auto|cut|sqrt|rotor] [--effort=X]
//                 [--format=text|json]
//   stowage remat graph.json --frontier
//
// The graph is a schedule problem or a published networkx graph (ir/plan/schedule/Json.h); `-`
// reads standard input. A percentage is of the peak of the input order. Rotor (on unit chains:
// Revolve) needs a chain.
#pragma once

namespace stow {

/// Runs the command on its arguments (argv[0] is the command's name). Prints the report to standard
/// output and errors to standard error. Returns the exit code: 0 planned, 1 bad input, 2 infeasible
/// or nothing found within the budget, 3 internal.
int runRematCommand(int argc, char **argv);

} // namespace stow
