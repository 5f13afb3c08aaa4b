// Calls on 16-bit operands, computed in f32 piece by piece.
//
// Where the library has no code for 16-bit operands, or refuses their mix, the call is split: each
// piece's 16-bit operands are converted to f32 in the workspace, the f32 call runs on them, and its
// result is converted to the stored type. f32 operands are used where they lie.
//
//   images of src   bf16  |--0--|--1--|--2--|-3-|
//                            v  widen
//   workspace        f32  |-src-|---dst---|-weights-|-the library's own scratch-|
//                                  v  narrow
//   images of dst   bf16  |----0----|----1----|----2----|--3--|
//
// How a call is split follows from its operands alone, not from the number of threads. What a piece
// shares with the one before, such as weights, stays converted.
#pragma once

#include "runtime/host/Primitive.h"
#include "runtime/host/pieces/Box.h"

#include <string>
#include <vector>

namespace stow::host {

/// A command with f32 operands that one or more pieces run.
struct PieceCommand {
  Command command;
  std::vector<size_t> operands; ///< per operand: its index in the whole command
  PrepareFn prepare = nullptr;
  Shape sizes;       ///< what distinguishes it from its siblings
  bool adds = false; ///< to the result that is there; else a step that adds gets it added
};

struct PieceStep {
  size_t command = 0;     ///< index into Split::commands
  std::vector<Box> boxes; ///< per operand of the whole command; offsets of opaque ones in images
  bool adds = false;      ///< to the result of the steps before
};

/// A whole command as commands on pieces.
struct Split {
  std::vector<PieceCommand> commands;
  std::vector<PieceStep> steps;
};

/// `whole` split along the batch, the first dimension, in operands that have it: src and dst of a
/// convolution, of its input gradient or of a normalization; all of a pool. All layouts are given.
/// Convolutions are split along rows where one image is more than the target.
Split splitConvolution(const Command &whole, PrepareFn prepare);
Split splitConvolutionGradInput(const Command &whole, PrepareFn prepare);
Split splitImages(const Command &whole, PrepareFn prepare);
Split splitPool(const Command &whole, PrepareFn prepare);

/// A weight gradient split along the batch, whose pieces are added up, and along output channels.
Split splitGradWeight(const Command &whole, PrepareFn prepare);

/// A matrix product split along leading dimensions, rows, columns and the contracted dimension, such
/// that little is moved.
Split splitMatMul(const Command &whole, PrepareFn prepare);

/// f32 bytes that the pieces of a call should share at most: a quarter of what its 16-bit operands
/// would take in f32, so that the call takes less than it would in f32, and no more than the caches
/// hold, which is enough to be fast. Products that are much faster then take a third, weight
/// gradients up to seven sixteenths.
Bytes piecesTarget(const Command &whole);

/// That quarter, whatever the caches hold.
Bytes quarterOf(const Command &whole);

/// A split with the primitives of its pieces and places in the workspace.
struct Pieces {
  Split split;
  std::vector<Preparation> preparations;    ///< per Split::commands
  std::vector<std::optional<Bytes>> places; ///< per operand of the whole: of its f32 piece
  std::optional<Bytes> addend;              ///< a result that is added to the others'
  Bytes libraryScratch = 0, scratchBytes = 0;
  size_t result = 0; ///< the operand that the pieces compute, beside opaque ones
  std::string name;  ///< for reports
  bool usesHeap = false, isReference = false; ///< as their primitives do, and are
};

/// Prepares `call`, which has 16-bit operands, in pieces.
Preparation preparePieces(const Command &call, const std::vector<bool> &anyLayout,
                          PrepareFn prepare, Split (*split)(const Command &, PrepareFn));

/// Binds it: see bindLibraryCall. `heapBytes` is what its primitives take from the heap.
std::unique_ptr<LibraryCall> bindPieces(const Command &call, const Pieces &pieces, char *arena,
                                        int64_t threads, Bytes heapBytes);

} // namespace stow::host
