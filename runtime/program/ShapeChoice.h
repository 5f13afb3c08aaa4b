// The shapes that a program's step runs in, and which of them a batch needs: the smallest that holds it.
//
//   shapes     sequence=512   sequence=256   sequence=128         by falling size
//   batch      rows of 70, 180 and 31 positions                   180 in the longest
//   runs in    sequence=256; what is missing is padding: labels that do not count, zeros elsewhere
#pragma once

#include "runtime/data/ArrayFile.h"
#include "runtime/format/Program.h"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace stow {

struct Samples;

/// How arrays of other sizes come into the inputs of a program with several shapes: what they lack is padding, what no row needs is
/// left out.
struct Fitting {
  /// By input, the dimensions in which shapes differ, the rows aside.
  std::map<std::string, std::set<size_t>> open;
  /// The label that does not count, by the input that is labels. The padding of all others is 0.
  std::map<std::string, int64_t> ignored;
  /// Whether a batch may have fewer rows than its shape. The rest repeat its first row, with labels that do not count.
  bool fillsRows = false;
};

/// Absent where the step has one shape: arrays must be of its sizes then.
std::optional<Fitting> fittingOf(const Program &program);

/// Steps of an epoch of so many rows. The last of a program that fills up batches may be of fewer.
int64_t stepsPerEpoch(const Program &program, int64_t rows);

/// What a batch needs in each dimension that shapes differ in.
using Extents = std::vector<int64_t>;

class ShapeChoice {
public:
  explicit ShapeChoice(const Program &program);

  /// Throws Error(BadInput) where no shape holds these extents.
  void requireHeld(const Extents &needed) const;

  /// The smallest shape for so many rows of these extents. Throws Error(BadInput) where none holds them, or where the batch has fewer
  /// rows than every shape and must not be filled up.
  size_t smallestFor(int64_t rows, const Extents &needed) const;

  /// The smallest shape for at most so many rows of these extents, whatever is filled up: of an evaluation, whose rows are counted one by
  /// one. Throws Error(BadInput) where none holds them.
  size_t smallestWithRoom(int64_t rows, const Extents &needed) const;

  /// What arrays of these sizes need, by input.
  Extents extentsOf(const std::map<std::string, Shape> &arrays) const;

  /// What each row needs: up to the last position that a label or a mask counts. Labels are those of a loss over classes, masks are
  /// inputs whose name contains "mask"; in a dimension that has neither, and in one of targets that all count, a row needs all that the
  /// array has. Throws Error(BadInput) naming the first row that no shape holds.
  std::vector<Extents> extentsOfRows(const Samples &samples) const;

  /// The more of both.
  static void include(Extents &needed, const Extents &others);

  /// The sizes that output number `output` of the evaluation in a shape has for arrays of the extents `needed`: in a dimension that
  /// follows from shape to shape an axis, what the arrays need of it. Throws Error(BadInput) where a shape has no such output.
  Shape evaluatedOf(size_t output, size_t shape, const Extents &needed) const;

private:
  /// Dimensions that are alike in every shape.
  struct Axis {
    std::vector<int64_t> extents; ///< by shape
    std::vector<std::pair<const GraphInput *, size_t>> dims;
  };

  bool holds(size_t shape, const Extents &needed) const;
  std::string describe(const Extents &needed) const;

  const Program &program;
  std::vector<Axis> axes;
};

/// Throws Error(BadInput) naming the first row that no shape of the program holds.
void requireShapes(const Program &program, const Samples &samples);

/// How many batches ran in each shape, "batches: 3 in sequence=512, 8 in sequence=128"; empty for one shape.
std::string countsText(const Program &program, std::span<const int64_t> counts);

} // namespace stow
