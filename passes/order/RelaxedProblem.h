// The schedule problem whose bounds hold for every placement of joins and slices.
//
// Which inputs lie inside a concat, and which slices are views, is decided anew for every order
// (stow-place-inside), so a problem that takes the decision of one order bounds no other. This one
// takes none. Its storages are not buffers but pieces of content: bytes that one op writes, and
// that all values which may show them read.
//
//   x = f()             content of x  [ x0 | x1 ]    two pieces: g reads one of them
//   s = slice x         content of s  [ x0 ]         a view of x, or a copy: the same bytes
//   z = g(s)            content of z  [ z0 ]
//   y = concat s', z    content of y  [ y0 | z0 ]    z0: inside y or copied, y0: a copy
//
// Why its bounds hold: a piece is in memory from its op's run to its last read before the next run.
// In any placed plan some buffer holds its bytes then, own or copied; different pieces are
// different bytes of it. So at every step the pieces that are live take no more than the plan's
// buffers, and what a plan copies is left out of its time. Where an operand may be overwritten,
// result and operand consist of pieces of the same sizes, each over each.
//
// What can never lie inside or be a view, for want of a layout or of a kernel that follows gaps, is
// copied here too.
#pragma once

#include "passes/Target.h"
#include "passes/order/CostModel.h"

#include "ir/plan/schedule/Problem.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace stow {

/// `graph` has its state bound and nothing placed inside anything; `target` says which parts ops
/// take. Sizes are bytes as stored: rounded up to its alignment where a buffer of its own holds them
/// in every plan, else as they are. Absent where nothing may lie inside anything: the problem of ScheduleProblem.h says it all.
/// O(runs of bytes that the boxes of concats and slices have in the values they lie in).
std::optional<schedule::Problem> buildRelaxedProblem(mlir::func::FuncOp graph,
                                                     const CostModel &costs, const Target &target);

} // namespace stow
