#include "runtime/program/ShapeChoice.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/PlanReport.h"
#include "runtime/program/Samples.h"

#include <algorithm>
#include <cctype>

namespace stow {

namespace {

const GraphProgram &stepGraphOf(const Program &program, size_t shape) {
  return program.graphs[stepGraphIndex(program, 0, shape)];
}

/// The inputs of a step by shape; all shapes have the same.
std::vector<std::vector<const GraphInput *>> inputsByShape(const Program &program) {
  std::vector<std::vector<const GraphInput *>> all;
  for (size_t shape = 0; shape < program.shapeCount(); ++shape)
    all.push_back(sampleInputs(stepGraphOf(program, shape)));
  for (const auto &inputs : all)
    if (!std::ranges::equal(inputs, all.front(), [](const GraphInput *a, const GraphInput *b) {
          return a->name == b->name && a->place.shape.size() == b->place.shape.size();
        }))
      throw Error::badInput("the shapes of the program's step have different inputs");
  return all;
}

/// The label that does not count, of an input that is labels of classes.
std::optional<int64_t> ignoredLabelOf(const Program &program, const GraphInput &input) {
  const bool isTarget = input.role == InputRole::Target && program.loss.readsClasses();
  return isTarget ? std::optional(program.loss.ignoreIndex) : input.padding;
}

bool isMask(const GraphInput &input) {
  std::string name = input.name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return input.role == InputRole::Data && input.indexedRows == 0 &&
         name.find("mask") != std::string::npos;
}

/// Raises needed[i] to what the elements that differ from `padding` take in dimension dims[i] of a row.
void includeRow(const Array &array, int64_t row, double padding, const std::vector<size_t> &dims,
                std::vector<double> &values, Extents &needed) {
  const int64_t count = array.rowElements();
  values.resize(static_cast<size_t>(count));
  convertElements(array.type, array.row(row), DType::F64, reinterpret_cast<char *>(values.data()),
                  count);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t inner = 1;
    for (size_t dim = dims[i] + 1; dim < array.shape.size(); ++dim)
      inner *= array.shape[dim];
    for (int64_t at = 0; at < count; ++at)
      if (values[at] != padding)
        needed[i] = std::max(needed[i], at / inner % array.shape[dims[i]] + 1);
  }
}

} // namespace

std::optional<Fitting> fittingOf(const Program &program) {
  if (program.shapes.empty())
    return std::nullopt;
  Fitting fitting;
  fitting.fillsRows = program.fillsBatches;
  const auto inputs = inputsByShape(program);
  for (size_t i = 0; i < inputs.front().size(); ++i) {
    const GraphInput &input = *inputs.front()[i];
    for (size_t dim = 1; dim < input.place.shape.size(); ++dim)
      if (std::ranges::any_of(inputs, [&](const auto &others) {
            return others[i]->place.shape[dim] != input.place.shape[dim];
          }))
        fitting.open[input.name].insert(dim);
    if (auto ignored = ignoredLabelOf(program, input))
      fitting.ignored[input.name] = *ignored;
  }
  return fitting;
}

int64_t stepsPerEpoch(const Program &program, int64_t rows) {
  const int64_t samples = program.samplesPerStep();
  return program.fillsBatches ? (rows + samples - 1) / samples : rows / samples;
}

ShapeChoice::ShapeChoice(const Program &program) : program(program) {
  const auto inputs = inputsByShape(program);
  for (size_t i = 0; i < inputs.front().size(); ++i)
    for (size_t dim = 1; dim < inputs.front()[i]->place.shape.size(); ++dim) {
      std::vector<int64_t> extents;
      for (const auto &others : inputs)
        extents.push_back(others[i]->place.shape[dim]);
      if (std::ranges::all_of(extents, [&](int64_t extent) { return extent == extents.front(); }))
        continue;
      auto known = std::ranges::find(axes, extents, &Axis::extents);
      if (known == axes.end())
        known = axes.insert(axes.end(), Axis{extents, {}});
      known->dims.emplace_back(inputs.front()[i], dim);
    }
}

void ShapeChoice::include(Extents &needed, const Extents &others) {
  for (size_t i = 0; i < needed.size(); ++i)
    needed[i] = std::max(needed[i], others[i]);
}

bool ShapeChoice::holds(size_t shape, const Extents &needed) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (needed[i] > axes[i].extents[shape])
      return false;
  return true;
}

std::string ShapeChoice::describe(const Extents &needed) const {
  std::string text;
  for (size_t i = 0; i < axes.size(); ++i)
    append(text, text.empty() ? "" : ", ", needed[i], " in dimension ", axes[i].dims.front().second,
           " of '", axes[i].dims.front().first->name, "'");
  return text;
}

void ShapeChoice::requireHeld(const Extents &needed) const {
  if (!holds(0, needed))
    throw Error::badInput(concat("no shape of the program holds ", describe(needed),
                                 "; the largest is ", program.shapes.front().name,
                                 ": shorten the rows, or compile with a larger one (--shapes)"));
}

size_t ShapeChoice::smallestFor(int64_t rows, const Extents &needed) const {
  requireHeld(needed);
  const bool fills = program.fillsBatches;
  for (size_t shape = program.shapeCount(); shape-- > 0;) {
    const int64_t batch = program.batchOf(shape);
    if (holds(shape, needed) && (rows == batch || (fills && rows < batch)))
      return shape;
  }
  std::set<int64_t> batches;
  for (size_t shape = 0; shape < program.shapeCount(); ++shape)
    batches.insert(program.batchOf(shape));
  throw Error::badInput(concat("expected a batch of ", joined(batches, " or "), " rows, found ",
                               rows, "; the batches are fixed when the model is compiled"));
}

size_t ShapeChoice::smallestWithRoom(int64_t rows, const Extents &needed) const {
  requireHeld(needed);
  size_t shape = program.shapeCount() - 1;
  while (shape > 0 && (!holds(shape, needed) || program.batchOf(shape) < rows))
    --shape;
  return shape;
}

Extents ShapeChoice::extentsOf(const std::map<std::string, Shape> &arrays) const {
  Extents needed;
  for (const Axis &axis : axes) {
    int64_t most = 1;
    for (const auto &[input, dim] : axis.dims)
      if (auto found = arrays.find(input->name);
          found != arrays.end() && found->second.size() == input->place.shape.size())
        most = std::max(most, found->second[dim]);
    needed.push_back(most);
  }
  return needed;
}

Shape ShapeChoice::evaluatedOf(size_t output, size_t shape, const Extents &needed) const {
  std::vector<const Shape *> places; // by shape
  for (size_t one = 0; one < program.shapeCount(); ++one) {
    const auto &outputs = program.graphs[graphIndex(program, GraphRole::Eval, one)].outputs;
    if (output >= outputs.size())
      throw Error::badInput("the shapes of the program's evaluation have different outputs");
    places.push_back(&outputs[output].place.shape);
  }
  Shape sizes = *places[shape];
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    for (size_t i = 0; i < axes.size(); ++i)
      if (std::ranges::equal(places, axes[i].extents, [&](const Shape *place, int64_t extent) {
            return dim < place->size() && (*place)[dim] == extent;
          }))
        sizes[dim] = needed[i];
  return sizes;
}

std::vector<Extents> ShapeChoice::extentsOfRows(const Samples &samples) const {
  std::vector<Extents> rows(static_cast<size_t>(samples.rowCount), Extents(axes.size(), 1));
  std::vector<double> values;
  for (size_t i = 0; i < axes.size(); ++i) {
    bool isCounted = false;
    for (const auto &[input, dim] : axes[i].dims) {
      const auto ignored = ignoredLabelOf(program, *input);
      const Array &array = samples.byInput.at(input->name);
      if (array.shape.size() != input->place.shape.size() || samples.whole.contains(input->name))
        continue;
      if (!ignored && input->role == InputRole::Target) // whose every number counts
        for (Extents &row : rows)
          row[i] = std::max(row[i], array.shape[dim]);
      if (!ignored && !isMask(*input))
        continue;
      isCounted = true;
      for (size_t row = 0; row < rows.size(); ++row) {
        Extents needed = {rows[row][i]};
        includeRow(array, static_cast<int64_t>(row), ignored ? static_cast<double>(*ignored) : 0,
                   {dim}, values, needed);
        rows[row][i] = needed.front();
      }
    }
    if (!isCounted)
      for (const auto &[input, dim] : axes[i].dims)
        if (const Shape &shape = samples.byInput.at(input->name).shape;
            shape.size() == input->place.shape.size())
          for (Extents &row : rows)
            row[i] = std::max(row[i], shape[dim]);
  }
  for (size_t row = 0; row < rows.size(); ++row)
    if (!holds(0, rows[row]))
      throw Error::badInput(concat(samples.byInput.begin()->second.place, ": row ", row, " needs ",
                                   describe(rows[row]), "; the largest shape is ",
                                   program.shapes.front().name,
                                   ": shorten the row, or compile with a larger one (--shapes)"));
  return rows;
}

void requireShapes(const Program &program, const Samples &samples) {
  if (!program.shapes.empty())
    (void)ShapeChoice(program).extentsOfRows(samples);
}

std::string countsText(const Program &program, std::span<const int64_t> counts) {
  std::string text;
  for (size_t shape = 0; shape < program.shapes.size(); ++shape)
    append(text, text.empty() ? "batches: " : ", ", groupDigits(counts[shape]), " in ",
           program.shapes[shape].name);
  return text;
}

} // namespace stow
