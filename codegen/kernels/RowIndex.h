// Rows of a table named by index.
#pragma once

#include "codegen/kernels/Lanes.h"

namespace stow {

/// The row an index names, and whether there is such a row. Negative indices count from the end.
struct RowIndex {
  mlir::Value row;   ///< an index; 0 where there is none
  mlir::Value valid; ///< i1
};

/// Reads the index at `position` into a table of `rows` rows.
RowIndex loadIndex(Lanes &lanes, const Buffer &indices, mlir::Value position, int64_t rows);

} // namespace stow
