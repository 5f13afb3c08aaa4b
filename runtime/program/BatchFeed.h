// The batches of a run on their way to the inputs of its graphs, each in the shape that it needs.
#pragma once

#include "runtime/program/Samples.h"
#include "runtime/program/ShapeChoice.h"

#include <span>
#include <string>
#include <vector>

namespace stow {

class BatchFeed {
public:
  /// All must outlive the feed; `fitting` is null where a step has one shape. Throws Error(BadInput) naming a row that no shape holds.
  BatchFeed(const Program &program, const Samples &samples, NonFinite nonFinite,
            const Fitting *fitting);

  /// Brings the samples `rows` into the inputs of the smallest shape that holds them, and returns it: as batch number `inStep` of a step.
  /// Allocates nothing. Throws as Feeder::write and ShapeChoice::smallestFor.
  size_t write(Executor &executor, std::span<const int64_t> rows, int64_t inStep);

  /// Brings all samples to the device where the program keeps them there. Throws as Feeder::write.
  void keep(Executor &executor) {
    lastFeeders.front().keep(executor);
  } // all graphs of a step read the same

  /// What becomes of the rows of an epoch that fill no batch, and the shapes of the program, where there are several, on a line.
  std::string shapesText(int64_t rowCount) const;

  /// How many batches ran in each shape, as a further line; empty for one shape.
  std::string countsText() const;

private:
  const Program &program;
  const ShapeChoice shapes;
  std::vector<Extents> rowExtents; ///< by row; empty for one shape
  std::vector<Feeder> firstFeeders,
      lastFeeders; ///< by shape; of all batches of a step but the last, where there are, and of that
  std::vector<int64_t> counts; ///< by shape
  Extents needed;              ///< of the batch at hand
};

} // namespace stow
