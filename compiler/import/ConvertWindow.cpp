// Convolution and pooling. One-dimensional windows run as two-dimensional ones of height 1, and
// three-dimensional ones over one dimension (PyTorch's local response normalization averages over
// channels so) with the other two merged.
#include "compiler/import/GraphImport.h"

using namespace mlir;

namespace stow::onnx {
namespace {

/// Window attributes in two dimensions: pads are top, left, bottom, right.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
  std::vector<int64_t> ceilExtra; ///< what ceil_mode added to the end pads
};

/// Attribute `name` with `rank` entries in [low, 2^31), or `fallback` in each.
std::vector<int64_t> windowAttribute(NodeImport &node, const char *name, size_t count, int64_t low,
                                     int64_t fallback) {
  std::vector<int64_t> values = node.integers(name).value_or(std::vector<int64_t>(count, fallback));
  if (values.size() != count)
    throw Error::badInput(std::string("attribute '") + name + "' has " +
                          std::to_string(values.size()) + " entries, expected " +
                          std::to_string(count));
  for (int64_t value : values)
    if (value < low || value > INT32_MAX)
      throw Error::badInput(std::string("attribute '") + name + "' holds " + std::to_string(value) +
                            ", expected at least " + std::to_string(low));
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

/// Makes a window of depth d, height and width 1 one of height d and width 1.
void mergePlane(Window &window) {
  for (size_t d : {1, 2})
    if (window.kernel[d] != 1 || window.strides[d] != 1 || window.pads[d] != 0 ||
        window.pads[d + 3] != 0)
      throw Error::badInput("has a window over 3 spatial dimensions; 1 and 2 are supported");
  for (auto *list : {&window.kernel, &window.strides, &window.dilations, &window.ceilExtra})
    list->pop_back();
  window.pads = {window.pads[0], 0, window.pads[3], 0};
}

/// Reads the window over `spatial`; `kernel` is the weight's for convolutions.
Window readWindow(NodeImport &node, Shape spatial, std::vector<int64_t> kernel) {
  size_t rank = spatial.size();
  if (rank > 3)
    throw Error::badInput("works on " + std::to_string(rank) +
                          " spatial dimensions; 1 and 2 are supported");
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
  if (rank == 3)
    mergePlane(window);
  if (rank == 1) {
    for (auto *list : {&window.kernel, &window.strides, &window.dilations})
      list->insert(list->begin(), 1);
    window.ceilExtra.insert(window.ceilExtra.begin(), 0);
    window.pads = {0, window.pads[0], 0, window.pads[1]};
  }
  return window;
}

/// [N,C,L] as [N,C,1,L], [N,C,D,H,W] as [N,C,D,H*W]; four-dimensional tensors as they are.
Value inPlane(NodeImport &node, Value x) {
  Shape shape = shapeOf(x);
  if (shape.size() == 3)
    shape.insert(shape.begin() + 2, 1);
  if (shape.size() == 5)
    shape = {shape[0], shape[1], shape[2], shape[3] * shape[4]};
  return node.reshape(x, shape);
}

/// Binds `y` under the rank of the node's data.
void bindWindowed(NodeImport &node, Value y) {
  const Shape &data = node.shape(0);
  Shape shape = shapeOf(y);
  if (data.size() == 3)
    shape.erase(shape.begin() + 2);
  if (data.size() == 5)
    shape = {shape[0], shape[1], shape[2], data[3], data[4]};
  node.bind(0, node.reshape(y, shape));
}

Shape spatialOf(NodeImport &node) {
  const Shape &shape = node.shape(0);
  if (shape.size() < 3)
    throw Error::badInput("works on a tensor of rank " + std::to_string(shape.size()) +
                          "; expected [N,C,spatial...]");
  return Shape(shape.begin() + 2, shape.end());
}

void convertConv(NodeImport &node) {
  Shape spatial = spatialOf(node), weight = node.shape(1);
  if (weight.size() != spatial.size() + 2)
    throw Error::badInput("weight of rank " + std::to_string(weight.size()) +
                          " does not fit data of rank " + std::to_string(spatial.size() + 2));
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  if (node.integers("kernel_shape").value_or(kernel) != kernel)
    throw Error::badInput("attribute 'kernel_shape' disagrees with the weight");
  Window window = readWindow(node, spatial, kernel);
  int64_t fanIn = elementCount(weight) / std::max<int64_t>(weight[0], 1);
  Value x = inPlane(node, node.value(0));
  SmallVector<Value> operands = {x, inPlane(node, node.value(1))};
  if (node.has(2))
    operands.push_back(node.value(2, fanIn));
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || groups > weight[0])
    throw Error::badInput("attribute 'group' is " + std::to_string(groups));
  Value y = node.emit<Conv2dOp>(operands, [&](Conv2dOp::Properties &p) {
    p.strides = node.array(window.strides);
    p.pads = node.array(window.pads);
    p.dilations = node.array(window.dilations);
    p.groups = node.i64(groups);
  });
  bindWindowed(node, y);
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

void convertMaxPool(NodeImport &node) {
  Window window = poolWindow(node);
  if (node.isRead(1))
    throw Error::badInput("its output of indices is read; only the maxima are supported");
  Value y = node.emit<MaxPoolOp>(inPlane(node, node.value(0)),
                                 [&](MaxPoolOp::Properties &p) { setWindow(node, p, window); });
  bindWindowed(node, y);
}

void convertAveragePool(NodeImport &node) {
  Window window = poolWindow(node);
  bool countPads = node.flag("count_include_pad", false);
  bool hasCeil = llvm::any_of(window.ceilExtra, [](int64_t extra) { return extra > 0; });
  if (window.dilations != std::vector<int64_t>{1, 1})
    throw Error::badInput("dilated average pooling is not supported");
  if (countPads && hasCeil)
    throw Error::badInput("a window that ceil_mode adds would count elements beyond the pads; "
                          "export it with count_include_pad=0 or ceil_mode=0");
  Value y = node.emit<AvgPoolOp>(inPlane(node, node.value(0)), [&](AvgPoolOp::Properties &p) {
    setWindow(node, p, window);
    p.count_include_pad = node.boolean(countPads);
  });
  bindWindowed(node, y);
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

} // namespace

void addWindowRules(RuleTable &table) {
  table["Conv"] = {convertConv, 2, 3};
  table["MaxPool"] = {convertMaxPool, 1, 1};
  table["AveragePool"] = {convertAveragePool, 1, 1};
  table["GlobalAveragePool"] = {convertGlobalPool<ReduceMeanOp>, 1, 1};
  table["GlobalMaxPool"] = {convertGlobalPool<ReduceMaxOp>, 1, 1};
}

} // namespace stow::onnx
