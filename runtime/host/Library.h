// Library calls of the host: those of CommandOp.h whose names begin with "dnnl.".
//
// piece, of a product: the sizes of LibraryRequirements::piece, with which a product on converted pieces runs in place of
// its own choice. Pooling and batch_norm run in
// the layout of their input: a free operand gets that layout. Reorder also converts element
// types. batch_norm and batch_norm_grad of f32 run in loops of this room (BatchNormLoops.h), and so does
// batch_norm_statistics on tensors in one of their layouts.
// batch_norm_max_pool is batch_norm and max_pool of its result, which is not stored, and its gradient
// that of both: loops (NormPoolLoops.h) on channels-last tensors of more than one channel and windows
// of at most 255 elements. Their "indices" are those of no other call, half a byte each where there are
// at most 16 elements in a window and a multiple of 16 channels.
// Convolutions of images smaller than their windows run in loops as well (TapLoops.h), with weights in
// blocks of 8 inputs by 8 outputs, products of f32 that have few rows or contract few elements
// (SkinnyProduct.h), small ones that the library has more scratch for, with its bits (PanelProduct.h), and those
// that it would read as they lie at distances that share lines of the caches (StripProduct.h).
// So do, in loops alone, products of few rows of f32, bf16 or f16 with codes (CodedProduct.h). Others that
// the library would cut by the number of threads run in parts (ProductParts.h), and so do weight gradients of convolutions
// (GradWeightParts.h).
// Attention does altogether (AttentionLoops.h), on tensors in any order and with gaps.
//
// Tensors may be f32 or of one 16-bit type, bf16 or f16, in any mix, biases included; vectors of
// normalizations are f32. Arithmetic is f32's: where the library has no code of its own for the mix
// (bf16 on AVX-512), the call runs in f32 on converted pieces (Pieces.h), whose scratch is part of
// the workspace.
//
// An output may overwrite an input of the same layout in batch_norm (dst over src),
// batch_norm_inference (dst over src), batch_norm_grad (diff_src over diff_dst) and
// batch_norm_max_pool_grad (diff_src over src), nowhere else.
//
// What to ask for. Any layout is computed with, but oneDNN has fast code for few combinations and
// reference code (some hundred times slower) for the rest: row-major convolution weights
// are such a case. With channels-last activations (order 0,2,3,1) on AVX-512 it was measured that
//   - the weights layout that convolution_grad_weight likes (i16o blocks) is taken by the forward
//     convolution at the speed of its own favourite: a parameter stored so needs no reorder for
//     forward, gradient and update;
//   - convolution_grad_input wants the blocks the other way round (o16i): one dnnl.reorder of the
//     weights per step, under 1 % of the call at 28x28 and above, 7 % at 7x7 (batch 8);
//   - depthwise and grouped convolutions differ: query each call with free weights, and a call with
//     given weights to see whether it is reference code, before choosing.
#pragma once

#include "runtime/format/Program.h"

#include <memory>

namespace stow::host {

/// What the compiler must know of a call before it can place it.
struct LibraryRequirements {
  Bytes workspaceBytes = 0;       ///< scratch for `threads` threads
  std::vector<Layout> layouts;    ///< per operand: as given, or as the library likes it best
  std::vector<Bytes> opaqueBytes; ///< per operand: size of opaque operands (>= 1), 0 for tensors
  std::string implementation;     ///< the library's name for it, for reports

  /// Primitives that a run executes: 1, or those of a call's pieces and parts.
  int64_t pieces = 1;

  /// Of a matrix product in pieces the leading dimensions, rows, columns and contracted elements of
  /// the largest piece; else empty.
  Shape piece;

  /// Most that a run takes from the heap at a time, beside the workspace: 0 stands for bookkeeping
  /// of less than 1 KiB per primitive. Only implementations on the library's own matrix product have more (machines
  /// without AVX-512, convolutions of few and odd channels per group); they are chosen where
  /// nothing but reference code is left.
  Bytes heapBytes = 0;

  bool reference = false; ///< only the library's slow reference code takes these operands
  bool converted = false; ///< runs in f32 on converted pieces
};

/// Queries the library for a call with the given operands (offsets ignored). An operand whose
/// position is set in `anyLayout` may be laid out as the library likes; `layouts` tells how.
/// Throws Error(BadInput) naming the call, when no implementation takes these operands.
LibraryRequirements queryLibrary(const Command &call, const std::vector<bool> &anyLayout,
                                 int64_t threads);

/// True when the library has bf16 code for the instructions in use (AVX-512): calls on bf16 operands then
/// need no pieces, unless they mix them with f32 weights. Every call works without, too.
bool supportsBf16();

/// A call bound to the arena; everything is created at load, `run` allocates nothing for tensors.
class LibraryCall {
public:
  virtual ~LibraryCall() = default;
  virtual void run() = 0;
  virtual Bytes heapBytes() const { return 0; } ///< as LibraryRequirements has it
};

/// Binds `call` to `arena`. Throws when the workspace planned is too small for `threads`.
std::unique_ptr<LibraryCall> bindLibraryCall(const Command &call, char *arena, int64_t threads);

} // namespace stow::host
