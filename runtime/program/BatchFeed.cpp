#include "runtime/program/BatchFeed.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Text.h"

#include <ranges>

namespace stow {

BatchFeed::BatchFeed(const Program &program, const Samples &samples, NonFinite nonFinite,
                     const Fitting *fitting)
    : program(program), shapes(program), counts(program.shapeCount()) {
  if (fitting)
    rowExtents = shapes.extentsOfRows(samples);
  if (!rowExtents.empty())
    needed = rowExtents.front();
  const int64_t last = program.batchesPerStep - 1;
  for (size_t shape = 0; shape < program.shapeCount(); ++shape) {
    lastFeeders.emplace_back(program.graphs[stepGraphIndex(program, last, shape)], samples,
                             nonFinite, fitting);
    if (last > 0)
      firstFeeders.emplace_back(program.graphs[stepGraphIndex(program, 0, shape)], samples,
                                nonFinite, fitting);
  }
}

size_t BatchFeed::write(Executor &executor, std::span<const int64_t> rows, int64_t inStep) {
  size_t shape = 0;
  if (!rowExtents.empty()) {
    needed = rowExtents[static_cast<size_t>(rows.front())];
    for (int64_t row : rows)
      ShapeChoice::include(needed, rowExtents[static_cast<size_t>(row)]);
    shape = shapes.smallestFor(static_cast<int64_t>(rows.size()), needed);
  }
  (inStep == program.batchesPerStep - 1 ? lastFeeders : firstFeeders)[shape].write(executor, rows);
  ++counts[shape];
  return shape;
}

std::string BatchFeed::shapesText(int64_t rowCount) const {
  const int64_t rest = rowCount - stepsPerEpoch(program, rowCount) * program.samplesPerStep();
  std::string text;
  if (rest > 0)
    append(text, " (the last ", rest, " rows of an epoch's order are left out)");
  if (rest < 0)
    append(text, ", the last of ", rest + program.samplesPerStep(), " rows");
  if (program.shapes.empty())
    return text;
  return text + "\neach batch in the smallest that holds it: " +
         joined(program.shapes | std::views::transform(&ProgramShape::name), "; ");
}

std::string BatchFeed::countsText() const {
  const std::string text = stow::countsText(program, counts);
  return text.empty() ? text : "\n" + text;
}

} // namespace stow
