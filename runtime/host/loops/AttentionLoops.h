// Attention in loops of our own: softmax(scale q k' + mask) v, whose scores exist a tile at a time,
// and its gradients.
//
//            keys -->                      forward: for a few queries all of their scores are computed, made
//   queries  |####|                        weights, and multiplied with the values
//      |     |########|      scores
//      v     |############|                backward: for a block of keys and one tile of queries after the
//            |################|            other the weights are made again from `lse`, and
//                                          added up are dk and dv of the block, dq of the queries
//
// What lies above the diagonal, or before the window that ends there, is not computed, nor are tiles whose queries and keys can be of no
// one document. Methods: M. Rabe, C. Staats, "Self-attention does not
// need O(n^2) memory", 2021; T. Dao, "FlashAttention-2: Faster attention with better parallelism and
// work partitioning", 2023, whose equations of the backward these are. Rows are whole in the forward,
// so that the softmax is that of the row, in one pass, and nothing is scaled again.
//
// Tensors are f32, bf16 or f16, at any strides; arithmetic is f32. The sums of one element run in an
// order that follows from the shapes: results do not depend on the thread count.
#pragma once

#include "runtime/base/Layout.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace stow::host {

/// Where the matrices of a tensor [..., rows, columns] lie, in elements.
struct Matrices {
  /// None for layouts with blocks or groups.
  static std::optional<Matrices> of(const Shape &shape, const Layout &layout, DType type);
  /// As if repeated to `leading` and to any number of rows and columns: dimensions that are missing
  /// or 1 have stride 0.
  static std::optional<Matrices> repeated(const Shape &shape, const Layout &layout, DType type,
                                          const Shape &leading);
  /// The same of a tensor [..., rows], whose matrices have a column.
  static std::optional<Matrices> repeatedColumns(const Shape &shape, const Layout &layout,
                                                 DType type, const Shape &leading);

  /// From the first element of the tensor to that of matrix `number`, counted row-major.
  int64_t offset(int64_t number) const;

  DType type = DType::F32;
  std::vector<int64_t> extents, strides; ///< of the leading dimensions
  int64_t rowStride = 0, columnStride = 0;
};

/// Shapes and attributes of a call.
struct AttentionSpace {
  int64_t heads = 0;  ///< of keys and values, all batches together
  int64_t shared = 1; ///< heads of queries per head of keys
  int64_t queries = 0, keys = 0;
  int64_t depth = 0, width = 0; ///< columns of q and k; of v and y
  double scale = 1;
  std::optional<int64_t> diagonal; ///< query i sees keys 0 to i + diagonal
  std::optional<int64_t> window;   ///< of these the last so many; goes with a diagonal
  bool zeroRows = false;
  double ratio = 0; ///< of weights that are dropped, where there is a seed
  int64_t stream = 0;

  Matrices q, k, v, y, dy, dq, dk, dv;
  Matrices lse; ///< the largest score, and the logarithm of the sum of the exponentials less it
  std::optional<Matrices> mask;
  bool isBoolean = false;                               ///< the mask: bytes, else f32
  std::optional<Matrices> queryDocuments, keyDocuments; ///< I32 or I64: both or none
  bool hasWideSeed = true;

  int64_t forwardTasks() const;
  /// Scratch of one thread.
  Bytes forwardScratchBytes() const, backwardScratchBytes() const;
};

/// Addresses of the tensors; null where there is none.
struct AttentionTensors {
  char *q, *k, *v, *mask, *queryDocuments, *keyDocuments, *seed, *y, *lse;
  char *dy, *dq, *dk, *dv; ///< of the backward
};

/// `scratch`: threads times forwardScratchBytes(), aligned to 64 bytes.
void attend(const AttentionSpace &space, const AttentionTensors &tensors, char *scratch,
            int64_t threads);

/// `scratch`: threads times backwardScratchBytes(), aligned to 64 bytes.
void attendGradient(const AttentionSpace &space, const AttentionTensors &tensors, char *scratch,
                    int64_t threads);

/// The instructions that the loops use in this process, for reports.
const char *attentionInstructions();

} // namespace stow::host
