// A primitive's work in parts that run on one thread each.
//
// The library cuts some primitives by the number of threads, and sums at the edges of its cuts, or over them, in other orders.
// Work that is cut by the operands' sizes alone has the bits of any other number of threads.
#pragma once

#include "runtime/base/Parallel.h"
#include "runtime/host/Execution.h"
#include "runtime/host/Primitive.h"

namespace stow::host {

/// Parts, or the whole on a limited number of threads.
struct Parts {
  /// What a part sees of an operand of the whole.
  struct View {
    dnnl::memory::desc desc;
    Bytes offset;           ///< from the operand's first element, or of the scratch
    bool inScratch = false; ///< a result that is added to the first part's
  };
  struct Part {
    size_t kind;              ///< index into `kinds`
    std::vector<View> views;  ///< in the order of Preparation::arguments
    Bytes libraryScratch = 0; ///< offset in the scratch, where the kind needs any
  };
  int64_t mostThreads = maxThreads; ///< for the whole
  std::vector<dnnl::primitive_desc_base> kinds;
  std::vector<Part> parts; ///< none for the whole
  Bytes scratchBytes = 0;  ///< of all parts
  int64_t summed = 0;      ///< elements of f32 of each result that is in the scratch
};

/// Scratch of a primitive as it runs: in parts, or as a whole.
Bytes primitiveScratch(const Preparation &preparation);

/// Primitives that a run of it executes.
int64_t primitiveCount(const Preparation &preparation);

/// The primitive of the whole for `threads`; empty where parts run in its place. Which primitive the library makes, or finds
/// among those that it made, depends on the number of threads at the time.
dnnl::primitive wholePrimitive(const Preparation &preparation, int64_t threads);

/// Adds the parts of `whole`, if it has any, to the execution of it on up to `threads`. `addresses` are those of its arguments, in their
/// order; `scratch` has primitiveScratch() bytes.
void addParts(Execution &execution, const Preparation &whole, const std::vector<char *> &addresses,
              char *scratch, int64_t threads);

} // namespace stow::host
