// Physical layouts: how the elements of a logical tensor lie in memory.
//
// A layout is an order of the dimensions, outermost first, followed by inner blocks, outermost
// first. Logical NCHW [N,C,H,W] stored as
//
//   plain            order 0,1,2,3              n c h w
//   channels last    order 0,2,3,1              n h w c
//   nChw16c          order 0,1,2,3 blocks 1:16  n c/16 h w 16c     (C padded to a multiple of 16)
//
// A tensor that lies inside a larger one has gaps: the pitch says how far a dimension reaches
// there. Channels 64 to 95 of 128, read or written in place, are a tensor of 32 channels with order
// 0,2,3,1 and pitch 1:128; where its first element lies is no part of the layout.
//
// Convolution weights [O,I,kh,kw] with groups g > 1 are laid out as the five-dimensional
// [g,O/g,I,kh,kw]; `groups` says so, and `order` and `blocks` then count in five dimensions.
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stow {

using Shape = std::vector<int64_t>;

/// Product of the dimensions; 1 for a scalar.
int64_t elementCount(const Shape &shape);

struct Layout {
  struct Block {
    int64_t dim;
    int64_t size;
    bool operator==(const Block &) const = default;
  };
  struct Pitch {
    int64_t dim;
    int64_t extent; ///< of the larger tensor, at least the dimension's own
    bool operator==(const Pitch &) const = default;
  };

  int64_t groups = 1;              ///< > 1 splits logical dimension 0 into [groups, dim0/groups]
  std::vector<int64_t> order;      ///< dimensions outermost first; empty = row-major
  std::vector<Block> blocks;       ///< inner blocks, outermost first
  std::optional<Pitch> pitch = {}; ///< neither with blocks nor with groups

  bool operator==(const Layout &) const = default;

  /// True for plain row-major storage without blocks and gaps (whatever `groups` says).
  bool isRowMajor() const;
};

/// Images with their channels side by side, of `rank` dimensions: order 0, 2, ..., rank - 1, 1.
Layout channelsLastLayout(size_t rank);

/// The dimensions that `order` and `blocks` refer to: `shape`, with dimension 0 split by groups.
Shape layoutDims(const Layout &layout, const Shape &shape);

/// Number of elements from the first to the last one stored, block padding and gaps included.
int64_t storedElementCount(const Layout &layout, const Shape &shape);

/// Bytes of the stored tensor, block padding and gaps included.
Bytes storedBytes(const Layout &layout, const Shape &shape, DType type);

/// Strides in elements of each dimension of layoutDims, counting whole blocks of that dimension.
std::vector<int64_t> outerStrides(const Layout &layout, const Shape &shape);

/// Layout of a box of `sizes` that lies in a tensor of `shape` and `layout`: the same strides. None
/// where the box has gaps in more than one dimension, or the layout has blocks or groups.
std::optional<Layout> boxLayout(const Layout &layout, const Shape &shape, const Shape &sizes);

/// Maps row-major logical positions to stored element positions.
class LayoutIndex {
public:
  LayoutIndex(const Layout &layout, const Shape &shape);

  /// Stored element position of the element with row-major number `logical`.
  int64_t operator()(int64_t logical) const;

private:
  Shape dims;
  std::vector<int64_t> strides;          ///< outer stride per dimension
  std::vector<int64_t> blockOf;          ///< product of the block sizes per dimension
  std::vector<Layout::Block> blocks;     ///< inner blocks, outermost first
  std::vector<int64_t> blockInnerOfSame; ///< product of later block sizes of the same dimension
  std::vector<int64_t> blockStride;      ///< stride of each block digit
};

/// "0,2,3,1", "0,1,2,3;1:16", "g32 0,1,2,3,4", "0,2,3,1 of 1:128" (a pitch): stable text for
/// reports and program files.
std::string formatLayout(const Layout &layout);

/// Inverse of formatLayout; throws Error(BadInput).
Layout parseLayout(const std::string &text);

/// Throws Error(BadInput) unless `order` is a permutation, blocks and pitch name valid dimensions
/// and the pitch is no smaller than its dimension.
void checkLayout(const Layout &layout, const Shape &shape);

} // namespace stow
