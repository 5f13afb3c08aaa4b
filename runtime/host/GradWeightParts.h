// Weight gradients of convolutions whose sums do not depend on the number of threads.
//
// A weight gradient sums over all images and pixels. The library (2.6) shares the blocks of the
// gradient among the threads, and where that leaves some idle the images too: each thread then sums its own, in scratch, and
// these sums are added. Where there are blocks enough the call gets no more threads than share blocks alone; where there are
// few, for they are small gradients then, the images are cut by the operands' sizes, and a part's gradient is computed on one
// thread. Windows of one element see no neighbors: there parts are ranges of pixels, whatever image they are of.
#pragma once

#include "runtime/host/Parts.h"

#include <functional>

namespace stow::host {

/// Makes the primitive for images of other extents: `src`, `diffDst`, `diffWeights`. Uses currentThreads().
using GradWeightMaker = std::function<dnnl::primitive_desc_base(
    const dnnl::memory::desc &, const dnnl::memory::desc &, const dnnl::memory::desc &)>;

/// Gives the call `whole` of src, diff_dst and diff_weights, for currentThreads(), parts or a limit of threads such that its bits
/// do not depend on them. `isPointwise` says that the window has one element and moves by one pixel, without borders. Of other types
/// than f32 nothing is claimed, and nothing changes.
void keepSums(Preparation &whole, int64_t groups, bool isPointwise, const GradWeightMaker &make);

} // namespace stow::host
