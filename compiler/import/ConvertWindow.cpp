// Convolution, transposed convolution and pooling. One-dimensional windows run as two-dimensional
// ones of height 1; pooling in three dimensions over the first alone (PyTorch's local response
// normalization averages over channels so) runs with the other two merged.
#include "compiler/import/ConvertResample.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <limits>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Window attributes over two or three dimensions: the pads before each, then those after.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
  std::vector<int64_t> ceilExtra; ///< what ceil_mode added to the end pads
};

/// Attribute `name` with `rank` entries in [low, 2^31), or `fallback` in each.
std::vector<int64_t> windowAttribute(NodeImport &node, const char *name, size_t count, int64_t low,
                                     int64_t fallback) {
  std::vector<int64_t> values = node.integers(name).value_or(std::vector<int64_t>(count, fallback));
  if (values.size() != count)
    throw Error::badInput(
        absl::StrCat("attribute '", name, "' has ", values.size(), " entries, expected ", count));
  for (int64_t value : values)
    if (value < low || value > INT32_MAX)
      throw Error::badInput(
          absl::StrCat("attribute '", name, "' holds ", value, ", expected at least ", low));
  return values;
}

/// Pads of one dimension under auto_pad: as many outputs as extent / stride, rounded up.
std::pair<int64_t, int64_t> samePads(int64_t extent, int64_t window, int64_t stride, bool upper) {
  int64_t outputs = (extent + stride - 1) / stride;
  int64_t total = std::max<int64_t>((outputs - 1) * stride + window - extent, 0);
  int64_t small = total / 2, large = total - small;
  return upper ? std::pair(small, large) : std::pair(large, small);
}

/// What ceil_mode adds to the end pad so that rounding down gives the rounded-up count. A last
/// window that would start beyond the input and its leading pad is dropped, as PyTorch does.
int64_t ceilPad(int64_t extent, int64_t before, int64_t after, int64_t window, int64_t stride) {
  int64_t span = extent + before + after - window;
  if (span < 0 || span % stride == 0)
    return 0;
  int64_t outputs = span / stride + 2;
  if ((outputs - 1) * stride >= extent + before)
    return 0;
  return (outputs - 1) * stride + window - (extent + before + after);
}

/// True for a window over the first of three dimensions.
bool isOneDeep(const Window &window) {
  for (size_t d : {1, 2})
    if (window.kernel[d] != 1 || window.strides[d] != 1 || window.pads[d] != 0 ||
        window.pads[d + 3] != 0)
      return false;
  return true;
}

/// Makes a window of depth d, height and width 1 one of height d and width 1.
void mergePlane(Window &window) {
  for (auto *list : {&window.kernel, &window.strides, &window.dilations, &window.ceilExtra})
    list->pop_back();
  window.pads = {window.pads[0], 0, window.pads[3], 0};
}

/// Reads the window over `spatial`; `kernel` is the weight's for convolutions.
Window readWindow(NodeImport &node, Shape spatial, std::vector<int64_t> kernel) {
  size_t rank = spatial.size();
  if (rank > 3)
    throw Error::badInput(
        absl::StrCat("works on ", rank, " spatial dimensions; 1 to 3 are supported"));
  Window window{std::move(kernel), windowAttribute(node, "strides", rank, 1, 1),
                windowAttribute(node, "dilations", rank, 1, 1),
                windowAttribute(node, "pads", 2 * rank, 0, 0), std::vector<int64_t>(rank, 0)};
  std::string autoPad = node.text("auto_pad", "NOTSET");
  bool upper = autoPad == "SAME_UPPER", same = upper || autoPad == "SAME_LOWER";
  if (!same && autoPad != "NOTSET" && autoPad != "VALID" && !autoPad.empty())
    throw Error::badInput("attribute 'auto_pad' is '" + autoPad + "'");
  bool ceil = node.flag("ceil_mode", false);
  for (size_t d = 0; d < rank; ++d) {
    int64_t extent = window.dilations[d] * (window.kernel[d] - 1) + 1;
    int64_t &before = window.pads[d], &after = window.pads[d + rank];
    if (same)
      std::tie(before, after) = samePads(spatial[d], extent, window.strides[d], upper);
    else if (autoPad == "VALID")
      before = after = 0;
    if (ceil && !same)
      window.ceilExtra[d] = ceilPad(spatial[d], before, after, extent, window.strides[d]);
    after += window.ceilExtra[d];
  }
  if (rank == 1) {
    for (auto *list : {&window.kernel, &window.strides, &window.dilations})
      list->insert(list->begin(), 1);
    window.ceilExtra.insert(window.ceilExtra.begin(), 0);
    window.pads = {0, window.pads[0], 0, window.pads[1]};
  }
  return window;
}

/// [N,C,L] as [N,C,1,L] and, with `merged`, [N,C,D,H,W] as [N,C,D,H*W]; others as they are.
Value inPlane(NodeImport &node, Value x, bool merged = false) {
  Shape shape = shapeOf(x);
  if (shape.size() == 3)
    shape.insert(shape.begin() + 2, 1);
  if (merged)
    shape = {shape[0], shape[1], shape[2], shape[3] * shape[4]};
  return node.reshape(x, shape);
}

/// `y` under the rank of the node's data.
Value atRank(NodeImport &node, Value y) {
  const Shape &data = node.shape(0);
  Shape shape = shapeOf(y);
  if (data.size() == 3)
    shape.erase(shape.begin() + 2);
  if (data.size() == 5 && shape.size() == 4)
    shape = {shape[0], shape[1], shape[2], data[3], data[4]};
  return node.reshape(y, shape);
}

Shape spatialOf(NodeImport &node) {
  const Shape &shape = node.shape(0);
  if (shape.size() < 3)
    throw Error::badInput(
        absl::StrCat("works on a tensor of rank ", shape.size(), "; expected [N,C,spatial...]"));
  return Shape(shape.begin() + 2, shape.end());
}

template <typename Properties>
void setConvolution(NodeImport &node, Properties &p, const Window &window, int64_t groups) {
  p.strides = node.array(window.strides);
  p.pads = node.array(window.pads);
  p.dilations = node.array(window.dilations);
  p.groups = node.i64(groups);
}

int64_t groupsOf(NodeImport &node, int64_t channels) {
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || groups > channels)
    throw Error::badInput(absl::StrCat("attribute 'group' is ", groups));
  return groups;
}

/// True where the bias is left out: absent, or known zeros, one row of them per channel. PyTorch's
/// exporter writes zeros for a missing bias, for a convolution over volumes two per channel.
bool lacksBias(NodeImport &node, int64_t channels) {
  const Literal *known = node.literal(2);
  return !node.has(2) ||
         (known && known->isFloat() && !known->shape.empty() && known->shape[0] == channels &&
          llvm::all_of(known->floats, [](double x) { return x == 0; }));
}

void convertConv(NodeImport &node) {
  Shape spatial = spatialOf(node), weight = node.shape(1);
  if (weight.size() != spatial.size() + 2)
    throw Error::badInput(absl::StrCat("weight of rank ", weight.size(),
                                       " does not fit data of rank ", spatial.size() + 2));
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  if (node.integers("kernel_shape").value_or(kernel) != kernel)
    throw Error::badInput("attribute 'kernel_shape' disagrees with the weight");
  Window window = readWindow(node, spatial, kernel);
  int64_t fanIn = elementCount(weight) / std::max<int64_t>(weight[0], 1);
  Value x = inPlane(node, node.value(0));
  SmallVector<Value> operands = {x, inPlane(node, node.value(1))};
  if (!lacksBias(node, weight[0]))
    operands.push_back(node.value(2, fanIn));
  int64_t groups = groupsOf(node, weight[0]);
  Value y = node.emit<Conv2dOp>(
      operands, [&](Conv2dOp::Properties &p) { setConvolution(node, p, window, groups); });
  node.bind(0, atRank(node, y));
}

/// Pads of a transposed convolution and the elements it adds at the end of each dimension. The sum
/// of pads follows from the wanted extents where those are given.
void readTransposedPads(NodeImport &node, const Shape &spatial, Window &window,
                        std::vector<int64_t> &added) {
  size_t rank = spatial.size();
  added = windowAttribute(node, "output_padding", rank, 0, 0);
  std::string autoPad = node.text("auto_pad", "NOTSET");
  bool upper = autoPad == "SAME_UPPER", same = upper || autoPad == "SAME_LOWER";
  if (!same && autoPad != "NOTSET" && autoPad != "VALID" && !autoPad.empty())
    throw Error::badInput("attribute 'auto_pad' is '" + autoPad + "'");
  std::optional<std::vector<int64_t>> wanted;
  if (node.integers("output_shape"))
    wanted = windowAttribute(node, "output_shape", rank, 1, 1);
  if (autoPad == "VALID")
    window.pads.assign(2 * rank, 0);
  if (!same && !wanted)
    return;
  for (size_t d = 0; d < rank; ++d) {
    int64_t extent = window.dilations[d] * (window.kernel[d] - 1) + 1;
    int64_t whole = window.strides[d] * (spatial[d] - 1) + added[d] + extent;
    int64_t total = whole - (wanted ? (*wanted)[d] : spatial[d] * window.strides[d]);
    if (total < 0) { // more than the windows reach: the rest is empty
      added[d] -= total;
      total = 0;
    }
    int64_t small = total / 2, large = total - small;
    window.pads[d] = upper ? small : large;
    window.pads[d + rank] = upper ? large : small;
  }
}

/// A transposed convolution is the gradient of one with respect to its input. Of the elements it
/// adds at the end, the gradient's extents can express fewer than a stride; the rest is padding.
void convertConvTranspose(NodeImport &node) {
  Shape spatial = spatialOf(node), weight = node.shape(1);
  size_t rank = spatial.size();
  if (weight.size() != rank + 2)
    throw Error::badInput(
        absl::StrCat("weight of rank ", weight.size(), " does not fit data of rank ", rank + 2));
  if (rank > 3)
    throw Error::badInput(
        absl::StrCat("works on ", rank, " spatial dimensions; 1 to 3 are supported"));
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end()), added;
  if (node.integers("kernel_shape").value_or(kernel) != kernel)
    throw Error::badInput("attribute 'kernel_shape' disagrees with the weight");
  Window window{kernel,
                windowAttribute(node, "strides", rank, 1, 1),
                windowAttribute(node, "dilations", rank, 1, 1),
                windowAttribute(node, "pads", 2 * rank, 0, 0),
                {}};
  readTransposedPads(node, spatial, window, added);
  int64_t groups = groupsOf(node, weight[0]), fanIn = elementCount(weight) / weight[0];
  if (node.shape(0)[1] != weight[0] || weight[0] % groups != 0)
    throw Error::badInput(absl::StrCat("expects as many channels (", node.shape(0)[1],
                                       ") as weight dimension 0 (", weight[0], "), and groups (",
                                       groups, ") to divide them"));
  Shape shape = {node.shape(0)[0], weight[1] * groups}, after(rank + 2, 0);
  for (size_t d = 0; d < rank; ++d) {
    int64_t inside = std::min(added[d], window.strides[d] - 1);
    shape.push_back(window.strides[d] * (spatial[d] - 1) + inside +
                    window.dilations[d] * (kernel[d] - 1) + 1 - window.pads[d] -
                    window.pads[d + rank]);
    after[d + 2] = added[d] - inside;
    if (shape.back() < 1)
      throw Error::badInput(absl::StrCat("pads away all of spatial dimension ", d));
  }
  if (rank == 1) {
    for (auto *list : {&window.strides, &window.dilations})
      list->insert(list->begin(), 1);
    window.pads = {0, window.pads[0], 0, window.pads[1]};
    shape.insert(shape.begin() + 2, 1);
    after.insert(after.begin() + 2, 0);
  }
  Value x = inPlane(node, node.value(0));
  auto type = RankedTensorType::get(shape, cast<RankedTensorType>(x.getType()).getElementType());
  Value y = node.emit<Conv2dGradInputOp>(
      {x, inPlane(node, node.value(1))},
      [&](Conv2dGradInputOp::Properties &p) { setConvolution(node, p, window, groups); }, type);
  if (llvm::any_of(after, [](int64_t count) { return count > 0; }))
    y = node.emit<PadOp>(y, [&](PadOp::Properties &p) {
      p.before = node.array(Shape(after.size(), 0));
      p.after = node.array(after);
      p.value = node.f64(0);
    });
  if (node.has(2)) {
    Shape channels(shape.size() - 1, 1);
    channels[0] = shape[1];
    y = node.emit<AddOp>({y, node.reshape(node.value(2, fanIn), channels)});
  }
  node.bind(0, atRank(node, y));
}

template <typename Properties> void setWindow(NodeImport &node, Properties &p, const Window &w) {
  p.kernel = node.array(w.kernel);
  p.strides = node.array(w.strides);
  p.pads = node.array(w.pads);
  p.dilations = node.array(w.dilations);
}

Window poolWindow(NodeImport &node) {
  Shape spatial = spatialOf(node);
  if (!node.integers("kernel_shape"))
    throw Error::badInput("lacks attribute 'kernel_shape'");
  return readWindow(node, spatial, windowAttribute(node, "kernel_shape", spatial.size(), 1, 1));
}

/// Merges the two last of three dimensions where the window does not touch them.
bool mergeIdle(Window &window) {
  bool merged = window.kernel.size() == 3 && isOneDeep(window);
  if (merged)
    mergePlane(window);
  return merged;
}

/// `shape` with all extents 1 but that of `dim`.
Shape lineShape(const Shape &shape, size_t dim) {
  Shape line(shape.size(), 1);
  line[dim] = shape[dim];
  return line;
}

/// Where the maxima `y` of windows over x lie: numbers in row-major order of the whole tensor, or with
/// storage_order 1 of each plane by columns. The
/// element at every place of the windows is compared with the maximum, the first place last, so that
/// the first of equal elements stays.
Value maxPositions(NodeImport &node, Value x, Value y, const Window &window) {
  Shape shape = shapeOf(x), pooled = shapeOf(y);
  size_t rank = window.kernel.size();
  Type wide = node.builder().getI64Type();
  Shape before(2, 0), after(2, 0), strides(2, 1), inner(shape.size(), 1);
  before.insert(before.end(), window.pads.begin(), window.pads.begin() + rank);
  after.insert(after.end(), window.pads.begin() + rank, window.pads.end());
  strides.insert(strides.end(), window.strides.begin(), window.strides.end());
  for (size_t dim = shape.size() - 1; dim-- > 0;)
    inner[dim] = inner[dim + 1] * shape[dim + 1];
  if (node.flag("storage_order", false)) {
    inner[shape.size() - 2] = 1;
    inner[shape.size() - 1] = shape[shape.size() - 2];
  }
  Value padded = x;
  if (llvm::any_of(window.pads, [](int64_t pad) { return pad > 0; }))
    padded = node.emit<PadOp>(x, [&](PadOp::Properties &p) {
      p.before = node.array(before);
      p.after = node.array(after);
      p.value = node.f64(-std::numeric_limits<double>::infinity());
    });
  Value place;
  for (int64_t k = elementCount(window.kernel); k-- > 0;) {
    Shape starts(shape.size(), 0);
    int64_t offset = 0, rest = k;
    for (size_t d = rank; d-- > 0; rest /= window.kernel[d]) {
      starts[d + 2] = rest % window.kernel[d] * window.dilations[d];
      offset += starts[d + 2] * inner[d + 2];
    }
    Value number = node.tensor(Literal{ElementType::Int64, {}, {offset}, {}}, wide);
    if (!place) {
      place = number;
      continue;
    }
    Value element = node.emit<StridedSliceOp>(padded, [&](StridedSliceOp::Properties &p) {
      p.starts = node.array(starts);
      p.sizes = node.array(pooled);
      p.steps = node.array(strides);
    });
    place = node.emit<SelectOp>({node.compare(element, y, "eq"), number, place});
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < pooled[dim]; ++i)
      starts.push_back((i * strides[dim] - before[dim]) * inner[dim]);
    place =
        node.emit<AddOp>({place, node.cast(node.integers(starts, lineShape(pooled, dim)), wide)});
  }
  return place;
}

void convertMaxPool(NodeImport &node) {
  Window window = poolWindow(node);
  if (node.isRead(1)) {
    Value x = inPlane(node, node.value(0));
    Value y = x; // windows of one element
    if (elementCount(window.kernel) > 1 || window.pads != Shape(window.pads.size(), 0) ||
        window.strides != Shape(window.strides.size(), 1))
      y = node.emit<MaxPoolOp>(x, [&](MaxPoolOp::Properties &p) { setWindow(node, p, window); });
    node.bind(0, atRank(node, y));
    return node.bind(1, atRank(node, maxPositions(node, x, y, window)));
  }
  bool merged = mergeIdle(window);
  Value y = node.emit<MaxPoolOp>(inPlane(node, node.value(0), merged),
                                 [&](MaxPoolOp::Properties &p) { setWindow(node, p, window); });
  node.bind(0, atRank(node, y));
}

/// Puts maxima back where they were, zeros around them. Windows that overlap could name one place
/// twice.
void convertMaxUnpool(NodeImport &node) {
  Shape spatial = spatialOf(node);
  size_t rank = spatial.size();
  if (!node.integers("kernel_shape"))
    throw Error::badInput("lacks attribute 'kernel_shape'");
  auto kernel = windowAttribute(node, "kernel_shape", rank, 1, 1);
  auto strides = windowAttribute(node, "strides", rank, 1, 1);
  auto pads = windowAttribute(node, "pads", 2 * rank, 0, 0);
  Value x = node.value(0), places = node.value(1);
  auto integer = dyn_cast<IntegerType>(elementOf(places));
  if (shapeOf(places) != shapeOf(x) || !integer || integer.getWidth() < 32)
    throw Error::badInput("expects one whole number per element as indices");
  Shape shape(node.shape(0).begin(), node.shape(0).begin() + 2);
  for (size_t d = 0; d < rank; ++d) {
    if (kernel[d] > strides[d])
      throw Error::badInput(absl::StrCat("undoes windows that overlap: ", kernel[d],
                                         " elements long, ", strides[d], " apart"));
    shape.push_back((spatial[d] - 1) * strides[d] + kernel[d] - pads[d] - pads[d + rank]);
  }
  Shape after(shape.size(), 0); // zeros up to an output_shape
  if (node.has(2)) {
    const Literal &given = node.constant(2, "output_shape");
    if (given.isFloat() || given.size() != static_cast<int64_t>(shape.size()))
      throw Error::badInput("expects one whole extent per dimension as output_shape");
    for (size_t d = 2; d < shape.size(); ++d)
      if ((after[d] = given.ints[d] - shape[d]) < 0 || after[d] > INT32_MAX)
        throw Error::badInput(absl::StrCat("makes dimension ", d, " ", given.ints[d],
                                           " elements long; its windows take ", shape[d]));
  }
  if (std::optional<int64_t> count = checkedElementCount(shape); !count || *count < 1)
    throw Error::badInput("its result: " + tooLarge(shape));
  int64_t count = elementCount(shapeOf(x));
  Value y = node.emit<ScatterAlongOp>({node.reshape(x, {count}), node.reshape(places, {count})},
                                      [&](ScatterAlongOp::Properties &p) {
                                        p.axis = node.i64(0);
                                        p.extent = node.i64(elementCount(shape));
                                      });
  y = node.reshape(y, shape);
  if (after != Shape(shape.size(), 0))
    y = node.emit<PadOp>(y, [&](PadOp::Properties &p) {
      p.before = node.array(Shape(after.size(), 0));
      p.after = node.array(after);
      p.value = node.f64(0);
    });
  node.bind(0, y);
}

/// Averages of one dimension as a matrix: each window's elements inside x over its size, which
/// counts the pads with `countPads` but never what ceil_mode added.
SparseRows averageRows(const Window &window, size_t d, int64_t extent, bool countPads) {
  size_t rank = window.kernel.size();
  int64_t before = window.pads[d], after = window.pads[d + rank];
  int64_t stride = window.strides[d], dilation = window.dilations[d];
  int64_t reach = dilation * (window.kernel[d] - 1) + 1;
  int64_t end = extent + (countPads ? after - window.ceilExtra[d] : 0);
  SparseRows rows;
  for (int64_t start = -before; start + reach <= extent + after; start += stride) {
    int64_t size = 0;
    for (int64_t at = start; at < start + reach; at += dilation)
      size += at < end && (countPads || at >= 0);
    for (int64_t at = std::max<int64_t>(start, 0); at < std::min(start + reach, extent); ++at)
      if ((at - start) % dilation == 0)
        rows.add(at, 1.0 / static_cast<double>(size));
    rows.endRow();
  }
  return rows;
}

/// Sums of one dimension's windows as a matrix.
SparseRows sumRows(const Window &window, size_t d, int64_t extent) {
  SparseRows rows;
  int64_t reach = window.dilations[d] * (window.kernel[d] - 1) + 1;
  int64_t end = extent + window.pads[d + window.kernel.size()];
  for (int64_t start = -window.pads[d]; start + reach <= end; start += window.strides[d]) {
    for (int64_t at = start; at < start + reach; at += window.dilations[d])
      if (at >= 0 && at < extent)
        rows.add(at, 1);
    rows.endRow();
  }
  return rows;
}

/// The sums of what windows hold of x.
Value windowSums(NodeImport &node, Value x, const Window &window) {
  if (llvm::any_of(window.pads, [](int64_t pad) { return pad > 1 << 22; }))
    throw Error::badInput(absl::StrCat("pads by more than ", 1 << 22, " elements"));
  std::vector<AxisRows> matrices;
  for (size_t d = 0; d < window.kernel.size(); ++d)
    matrices.push_back({static_cast<int64_t>(d) + 2, sumRows(window, d, shapeOf(x)[d + 2])});
  return resample(node, x, std::move(matrices));
}

/// What PyTorch divides the sums of windows by, where that is not their size (divisor_override): the
/// default exporter writes the operation beside the node, ONNX has no place for it.
std::optional<double> divisorOf(NodeImport &node) {
  const std::string &operation = node.node().fxNode;
  const std::string name = operationOf(operation);
  double divisor = 0;
  if ((name != "avg_pool2d.default" && name != "avg_pool3d.default") ||
      StringRef(argumentOf(operation, 6)).getAsDouble(divisor) || divisor == 0)
    return std::nullopt;
  return divisor;
}

void convertAveragePool(NodeImport &node) {
  Window window = poolWindow(node);
  if (std::optional<double> divisor = divisorOf(node)) {
    Value sum = windowSums(node, inPlane(node, node.value(0)), window);
    return node.bind(0, atRank(node, node.emit<MulOp>({sum, node.scalar(1 / *divisor, sum)})));
  }
  bool countPads = node.flag("count_include_pad", false);
  bool hasCeil = llvm::any_of(window.ceilExtra, [](int64_t extra) { return extra > 0; });
  bool isDilated = llvm::any_of(window.dilations, [](int64_t dilation) { return dilation > 1; });
  if (isDilated || (countPads && hasCeil)) { // the size of a window is that along each dimension
    Value x = inPlane(node, node.value(0));
    if (llvm::any_of(window.pads, [](int64_t pad) { return pad > 1 << 22; }))
      throw Error::badInput(absl::StrCat("pads by more than ", 1 << 22, " elements"));
    std::vector<AxisRows> matrices;
    for (size_t d = 0; d < window.kernel.size(); ++d)
      matrices.push_back(
          {static_cast<int64_t>(d) + 2, averageRows(window, d, shapeOf(x)[d + 2], countPads)});
    return node.bind(0, atRank(node, resample(node, x, std::move(matrices))));
  }
  bool merged = mergeIdle(window);
  Value y =
      node.emit<AvgPoolOp>(inPlane(node, node.value(0), merged), [&](AvgPoolOp::Properties &p) {
        setWindow(node, p, window);
        p.count_include_pad = node.boolean(countPads);
      });
  node.bind(0, atRank(node, y));
}

/// |x|^p of a node with that attribute.
Value powers(NodeImport &node, Value x, int64_t p) {
  if (p < 1)
    throw Error::badInput(absl::StrCat("attribute 'p' is ", p));
  if (p == 2)
    return node.emit<MulOp>({x, x});
  Value size = node.emit<AbsOp>(x);
  return p == 1 ? size : node.emit<PowOp>({size, node.scalar(double(p), x)});
}

/// (sum of |x|^p over each window) ^ (1/p). The root of zero has no gradient, where the function's
/// would be infinite.
void convertLpPool(NodeImport &node) {
  Window window = poolWindow(node);
  int64_t p = node.integer("p", 2);
  Value sum = windowSums(node, powers(node, inPlane(node, node.value(0)), p), window);
  if (p == 1)
    return node.bind(0, atRank(node, sum));
  Value zero = node.scalar(0, sum), isZero = node.compare(sum, zero, "eq");
  Value positive = node.emit<SelectOp>({isZero, node.scalar(1, sum), sum});
  Value root = p == 2 ? node.emit<SqrtOp>(positive)
                      : node.emit<PowOp>({positive, node.scalar(1 / double(p), sum)});
  node.bind(0, atRank(node, node.emit<SelectOp>({isZero, zero, root})));
}

/// (sum of |x|^p over the spatial dimensions) ^ (1/p).
void convertGlobalLpPool(NodeImport &node) {
  Shape spatial = spatialOf(node);
  double p = node.opset() < 2 ? node.number("p", 2) : static_cast<double>(node.integer("p", 2));
  if (!(p > 0))
    throw Error::badInput(absl::StrFormat("attribute 'p' is %f", p));
  Value x = node.value(0);
  Value power = p == 2 ? node.emit<MulOp>({x, x})
                       : node.emit<PowOp>({node.emit<AbsOp>(x), node.scalar(p, x)});
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, spatial.size() + 2));
  Value sum = node.emit<ReduceSumOp>(power, [&](ReduceSumOp::Properties &properties) {
    properties.axes = node.array(axes);
    properties.keepdims = node.boolean(true);
  });
  node.bind(0, p == 2 ? node.emit<SqrtOp>(sum) : node.emit<PowOp>({sum, node.scalar(1 / p, x)}));
}

template <typename Op> void convertGlobalPool(NodeImport &node) {
  Shape spatial = spatialOf(node);
  SmallVector<int64_t> axes;
  for (size_t d = 0; d < spatial.size(); ++d)
    axes.push_back(d + 2);
  node.bind(0, node.emit<Op>(node.value(0), [&](typename Op::Properties &p) {
    p.axes = node.array(axes);
    p.keepdims = node.boolean(true);
  }));
}

void usesOfConv(UseSite &site) {
  site.use(1, Use::ConvWeight);
  site.use(2, Use::Bias);
}

} // namespace

void addWindowRules(RuleTable &table) {
  table["Conv"] = {convertConv, 2, 3};
  table["ConvTranspose"] = {convertConvTranspose, 2, 3};
  table["MaxPool"] = {convertMaxPool, 1, 1};
  table["MaxUnpool"] = {convertMaxUnpool, 2, 3};
  table["LpPool"] = {convertLpPool, 1, 1};
  table["AveragePool"] = {convertAveragePool, 1, 1};
  table["GlobalAveragePool"] = {convertGlobalPool<ReduceMeanOp>, 1, 1};
  table["GlobalLpPool"] = {convertGlobalLpPool, 1, 1};
  table["GlobalMaxPool"] = {convertGlobalPool<ReduceMaxOp>, 1, 1};
  takeWeights(table, {OpWeights::Kind::Product, usesOfConv}, {"Conv", "ConvTranspose"});
}

} // namespace stow::onnx
