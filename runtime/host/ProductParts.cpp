#include "runtime/host/ProductParts.h"

#include "runtime/host/loops/PanelProduct.h"

#include <algorithm>
#include <ranges>

namespace stow::host {
namespace {

/// Rows and columns of a part at least: with half as many, parts on one thread take up to a fifth longer than the whole.
constexpr int64_t leastExtent = 128;

/// Multiplications of a part at least: one core does them in 25 microseconds.
constexpr int64_t leastWork = 1 << 20;

/// Parts at most: 16 threads get four each.
constexpr int64_t mostParts = 64;

/// Contracted elements up to which the library may pack nothing even with few threads.
constexpr int64_t fewContracted = 16;

/// Threads with which the library packs the factors of a product that has as many rows and columns as that takes: it packs for none
/// once a thread has too few of them. Without packing 25 contracted elements were seen on 16 threads and 59 on 32.
int64_t threadsThatPack(int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t extentOfThread = 28, contractedPerThread = 3;
  return std::max<int64_t>(
      1, std::min(std::min(rows, columns) / extentOfThread, depth / contractedPerThread));
}

/// The columns are cut at whole registers.
constexpr int64_t unit = 16;

struct Range {
  int64_t first, count;
};

/// [0, extent) in `count` ranges that differ by one unit at most, and by what the last one has beyond whole units.
std::vector<Range> rangesOf(int64_t extent, int64_t count) {
  std::vector<Range> ranges;
  const int64_t units = extent / unit;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = units * i / count * unit;
    ranges.push_back({first, (i + 1 == count ? extent : units * (i + 1) / count * unit) - first});
  }
  return ranges;
}

/// The box [rows) x [columns) of a matrix.
Parts::View viewOf(const dnnl::memory::desc &matrix, Range rows, Range columns) {
  const dnnl::memory::dims strides = fieldsOf(matrix).strides;
  return {dnnl::memory::desc({rows.count, columns.count}, dnnl::memory::data_type::f32,
                             dnnl::memory::dims{strides[0], strides[1]}),
          (rows.first * strides[0] + columns.first * strides[1]) *
              static_cast<Bytes>(sizeof(float))};
}

/// The product of some rows and columns, a descriptor for each size of them.
void addPart(Parts &product, const std::vector<Argument> &whole, Range rows, Range columns,
             const dnnl::primitive_attr &attributes) {
  const Range depth = {0, dimsOf(whole[0].desc)[1]};
  std::vector<Parts::View> views = {viewOf(whole[0].desc, rows, depth),
                                    viewOf(whole[1].desc, depth, columns),
                                    viewOf(whole[2].desc, rows, columns)};
  if (whole.size() > 3)
    views.push_back(viewOf(whole[3].desc, {0, 1}, columns));
  auto found = std::ranges::find_if(product.kinds, [&](const dnnl::primitive_desc_base &kind) {
    return kind.query_md(dnnl::query::dst_md) == views[2].desc;
  });
  if (found == product.kinds.end()) {
    found = product.kinds.insert(found, describeProduct(views[0].desc, views[1].desc,
                                                        views.size() > 3 ? &views[3].desc : nullptr,
                                                        views[2].desc, attributes));
  }
  product.parts.push_back({static_cast<size_t>(found - product.kinds.begin()), std::move(views)});
}

bool isPlainMatrix(const dnnl::memory::desc &desc) {
  const DescFields fields = fieldsOf(desc);
  return fields.dims.size() == 2 && elementType(desc) == dnnl::memory::data_type::f32 &&
         fields.isPlaced && fields.blocks.empty();
}

} // namespace

std::shared_ptr<const Parts> partsOf(const Preparation &whole,
                                     const dnnl::primitive_attr &attributes) {
  const std::vector<Argument> &arguments = whole.arguments; // a, b, the result, and at most a bias
  if (!usesHeap(whole.descriptor.impl_info_str()) ||
      whole.descriptor.scratchpad_desc().get_size() != 0 ||
      !std::ranges::all_of(arguments, [](const Argument &a) { return isPlainMatrix(a.desc); }))
    return nullptr;
  const int64_t rows = dimsOf(arguments[2].desc)[0], columns = dimsOf(arguments[2].desc)[1],
                depth = dimsOf(arguments[0].desc)[1];
  auto result = std::make_shared<Parts>();
  if (packsFactors(rows, columns, supportsBf16() ? packsBelowWithAvx512 : packsBelow) &&
      depth > fewContracted) {
    result->mostThreads = threadsThatPack(rows, columns, depth);
    return result;
  }
  const ThreadScope alone(1);
  const int64_t most = std::clamp<int64_t>(rows * columns * depth / leastWork, 1, mostParts),
                across = std::clamp<int64_t>(columns / leastExtent, 1, most),
                down = std::clamp<int64_t>(rows / leastExtent, 1, most / across);
  for (Range left : rangesOf(rows, down))
    for (Range right : rangesOf(columns, across))
      addPart(*result, arguments, left, right, attributes);
  const bool needScratch = std::ranges::any_of(
      result->kinds, [](const auto &kind) { return kind.scratchpad_desc().get_size() != 0; });
  return needScratch ? nullptr : result;
}

} // namespace stow::host
