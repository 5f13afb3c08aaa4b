// Three steps: what the bytes of every value are, the pieces that all readers divide them into, and
// the problem over these pieces.
#include "passes/order/RelaxedProblem.h"

#include "ir/Stow.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/order/Contents.h"
#include "passes/order/ScheduleProblem.h"

#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

class Builder {
public:
  Builder(func::FuncOp graph, Contents &contents, const CostModel &costs, Bytes alignment)
      : graph(graph), contents(contents), costs(costs), alignment(alignment) {}

  schedule::Problem build() {
    problem.name = graph.getSymName().str();
    problem.costUnit = "s";
    problem.costDenominator = 1'000'000'000;
    for (BlockArgument argument : graph.getArguments())
      addRoot(contents.of(argument).front().root);
    for (const Launch &launch : contents.launches())
      addOp(launch);
    for (Value returned : graph.getBody().front().getTerminator()->getOperands())
      for (schedule::ValueId id : idsOf(returned))
        problem.values[id].keep = true;
    dropOptionsOnKept();
    return std::move(problem);
  }

private:
  void addRoot(RootId id) {
    const Root &root = contents.root(id);
    first.resize(std::max<size_t>(first.size(), id + 1));
    if (root.versionOf) {
      first[id] = problem.addValueIn("", problem.values[first[*root.versionOf]].storage);
    } else if (root.isPinned) {
      first[id] = problem.addPinned("", alignUp(root.rows * root.size, alignment));
    } else {
      std::vector<Bytes> sizes = root.pieces.sizes();
      for (unsigned piece = 0; piece < sizes.size(); ++piece) {
        const Bytes size = root.isUnknown ? 0 : root.rows * sizes[piece];
        schedule::ValueId value =
            problem.addValue("", root.isShared ? size : alignUp(size, alignment));
        first[id] = piece == 0 ? value : first[id];
      }
    }
  }

  /// The pieces that a reader of `value` reads.
  std::vector<schedule::ValueId> idsOf(Value value) const {
    std::vector<schedule::ValueId> ids;
    for (const Stretch &stretch : contents.of(value)) {
      const Root &root = contents.root(stretch.root);
      if (root.isConstant)
        continue;
      if (root.isPinned) {
        ids.push_back(first[stretch.root]);
        continue;
      }
      root.pieces.visit(stretch.begin, stretch.begin + stretch.size,
                        [&](unsigned piece, Bytes, Bytes) {
                          ids.push_back(first[stretch.root] + static_cast<int32_t>(piece));
                        });
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  void addOp(const Launch &launch) {
    schedule::Op op;
    op.name = launch.op->getName().getStringRef().str();
    for (Value read : launch.reads)
      for (schedule::ValueId id : idsOf(read))
        op.inputs.push_back(id);
    std::sort(op.inputs.begin(), op.inputs.end());
    op.inputs.erase(std::unique(op.inputs.begin(), op.inputs.end()), op.inputs.end());
    if (implementationsOf(launch.op).empty())
      op.alternatives.push_back({launch.cost, alignUp(launch.workspaceBytes, alignment)});
    else
      op.alternatives = alternativesOf(launch.op, costs, alignment);
    op.recomputable = launch.isRecomputable;
    for (RootId written : launch.writes) {
      addRoot(written);
      const Root &root = contents.root(written);
      for (unsigned piece = 0; piece < root.pieces.count(); ++piece)
        op.outputs.push_back(first[written] + static_cast<int32_t>(piece));
      if (root.versionOf)
        op.overwrites.push_back(first[*root.versionOf]);
    }
    for (const Overwrite &overwrite : launch.overwrites)
      addOptions(op, overwrite);
    problem.ops.push_back(std::move(op));
  }

  /// Piece by piece: after refinement each lies over one piece of its size.
  void addOptions(schedule::Op &op, const Overwrite &overwrite) const {
    llvm::DenseSet<std::pair<schedule::ValueId, schedule::ValueId>> known;
    for (const schedule::OverwriteOption &option : op.mayOverwrite)
      known.insert({option.output, option.input});
    Bytes at = 0;
    for (const Stretch &stretch : contents.of(overwrite.operand)) {
      const Root &under = contents.root(stretch.root), &over = contents.root(overwrite.result);
      auto offset = at - stretch.begin;
      at += stretch.size;
      if (under.isPinned || over.isUnknown)
        continue;
      under.pieces.visit(
          stretch.begin, stretch.begin + stretch.size, [&](unsigned piece, Bytes begin, Bytes) {
            schedule::OverwriteOption option = {
                first[overwrite.result] + static_cast<int32_t>(over.pieces.at(begin + offset)),
                first[stretch.root] + static_cast<int32_t>(piece)};
            if (known.insert({option.output, option.input}).second)
              op.mayOverwrite.push_back(option);
          });
    }
  }

  /// What the caller reads may not be overwritten by anyone.
  void dropOptionsOnKept() {
    for (schedule::Op &op : problem.ops)
      llvm::erase_if(op.mayOverwrite, [&](const schedule::OverwriteOption &option) {
        return problem.values[option.input].keep;
      });
  }

  func::FuncOp graph;
  Contents &contents;
  const CostModel &costs;
  Bytes alignment;
  schedule::Problem problem;
  std::vector<schedule::ValueId> first; ///< by RootId: the value of its first piece
};

} // namespace

std::optional<schedule::Problem> buildRelaxedProblem(func::FuncOp graph, const CostModel &costs,
                                                     const Target &target) {
  Contents contents(graph, costs, target);
  if (!contents.mayShare())
    return std::nullopt;
  contents.divide();
  return Builder(graph, contents, costs, target.alignment()).build();
}

} // namespace stow
