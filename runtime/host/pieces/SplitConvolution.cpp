// Convolutions and their input gradients: along the batch, and where an image is too much of it,
// along its rows.
#include "runtime/host/Float16.h"
#include "runtime/host/pieces/Pieces.h"
#include "runtime/host/pieces/Strips.h"

#include <algorithm>

namespace stow::host {
namespace {

constexpr size_t rowsDim = 2;

/// A convolution in strips; operands are numbered as in the command.
struct Strips {
  const Command &whole;
  size_t input, output;
  bool computesInput; ///< the gradient of the input, else the output
  RowWindows windows;

  Strips(const Command &whole, size_t input, size_t output, bool computesInput)
      : whole(whole), input(input), output(output), computesInput(computesInput),
        windows(whole, input, 1, output) {}

  int64_t resultRows() const { return computesInput ? windows.inputRows : windows.outputRows; }

  std::optional<Strip> at(int64_t begin, int64_t rows) const {
    rows = std::min(rows, resultRows() - begin);
    return computesInput ? stripOfInput(windows, begin, rows) : stripOfOutput(windows, begin, rows);
  }

  Shape shapeOf(size_t operand, int64_t rows) const {
    Shape shape = whole.operands[operand].shape;
    shape[0] = 1;
    shape[rowsDim] = rows;
    return shape;
  }

  /// f32 bytes of the images' pieces, for strips of `rows` rows of the result.
  Bytes bytes(int64_t rows) const {
    const int64_t inputRows = computesInput ? rows : windows.inputOf(rows),
                  outputRows = computesInput ? windows.outputOf(rows) : rows;
    Bytes sum = 0;
    for (size_t i : {input, output})
      if (is16Bit(whole.operands[i].dtype))
        sum += storedBytes(packedLayout(whole.operands[i]),
                           shapeOf(i, i == input ? inputRows : outputRows), DType::F32);
    return sum;
  }

  /// True when strips of both images can be read and written: converted, or as they lie.
  bool canBeSplit() const {
    return std::ranges::all_of(std::initializer_list<size_t>{input, output}, [&](size_t i) {
      const Operand &operand = whole.operands[i];
      return isSplittable(operand.layout, rowsDim) && isOutermost(operand, 0) &&
             (is16Bit(operand.dtype) || layoutInPlace(operand, shapeOf(i, 1)) == operand.layout);
    });
  }

  /// Rows of the result in a strip, a multiple of the stride: the most within the target, at least
  /// as many as a window. None where images need no strips, or no strips are possible.
  std::optional<int64_t> rowsPerStrip() const {
    const Operand &weights = whole.operands[1];
    Bytes target = quarterOf(whole);
    if (is16Bit(weights.dtype))
      target = std::max(target, storedBytes(weights.layout, weights.shape, DType::F32) / 4);
    const int64_t full = resultRows();
    if (bytes(full) <= target || !canBeSplit())
      return std::nullopt;
    const int64_t unit = computesInput ? windows.stride : 1;
    int64_t rows = full;
    for (int64_t strips = 2; rows > std::max(windows.extent, unit) && bytes(rows) > target;
         ++strips)
      rows = alignUp((full + strips - 1) / strips, unit);
    for (int64_t begin = 0; begin < full; begin += rows)
      if (!at(begin, rows))
        return std::nullopt;
    return rows;
  }
};

Split split(const Strips &strips, int64_t rows, PrepareFn prepare) {
  const Command &whole = strips.whole;
  Split result;
  for (int64_t image = 0; image < whole.operands[strips.input].shape[0]; ++image)
    for (int64_t begin = 0; begin < strips.resultRows(); begin += rows) {
      const Strip strip = *strips.at(begin, rows);
      const Shape sizes = {strip.inputRows, strip.outputRows, strip.padBegin, strip.padEnd};
      size_t number = 0;
      while (number < result.commands.size() && result.commands[number].sizes != sizes)
        ++number;
      PieceStep step{number, {}, false};
      PieceCommand piece{whole, {}, prepare, sizes};
      setPads(piece.command, strip);
      for (size_t i = 0; i < whole.operands.size(); ++i) {
        const Operand &operand = whole.operands[i];
        Shape from(operand.shape.size()), shape = operand.shape;
        if (i == strips.input || i == strips.output) {
          from[0] = image;
          from[rowsDim] = i == strips.input ? strip.inputBegin : strip.outputBegin;
          shape = strips.shapeOf(i, i == strips.input ? strip.inputRows : strip.outputRows);
        }
        piece.command.operands[i].shape = shape;
        piece.operands.push_back(i);
        step.boxes.push_back(boxOf(operand, from, shape));
      }
      if (number == result.commands.size())
        result.commands.push_back(std::move(piece));
      result.steps.push_back(std::move(step));
    }
  return result;
}

} // namespace

Split splitConvolution(const Command &whole, PrepareFn prepare) {
  const Strips strips(whole, 0, whole.operands.size() - 1, false);
  std::optional<int64_t> rows = strips.rowsPerStrip();
  return rows ? split(strips, *rows, prepare) : splitImages(whole, prepare);
}

Split splitConvolutionGradInput(const Command &whole, PrepareFn prepare) {
  const Strips strips(whole, 2, 0, true);
  std::optional<int64_t> rows = strips.rowsPerStrip();
  return rows ? split(strips, *rows, prepare) : splitImages(whole, prepare);
}

} // namespace stow::host
