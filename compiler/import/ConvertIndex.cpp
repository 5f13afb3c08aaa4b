// Reading and writing by index. Constant indices in few runs are slices; all others are read by one
// of two ops: rows of a table (stow.embedding) or elements along a dimension (stow.take_along).
#include "compiler/import/GraphImport.h"
#include "ir/StowDetachOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowScatterOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <map>
#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Indices of a node: constant where they are known, else a value.
struct Indices {
  std::optional<Literal> known;
  Value value;

  Shape shape() const { return known ? known->shape : shapeOf(value); }
};

Indices indicesOf(NodeImport &node, size_t input) {
  if (const Literal *known = node.literal(input)) {
    if (known->isFloat() || known->ints.empty())
      throw Error::badInput("reads with indices that are no integers, or with none");
    return {*known, {}};
  }
  Value value = node.value(input);
  if (!elementOf(value).isInteger(32) && !elementOf(value).isInteger(64))
    throw Error::badInput("reads with indices that are no integers");
  return {std::nullopt, value};
}

/// Checks known indices against the extent they count in.
void checkRange(const Indices &indices, int64_t extent) {
  if (!indices.known)
    return;
  for (int64_t at : indices.known->ints)
    if (at < -extent || at >= extent)
      throw Error::badInput(absl::StrCat("reads element ", at, " of ", extent));
}

/// The same indices under another shape of as many elements.
Indices reshaped(NodeImport &node, Indices indices, const Shape &shape) {
  if (indices.known)
    indices.known->shape = shape;
  else
    indices.value = node.reshape(indices.value, shape);
  return indices;
}

Value valueOf(NodeImport &node, const Indices &indices) {
  return indices.known ? node.integers(indices.known->ints, indices.known->shape) : indices.value;
}

int64_t product(const Shape &shape, size_t begin, size_t end) {
  return elementCount(Shape(shape.begin() + begin, shape.begin() + end));
}

Value takeAlong(NodeImport &node, Value x, const Indices &indices, int64_t axis) {
  return node.emit<TakeAlongOp>({x, valueOf(node, indices)},
                                [&](TakeAlongOp::Properties &p) { p.axis = node.i64(axis); });
}

/// Known indices without the dimensions along which they repeat (but `axis`), and computed ones
/// without a repetition that was just made: indices cost memory, their gradient keeps them.
Indices compressed(Indices indices, int64_t axis) {
  if (!indices.known) {
    auto repeat = indices.value.getDefiningOp<BroadcastToOp>();
    Shape shape = shapeOf(indices.value);
    if (repeat && shapeOf(repeat.getX()).size() == shape.size() &&
        shapeOf(repeat.getX())[axis] == shape[axis])
      indices.value = repeat.getX();
    return indices;
  }
  Literal &known = *indices.known;
  for (int64_t dim = 0; dim < static_cast<int64_t>(known.shape.size()); ++dim) {
    int64_t extent = known.shape[dim], inner = product(known.shape, dim + 1, known.shape.size());
    if (dim == axis || extent == 1)
      continue;
    auto first = [&](int64_t i) { return i / (extent * inner) * (extent * inner) + i % inner; };
    bool repeats = true;
    for (int64_t i = 0; repeats && i < known.size(); ++i)
      repeats = known.ints[i] == known.ints[first(i)];
    if (!repeats)
      continue;
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < known.size(); ++i)
      if (i / inner % extent == 0)
        kept.push_back(known.ints[i]);
    known.ints = std::move(kept);
    known.shape[dim] = 1;
  }
  return indices;
}

/// The row of an embedding table that torch.nn.Embedding does not train, padding_idx. ONNX has no
/// place for it; the default exporter of PyTorch writes the operation that the node comes from.
std::optional<int64_t> paddingRowOf(NodeImport &node, int64_t rows) {
  const std::string &operation = node.node().fxNode;
  if (operationOf(operation) != "embedding.default")
    return std::nullopt;
  if (argumentOf(operation, 3) == "True")
    throw Error::badInput(
        "the embedding scales its gradient by frequency, which has no counterpart; build it "
        "without scale_grad_by_freq");
  int64_t padding = -1;
  if (StringRef(argumentOf(operation, 2)).getAsInteger(10, padding) || padding < 0 ||
      padding >= rows)
    return std::nullopt;
  return padding;
}

/// Rows of `table` [rows, width] by indices of any shape: [indices..., width]. No gradient flows
/// into the row `padding`.
Value rowsOf(NodeImport &node, Value table, const Indices &indices,
             std::optional<int64_t> padding = std::nullopt) {
  if (isa<FloatType>(elementOf(table)))
    return node.emit<EmbeddingOp>({table, valueOf(node, indices)}, [&](EmbeddingOp::Properties &p) {
      if (padding)
        p.padding_index = node.i64(*padding);
    });
  Shape shape = indices.shape(), result = shape;
  Indices column = reshaped(node, indices, {elementCount(shape), 1});
  result.push_back(shapeOf(table)[1]);
  return node.reshape(takeAlong(node, table, column, 0), result);
}

//===-- Gather --------------------------------------------------------------------------------===//

/// Runs of consecutive indices: first index and count.
using Runs = SmallVector<std::pair<int64_t, int64_t>>;

Runs runsOf(const Literal &index, int64_t extent) {
  Runs runs;
  for (int64_t at : index.ints) {
    at += at < 0 ? extent : 0;
    if (runs.empty() || at != runs.back().first + runs.back().second)
      runs.push_back({at, 0});
    ++runs.back().second;
  }
  return runs;
}

/// Every run is a slice.
Value joinedRuns(NodeImport &node, Value x, const Runs &runs, int64_t axis) {
  Shape starts(shapeOf(x).size(), 0), sizes = shapeOf(x);
  SmallVector<Value> parts;
  for (auto [start, count] : runs) {
    starts[axis] = start;
    sizes[axis] = count;
    parts.push_back(node.slice(x, starts, sizes));
  }
  if (parts.size() == 1)
    return parts.front();
  return node.emit<ConcatOp>(parts, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); });
}

void convertGather(NodeImport &node) {
  constexpr size_t maxRuns = 64;
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0)
    throw Error::badInput("gathers from a scalar");
  int64_t axis = normalizedAxis(node.integer("axis", 0), rank);
  Indices indices = indicesOf(node, 1);
  checkRange(indices, shape[axis]);
  Shape picks = indices.shape(), result(shape.begin(), shape.begin() + axis);
  result.insert(result.end(), picks.begin(), picks.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  std::optional<int64_t> padding = axis == 0 ? paddingRowOf(node, shape[0]) : std::nullopt;
  if (indices.known && !(padding && llvm::is_contained(indices.known->ints, *padding)))
    if (Runs runs = runsOf(*indices.known, shape[axis]); runs.size() <= maxRuns)
      return node.bind(0, node.reshape(joinedRuns(node, x, runs, axis), result));
  if (axis == 0) {
    Value table = node.reshape(x, {shape[0], product(shape, 1, rank)});
    return node.bind(0, node.reshape(rowsOf(node, table, indices, padding), result));
  }
  Shape column(rank, 1);
  column[axis] = elementCount(picks);
  node.bind(0, node.reshape(takeAlong(node, x, reshaped(node, indices, column), axis), result));
}

/// Checks that there are no more indices than data outside `axis`.
void checkExtents(const Shape &shape, const Shape &sizes, int64_t axis) {
  if (sizes.size() != shape.size())
    throw Error::badInput(absl::StrCat("expects indices of the data's rank ", shape.size(),
                                       ", found rank ", sizes.size()));
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim)
    if (dim != axis && sizes[dim] > shape[dim])
      throw Error::badInput(absl::StrCat("has more indices than data in dimension ", dim));
}

/// The first elements of `x` along the dimensions but `axis` where `sizes` has fewer.
Value cutTo(NodeImport &node, Value x, Shape sizes, int64_t axis) {
  Shape shape = shapeOf(x);
  checkExtents(shape, sizes, axis);
  sizes[axis] = shape[axis];
  return sizes == shape ? x : node.slice(x, Shape(shape.size(), 0), sizes);
}

void convertGatherElements(NodeImport &node) {
  Value x = node.value(0);
  int64_t axis = normalizedAxis(node.integer("axis", 0), shapeOf(x).size());
  Indices indices = indicesOf(node, 1);
  checkRange(indices, shapeOf(x)[axis]);
  Shape result = indices.shape();
  x = cutTo(node, x, result, axis);
  node.bind(0, takeAlong(node, x, compressed(indices, axis), axis));
}

//===-- Tuples of indices ---------------------------------------------------------------------===//

/// Row-major numbers of the elements that tuples of `extents.size()` indices (the last dimension)
/// name. Tuples outside the extents get a number outside as well.
Indices linearized(NodeImport &node, const Indices &tuples, const Shape &extents) {
  auto width = static_cast<int64_t>(extents.size());
  Shape shape = tuples.shape();
  shape.pop_back();
  if (tuples.known) {
    Literal linear{ElementType::Int64, shape, {}, {}};
    for (int64_t i = 0; i < tuples.known->size(); i += width) {
      int64_t number = 0;
      for (int64_t j = 0; j < width; ++j) {
        int64_t at = tuples.known->ints[i + j];
        if (at < -extents[j] || at >= extents[j])
          throw Error::badInput(absl::StrCat("names element ", at, " of ", extents[j]));
        number = number * extents[j] + at + (at < 0 ? extents[j] : 0);
      }
      linear.ints.push_back(number);
    }
    return {linear, {}};
  }
  if (width == 1)
    return {std::nullopt, node.reshape(tuples.value, shape)};
  Value number, valid;
  for (int64_t j = 0; j < width; ++j) {
    Shape start(shape.size() + 1, 0), size = tuples.shape();
    start.back() = j;
    size.back() = 1;
    Value at = node.reshape(node.slice(tuples.value, start, size), shape);
    Value zero = node.scalar(0, at), end = node.scalar(double(extents[j]), at);
    at = node.emit<SelectOp>({node.compare(at, zero, "lt"), node.emit<AddOp>({at, end}), at});
    Value above = node.compare(at, zero, "ge"), below = node.compare(at, end, "lt");
    Value inside = node.emit<SelectOp>({above, below, above});
    valid = valid ? node.emit<SelectOp>({valid, inside, valid}) : inside;
    number = number ? node.emit<AddOp>({node.emit<MulOp>({number, end}), at}) : at;
  }
  Value outside = node.scalar(double(elementCount(extents)), number);
  return {std::nullopt, node.emit<SelectOp>({valid, number, outside})};
}

/// The parts of a shape that tuples of indices see: batch, what they name, the rest.
struct TupleSpace {
  int64_t batch, named, rest;
  Shape extents; ///< of what they name
};

TupleSpace tupleSpace(const Shape &shape, const Shape &tuples, int64_t batchDims) {
  auto rank = static_cast<int64_t>(shape.size());
  if (tuples.empty() || batchDims < 0 || batchDims >= static_cast<int64_t>(tuples.size()) ||
      batchDims + tuples.back() > rank || tuples.back() < 1 ||
      !std::equal(shape.begin(), shape.begin() + std::min(batchDims, rank), tuples.begin()))
    throw Error::badInput("has tuples of indices that do not fit the data");
  int64_t end = batchDims + tuples.back();
  return {product(shape, 0, batchDims), product(shape, batchDims, end), product(shape, end, rank),
          Shape(shape.begin() + batchDims, shape.begin() + end)};
}

/// True for the numbers 0 to extent - 1.
bool namesAllInOrder(const Indices &indices, int64_t extent) {
  if (!indices.known || indices.known->size() != extent)
    return false;
  for (int64_t i = 0; i < extent; ++i)
    if (indices.known->ints[i] != i)
      return false;
  return true;
}

void convertGatherND(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  Indices tuples = indicesOf(node, 1);
  Shape picks = tuples.shape();
  int64_t batchDims = node.integer("batch_dims", 0);
  TupleSpace space = tupleSpace(shape, picks, batchDims);
  Shape result(picks.begin(), picks.end() - 1);
  result.insert(result.end(), shape.begin() + batchDims + picks.back(), shape.end());
  Indices linear = linearized(node, tuples, space.extents);
  int64_t count = product(picks, batchDims, picks.size() - 1);
  if (space.batch == 1 && namesAllInOrder(linear, space.named))
    return node.bind(0, node.reshape(x, result));
  if (space.batch == 1) {
    Value table = node.reshape(x, {space.named, space.rest});
    return node.bind(0, node.reshape(rowsOf(node, table, reshaped(node, linear, {count})), result));
  }
  Value y = takeAlong(node, node.reshape(x, {space.batch, space.named, space.rest}),
                      reshaped(node, linear, {space.batch, count, 1}), 1);
  node.bind(0, node.reshape(y, result));
}

//===-- Scatter -------------------------------------------------------------------------------===//

Value scatterAlong(NodeImport &node, Value updates, Value indices, int64_t axis, int64_t extent) {
  return node.emit<ScatterAlongOp>({updates, indices}, [&](ScatterAlongOp::Properties &p) {
    p.axis = node.i64(axis);
    p.extent = node.i64(extent);
  });
}

/// `x` with zeros behind it up to the extents of `shape`.
Value grownTo(NodeImport &node, Value x, const Shape &shape) {
  Shape after = shape;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    after[dim] -= shapeOf(x)[dim];
  if (after == Shape(shape.size(), 0))
    return x;
  return node.emit<PadOp>(x, [&](PadOp::Properties &p) {
    p.before = node.array(Shape(shape.size(), 0));
    p.after = node.array(after);
    p.value = node.f64(0);
  });
}

/// What known indices along `axis` write: for every element the number of the update that it gets
/// (-1 where there is none), in the shape of the indices with the data's extent. Two updates of one
/// element are an error: ONNX does not say which counts, and PyTorch's former exporter writes a sum
/// (index_add) so.
Literal sourcesOf(const Literal &indices, int64_t axis, int64_t extent) {
  Literal sources{ElementType::Int64, indices.shape, {}, {}};
  sources.shape[axis] = extent;
  sources.ints.assign(elementCount(sources.shape), -1);
  int64_t inner = product(indices.shape, axis + 1, indices.shape.size());
  int64_t count = indices.shape[axis];
  for (int64_t i = 0; i < indices.size(); ++i) {
    int64_t at = indices.ints[i] + (indices.ints[i] < 0 ? extent : 0);
    int64_t &source = sources.ints[(i / inner / count * extent + at) * inner + i % inner];
    if (source >= 0)
      throw Error::badInput(absl::StrCat(
          "writes element ", at, " of dimension ", axis,
          " twice, without a reduction: which update counts is not defined; where a sum was meant, "
          "export with dynamo=True"));
    source = i / inner % count;
  }
  return sources;
}

/// True for indices computed from the places of maxima of windows that overlap: two windows may have
/// one maximum.
bool mayRepeatMaxima(Value indices) {
  SmallVector<Value> open = {indices};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto pool = dyn_cast<MaxPoolOp>(op))
      return llvm::any_of(llvm::zip_equal(pool.getKernel(), pool.getStrides()),
                          [](auto pair) { return std::get<0>(pair) > std::get<1>(pair); });
    // Whole numbers and masks, and what masks compare.
    for (Value operand : op->getOperands())
      if (isa<IntegerType>(elementOf(operand)) || isa<CompareOp>(op))
        open.push_back(operand);
  }
  return false;
}

/// How many updates each element gets along `axis`.
Value arrivalsOf(NodeImport &node, const Indices &indices, int64_t axis, int64_t extent,
                 Type element) {
  Value at = valueOf(node, indices);
  auto type = RankedTensorType::get(shapeOf(at), element);
  Value one = node.tensor(Literal{ElementType::Double, {}, {}, {1}}, element);
  return scatterAlong(node, node.emitAs<BroadcastToOp>(one, type), at, axis, extent);
}

/// The one value that all updates have, where it is known.
std::optional<double> uniformValue(const Literal *updates) {
  if (!updates || updates->size() == 0)
    return std::nullopt;
  for (int64_t i = 1; i < updates->size(); ++i)
    if (updates->number(i) != updates->number(0))
      return std::nullopt;
  return updates->number(0);
}

/// PyTorch's scatter_reduce with reduce='mean', which ONNX has no word for: the default exporter
/// writes reduction="none" beside the operation. With include_self=False it has written zeros where
/// updates arrive before, beside the same operation: what the mean of zeros alone writes, too.
bool isScatterMean(NodeImport &node, bool countsSelf) {
  const std::string &operation = node.node().fxNode;
  return operationOf(operation) == "scatter_reduce.two" && argumentOf(operation, 4) == "mean" &&
         (countsSelf || uniformValue(node.literal(2)) != 0.0);
}

/// What is written: the data, where it goes along `axis`, and the updates.
struct Scatter {
  Value data;
  Indices indices;
  Value updates;
  int64_t axis;

  int64_t extent() const { return shapeOf(data)[axis]; }
  /// The part of the data that updates may reach.
  Shape reach() const {
    Shape shape = shapeOf(updates);
    shape[axis] = extent();
    return shape;
  }
};

/// The data with the updates' mean along the axis: of what arrives and, where it counts, what is
/// there.
Value scatteredMean(NodeImport &node, const Scatter &scatter, bool countsSelf) {
  Shape shape = shapeOf(scatter.data);
  Value sums = scatterAlong(node, scatter.updates, valueOf(node, scatter.indices), scatter.axis,
                            scatter.extent());
  Value counts =
      arrivalsOf(node, scatter.indices, scatter.axis, scatter.extent(), elementOf(scatter.data));
  if (shapeOf(counts) != shapeOf(sums))
    counts =
        node.emitAs<BroadcastToOp>(counts, RankedTensorType::get(shapeOf(sums), elementOf(counts)));
  counts = grownTo(node, counts, shape);
  Value one = node.scalar(1, counts);
  counts = countsSelf ? node.emit<AddOp>({counts, one}) : node.emit<MaximumOp>({counts, one});
  return node.emit<DivOp>({node.emit<AddOp>({scatter.data, grownTo(node, sums, shape)}), counts});
}

/// `part`, as large as the updates reach, in the place of the data's first elements.
Value putBack(NodeImport &node, const Scatter &scatter, Value part) {
  Shape shape = shapeOf(scatter.data);
  if (shapeOf(part) == shape)
    return part;
  Value one = node.tensor(Literal{ElementType::Bool, {}, {1}, {}}, node.builder().getI1Type());
  Value mask = node.emitAs<BroadcastToOp>(one, node.typeOf(ElementType::Bool, shapeOf(part)));
  return node.emit<SelectOp>(
      {grownTo(node, mask, shape), grownTo(node, part, shape), scatter.data});
}

/// What is there joined with what arrives along the axis by its maxima or, of the negatives, minima,
/// or by its product.
Value scatteredJoin(NodeImport &node, const Scatter &scatter, const std::string &reduction) {
  if (elementOf(scatter.data).isInteger(1))
    throw Error::badInput("reduces masks by '" + reduction + "'");
  Shape reach = scatter.reach();
  Value data = reach == shapeOf(scatter.data)
                   ? scatter.data
                   : node.slice(scatter.data, Shape(reach.size(), 0), reach);
  auto signedOf = [&](Value value) -> Value {
    return reduction == "min" ? node.emit<NegOp>(value) : value;
  };
  SmallVector<Value> operands = {signedOf(data), signedOf(scatter.updates),
                                 valueOf(node, scatter.indices)};
  auto set = [&](auto &p) { p.axis = node.i64(scatter.axis); };
  Value y = reduction == "mul" ? node.emit<ScatterMulOp>(operands, set)
                               : node.emit<ScatterMaxOp>(operands, set);
  return putBack(node, scatter, signedOf(y));
}

/// Where updates arrive, and what: known indices say which update every element gets, computed ones
/// count (as the operator demands, at most one). One value that all updates have may arrive often.
std::pair<Value, Value> writtenBy(NodeImport &node, const Scatter &scatter,
                                  std::optional<double> uniform) {
  const Indices &indices = scatter.indices;
  Value updates = scatter.updates;
  if (indices.known && !uniform) {
    Literal sources = sourcesOf(*indices.known, scatter.axis, scatter.extent()), chosen = sources;
    for (int64_t i = 0; i < sources.size(); ++i) {
      chosen.ints[i] = sources.ints[i] >= 0;
      sources.ints[i] = std::max<int64_t>(sources.ints[i], 0);
    }
    Value written = takeAlong(node, updates, {sources, {}}, scatter.axis);
    return {node.tensor(chosen, node.builder().getI1Type()), written};
  }
  if (!indices.known && !uniform && mayRepeatMaxima(indices.value))
    throw Error::badInput("writes at the places of maxima of windows that overlap, where two may "
                          "name one element; pool with a stride of the window's size");
  Type counter = indices.known ? node.builder().getI32Type() : elementOf(indices.value);
  Value arrivals = arrivalsOf(node, indices, scatter.axis, scatter.extent(), counter);
  Value mask = node.compare(arrivals, node.scalar(0, arrivals), "gt");
  if (uniform)
    return {mask, node.scalar(*uniform, updates)};
  bool isMask = elementOf(updates).isInteger(1);
  Value numbers = isMask ? node.cast(updates, node.builder().getI32Type()) : updates;
  Value written = scatterAlong(node, numbers, indices.value, scatter.axis, scatter.extent());
  return {mask, node.cast(written, elementOf(updates))};
}

/// The data with updates written or joined to it along the axis.
Value scattered(NodeImport &node, Scatter scatter) {
  std::string reduction = node.text("reduction", "none");
  Shape shape = shapeOf(scatter.data), reach = scatter.reach();
  checkRange(scatter.indices, scatter.extent());
  scatter.indices = compressed(scatter.indices, scatter.axis);
  const bool countsSelf = node.node().fxNode.find("include_self: False") == std::string::npos;
  if (reduction == "none" && isScatterMean(node, countsSelf))
    return scatteredMean(node, scatter, countsSelf);
  if (reduction == "add") {
    Value sums = scatterAlong(node, scatter.updates, valueOf(node, scatter.indices), scatter.axis,
                              scatter.extent());
    return node.emit<AddOp>({scatter.data, grownTo(node, sums, shape)});
  }
  if (reduction == "max" || reduction == "min" || reduction == "mul")
    return scatteredJoin(node, scatter, reduction);
  if (reduction != "none")
    throw Error::badInput("reduces by '" + reduction + "'; expected none, add, mul, max or min");
  const std::optional<double> uniform = uniformValue(node.literal(2));
  auto [mask, written] = writtenBy(node, scatter, uniform);
  if (reach != shape && shapeOf(mask) != reach) // repeated only as far as the updates reach
    mask = node.emitAs<BroadcastToOp>(mask, node.typeOf(ElementType::Bool, reach));
  if (reach != shape)
    mask = grownTo(node, mask, shape);
  return node.emit<SelectOp>(
      {mask, uniform ? written : grownTo(node, written, shape), scatter.data});
}

void convertScatterElements(NodeImport &node) {
  Value data = node.value(0), updates = node.value(2);
  int64_t axis = normalizedAxis(node.integer("axis", 0), shapeOf(data).size());
  Indices indices = indicesOf(node, 1);
  if (shapeOf(updates) != indices.shape())
    throw Error::badInput("expects as many updates as indices");
  checkExtents(shapeOf(data), shapeOf(updates), axis);
  node.bind(0, scattered(node, {data, indices, updates, axis}));
}

void convertScatterND(NodeImport &node) {
  Value data = node.value(0), updates = node.value(2);
  Shape shape = shapeOf(data);
  Indices tuples = indicesOf(node, 1);
  TupleSpace space = tupleSpace(shape, tuples.shape(), 0);
  Indices linear = linearized(node, tuples, space.extents);
  int64_t count = elementCount(linear.shape());
  if (elementCount(shapeOf(updates)) != count * space.rest)
    throw Error::badInput("has updates that do not fit the indices and the data");
  Value y = scattered(node, {node.reshape(data, {space.named, space.rest}),
                             reshaped(node, linear, {count, 1}),
                             node.reshape(updates, {count, space.rest}), 0});
  node.bind(0, node.reshape(y, shape));
}

/// PyTorch's exporter writes what differs between training and evaluation, a word of stowage.export, as a choice that is made for
/// training, beside the operation that it was.
void convertWhere(NodeImport &node) {
  if (operationOf(node.node().fxNode) == "in_training.default")
    return node.bind(0, node.emit<InTrainingOp>({node.value(1), node.value(2)}));
  Value condition = node.value(0);
  if (!elementOf(condition).isInteger(1))
    throw Error::badInput("chooses by a condition that is no boolean");
  node.bind(0, node.emit<SelectOp>({condition, node.value(1), node.value(2)}));
}

/// A tensor that rows are read of: one with data of its own, or an input read by data. Nobody picks fixed
/// samples of a batch: read by constants along dimension 0, it is a table too.
void usesOfGather(UseSite &site) {
  if (!site.isOwn(0) || site.node.inputs.size() != 2)
    return;
  auto axis = site.node.attributes.find("axis");
  const bool alongFirst = axis == site.node.attributes.end() || axis->second.i == 0;
  if (site.hasData(0) ? site.rankOf(0).value_or(2) >= 2 : !site.hasData(1) || alongFirst)
    site.use(0, Use::Table);
}

/// A learned token in the place of masked elements: named by the module.
void usesOfWhere(UseSite &site) {
  for (size_t i : {1, 2})
    if (i < site.node.inputs.size() && site.isNamedByModule(i))
      site.use(i, Use::Shift);
}

} // namespace

void addIndexRules(RuleTable &table) {
  table["Gather"] = {convertGather, 2, 2};
  table["GatherElements"] = {convertGatherElements, 2, 2};
  table["GatherND"] = {convertGatherND, 2, 2};
  table["ScatterElements"] = {convertScatterElements, 3, 3};
  table["Scatter"] = {convertScatterElements, 3, 3};
  table["ScatterND"] = {convertScatterND, 3, 3};
  table["Where"] = {convertWhere, 3, 3};
  takeWeights(table, {OpWeights::Kind::Layer, usesOfGather}, {"Gather"});
  // What is written into a tensor is no part of it by any rule.
  takeWeights(table, {OpWeights::Kind::View, [](UseSite &) {}},
              {"ScatterElements", "Scatter", "ScatterND"});
  takeWeights(table, {OpWeights::Kind::Data, usesOfWhere}, {"Where"});
}

} // namespace stow::onnx
