// Problems and schedules as JSON.
//
// A problem (`print`, `parse`):
//   {"stowage": "schedule-problem", "version": 1, "name": "...",
//    "cost_unit": "us", "cost_denominator": 1,
//    "storages": [{"bytes": 4096, "pinned": true}, ...],
//    "values":   [{"name": "w", "storage": 0, "keep": true}, ...],
//    "ops":      [{"name": "conv", "inputs": [0], "outputs": [1],
//                  "alternatives": [{"cost": 12, "workspace": 0}, ...],
//                  "overwrites": [], "may_overwrite": [[output, input], ...],
//                  "recomputable": true, "lane": "in"}, ...]}
// `pinned`, `keep`, `workspace`, `overwrites`, `may_overwrite`, `recomputable` and `lane` ("in" or
// "out": copies of state that lies in slow memory) may be left out;
// `"cost": 12` and `"workspace": 0` on the op itself stand for a single alternative. Ids are
// indices. Ops are in input order. Costs are integers; `cost_denominator` of them make one
// `cost_unit`.
//
// Published graphs in networkx node-link form are read as well: one op and one value per node, which
// edges call by `id`; where no node has one, by `name` if all names differ, or by position;
// `cost_cpu`/`cost_ram` or `duration`/`out_cost` per node, edges under `links` or `edges` as
// {"source", "target"}, {"0", "1"} or [from, to], an input order under `graph.order` (otherwise the
// order of the nodes, or, where that is not topological, the least topological order by node
// index). Fractional costs are scaled to integers by a power of ten of at most 10^9, which is the
// `cost_denominator`; fractions of a byte round up. Ops are named after `name`, with the id where
// several nodes have one name, or after the id.
//
// With slow memory (Lanes.h) a problem has one more member; `per_cost` (1), `latency` (0) and `stay`
// (none) may be left out:
//    "lanes": {"slow_bytes": 68719476736, "out": {"bandwidth": 32, "per_cost": 1, "latency": 10},
//              "in": {"bandwidth": 32}, "stay": [storage, ...]}
//
// A schedule (`printSolution`, `parseSolution`):
//   {"stowage": "schedule", "version": 1, "problem": "...",
//    "time": 31, "cost_denominator": 1, "peak_bytes": 8192,
//    "ops": ["conv", ...],
//    "runs": [[op, alternative], ...]}
// `runs` counts ops in the problem's input order, as `ops` lists their names. One with copies has
// "steps" in place of "runs", and "values", which their numbers count:
//    "steps": [["run", op, alternative], ["out", value], ["await-out", value], ["in", value],
//              ["await-in", value], ...]
#pragma once

#include "ir/plan/schedule/Lanes.h"

#include <string_view>

namespace stow::schedule {

/// The problem as JSON, one op per line, byte for byte the same for equal problems.
std::string print(const Problem &problem);

/// Reads either form and checks it. Throws Error(BadInput) that names line and column, or the JSON
/// path of the element at fault, and for a file with lanes; `source` (a file name) opens the message.
Problem parse(std::string_view text, const std::string &source = "input");

/// The same with lanes.
std::string print(const Problem &problem, const Lanes &lanes);

/// A problem and, where the file has them, its lanes; both checked.
struct ProblemFile {
  Problem problem;
  std::optional<Lanes> lanes;
};

/// Reads a problem with or without lanes. Throws Error(BadInput).
ProblemFile parseFile(std::string_view text, const std::string &source = "input");

/// The schedule as JSON, with the time and peak that `verify` recounts.
std::string printSolution(const Problem &problem, const Solution &solution);

/// Reads a schedule for `problem`; op and alternative must exist. Throws Error(BadInput).
Solution parseSolution(std::string_view text, const Problem &problem,
                       const std::string &source = "input");

/// The same for schedules with copies.
std::string printSolution(const Problem &problem, const Lanes &lanes, const LaneSolution &solution);
LaneSolution parseLaneSolution(std::string_view text, const Problem &problem,
                               const std::string &source = "input");

} // namespace stow::schedule
