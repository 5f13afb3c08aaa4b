// Weight gradients of convolutions split along the batch, rows and output channels.
//
// The library cannot add to a gradient that is there, so the images of all but the first piece take
// a second gradient in f32 that is then added: as much again as the weights, which outweigh small
// images by far. Slices of output channels take a slice of it at a time, and src once per slice.
#include "runtime/host/Float16.h"
#include "runtime/host/pieces/Pieces.h"
#include "runtime/host/pieces/Strips.h"

#include <algorithm>

namespace stow::host {
namespace {

struct Size {
  int64_t images, rows, channels; ///< rows and channels of diff_dst
};

struct Gradient {
  explicit Gradient(const Command &whole)
      : whole(whole), src(whole.operands[0]), diffDst(whole.operands[1]),
        diffWeights(whole.operands[2]), windows(whole, 0, 2, 1) {}

  const Command &whole;
  const Operand &src, &diffDst, &diffWeights;
  RowWindows windows;

  Size full() const { return {src.shape[0], windows.outputRows, diffWeights.shape[0]}; }

  /// True when pieces may be a part of an image's rows.
  bool hasStrips() const {
    for (const Operand *operand : {&src, &diffDst}) {
      Shape strip = operand->shape;
      strip[0] = strip[2] = 1;
      if (!isSplittable(operand->layout, 2) ||
          (!is16Bit(operand->dtype) && layoutInPlace(*operand, strip) != operand->layout))
        return false;
    }
    return true;
  }

  /// What a slice of channels is a multiple of; none where they cannot be sliced: the gradient's
  /// slice would not lie together, or diff_dst's would have to be read with gaps.
  std::optional<int64_t> sliceUnit() const {
    auto groups = whole.ints.find("groups");
    if ((groups != whole.ints.end() && groups->second.at(0) != 1) || !is16Bit(diffDst.dtype) ||
        !isSplittable(diffDst.layout, 1) || diffWeights.layout.groups > 1)
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
  std::vector<Shape> shapesOf(const Size &size, int64_t inputRows) const {
    std::vector<Shape> shapes = {src.shape, diffDst.shape, diffWeights.shape};
    shapes[0][0] = shapes[1][0] = size.images;
    shapes[1][1] = shapes[2][0] = size.channels;
    shapes[0][2] = inputRows;
    shapes[1][2] = size.rows;
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
  auto parts = [](int64_t whole, int64_t part) {
    return static_cast<double>((whole + part - 1) / part);
  };
  const double pieces = parts(full.images, size.images) * parts(full.rows, size.rows),
               slices = parts(full.channels, size.channels);
  const std::vector<Shape> shapes =
      gradient.shapesOf(size, size.rows == full.rows ? gradient.windows.inputRows
                                                     : gradient.windows.inputOf(size.rows));
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

/// The sizes worth trying: parts of the batch, of one image's rows, and of channels.
std::vector<Size> sizesOf(const Gradient &gradient) {
  const Size full = gradient.full();
  std::vector<Size> sizes = {full};
  auto add = [&](Size size) { sizes.push_back(size); };
  if (isOutermost(gradient.src, 0) && isOutermost(gradient.diffDst, 0)) {
    while (sizes.back().images > 1)
      add({(sizes.back().images + 1) / 2, full.rows, full.channels});
    while (gradient.hasStrips() && sizes.back().rows > 2 * gradient.windows.extent) {
      const int64_t rows = (sizes.back().rows + 1) / 2;
      for (int64_t begin = 0; begin < full.rows; begin += rows)
        if (!stripOfOutput(gradient.windows, begin, std::min(rows, full.rows - begin)))
          return sizes;
      add({1, rows, full.channels});
    }
  }
  if (std::optional<int64_t> unit = gradient.sliceUnit())
    for (size_t i = 0; i < sizes.size(); ++i)
      if (Size size = sizes[i]; size.channels > *unit)
        add({size.images, size.rows, alignUp((size.channels + 1) / 2, *unit)});
  return sizes;
}

/// The size that moves least within the target, or within a quarter more than the least there is:
/// where the target is out of reach, the last bytes are not worth the smallest pieces.
std::pair<Size, Price> chooseSize(const Gradient &gradient, Bytes target) {
  const std::vector<Size> sizes = sizesOf(gradient);
  Bytes least = priceOf(gradient, sizes[0]).scratch;
  for (const Size &size : sizes)
    least = std::min(least, priceOf(gradient, size).scratch);
  target = std::max(target, least + least / 4);
  std::optional<std::pair<Size, Price>> best;
  for (const Size &size : sizes) {
    const Price price = priceOf(gradient, size);
    if (price.scratch <= target && (!best || price.moved < best->second.moved))
      best = {size, price};
  }
  return *best;
}

/// More than the target, but less than f32 operands would take, where that spares half of what is
/// moved: a deep layer's gradient is large and its images are small.
Size chooseSize(const Gradient &gradient) {
  const Bytes target = piecesTarget(gradient.whole);
  const auto [tight, tightPrice] = chooseSize(gradient, target);
  const auto [loose, loosePrice] = chooseSize(gradient, target / 4 * 7);
  return 2 * loosePrice.moved < tightPrice.moved ? loose : tight;
}

/// The rows of a piece; those of whole images keep the padding that they have.
Strip stripAt(const Gradient &gradient, int64_t row, int64_t rows) {
  const RowWindows &windows = gradient.windows;
  if (rows == windows.outputRows)
    return {0,    windows.inputRows, 0,
            rows, windows.padBegin,  gradient.whole.ints.at("pads")[gradient.src.shape.size() - 2]};
  return *stripOfOutput(windows, row, rows);
}

/// Adds the step of a piece, and its command if none is like it.
void addStep(Split &split, const Gradient &gradient, int64_t image, const Strip &strip,
             int64_t channel, const Size &own, PrepareFn prepare) {
  const Command &whole = gradient.whole;
  const std::vector<Shape> shapes = gradient.shapesOf(own, strip.inputRows);
  const Shape sizes = {own.images,     own.channels, strip.inputRows,
                       strip.padBegin, strip.padEnd, strip.outputRows};
  size_t command = 0;
  while (command < split.commands.size() && split.commands[command].sizes != sizes)
    ++command;
  if (command == split.commands.size()) {
    PieceCommand &piece =
        split.commands.emplace_back(PieceCommand{whole, {0, 1, 2}, prepare, sizes});
    setPads(piece.command, strip);
    for (size_t i = 0; i < shapes.size(); ++i)
      piece.command.operands[i].shape = shapes[i];
  }
  PieceStep &step =
      split.steps.emplace_back(PieceStep{command, {}, image > 0 || strip.outputBegin > 0});
  for (size_t i = 0; i < shapes.size(); ++i) {
    Shape from(shapes[i].size());
    from[0] = i == 2 ? channel : image;
    if (i == 1)
      from[1] = channel;
    if (i < 2)
      from[2] = i == 0 ? strip.inputBegin : strip.outputBegin;
    step.boxes.push_back(boxOf(whole.operands[i], from, shapes[i]));
  }
}

} // namespace

Split splitGradWeight(const Command &whole, PrepareFn prepare) {
  const Gradient gradient(whole);
  const Size full = gradient.full(), size = chooseSize(gradient);
  Split split;
  for (int64_t channel = 0; channel < full.channels; channel += size.channels)
    for (int64_t image = 0; image < full.images; image += size.images)
      for (int64_t row = 0; row < full.rows; row += size.rows) {
        const Size own = {std::min(size.images, full.images - image),
                          std::min(size.rows, full.rows - row),
                          std::min(size.channels, full.channels - channel)};
        addStep(split, gradient, image, stripAt(gradient, row, own.rows), channel, own, prepare);
      }
  return split;
}

} // namespace stow::host
