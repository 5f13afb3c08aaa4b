// `stowage remat`: schedules a bare graph under a memory budget, without a model around it.
//
//   stowage remat graph.json --memory-budget=70%|BYTES [-o schedule.json]
//                 [--prove[=SECONDS]] [--method=auto|cut|sqrt|rotor] [--effort=X]
//                 [--bandwidth=X] [--latency=X] [--slow-memory=SIZE] [--format=text|json]
//   stowage remat graph.json --frontier
//
// The graph is a schedule problem or a published networkx graph (ir/plan/schedule/Json.h); `-`
// reads standard input. A percentage is of the peak of the input order. Rotor (on unit chains:
// Revolve) needs a chain. A file with lanes (ir/plan/schedule/Lanes.h), and any with --bandwidth, is
// planned with copies to slow memory.
#pragma once

#include "runtime/base/CommandLine.h"

namespace stow {

/// Declares the command on `line`, which outlives what is returned: the command itself. It prints
/// the report to standard output and the reason of a failure to standard error, and returns the exit
/// code: 0 planned, 2 infeasible or nothing found within the budget. Throws Error for the rest.
std::function<int()> rematCommand(CommandLine &line);

} // namespace stow
