// Weight gradients of convolutions cut along the batch and along output channels.
//
// The library cannot add to a gradient that is there, so the images of all but the first piece take
// a second gradient in f32 that is then added: as much again as the weights, which outweigh small
// images by far. Slices of output channels take a slice of it at a time, and src once per slice.
#include "runtime/host/Float16.h"
#include "runtime/host/Pieces.h"

#include <algorithm>

namespace stow::host {
namespace {

struct Size {
  int64_t images, channels;
};

struct Gradient {
  explicit Gradient(const Command &whole)
      : whole(whole), src(whole.operands[0]), diffDst(whole.operands[1]),
        diffWeights(whole.operands[2]) {}

  const Command &whole;
  const Operand &src, &diffDst, &diffWeights;

  Size full() const { return {src.shape[0], diffWeights.shape[0]}; }

  /// What a slice of channels is a multiple of; none where they cannot be sliced: the gradient's
  /// slice would not lie together, or diff_dst's would have to be read with gaps.
  std::optional<int64_t> sliceUnit() const {
    auto groups = whole.ints.find("groups");
    if ((groups != whole.ints.end() && groups->second.at(0) != 1) || !is16Bit(diffDst.dtype) ||
        !isCuttable(diffDst.layout, 1) || diffWeights.layout.groups > 1)
      return std::nullopt;
    const std::vector<int64_t> strides = outerStrides(diffWeights.layout, diffWeights.shape);
    int64_t block = 1;
    for (const Layout::Block &b : diffWeights.layout.blocks)
      block *= b.dim == 0 ? b.size : 1;
    if (std::ranges::any_of(strides, [&](int64_t stride) { return stride > strides[0]; }))
      return std::nullopt;
    return std::max<int64_t>(block, 16); // blocks are 8 or 16
  }

  /// Shapes of a piece's operands.
  std::vector<Shape> shapesOf(const Size &size) const {
    std::vector<Shape> shapes = {src.shape, diffDst.shape, diffWeights.shape};
    shapes[0][0] = shapes[1][0] = size.images;
    shapes[1][1] = shapes[2][0] = size.channels;
    return shapes;
  }
};

/// What pieces of a size take, in f32 bytes of the workspace, and move, in elements.
struct Price {
  Bytes scratch = 0;
  double moved = 0;
};

Price priceOf(const Gradient &gradient, const Size &size) {
  const Size full = gradient.full();
  const auto pieces = static_cast<double>((full.images + size.images - 1) / size.images),
             slices = static_cast<double>((full.channels + size.channels - 1) / size.channels);
  const std::vector<Shape> shapes = gradient.shapesOf(size);
  Price price;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Operand &operand = gradient.whole.operands[i];
    const Bytes bytes = storedBytes(packedLayout(operand), shapes[i], DType::F32);
    const auto elements = static_cast<double>(elementCount(shapes[i]));
    if (is16Bit(operand.dtype)) {
      price.scratch += bytes;
      price.moved += elements * slices * (i == 2 ? 1 : pieces);
    }
    if (i == 2 && pieces > 1) {
      price.scratch += bytes;
      price.moved += 3 * elements * slices * (pieces - 1); // written, read and added
    }
  }
  constexpr double start = 20000; // what a call costs of its own, as for products
  price.moved += start * pieces * slices;
  return price;
}

Size chooseSize(const Gradient &gradient) {
  const Size full = gradient.full();
  std::vector<int64_t> images = {full.images}, channels = {full.channels};
  if (isOutermost(gradient.src, 0) && isOutermost(gradient.diffDst, 0))
    while (images.back() > 1)
      images.push_back((images.back() + 1) / 2);
  if (std::optional<int64_t> unit = gradient.sliceUnit())
    while (channels.back() > *unit)
      channels.push_back(alignUp((channels.back() + 1) / 2, *unit));
  Bytes least = priceOf(gradient, full).scratch;
  for (int64_t i : images)
    for (int64_t c : channels)
      least = std::min(least, priceOf(gradient, {i, c}).scratch);
  // Where the target is out of reach, the last bytes are not worth the smallest pieces.
  const Bytes target = std::max(piecesTarget(gradient.whole), least + least / 4);
  Size best = full;
  double moved = -1;
  for (int64_t i : images)
    for (int64_t c : channels) {
      const Price price = priceOf(gradient, {i, c});
      if (price.scratch <= target && (moved < 0 || price.moved < moved)) {
        best = {i, c};
        moved = price.moved;
      }
    }
  return best;
}

} // namespace

Cut cutGradWeight(const Command &whole, PrepareFn prepare) {
  const Gradient gradient(whole);
  const Size full = gradient.full(), size = chooseSize(gradient);
  Cut cut;
  for (int64_t channel = 0; channel < full.channels; channel += size.channels)
    for (int64_t image = 0; image < full.images; image += size.images) {
      const Size own = {std::min(size.images, full.images - image),
                        std::min(size.channels, full.channels - channel)};
      const std::vector<Shape> shapes = gradient.shapesOf(own);
      const Shape sizes = {own.images, own.channels};
      size_t command = 0;
      while (command < cut.commands.size() && cut.commands[command].sizes != sizes)
        ++command;
      if (command == cut.commands.size()) {
        PieceCommand &piece =
            cut.commands.emplace_back(PieceCommand{whole, {0, 1, 2}, prepare, sizes});
        for (size_t i = 0; i < shapes.size(); ++i)
          piece.command.operands[i].shape = shapes[i];
      }
      PieceStep &step = cut.steps.emplace_back(PieceStep{command, {}, image > 0});
      for (size_t i = 0; i < shapes.size(); ++i) {
        Shape from(shapes[i].size());
        from[0] = i == 2 ? channel : image;
        if (i == 1)
          from[1] = channel;
        step.boxes.push_back(boxOf(whole.operands[i], from, shapes[i]));
      }
    }
  return cut;
}

} // namespace stow::host
