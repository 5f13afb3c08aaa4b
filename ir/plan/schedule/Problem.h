// The schedule problem: a graph of ops in, an execution order with recomputation out.
//
// A training step is a list of ops, each with a cost and the values it reads and writes. Values
// live in storages. A schedule is a sequence of op runs in which every op runs at least once; an op
// may run again, so that its result need not be kept between two distant readers. The schedule
// problem asks for the cheapest sequence whose memory never exceeds a budget.
//
//   position   0    1    2    3    4    5        an op's result is live from its run to its last
//   run        a    b    c    a'   d    e        reader before the next run of the same op, both
//   value a    [----]         [---------]        positions included; `a'` is a recomputation that
//   value b         [----]                       frees a's bytes at position 2
//
//   bytes at a position = pinned storages + live storages + outputs - in-place credit + workspace
//
// Units: sizes in bytes, costs in integer cost units (`costDenominator` units make one unit of the
// source file). All ids are indices into the vectors of the Problem.
#pragma once

#include "runtime/base/Bytes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stow::schedule {

using OpId = int32_t;
using ValueId = int32_t;
using StorageId = int32_t;
using Cost = int64_t;

/// A piece of memory. A storage that is not pinned exists in as many copies as there are live runs
/// of the op that creates it (usually one).
struct Storage {
  Bytes sizeBytes = 0;
  bool pinned = false; ///< resident from the first to the last position, whoever reads it
  bool operator==(const Storage &) const = default;
};

/// A value: one version of one storage.
///  - A value without a producer exists before position 0. It cannot be recomputed. If its storage
///    is not pinned, it dies after its last reader.
///  - A value whose storage is that of an input of its producer is a view of that input, or, where
///    the producer overwrites the input, its next version. It adds no bytes of its own.
struct Value {
  std::string name;
  StorageId storage = 0;
  bool keep = false; ///< must be live at the end of the schedule
  bool operator==(const Value &) const = default;
};

/// One way to execute an op.
struct Alternative {
  Cost cost = 0;
  Bytes workspaceBytes = 0; ///< scratch that exists only while the op runs
  bool operator==(const Alternative &) const = default;
};

/// Permission to write `output` over `input` when this run is the last reader of input's storage
/// and the output is no larger: then only the larger of the two is counted while the op runs.
struct OverwriteOption {
  ValueId output = 0;
  ValueId input = 0;
  bool operator==(const OverwriteOption &) const = default;
};

/// Where an op runs. In plain schedules all ops run one after the other, whatever their lane.
///  - Out: the op copies its one input to where state lies in slow memory.
///  - In: the op copies state from there to its one output. One that is recomputable may fetch again.
///    An input without bytes stands for what lies there: an op that overwrites it comes behind every
///    fetch.
/// State that starts and ends a step in slow memory, and beside it is in fast memory only where it is
/// used, is such a pair of ops, or a fetch alone where no op changes it. Lanes.h says what it means
/// that copies run beside other ops.
enum class OpLane : int8_t { Compute, Out, In };

/// As files and messages name it: "compute", "out" or "in".
const char *wordOf(OpLane lane);

struct Op {
  std::string name;
  std::vector<ValueId> inputs;           ///< without repetition
  std::vector<ValueId> outputs;          ///< each value has at most one producer
  std::vector<Alternative> alternatives; ///< at least one
  /// Inputs destroyed by the op (an optimizer update destroys the old weights). Each must share its
  /// storage with an output. Every later reader of a destroyed version needs a new run of its
  /// producer; a version without a producer is gone for good.
  std::vector<ValueId> overwrites;
  std::vector<OverwriteOption> mayOverwrite;
  bool recomputable = true; ///< false: the op runs exactly once
  OpLane lane = OpLane::Compute;
  bool operator==(const Op &) const = default;
};

/// A whole problem. Ops are listed in an order in which each may run once (the input order).
struct Problem {
  std::string name;
  std::string costUnit = "cost";
  Cost costDenominator = 1; ///< cost units per unit of the source file
  std::vector<Storage> storages;
  std::vector<Value> values;
  std::vector<Op> ops;

  bool operator==(const Problem &) const = default;

  /// Adds a value in a new storage of its own and returns its id.
  ValueId addValue(std::string valueName, Bytes sizeBytes);
  /// Adds a value in an existing storage (a view or a next version).
  ValueId addValueIn(std::string valueName, StorageId storage);
  /// Adds a value without a producer in a new pinned storage (weights, optimizer state).
  ValueId addPinned(std::string valueName, Bytes sizeBytes);
  /// Adds an op with one alternative and returns its id.
  OpId addOp(std::string opName, Cost cost, std::vector<ValueId> inputs,
             std::vector<ValueId> outputs, Bytes workspaceBytes = 0);
  /// Whether an op runs on a lane of copies.
  bool hasLaneOps() const;

  Bytes sizeOf(ValueId value) const { return storages[values[value].storage].sizeBytes; }
  /// The op that writes each value, absent for values that exist before position 0.
  std::vector<std::optional<OpId>> producers() const;
  /// Bytes of all pinned storages.
  Bytes pinnedBytes() const;
  /// The cost of running every op once in its cheapest alternative: no schedule takes less.
  Cost leastTime() const;
};

/// One execution of an op.
struct Run {
  OpId op = 0;
  int32_t alternative = 0;
  bool operator==(const Run &) const = default;
};

/// A schedule: runs in order of execution.
struct Solution {
  std::vector<Run> runs;
  bool operator==(const Solution &) const = default;
};

/// Checks that a problem is well formed: ids in range, sizes and costs not negative and their sums
/// representable, one producer per value, overwrites and overwrite options consistent, and the
/// input order legal. Throws Error(BadInput) naming the op or value at fault.
void check(const Problem &problem);

/// Every op once, in input order, in its cheapest alternative (the one with less workspace if two
/// cost the same).
Solution inputOrder(const Problem &problem);

/// The same problem with copies in place of overwrites: every output that continues an input which
/// is overwritten gets a storage of its own, and so do its own views and versions. Overwrites in
/// pinned storages stay. A schedule of the result may keep versions that the given problem does not
/// have any more.
Problem withoutOverwrites(const Problem &problem);

/// The cheapest alternative of an op; ties go to less workspace, then to the lower index.
int32_t cheapestAlternative(const Op &op);

} // namespace stow::schedule
