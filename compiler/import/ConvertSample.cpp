// Elements at computed places: GridSample, the grids of AffineGrid, and DeformConv, a convolution of
// such elements.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowResampleOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

using namespace mlir;

namespace stow::onnx {
namespace {

void checkChoice(const char *name, const std::string &value,
                 std::initializer_list<const char *> choices) {
  if (std::ranges::find(choices, value) == choices.end())
    throw Error::badInput(absl::StrCat("attribute '", name, "' is '", value, "'; expected one of ",
                                       absl::StrJoin(choices, ", ")));
}

/// Float arithmetic with numbers, as formulas are written.
struct Arithmetic {
  NodeImport &node;

  Value add(Value a, Value b) { return node.emit<AddOp>({a, b}); }
  Value add(Value a, double b) { return add(a, node.scalar(b, a)); }
  Value sub(Value a, Value b) { return node.emit<SubOp>({a, b}); }
  Value mul(Value a, Value b) { return node.emit<MulOp>({a, b}); }
  Value div(Value a, double b) { return node.emit<DivOp>({a, node.scalar(b, a)}); }
  Value mul(Value a, double b) { return mul(a, node.scalar(b, a)); }
  Value concat(ValueRange parts, int64_t axis) {
    return node.emit<ConcatOp>(parts, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); });
  }
  /// Known numbers under a shape, in the element type of `like`.
  Value numbers(std::vector<double> values, const Shape &shape, Value like) {
    return node.tensor(Literal{ElementType::Double, shape, {}, std::move(values)}, like);
  }
};

/// One pass of stow.grid_sample.
Value sampled(NodeImport &node, Value x, Value grid, const char *mode, const std::string &padding,
              bool alignCorners) {
  return node.emit<GridSampleOp>({x, grid}, [&](GridSampleOp::Properties &p) {
    p.mode = node.builder().getStringAttr(mode);
    p.padding = node.builder().getStringAttr(padding);
    p.align_corners = node.builder().getBoolAttr(alignCorners);
  });
}

/// Coordinate `which` of a grid [N, places..., coordinates], as [N, 1, places...].
Value coordinateOf(NodeImport &node, Value grid, int64_t which) {
  Shape starts(shapeOf(grid).size(), 0), sizes = shapeOf(grid), shape = sizes;
  starts.back() = which;
  sizes.back() = 1;
  shape.pop_back();
  shape.insert(shape.begin() + 1, 1);
  return node.reshape(node.slice(grid, starts, sizes), shape);
}

/// Places in pixels as the coordinates that sampling without aligned corners takes. Only whole numbers
/// are constants, so that the way back ends where it began.
Value coordinate(Arithmetic a, Value pixels, int64_t extent) {
  return a.add(a.div(a.add(a.mul(pixels, 2), 1), static_cast<double>(extent)), -1);
}

/// The weights of the four elements around a place that lies `t` behind the second of them: Keys'
/// cubic convolution (IEEE Trans. ASSP 29, 1981) with PyTorch's coefficient.
SmallVector<Value> cubicWeights(Arithmetic a, Value t) {
  constexpr double k = -0.75;
  auto inner = [&](Value d) {
    return a.add(a.mul(a.mul(d, d), a.add(a.mul(d, k + 2), -(k + 3))), 1);
  };
  auto outer = [&](Value d) {
    Value cubic = a.mul(a.add(a.mul(a.add(a.mul(d, k), -5 * k), d), 8 * k), d);
    return a.add(cubic, -4 * k);
  };
  Value behind = a.add(a.mul(t, -1), 1);
  return {outer(a.add(t, 1)), inner(t), inner(behind), outer(a.add(behind, 1))};
}

/// Bicubic sampling: the 16 elements around each place, which are the nearest to whole places, times
/// their weights. The grid's gradient flows through the weights.
Value sampledCubic(NodeImport &node, Value x, Value grid, const std::string &padding,
                   bool alignCorners) {
  Arithmetic a{node};
  Shape image = shapeOf(x), places = shapeOf(grid);
  if (image.size() != 4 || places.size() != 4 || places.back() != 2)
    throw Error::badInput("samples by cubics over other than two dimensions");
  // Reflection is at the centres of the outer elements with aligned corners, else at their edges.
  bool reflectsCentres = alignCorners && padding == "reflection";
  if (reflectsCentres && std::min(image[2], image[3]) < 2)
    throw Error::badInput("reflects at the centres of one element");
  SmallVector<Value> weights[2], taps[2]; // by rows, by columns
  for (int dim = 0; dim < 2; ++dim) {
    double size = static_cast<double>(image[dim + 2]);
    Value given = coordinateOf(node, grid, 1 - dim);
    Value pixels = alignCorners ? a.mul(a.add(given, 1), (size - 1) / 2)
                                : a.add(a.mul(given, size / 2), (size - 1) / 2);
    Value low = node.emit<RoundOp>(
        pixels, [&](RoundOp::Properties &p) { p.mode = node.builder().getStringAttr("floor"); });
    weights[dim] = cubicWeights(a, a.sub(pixels, low));
    for (int tap = -1; tap <= 2; ++tap) {
      Value at = a.add(low, tap);
      Value place = reflectsCentres ? a.add(a.div(a.mul(at, 2), size - 1), -1)
                                    : coordinate(a, at, image[dim + 2]);
      taps[dim].push_back(node.reshape(place, {places[0], places[1], places[2], 1}));
    }
  }
  Value sum;
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 4; ++column) {
      Value nearest = sampled(node, x, a.concat({taps[1][column], taps[0][row]}, 3), "nearest",
                              padding, reflectsCentres);
      Value term = a.mul(nearest, a.mul(weights[0][row], weights[1][column]));
      sum = sum ? a.add(sum, term) : term;
    }
  return sum;
}

void convertGridSample(NodeImport &node) {
  std::string mode = node.text("mode", "linear"); // the others are the names before opset 20
  checkChoice("mode", mode, {"linear", "nearest", "bilinear", "cubic", "bicubic"});
  std::string padding = node.text("padding_mode", "zeros");
  checkChoice("padding_mode", padding, {"zeros", "border", "reflection"});
  Value x = node.value(0), grid = node.value(1);
  for (Value value : {x, grid})
    if (!isa<FloatType>(elementOf(value)))
      throw Error::badInput("works on integers; only float tensors are computed with");
  bool alignCorners = node.flag("align_corners", false);
  if (mode == "cubic" || mode == "bicubic")
    return node.bind(0, sampledCubic(node, x, grid, padding, alignCorners));
  node.bind(
      0, sampled(node, x, grid, mode == "nearest" ? "nearest" : "linear", padding, alignCorners));
}

/// The coordinates that a matrix [d, d + 1] makes of every element's own: its columns times those of
/// each dimension, the innermost first, and the last one alone.
void convertAffineGrid(NodeImport &node) {
  Arithmetic a{node};
  Value theta = node.value(0);
  const Literal &size = node.constant(1, "size");
  auto rank = static_cast<int64_t>(size.size()) - 2;
  Shape shape = shapeOf(theta);
  if (size.isFloat() || rank < 2 || rank > 3 || shape != Shape{shape[0], rank, rank + 1})
    throw Error::badInput("expects a size [N,C,H,W] or [N,C,D,H,W] and one matrix per sample");
  if (!isa<FloatType>(elementOf(theta)))
    throw Error::badInput("works on integers; only float tensors are computed with");
  Shape column(rank + 2, 1); // of each sample's matrix, above its grid
  column[0] = shape[0];
  column.back() = rank;
  auto columnOf = [&](int64_t which) {
    return node.reshape(node.slice(theta, {0, 0, which}, {shape[0], rank, 1}), column);
  };
  bool alignCorners = node.flag("align_corners", false);
  Value grid = columnOf(rank);
  for (int64_t which = 0; which < rank; ++which) {
    int64_t dim = rank - 1 - which, extent = size.ints[dim + 2];
    if (extent < 1 || extent > (1 << 22))
      throw Error::badInput(absl::StrCat("makes a grid of ", extent, " elements"));
    std::vector<double> own;
    for (int64_t i = 0; i < extent; ++i)
      own.push_back(!alignCorners ? double(2 * i + 1) / double(extent) - 1
                    : extent == 1 ? 0
                                  : double(2 * i) / double(extent - 1) - 1);
    Shape line(rank + 2, 1);
    line[dim + 1] = extent;
    grid = a.add(a.mul(columnOf(which), a.numbers(std::move(own), line, theta)), grid);
  }
  node.bind(0, grid);
}

//===-- DeformConv ----------------------------------------------------------------------------===//

/// Attribute `name` with `count` entries of at least `low`.
std::vector<int64_t> windowList(NodeImport &node, const char *name, size_t count, int64_t low) {
  auto values = node.integers(name).value_or(std::vector<int64_t>(count, low));
  if (values.size() != count ||
      llvm::any_of(values, [&](int64_t v) { return v < low || v > INT32_MAX; }))
    throw Error::badInput(
        absl::StrCat("attribute '", name, "' does not hold ", count, " numbers from ", low, " on"));
  return values;
}

/// The places that the windows of one group of offsets read, as a grid over all of the window's
/// elements: [N, elements * rows, columns, 2].
Value deformedGrid(NodeImport &node, Value offsets, const Shape &image, const Shape &window,
                   const Shape &steps) {
  Arithmetic a{node};
  Shape shape = shapeOf(offsets); // [N, 2 * elements, rows, columns]
  int64_t elements = shape[1] / 2;
  Value apart = node.reshape(offsets, {shape[0], elements, 2, shape[2], shape[3]});
  SmallVector<Value> coordinates;
  for (int64_t dim : {1, 0}) { // columns first
    Value moved = node.reshape(
        node.slice(apart, {0, 0, dim, 0, 0}, {shape[0], elements, 1, shape[2], shape[3]}),
        {shape[0], elements, shape[2], shape[3]});
    std::vector<double> inWindow, ofWindow;
    for (int64_t k = 0; k < elements; ++k) {
      int64_t at = dim == 0 ? k / window[1] : k % window[1];
      inWindow.push_back(double(at * steps[2 + dim]));
    }
    for (int64_t i = 0; i < shape[2 + dim]; ++i)
      ofWindow.push_back(double(i * steps[dim] - steps[4 + dim]));
    Value pixels = a.add(
        a.add(moved, a.numbers(std::move(inWindow), {elements, 1, 1}, moved)),
        a.numbers(std::move(ofWindow), dim == 0 ? Shape{shape[2], 1} : Shape{shape[3]}, moved));
    coordinates.push_back(node.reshape(coordinate(a, pixels, image[2 + dim]),
                                       {shape[0], elements * shape[2], shape[3], 1}));
  }
  return a.concat(coordinates, 3);
}

/// A convolution whose windows read between the elements: these are sampled, one channel for each
/// element of the window, and multiplied by the weight as by one of 1 x 1.
void convertDeformConv(NodeImport &node) {
  Shape image = node.shape(0), weight = node.shape(1);
  if (image.size() != 4 || weight.size() != 4)
    throw Error::badInput("works on images [N,C,H,W] with a weight [M,C,H,W] only");
  Shape window(weight.begin() + 2, weight.end());
  if (node.integers("kernel_shape").value_or(window) != window)
    throw Error::badInput("attribute 'kernel_shape' disagrees with the weight");
  auto strides = windowList(node, "strides", 2, 1), dilations = windowList(node, "dilations", 2, 1);
  auto pads = windowList(node, "pads", 4, 0);
  int64_t elements = window[0] * window[1], channels = image[1];
  int64_t groups = node.integer("group", 1), parts = node.integer("offset_group", 1);
  Value x = node.value(0), offsets = node.value(2);
  Value mask = node.has(4) ? node.value(4) : Value();
  Shape places = shapeOf(offsets);
  if (parts < 1 || channels % parts != 0 || groups < 1 || weight[0] % groups != 0 ||
      weight[1] * groups != channels)
    throw Error::badInput(absl::StrCat("splits ", channels, " channels into ", parts,
                                       " groups of offsets, and has a weight for ", weight[1],
                                       " channels in each of ", groups, " groups"));
  if (places.size() != 4 || places[0] != image[0] || places[1] != 2 * parts * elements ||
      (mask && shapeOf(mask) != Shape{image[0], parts * elements, places[2], places[3]}))
    throw Error::badInput("expects two offsets, and one mask, per element of a window and group");
  for (int64_t d : {0, 1}) {
    int64_t span = image[d + 2] + pads[d] + pads[d + 2] - dilations[d] * (window[d] - 1) - 1;
    if (span < 0 || places[d + 2] != span / strides[d] + 1)
      throw Error::badInput(
          absl::StrCat("has offsets for ", places[d + 2], " windows along spatial dimension ", d));
  }
  Shape steps = {strides[0], strides[1], dilations[0], dilations[1], pads[0], pads[1]};
  SmallVector<Value> columns;
  for (int64_t part = 0; part < parts; ++part) {
    int64_t width = channels / parts;
    auto take = [&](Value of, int64_t each) {
      Shape sizes = shapeOf(of);
      sizes[1] = each;
      return parts == 1 ? of : node.slice(of, {0, part * each, 0, 0}, sizes);
    };
    Value grid = deformedGrid(node, take(offsets, 2 * elements), image, window, steps);
    Value found = sampled(node, take(x, width), grid, "linear", "zeros", /*alignCorners=*/false);
    found = node.reshape(found, {image[0], width, elements, places[2], places[3]});
    if (mask)
      found = node.emit<MulOp>({found, node.reshape(take(mask, elements), {image[0], 1, elements,
                                                                           places[2], places[3]})});
    columns.push_back(node.reshape(found, {image[0], width * elements, places[2], places[3]}));
  }
  Value column = parts == 1 ? columns.front() : Arithmetic{node}.concat(columns, 1);
  int64_t fanIn = weight[1] * elements;
  SmallVector<Value> operands = {column, node.reshape(node.value(1), {weight[0], fanIn, 1, 1})};
  if (node.has(3))
    operands.push_back(node.value(3, fanIn));
  node.bind(0, node.emit<Conv2dOp>(operands, [&](Conv2dOp::Properties &p) {
    p.strides = node.array({1, 1});
    p.pads = node.array({0, 0, 0, 0});
    p.dilations = node.array({1, 1});
    p.groups = node.i64(groups);
  }));
}

void usesOfDeformConv(UseSite &site) {
  site.use(1, Use::ConvWeight);
  site.use(3, Use::Bias);
}

} // namespace

void addSampleRules(RuleTable &table) {
  table["GridSample"] = {convertGridSample, 2, 2};
  table["AffineGrid"] = {convertAffineGrid, 2, 2};
  table["DeformConv"] = {convertDeformConv, 3, 5};
  takeWeights(table, {OpWeights::Kind::Layer, usesOfDeformConv}, {"DeformConv"});
  takeWeights(table, {OpWeights::Kind::Altered}, {"AffineGrid"});
}

} // namespace stow::onnx
