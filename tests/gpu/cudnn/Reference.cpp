#include "tests/gpu/cudnn/Reference.h"

#include "tests/gpu/driver/Elements.h"

#include <array>
#include <cstring>

namespace stow::sim {
namespace {

/// Spatial dimensions are three, the missing ones in front of extent 1.
struct Extents {
  int64_t outer, inner;
  std::array<int64_t, 3> space;
  int64_t points() const { return space[0] * space[1] * space[2]; }
};

Extents extentsOf(const ConvolutionTensor &tensor) {
  Extents extents{tensor.shape[0], tensor.shape[1], {1, 1, 1}};
  const size_t rank = tensor.shape.size();
  for (size_t i = 2; i < rank; ++i)
    extents.space[3 - (rank - i)] = tensor.shape[i];
  return extents;
}

std::array<int64_t, 3> three(const std::vector<int64_t> &values, int64_t missing) {
  std::array<int64_t, 3> all = {missing, missing, missing};
  for (size_t i = 0; i < values.size(); ++i)
    all[3 - (values.size() - i)] = values[i];
  return all;
}

/// Calls `visit(row-major position, position in memory)` for all elements.
template <typename Visit> void forElements(const ConvolutionTensor &tensor, Visit visit) {
  std::vector<int64_t> at(tensor.shape.size(), 0);
  for (int64_t position = 0, count = tensor.elements(); position < count; ++position) {
    int64_t stored = 0;
    for (size_t i = 0; i < at.size(); ++i)
      stored += at[i] * tensor.strides[i];
    visit(position, stored);
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < tensor.shape[i])
        break;
      at[i] = 0;
    }
  }
}

std::vector<double> dense(const ConvolutionTensor &tensor, const void *base) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  forElements(tensor, [&](int64_t position, int64_t stored) {
    values[static_cast<size_t>(position)] = load(base, tensor.type, stored);
  });
  return values;
}

/// What is done to y before it is written. The maximum with 0 of what is no number is no number.
void finish(const ConvolutionWork &work, const void *added, const void *bias,
            std::vector<double> &ys) {
  const std::vector<double> more = work.added ? dense(*work.added, added) : std::vector<double>(),
                            ofChannel = work.bias ? dense(*work.bias, bias) : std::vector<double>();
  const auto channels = static_cast<size_t>(work.y.shape[1]);
  const size_t plane = ys.size() / static_cast<size_t>(work.y.shape[0]) / channels;
  for (size_t i = 0; i < ys.size(); ++i) {
    if (work.added)
      ys[i] += more[i];
    if (work.bias)
      ys[i] += ofChannel[i / plane % channels];
    if (work.hasRelu && ys[i] < 0)
      ys[i] = 0;
  }
}

/// The places [low, high) of y along one dimension whose tap lies inside x.
struct Range {
  int64_t low, high, first; ///< position in x of place `low`
};

Range rangeOf(int64_t places, int64_t inputs, int64_t stride, int64_t shift) {
  Range range{0, places, 0};
  while (range.low < places && range.low * stride + shift < 0)
    ++range.low;
  while (range.high > range.low && (range.high - 1) * stride + shift >= inputs)
    --range.high;
  range.first = range.low * stride + shift;
  return range;
}

} // namespace

int64_t ConvolutionTensor::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

uint64_t ConvolutionTensor::bytes() const {
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    last += (shape[i] - 1) * strides[i];
  return static_cast<uint64_t>(last + 1) * static_cast<uint64_t>(sizeOf(type));
}

const char *ConvolutionWork::complaint() const {
  const size_t rank = x.shape.size(), space = strides.size();
  if (rank < 4 || rank > 5 || weight.shape.size() != rank || y.shape.size() != rank ||
      space + 2 != rank || dilations.size() != space || padsBefore.size() != space ||
      padsAfter.size() != space)
    return "ranks do not agree";
  if (x.type != y.type || weight.type != y.type)
    return "types differ";
  if (x.id == y.id || x.id == weight.id || y.id == weight.id)
    return "identifiers are not unique";
  const int64_t groups = weight.shape[1] > 0 ? x.shape[1] / weight.shape[1] : 0;
  if (groups < 1 || groups * weight.shape[1] != x.shape[1] || weight.shape[0] % groups != 0)
    return "channels do not agree";
  std::vector<int64_t> ofChannels(rank, 1);
  ofChannels[1] = y.shape[1];
  if (y.shape[0] != x.shape[0] || y.shape[1] != weight.shape[0])
    return "images or channels of y do not agree";
  for (const auto &[tensor, extra] : {std::pair(&added, y.shape), std::pair(&bias, ofChannels)}) {
    if (!*tensor)
      continue;
    if ((*tensor)->shape != extra || (*tensor)->type != y.type)
      return "what is added to the convolution does not fit y";
    if ((*tensor)->id == x.id || (*tensor)->id == y.id || (*tensor)->id == weight.id)
      return "identifiers are not unique";
  }
  for (size_t i = 0; i < space; ++i) {
    const int64_t window = dilations[i] * (weight.shape[i + 2] - 1) + 1;
    const int64_t room = x.shape[i + 2] + padsBefore[i] + padsAfter[i] - window;
    if (strides[i] < 1 || dilations[i] < 1 || room < 0 || y.shape[i + 2] != room / strides[i] + 1)
      return "extents of y do not agree";
  }
  return "";
}

void convolve(const ConvolutionWork &work, void *x, void *weight, void *y, const void *added,
              const void *bias) {
  const Extents in = extentsOf(work.x), taps = extentsOf(work.weight), out = extentsOf(work.y);
  const auto strides = three(work.strides, 1), dilations = three(work.dilations, 1),
             pads = three(work.padsBefore, 0);
  std::vector<double> xs = dense(work.x, x), ws = dense(work.weight, weight), ys = dense(work.y, y);
  std::vector<double> &target = work.result == ConvolutionResult::Y   ? ys
                                : work.result == ConvolutionResult::X ? xs
                                                                      : ws;
  target.assign(target.size(), 0);
  const int64_t ofGroup = out.inner / (in.inner / taps.inner); // channels of y
  auto line = [&](int64_t image, int64_t o, int64_t c, const std::array<int64_t, 3> &tap) {
    double &factor =
        ws[static_cast<size_t>((o * taps.inner + c) * taps.points() +
                               (tap[0] * taps.space[1] + tap[1]) * taps.space[2] + tap[2])];
    const int64_t channel = o / ofGroup * taps.inner + c;
    std::array<Range, 3> ranges;
    for (size_t i = 0; i < 3; ++i)
      ranges[i] = rangeOf(out.space[i], in.space[i], strides[i], tap[i] * dilations[i] - pads[i]);
    double sum = 0;
    for (int64_t d = ranges[0].low, xd = ranges[0].first; d < ranges[0].high; ++d, xd += strides[0])
      for (int64_t i = ranges[1].low, xi = ranges[1].first; i < ranges[1].high;
           ++i, xi += strides[1]) {
        double *to = &ys[static_cast<size_t>(
            (((image * out.inner + o) * out.space[0] + d) * out.space[1] + i) * out.space[2])];
        double *from = &xs[static_cast<size_t>(
            (((image * in.inner + channel) * in.space[0] + xd) * in.space[1] + xi) * in.space[2])];
        const int64_t first = ranges[2].first, low = ranges[2].low, step = strides[2];
        for (int64_t j = 0; j < ranges[2].high - low; ++j) {
          double &fromHere = from[first + j * step];
          if (work.result == ConvolutionResult::Y)
            to[low + j] += factor * fromHere;
          else if (work.result == ConvolutionResult::X)
            fromHere += factor * to[low + j];
          else
            sum += fromHere * to[low + j];
        }
      }
    factor += sum;
  };
  for (int64_t image = 0; image < in.outer; ++image)
    for (int64_t o = 0; o < out.inner; ++o)
      for (int64_t c = 0; c < taps.inner; ++c)
        for (int64_t a = 0; a < taps.space[0]; ++a)
          for (int64_t b = 0; b < taps.space[1]; ++b)
            for (int64_t e = 0; e < taps.space[2]; ++e)
              line(image, o, c, {a, b, e});
  if (work.result == ConvolutionResult::Y)
    finish(work, added, bias, ys);
  const auto &[tensor, base] = work.result == ConvolutionResult::Y ? std::pair(work.y, y)
                               : work.result == ConvolutionResult::X
                                   ? std::pair(work.x, x)
                                   : std::pair(work.weight, weight);
  forElements(tensor, [&, &tensor = tensor, &base = base](int64_t position, int64_t stored) {
    store(base, tensor.type, stored, target[static_cast<size_t>(position)]);
  });
}

} // namespace stow::sim
