#include "ir/Graphs.h"

using namespace mlir;

namespace stow {

std::optional<Role> roleOf(func::FuncOp graph) {
  auto role = graph->getAttrOfType<RoleAttr>(kRoleAttr);
  return role ? std::optional(role.getValue()) : std::nullopt;
}

void setRole(func::FuncOp graph, Role role) {
  graph->setAttr(kRoleAttr, RoleAttr::get(graph.getContext(), role));
}

func::FuncOp findGraph(ModuleOp module, Role role) {
  for (auto graph : module.getOps<func::FuncOp>())
    if (roleOf(graph) == role)
      return graph;
  return {};
}

std::optional<ArgumentKind> kindOfArgument(func::FuncOp graph, unsigned argument) {
  auto kind = graph.getArgAttrOfType<ArgumentKindAttr>(argument, kKindAttr);
  return kind ? std::optional(kind.getValue()) : std::nullopt;
}

void setKindOfArgument(func::FuncOp graph, unsigned argument, ArgumentKind kind) {
  graph.setArgAttr(argument, kKindAttr, ArgumentKindAttr::get(graph.getContext(), kind));
}

bool isState(ArgumentKind kind) {
  switch (kind) {
  case ArgumentKind::Parameter:
  case ArgumentKind::Frozen:
  case ArgumentKind::Statistic:
  case ArgumentKind::Optimizer:
  case ArgumentKind::Accumulator:
    return true;
  case ArgumentKind::Input:
  case ArgumentKind::Target:
  case ArgumentKind::LearningRate:
  case ArgumentKind::Step:
  case ArgumentKind::Seed:
    break;
  }
  return false;
}

bool isStateArgument(func::FuncOp graph, unsigned argument) {
  auto kind = kindOfArgument(graph, argument);
  return kind && isState(*kind);
}

Phase phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttr);
  return phase ? phase.getValue() : Phase::Forward;
}

void setPhase(Operation *op, Phase phase) {
  if (phase == Phase::Forward)
    op->removeAttr(kPhaseAttr);
  else
    op->setAttr(kPhaseAttr, PhaseAttr::get(op->getContext(), phase));
}

void copyPhase(Operation *model, Operation *op) { setPhase(op, phaseOf(model)); }

} // namespace stow
