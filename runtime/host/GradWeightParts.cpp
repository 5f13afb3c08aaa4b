#include "runtime/host/GradWeightParts.h"

#include "runtime/host/Prices.h"

#include <algorithm>
#include <string_view>

namespace stow::host {
namespace {

using Desc = dnnl::memory::desc;

/// Parts at most: eight threads get two each.
constexpr int64_t mostParts = 16;

/// Multiplications of a part at least: one core does them in 100 microseconds.
constexpr int64_t leastWork = 1 << 22;

/// Bytes of the images by those of all parts' gradients at least: what parts add to an arena stays small beside what they read.
constexpr int64_t imagesByGradients = 8;

constexpr Bytes alignment = 64;

int64_t pixelsOf(const Shape &dims) { return elementCount(dims) / dims[1]; }

/// True where all channels of a pixel lie together, the pixels one after the other.
bool isChannelsLast(const DescFields &images) {
  int64_t stride = 1;
  auto isNext = [&](size_t dimension) {
    const bool lies = images.dims[dimension] == 1 || images.strides[dimension] == stride;
    stride *= images.dims[dimension];
    return lies;
  };
  bool lie = images.blocks.empty() && isNext(1);
  for (size_t i = images.dims.size() - 1; i > 1; --i)
    lie = lie && isNext(i);
  return lie && isNext(0);
}

/// True where images lie one after the other.
bool isImageOutermost(const DescFields &images) {
  for (const auto &[dimension, size] : images.blocks)
    if (dimension == 0)
      return false;
  for (size_t i = 1; i < images.dims.size(); ++i)
    if (images.dims[i] != 1 && images.strides[i] > images.strides[0])
      return false;
  return true;
}

/// `count` images, or pixels as one image of one row, from `first` on.
Parts::View viewOf(const DescFields &images, int64_t first, int64_t count, bool isPixels) {
  constexpr auto f32 = dnnl::memory::data_type::f32;
  if (isPixels) {
    const int64_t channels = images.dims[1];
    dnnl::memory::dims dims(images.dims.size(), 1), strides(images.dims.size(), channels * count);
    dims[1] = channels;
    dims.back() = count;
    strides[1] = 1;
    strides.back() = channels;
    return {Desc(dims, f32, strides), first * channels * Bytes{sizeof(float)}};
  }
  dnnl::memory::dims dims = images.dims;
  dims[0] = count;
  return {blockedDesc(f32, dims, images.strides, images.blocks),
          first * images.strides[0] * Bytes{sizeof(float)}};
}

/// A weight gradient that is looked at for some numbers of threads.
class Gradient {
public:
  Gradient(const Preparation &whole, int64_t groups, bool isPointwise, const GradWeightMaker &make)
      : src(whole.arguments[0].desc), diffDst(whole.arguments[1].desc),
        diffWeights(whole.arguments[2].desc), images(fieldsOf(src)), gradients(fieldsOf(diffDst)),
        groups(groups), make(make),
        isPixels(isPointwise && isChannelsLast(images) && isChannelsLast(gradients)),
        alone(with(1)) {}

  dnnl::primitive_desc_base with(int64_t threads) const {
    const ThreadScope scope(threads);
    return make(src, diffDst, diffWeights);
  }

  /// The most threads, up to `threads`, with which no two of them sum for the same block: their sums would be in the scratch. The
  /// library's own product gives each group to as few threads as there are for it.
  int64_t threadsWithoutSums(int64_t threads) const {
    if (usesHeap(alone.impl_info_str()))
      return std::min(threads, groups);
    for (; threads > 1; --threads) {
      const dnnl::primitive_desc_base found = with(threads);
      if (found.scratchpad_desc().get_size() == alone.scratchpad_desc().get_size() &&
          std::string_view(found.impl_info_str()) == alone.impl_info_str())
        break;
    }
    return threads;
  }

  /// Parts that the images have, and that are worth it.
  int64_t partCount() const {
    if (!isPixels && !(isImageOutermost(images) && isImageOutermost(gradients)))
      return 1;
    const auto gradient = static_cast<Bytes>(diffWeights.get_size());
    const int64_t work = elementCount(dimsOf(diffWeights)) * pixelsOf(gradients.dims);
    return std::min(
        {mostParts, units(), work / leastWork,
         static_cast<Bytes>(src.get_size() + diffDst.get_size()) / (imagesByGradients * gradient)});
  }

  std::shared_ptr<const Parts> inParts(int64_t count) const {
    const ThreadScope scope(1);
    const ImplementationScope same(ConvolutionKind::GradWeight, alone.impl_info_str());
    auto cut = std::make_shared<Parts>();
    const auto gradient = static_cast<Bytes>(diffWeights.get_size());
    cut->summed = gradient / Bytes{sizeof(float)};
    auto place = [&](Bytes bytes) {
      const Bytes at = cut->scratchBytes;
      cut->scratchBytes = alignUp(at + bytes, alignment);
      return at;
    };
    std::vector<int64_t> sizes; // of the kinds
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = units() * i / count, size = units() * (i + 1) / count - first;
      Parts::Part part{0,
                       {viewOf(images, first, size, isPixels),
                        viewOf(gradients, first, size, isPixels),
                        {diffWeights, i == 0 ? 0 : place(gradient), i != 0}}};
      part.kind = static_cast<size_t>(std::ranges::find(sizes, size) - sizes.begin());
      if (part.kind == sizes.size()) {
        sizes.push_back(size);
        cut->kinds.push_back(make(part.views[0].desc, part.views[1].desc, diffWeights));
      }
      part.libraryScratch =
          place(static_cast<Bytes>(cut->kinds[part.kind].scratchpad_desc().get_size()));
      cut->parts.push_back(std::move(part));
    }
    return cut;
  }

private:
  int64_t units() const { return isPixels ? pixelsOf(images.dims) : images.dims[0]; }

  const Desc &src, &diffDst, &diffWeights;
  DescFields images, gradients;
  int64_t groups;
  const GradWeightMaker &make;
  bool isPixels;

public:
  const dnnl::primitive_desc_base alone; ///< on one thread
};

} // namespace

void keepSums(Preparation &whole, int64_t groups, bool isPointwise, const GradWeightMaker &make) {
  const bool areFloats = std::ranges::all_of(whole.arguments, [](const Argument &argument) {
    return elementType(argument.desc) == dnnl::memory::data_type::f32;
  });
  if (!areFloats)
    return;
  const Gradient gradient(whole, groups, isPointwise, make);
  const int64_t count = gradient.partCount();
  if (count > 1 && count > gradient.threadsWithoutSums(mostParts)) {
    whole.descriptor = gradient.alone;
    whole.parts = gradient.inParts(count);
    return;
  }
  auto limited = std::make_shared<Parts>();
  limited->mostThreads = gradient.threadsWithoutSums(currentThreads());
  whole.descriptor = gradient.with(limited->mostThreads);
  whole.parts = limited;
}

} // namespace stow::host
