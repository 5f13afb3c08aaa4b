// Problems and solutions as CSV, a superset of MiniMalloc's format.
//
//   id,lower,upper,size[,alignment][,offset][,persistent][,same_as][,inside]
//   w0,0,12,4096,64,,1,,
//   y,3,9,1024,64,,,,
//   y2,9,11,1024,64,,,y,
//   left,1,3,256,64,,,,y+0
//
// The header names the columns, in any order. `lower`/`upper` is the half-open lifetime; `start` or
// `begin` may stand for `lower`, and `end`, which is inclusive as in MiniMalloc, for `upper`.
// `buffer` and `buffer_id` may stand for `id`; a column `hint` is read over. `offset` is a fixed
// offset, `persistent` is 0 or 1, `same_as` names a buffer and `inside` is `name+offset`. Empty
// fields mean absent; blank lines and lines that start with # are skipped; CRLF and a byte order
// mark are accepted. A field may stand in quotes: "conv, first" (with "" for one quote).
#pragma once

#include "ir/plan/pack/Problem.h"

#include <string>
#include <string_view>

namespace stow::pack {

/// Reads a problem. Throws Error(BadInput) "fileName:line:column: ..." for malformed text, and
/// "fileName: ..." for what `check` finds.
Problem parse(std::string_view text, const std::string &fileName);

/// Writes only the columns in use; parse(print(p)) == p where lifetimes, names and links are valid.
std::string print(const Problem &problem);

/// The same, with the column `offset` filled from `solution`.
std::string print(const Problem &problem, const Solution &solution);

} // namespace stow::pack
