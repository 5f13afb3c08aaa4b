// Resize, Upsample, padding by the tensor's own elements, and depth to space: weighted sums of
// elements along dimensions, and their rearrangement; columns summed into images.
#include "compiler/import/ConvertResample.h"

#include "ir/StowResampleOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <cmath>
#include <numeric>

using namespace mlir;

namespace stow::onnx {

/// Axes with few terms per element are resampled in one pass, so that nothing lies between them;
/// others one after the other, the one that grows least first.
Value resample(NodeImport &node, Value x, std::vector<AxisRows> matrices) {
  constexpr double mostTerms = 16;
  auto terms = [](const AxisRows &matrix, int64_t extent) {
    return static_cast<double>(matrix.rows.sources.size()) / static_cast<double>(extent);
  };
  std::erase_if(matrices, [&](const AxisRows &matrix) {
    return matrix.rows.isIdentity() && matrix.rows.rows() == shapeOf(x)[matrix.axis];
  });
  double forward = 1, backward = 1;
  for (const AxisRows &matrix : matrices) {
    forward *= terms(matrix, matrix.rows.rows());
    backward *= terms(matrix, shapeOf(x)[matrix.axis]);
  }
  auto emit = [&](llvm::ArrayRef<AxisRows> some) {
    x = node.emit<ResampleOp>(
        x, [&](ResampleOp::Properties &p) { setAxisRows(p, node.builder(), some); });
  };
  if (matrices.empty())
    return x;
  if (!isa<FloatType>(cast<RankedTensorType>(x.getType()).getElementType()))
    throw Error::badInput("works on integers; only float tensors are computed with");
  if (std::max(forward, backward) <= mostTerms) {
    llvm::sort(matrices, [](const AxisRows &a, const AxisRows &b) { return a.axis < b.axis; });
    emit(matrices);
    return x;
  }
  auto growth = [&](const AxisRows &matrix) {
    return static_cast<double>(matrix.rows.rows()) / static_cast<double>(shapeOf(x)[matrix.axis]);
  };
  std::stable_sort(matrices.begin(), matrices.end(),
                   [&](const AxisRows &a, const AxisRows &b) { return growth(a) < growth(b); });
  for (const AxisRows &matrix : matrices)
    emit(matrix);
  return x;
}

namespace {

/// Larger extents are mistakes: every element of one costs a row of a matrix.
constexpr int64_t kMostRows = 1 << 22;

//===-- Resize --------------------------------------------------------------------------------===//

/// How output positions become input positions, and what is read around them.
struct Interpolation {
  std::string mode, coordinates, nearest;
  double cubicCoefficient = -0.75;
  bool excludeOutside = false;
  bool antialias = false;    ///< what shrinks is read through a filter as wide as the step
  bool alignsWholes = false; ///< align_corners of as many elements as there are, as PyTorch
};

/// The input position of output `i` along a dimension of `from` elements that becomes `to`.
double sourcePosition(const Interpolation &how, int64_t i, int64_t from, int64_t to, double scale) {
  const std::string &mode = how.coordinates;
  if (mode == "align_corners") {
    // The standard's length is that before it is rounded: the last corner may lie behind the last element.
    double last = (how.alignsWholes ? double(to) : double(from) * scale) - 1;
    return to == 1 || last == 0 ? 0 : static_cast<double>(i * (from - 1)) / last;
  }
  if (mode == "asymmetric") {
    // PyTorch rounds here, and takes the floor: one float more or less is another element.
    if (how.mode == "nearest")
      return static_cast<float>(i) * static_cast<float>(1 / scale);
    return static_cast<double>(i) / scale;
  }
  if (mode == "pytorch_half_pixel" && to == 1)
    return 0;
  double position = (static_cast<double>(i) + 0.5) / scale - 0.5;
  if (mode == "half_pixel_symmetric") {
    double adjustment = static_cast<double>(to) / (scale * static_cast<double>(from));
    position += static_cast<double>(from) / 2 * (1 - adjustment);
  }
  return position;
}

int64_t nearestSource(const std::string &mode, double position) {
  double low = std::floor(position);
  if (mode == "floor")
    return static_cast<int64_t>(low);
  if (mode == "ceil")
    return static_cast<int64_t>(std::ceil(position));
  bool isUpper = mode == "round_prefer_ceil" ? position - low >= 0.5 : position - low > 0.5;
  return static_cast<int64_t>(low) + isUpper;
}

/// Keys' cubic convolution (IEEE Trans. ASSP 29, 1981) at distance `t`.
double cubicWeight(double t, double a) {
  t = std::abs(t);
  if (t <= 1)
    return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((t - 5) * t + 8) * t * a - 4 * a : 0;
}

SparseRows interpolationRows(const Interpolation &how, int64_t from, int64_t to, double scale) {
  SparseRows rows;
  // A filter for what shrinks is stretched; its weights then need to be made to sum to 1.
  const double stretch = how.antialias ? std::min(scale, 1.0) : 1;
  const bool isCubic = how.mode == "cubic", normalizes = how.excludeOutside || stretch < 1;
  const double reach = (isCubic ? 2 : 1) / stretch;
  for (int64_t i = 0; i < to; ++i) {
    double position = sourcePosition(how, i, from, to, scale);
    std::map<int64_t, double> weights; // sources beyond the ends are the ends
    auto add = [&](int64_t source, double weight) {
      bool isOutside = source < 0 || source >= from;
      if (!isOutside || !how.excludeOutside)
        weights[std::clamp<int64_t>(source, 0, from - 1)] += weight;
    };
    if (how.mode == "nearest")
      add(std::clamp<int64_t>(nearestSource(how.nearest, position), 0, from - 1), 1);
    else
      for (auto at = static_cast<int64_t>(std::floor(position - reach)) + 1;
           double(at) < position + reach; ++at) {
        double distance = (position - static_cast<double>(at)) * stretch;
        add(at, isCubic ? cubicWeight(distance, how.cubicCoefficient)
                        : std::max(0.0, 1 - std::abs(distance)));
      }
    double sum = 0;
    for (auto [source, weight] : weights)
      sum += weight;
    for (auto [source, weight] : weights)
      if (weight != 0)
        rows.add(source, normalizes ? weight / sum : weight);
    rows.endRow();
  }
  return rows;
}

/// What a Resize makes of each dimension it names.
struct Target {
  std::vector<int64_t> axes;
  std::vector<double> scales; ///< empty: from the sizes
  std::vector<int64_t> sizes; ///< empty: from the scales
};

Value interpolate(NodeImport &node, const Interpolation &how, const Target &target) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  std::vector<AxisRows> matrices;
  for (size_t k = 0; k < target.axes.size(); ++k) {
    int64_t from = shape[target.axes[k]], to;
    double scale;
    if (target.sizes.empty()) {
      scale = target.scales[k];
      double extent = std::floor(static_cast<double>(from) * scale);
      if (!(scale > 0) || !(extent >= 1 && extent < double(kMostRows)))
        throw Error::badInput(absl::StrFormat("scales dimension %d of %d elements by %f",
                                              target.axes[k], from, scale));
      to = static_cast<int64_t>(extent);
    } else {
      to = target.sizes[k];
      if (to < 1 || to > kMostRows)
        throw Error::badInput(absl::StrCat("resizes dimension ", target.axes[k], " to ", to));
      scale = static_cast<double>(to) / static_cast<double>(from);
    }
    if (to != from || scale != 1)
      matrices.push_back({target.axes[k], interpolationRows(how, from, to, scale)});
  }
  return resample(node, x, std::move(matrices));
}

void checkChoice(const char *name, const std::string &value,
                 std::initializer_list<const char *> choices) {
  if (std::ranges::find(choices, value) == choices.end())
    throw Error::badInput(absl::StrCat("attribute '", name, "' is '", value, "'; expected one of ",
                                       absl::StrJoin(choices, ", ")));
}

Target resizeTarget(NodeImport &node, size_t rank) {
  Target target;
  target.axes.resize(rank);
  std::iota(target.axes.begin(), target.axes.end(), 0);
  if (auto given = node.integers("axes")) {
    target.axes = *given;
    for (int64_t &axis : target.axes)
      axis = normalizedAxis(axis, rank);
  }
  bool hasSizes = node.has(3) && node.constant(3, "sizes").size() > 0;
  size_t scales = node.opset() == 10 ? 1 : 2;
  if (hasSizes) {
    target.sizes = node.constant(3, "sizes").ints;
    // A batch baked into the sizes follows the data's.
    const Shape &now = node.shape(0), *before = node.inputShapeBefore(0);
    bool isBaked = before && before->size() == now.size() && !node.followsBatch(3);
    for (size_t k = 0; isBaked && k < std::min(target.axes.size(), target.sizes.size()); ++k)
      if (size_t axis = target.axes[k];
          (*before)[axis] != now[axis] && target.sizes[k] == (*before)[axis])
        target.sizes[k] = now[axis];
  } else if (node.has(scales)) {
    const Literal &given = node.constant(scales, "scales");
    for (int64_t i = 0; i < given.size(); ++i)
      target.scales.push_back(given.number(i));
  }
  if (std::max(target.sizes.size(), target.scales.size()) != target.axes.size())
    throw Error::badInput(absl::StrCat("expects one scale or one size for each of ",
                                       target.axes.size(), " dimensions"));
  return target;
}

void convertResize(NodeImport &node) {
  Interpolation how;
  bool isFirst = node.opset() == 10; // version 10 has no attributes but the mode
  how.mode = node.text("mode", "nearest");
  how.coordinates =
      isFirst ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel");
  how.nearest = isFirst ? "floor" : node.text("nearest_mode", "round_prefer_floor");
  how.cubicCoefficient = node.number("cubic_coeff_a", -0.75);
  how.excludeOutside = node.flag("exclude_outside", false);
  checkChoice("mode", how.mode, {"nearest", "linear", "cubic"});
  checkChoice(
      "coordinate_transformation_mode", how.coordinates,
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"});
  checkChoice("nearest_mode", how.nearest,
              {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  checkChoice("keep_aspect_ratio_policy", node.text("keep_aspect_ratio_policy", "stretch"),
              {"stretch"});
  how.antialias = node.flag("antialias", false);
  how.alignsWholes = node.isFromPyTorch();
  // PyTorch's filters end where the image does, whatever the file says of what lies outside.
  how.excludeOutside |= how.antialias && how.alignsWholes;
  node.bind(0, interpolate(node, how, resizeTarget(node, node.shape(0).size())));
}

/// Upsample of opset 7 (scales as attribute) and 9 (as input): positions are divided by the scale.
void convertUpsample(NodeImport &node) {
  Interpolation how;
  how.mode = node.text("mode", "nearest");
  checkChoice("mode", how.mode, {"nearest", "linear"});
  how.coordinates = "asymmetric";
  how.nearest = "floor";
  Target target;
  target.axes.resize(node.shape(0).size());
  std::iota(target.axes.begin(), target.axes.end(), 0);
  if (node.has(1)) {
    const Literal &given = node.constant(1, "scales");
    for (int64_t i = 0; i < given.size(); ++i)
      target.scales.push_back(given.number(i));
  } else if (auto found = node.node().attributes.find("scales");
             found != node.node().attributes.end()) {
    for (float scale : found->second.floats)
      target.scales.push_back(decimal(scale));
  }
  if (target.scales.size() != target.axes.size())
    throw Error::badInput(
        absl::StrCat("expects one scale for each of ", target.axes.size(), " dimensions"));
  node.bind(0, interpolate(node, how, target));
}

//===-- Depth and space -----------------------------------------------------------------------===//

int64_t blockSize(NodeImport &node) {
  if (node.shape(0).size() != 4)
    throw Error::badInput(
        absl::StrCat("works on a tensor of rank ", node.shape(0).size(), "; expected [N,C,H,W]"));
  int64_t block = node.integer("blocksize", 0);
  if (block < 1 || block > (1 << 15))
    throw Error::badInput(absl::StrCat("attribute 'blocksize' is ", block));
  return block;
}

void bindRearranged(NodeImport &node, const Shape &factors, const Shape &permutation,
                    const Shape &shape) {
  Value x = node.value(0);
  auto element = cast<RankedTensorType>(x.getType()).getElementType();
  node.bind(0, node.emit<RearrangeOp>(
                   x,
                   [&](RearrangeOp::Properties &p) {
                     p.factors = node.array(factors);
                     p.permutation = node.array(permutation);
                   },
                   RankedTensorType::get(shape, element)));
}

void convertDepthToSpace(NodeImport &node) {
  int64_t b = blockSize(node);
  const Shape &x = node.shape(0);
  std::string mode = node.text("mode", "DCR");
  checkChoice("mode", mode, {"DCR", "CRD"});
  if (x[1] % (b * b) != 0)
    throw Error::badInput(absl::StrCat("splits ", x[1], " channels into blocks of ", b * b));
  int64_t channels = x[1] / (b * b);
  Shape y = {x[0], channels, x[2] * b, x[3] * b};
  if (mode == "DCR")
    bindRearranged(node, {x[0], b, b, channels, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, y);
  else
    bindRearranged(node, {x[0], channels, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, y);
}

void convertSpaceToDepth(NodeImport &node) {
  int64_t b = blockSize(node);
  const Shape &x = node.shape(0);
  if (x[2] % b != 0 || x[3] % b != 0)
    throw Error::badInput(
        absl::StrCat("splits ", x[2], " by ", x[3], " elements into blocks of ", b, " by ", b));
  std::string mode = node.text("mode", "DCR");
  checkChoice("mode", mode, {"DCR", "CRD"});
  const Shape order = mode == "DCR" ? Shape{0, 3, 5, 1, 2, 4} : Shape{0, 1, 3, 5, 2, 4};
  bindRearranged(node, {x[0], x[1], x[2] / b, b, x[3] / b, b}, order,
                 {x[0], x[1] * b * b, x[2] / b, x[3] / b});
}

//===-- Columns and images --------------------------------------------------------------------===//

/// Sums of what a dimension's windows hold, each at its place: from [window][number of the window].
SparseRows foldRows(int64_t extent, int64_t window, int64_t count, int64_t stride, int64_t dilation,
                    int64_t before) {
  SparseRows rows;
  for (int64_t at = 0; at < extent; ++at) {
    for (int64_t k = 0; k < window; ++k) {
      int64_t start = at + before - k * dilation;
      if (start >= 0 && start % stride == 0 && start / stride < count)
        rows.add(k * count + start / stride, 1);
    }
    rows.endRow();
  }
  return rows;
}

/// PyTorch's fold: [N, C * window, windows] to the image that the windows are of, overlaps summed. A
/// sum along each dimension, after its windows and their places were brought together.
void convertCol2Im(NodeImport &node) {
  Value x = node.value(0);
  Shape columns = shapeOf(x);
  const Literal &image = node.constant(1, "image_shape"), &block = node.constant(2, "block_shape");
  auto rank = static_cast<size_t>(image.size());
  if (columns.size() != 3 || image.isFloat() || block.isFloat() || rank < 1 ||
      block.size() != image.size())
    throw Error::badInput("expects columns [N, C * block, places] and one extent per dimension of "
                          "the image and of the block");
  auto list = [&](const char *name, size_t count, int64_t fallback) {
    auto values = node.integers(name).value_or(std::vector<int64_t>(count, fallback));
    if (values.size() != count ||
        llvm::any_of(values, [&](int64_t value) { return value < fallback || value > INT32_MAX; }))
      throw Error::badInput(
          absl::StrCat("attribute '", name, "' does not fit ", rank, " dimensions"));
    return values;
  };
  auto dilations = list("dilations", rank, 1), strides = list("strides", rank, 1);
  auto pads = list("pads", 2 * rank, 0);
  int64_t blockSize = 1, places = 1;
  Shape counts, factors = {columns[0], 0}, permutation = {0, 1}, joined = {columns[0], 0};
  std::vector<AxisRows> matrices;
  for (size_t d = 0; d < rank; ++d) {
    int64_t window = block.ints[d], extent = image.ints[d];
    if (window < 1 || window > kMostRows || extent < 1 || extent > kMostRows)
      throw Error::badInput(
          absl::StrCat("folds blocks of ", window, " into ", extent, " elements"));
    int64_t span = extent + pads[d] + pads[d + rank] - dilations[d] * (window - 1) - 1;
    counts.push_back(span < 0 ? 0 : span / strides[d] + 1);
    blockSize *= window;
    places *= counts[d];
    factors.push_back(window);
    permutation.push_back(static_cast<int64_t>(d) + 2);
    permutation.push_back(static_cast<int64_t>(d + rank) + 2);
    joined.push_back(window * counts[d]);
    matrices.push_back({static_cast<int64_t>(d) + 2,
                        foldRows(extent, window, counts[d], strides[d], dilations[d], pads[d])});
  }
  if (places != columns[2] || columns[1] % blockSize != 0)
    throw Error::badInput(absl::StrCat("has columns ", columns[1], " by ", columns[2],
                                       "; blocks of ", blockSize, " lie at ", places, " places"));
  factors[1] = joined[1] = columns[1] / blockSize;
  factors.insert(factors.end(), counts.begin(), counts.end());
  x = node.emit<TransposeOp>(node.reshape(x, factors), [&](TransposeOp::Properties &p) {
    p.permutation = node.array(permutation);
  });
  node.bind(0, resample(node, node.reshape(x, joined), std::move(matrices)));
}

} // namespace

//===-- Padding -------------------------------------------------------------------------------===//

SparseRows paddingRows(const std::string &mode, int64_t extent, int64_t before, int64_t after) {
  SparseRows rows;
  for (int64_t i = -before; i < extent + after; ++i) {
    int64_t source = std::clamp<int64_t>(i, 0, extent - 1);
    auto modulo = [&](int64_t period) { return ((i % period) + period) % period; };
    if (mode == "wrap")
      source = modulo(extent);
    else if (mode == "reflect" && extent > 1)
      source = extent - 1 - std::abs(extent - 1 - modulo(2 * (extent - 1)));
    rows.add(source, 1);
    rows.endRow();
  }
  return rows;
}

void addResampleRules(RuleTable &table) {
  table["Resize"] = {convertResize, 1, 4};
  table["Upsample"] = {convertUpsample, 1, 2};
  table["DepthToSpace"] = {convertDepthToSpace, 1, 1};
  table["SpaceToDepth"] = {convertSpaceToDepth, 1, 1};
  table["Col2Im"] = {convertCol2Im, 3, 3};
  takeWeights(table, {OpWeights::Kind::Altered},
              {"Resize", "Upsample", "DepthToSpace", "SpaceToDepth", "Col2Im"});
}

} // namespace stow::onnx
