// Convolutions, their input gradients, pools and normalizations split along the batch.
#include "runtime/host/Float16.h"
#include "runtime/host/pieces/Pieces.h"

#include <algorithm>

namespace stow::host {
namespace {

/// What is split: operands with a batch.
struct Images {
  const Command &whole;
  std::vector<bool> split;

  size_t first() const {
    return static_cast<size_t>(std::ranges::find(split, true) - split.begin());
  }
  int64_t count() const { return whole.operands[first()].shape[0]; }
  bool isOpaque(size_t index) const { return whole.operands[index].dtype == DType::U8; }
};

Shape withImages(const Shape &shape, int64_t images) {
  Shape result = shape;
  result[0] = images;
  return result;
}

bool canBeSplit(const Images &images) {
  for (size_t i = 0; i < images.split.size(); ++i)
    if (images.split[i] && !images.isOpaque(i) && !isOutermost(images.whole.operands[i], 0))
      return false;
  return true;
}

/// f32 bytes of the 16-bit operands among those with, or without, a batch, for `count` images.
Bytes convertedBytes(const Images &images, int64_t count, bool split) {
  Bytes bytes = 0;
  for (size_t i = 0; i < images.split.size(); ++i) {
    const Operand &operand = images.whole.operands[i];
    if (images.split[i] != split || !is16Bit(operand.dtype))
      continue;
    Shape shape = split ? withImages(operand.shape, count) : operand.shape;
    bytes += storedBytes(packedLayout(operand), shape, DType::F32);
  }
  return bytes;
}

/// The most images in a piece within the target; with none, what takes least.
int64_t imagesPerPiece(const Images &images) {
  const int64_t count = images.count();
  if (!canBeSplit(images))
    return count;
  // Weights that are converted whole make a little more for the images no matter.
  const Bytes target =
      std::max(piecesTarget(images.whole), convertedBytes(images, count, false) / 4);
  int64_t best = count;
  Bytes least = 0;
  for (int64_t pieces = 1; pieces <= count; ++pieces) {
    const int64_t size = (count + pieces - 1) / pieces;
    const Bytes bytes = convertedBytes(images, size, true);
    if (pieces == 1 || bytes < least) {
      best = size;
      least = bytes;
    }
    if (least <= target)
      break;
  }
  return best;
}

Split split(const Images &images, PrepareFn prepare) {
  const Command &whole = images.whole;
  const int64_t count = images.count(), size = imagesPerPiece(images);
  Split result;
  for (int64_t begin = 0; begin < count; begin += size) {
    const int64_t own = std::min(size, count - begin);
    if (result.commands.empty() || result.commands.back().sizes[0] != own) {
      PieceCommand &piece = result.commands.emplace_back(PieceCommand{whole, {}, prepare, {own}});
      for (size_t i = 0; i < whole.operands.size(); ++i) {
        Operand &operand = piece.command.operands[i];
        piece.operands.push_back(i);
        if (images.split[i] && !images.isOpaque(i))
          operand.shape = withImages(operand.shape, own);
      }
    }
    PieceStep &step = result.steps.emplace_back();
    step.command = result.commands.size() - 1;
    for (size_t i = 0; i < whole.operands.size(); ++i) {
      const Operand &operand = whole.operands[i];
      Shape from(operand.shape.size()), sizes = operand.shape;
      if (images.split[i] && !images.isOpaque(i)) {
        from[0] = begin;
        sizes[0] = own;
      }
      step.boxes.push_back(images.isOpaque(i) ? Box{begin, {}, own} : boxOf(operand, from, sizes));
    }
  }
  return result;
}

} // namespace

Split splitImages(const Command &whole, PrepareFn prepare) {
  Images images{whole, std::vector<bool>(whole.operands.size())};
  images.split.front() = images.split.back() = true;
  return split(images, prepare);
}

Split splitPool(const Command &whole, PrepareFn prepare) {
  return split({whole, std::vector<bool>(whole.operands.size(), true)}, prepare);
}

} // namespace stow::host
