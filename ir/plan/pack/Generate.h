// Deterministic problem generators: for tests, and for measuring at sizes nobody publishes.
// Every generator is a pure function of its arguments and gives the same problem on every platform.
#pragma once

#include "ir/plan/pack/Derive.h"

namespace stow::pack {

/// The shape of `generate`'s random problems.
struct GenerateOptions {
  int32_t buffers = 8;
  Time horizon = 12;  ///< lifetimes lie in [0, horizon)
  Bytes maxSize = 16; ///< sizes are in [1, maxSize]
  bool alignments = true;
  bool fixed = false;   ///< some fixed offsets; such a problem may have no packing
  bool storages = true; ///< sameAs and inside
  bool persistent = true;
};

/// A random problem that `check` accepts.
Problem generate(uint64_t seed, const GenerateOptions &options = {});

/// An allocation trace of `count` buffers: number i is born at 2i, lives 2 * floor(2^U(0,11)) and
/// has floor(2^U(4,20)) bytes. At most a few hundred are live at once.
Problem generateTrace(int32_t count, uint64_t seed);

/// A training step of `blocks` equal blocks with 100 buffers each: half of them in the forward
/// pass, of which the first 20 of a block live to its mirrored backward tick; the rest live 1-5
/// ticks. Sizes are multiples of 64, log-uniform in 2^8..2^24. About 1e11 pairs overlap at 10,000
/// blocks.
Problem generateTraining(int32_t blocks, uint64_t seed);

/// A perfect puzzle: a square of `side` by `side` cut into `count` buffers at random multiples of
/// `grid`, shuffled. The load is `side` at every time, and a packing of that height exists.
Problem generatePuzzle(int32_t count, uint64_t seed, int64_t side = 1 << 20, int64_t grid = 1024);

/// The same with the packing that it was cut from.
Certified generateCertifiedPuzzle(int32_t count, uint64_t seed, int64_t side = 1 << 20,
                                  int64_t grid = 1024);

/// A training step of many sizes: unlike generateTraining its blocks differ in width and kind,
/// sequence lengths vary, some activations are freed early or recomputed, gradients accumulate into
/// buffers of shared parameters over long spans, optimizer state is persistent, and many sizes are
/// odd multiples of 64 that no other buffer fits under. Thousands of buffers are live at a time:
/// greedy orders come close to the load, and its last bytes are hard. `count` is approximate.
Problem generateHardTraining(int32_t count, uint64_t seed);

/// A training step under a small budget, with checkpoints within checkpoints: of a stretch of
/// blocks only the inputs of its parts are kept, and each part is run again, in the same way,
/// before its backward pass. Few buffers are live at a time, their lives nest at every scale, and
/// all blocks reach about the same height with tensors of other sizes: greedy orders end 3 to 12 %
/// above the load. `count` is approximate.
Problem generateNestedTraining(int32_t count, uint64_t seed);

/// A step of an unrolled recurrent network under a budget. The cells' gates are kept until the
/// backward pass takes them, last in, first out, some of them computed again; their gradients, each
/// as large as four gates, then wait, first in, first out, for a pass of its own that sums the
/// weights' gradients, with temporaries as large as 32 gates. Thousands of buffers are live where
/// the backward pass begins, and what follows needs their bytes in large pieces: greedy orders end
/// 4 to 13 % above the load. `count` is approximate.
Problem generateRecurrentTraining(int32_t count, uint64_t seed);

} // namespace stow::pack
