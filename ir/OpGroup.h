// How a group of ops joins the dialect: each group's file holds what is generated for it and makes its ops known, so that a change
// to one group compiles that file and the files that use its ops.
#pragma once

#include "ir/Stow.h"

namespace stow {

// add<Group>Ops: defined in ir/Stow<Group>Ops.cpp.
#define STOW_OP_GROUP(Group) void add##Group##Ops(StowDialect &dialect);
#include "ir/StowOpGroups.inc"
#undef STOW_OP_GROUP

/// Makes ops known to the dialect.
template <typename... Ops> void addOps(StowDialect &dialect) {
  (mlir::RegisteredOperationName::insert<Ops>(dialect), ...);
}

} // namespace stow
