#include "runtime/host/loops/NormPoolLoops.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/Vectors.h"

#include <algorithm>
#include <limits>

namespace stow::host {
namespace {

constexpr size_t mostElements = 255;

/// Elements that a loop over channels reads, each with a number: where the element of channel 0
/// lies, and its position in the window.
struct Seen {
  int64_t count = 0;
  int64_t offsets[mostElements];
  int32_t positions[mostElements];
};

/// Positions, as many as T has floats.
template <typename T> struct Positions;
template <> struct Positions<F8> {
  typedef uint8_t Stored __attribute__((vector_size(8), aligned(1), may_alias));
  typedef uint8_t Bytes __attribute__((vector_size(8)));
};
template <> struct Positions<F16> {
  typedef uint8_t Stored __attribute__((vector_size(16), aligned(1), may_alias));
  typedef uint8_t Bytes __attribute__((vector_size(16)));
};

/// The bytes of 16 positions, and the other way round.
typedef Positions<F8>::Bytes HalfBytes;
STOW_INLINE void join(const Positions<F16>::Bytes &positions, HalfBytes &bytes) {
  const HalfBytes low = __builtin_shufflevector(positions, positions, 0, 1, 2, 3, 4, 5, 6, 7),
                  high =
                      __builtin_shufflevector(positions, positions, 8, 9, 10, 11, 12, 13, 14, 15);
  bytes = low | high << 4;
}
STOW_INLINE void split(const HalfBytes &bytes, Positions<F16>::Bytes &positions) {
  const HalfBytes low = bytes & 15, high = bytes >> 4;
  positions =
      __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

template <typename T> STOW_INLINE auto &storedAt(uint8_t *address) {
  return *reinterpret_cast<typename Positions<T>::Stored *>(address);
}
template <typename T> STOW_INLINE const auto &storedAt(const uint8_t *address) {
  return *reinterpret_cast<const typename Positions<T>::Stored *>(address);
}

/// `value` as a tensor of `type` has it.
template <typename T> STOW_INLINE void roundTo(DType type, T &value) {
  if (type == DType::F32)
    return;
  uint16_t stored[lanesOf<T>];
  store16(type, value, stored);
  load16(type, stored, value);
}

//===-- Forward -------------------------------------------------------------------------------===//

template <typename X> struct Pooling {
  ChannelLines lines;
  X x, y;
  DType type; ///< of y
  uint8_t *positions;
  bool hasHalves;

  template <typename T> STOW_INLINE void normal(int64_t offset, int64_t channel, T &value) const {
    T read;
    x.load(offset + channel, read);
    value = (read - at<T>(lines.mean + channel)) * at<T>(lines.slope + channel) +
            at<T>(lines.shift + channel);
    roundTo(type, value);
  }

  /// The lanes of T from `channel` on of the window that sees `seen`, written at `to`.
  template <typename T> STOW_INLINE void run(const Seen &seen, int64_t to, int64_t channel) const {
    constexpr float lowest = std::numeric_limits<float>::lowest();
    if constexpr (std::is_same_v<T, float>) {
      float most = lowest, value;
      uint8_t position = 0;
      for (int64_t i = 0; i < seen.count; ++i) {
        normal(seen.offsets[i], channel, value);
        if (most < value)
          most = value, position = static_cast<uint8_t>(seen.positions[i]);
      }
      y.store(to + channel, most);
      positions[to + channel] = position;
    } else {
      using Signed = typename Kind<T>::Signed;
      T most = T{} + lowest, value;
      Signed position = {};
      for (int64_t i = 0; i < seen.count; ++i) {
        normal(seen.offsets[i], channel, value);
        const Signed isMore = most < value;
        most = isMore ? value : most;
        position = isMore ? Signed{} + seen.positions[i] : position;
      }
      y.store(to + channel, most);
      const auto bytes = __builtin_convertvector(position, typename Positions<T>::Bytes);
      if constexpr (std::is_same_v<T, F16>)
        if (hasHalves) {
          HalfBytes joined;
          join(bytes, joined);
          storedAt<F8>(positions + (to + channel) / 2) = joined;
          return;
        }
      storedAt<T>(positions + to + channel) = bytes;
    }
  }
};

/// What the window at output (d, h, w) of an image sees.
void look(const PoolWindows &windows, int64_t image, const std::array<int64_t, 3> &window,
          Seen &seen) {
  const auto &axes = windows.axes;
  seen.count = 0;
  auto point = [&](int a, int64_t position) {
    return window[a] * axes[a].stride - axes[a].pad + position * axes[a].dilation;
  };
  auto isInside = [&](int a, int64_t at) { return at >= 0 && at < axes[a].in; };
  for (int64_t i = 0; i < axes[0].kernel; ++i)
    for (int64_t j = 0; j < axes[1].kernel; ++j)
      for (int64_t k = 0; k < axes[2].kernel; ++k) {
        const int64_t d = point(0, i), h = point(1, j), w = point(2, k);
        if (!isInside(0, d) || !isInside(1, h) || !isInside(2, w))
          continue;
        seen.offsets[seen.count] =
            (((image * axes[0].in + d) * axes[1].in + h) * axes[2].in + w) * windows.channels;
        seen.positions[seen.count++] =
            static_cast<int32_t>((i * axes[1].kernel + j) * axes[2].kernel + k);
      }
}

/// Windows [begin, end), counted through all images.
template <typename X>
STOW_INLINE void poolWindows(const PoolWindows &windows, const Pooling<X> &pooling, int64_t begin,
                             int64_t end) {
  const auto &axes = windows.axes;
  const int64_t channels = windows.channels;
  Seen seen;
  for (int64_t number = begin; number < end; ++number) {
    const int64_t row = number / axes[2].out, plane = row / axes[1].out;
    look(windows, plane / axes[0].out,
         {plane % axes[0].out, row % axes[1].out, number % axes[2].out}, seen);
    const int64_t to = number * channels;
    int64_t channel = 0;
    for (; channel + 16 <= channels; channel += 16)
      pooling.template run<F16>(seen, to, channel);
    for (; channel + 8 <= channels; channel += 8)
      pooling.template run<F8>(seen, to, channel);
    for (; channel < channels; ++channel)
      pooling.template run<float>(seen, to, channel);
  }
}

//===-- Backward ------------------------------------------------------------------------------===//

/// The sum of the gradients of those windows whose maximum the point is.
template <typename T, typename D>
STOW_INLINE void gather(const Seen &seen, const D &dy, DType type, const uint8_t *positions,
                        bool hasHalves, int64_t channel, float *to) {
  T sum = {};
  for (int64_t i = 0; i < seen.count; ++i) {
    const int64_t element = seen.offsets[i] + channel;
    T gradient;
    dy.load(element, gradient);
    if constexpr (std::is_same_v<T, float>) {
      sum += positions[element] == seen.positions[i] ? gradient : 0.0f;
    } else {
      using Signed = typename Kind<T>::Signed;
      typename Positions<T>::Bytes bytes;
      if constexpr (std::is_same_v<T, F16>) {
        if (hasHalves)
          split(storedAt<F8>(positions + element / 2), bytes);
        else
          bytes = storedAt<F16>(positions + element);
      } else {
        bytes = storedAt<T>(positions + element);
      }
      const Signed isChosen = __builtin_convertvector(bytes, Signed) == seen.positions[i];
      sum += (T)((Signed)gradient & isChosen);
    }
  }
  roundTo(type, sum);
  at<T>(to + channel) = sum;
}

template <typename D>
STOW_INLINE void gatherPoints(const PoolWindows &windows, const D &dy, DType type,
                              const uint8_t *positions, int64_t begin, int64_t end, float *to) {
  const auto &[outer, middle, inner] = windows.axes;
  const int64_t channels = windows.channels;
  const bool hasHalves = windows.hasHalves();
  Seen seen, rows; // of rows: where the row of windows begins, and the row's first position
  int64_t known = -1;
  for (int64_t point = begin; point < end; ++point, to += channels) {
    const int64_t row = point / inner.in, w = point % inner.in;
    if (row != known) {
      known = row;
      rows.count = 0;
      const int64_t plane = row / middle.in, h = row % middle.in;
      const int64_t image = plane / outer.in, d = plane % outer.in;
      for (size_t i = outer.firstSight[d]; i < outer.firstSight[d + 1]; ++i)
        for (size_t j = middle.firstSight[h]; j < middle.firstSight[h + 1]; ++j) {
          const PoolAxis::Sight &a = outer.sights[i], &b = middle.sights[j];
          rows.offsets[rows.count] =
              ((image * outer.out + a.window) * middle.out + b.window) * inner.out;
          rows.positions[rows.count++] =
              static_cast<int32_t>((a.position * middle.kernel + b.position) * inner.kernel);
        }
    }
    seen.count = 0;
    for (int64_t i = 0; i < rows.count; ++i)
      for (size_t k = inner.firstSight[w]; k < inner.firstSight[w + 1]; ++k) {
        const PoolAxis::Sight &c = inner.sights[k];
        seen.offsets[seen.count] = (rows.offsets[i] + c.window) * channels;
        seen.positions[seen.count++] = rows.positions[i] + static_cast<int32_t>(c.position);
      }
    int64_t channel = 0;
    for (; channel + 16 <= channels; channel += 16)
      gather<F16>(seen, dy, type, positions, hasHalves, channel, to);
    for (; channel + 8 <= channels; channel += 8)
      gather<F8>(seen, dy, type, positions, false, channel, to);
    for (; channel < channels; ++channel)
      gather<float>(seen, dy, type, positions, false, channel, to);
  }
}

//===-- Instruction sets ----------------------------------------------------------------------===//

#if defined(__x86_64__)
template <typename X>
__attribute__((target("avx2,fma"))) void
poolAvx2(const PoolWindows &windows, const Pooling<X> &pooling, int64_t begin, int64_t end) {
  poolWindows(windows, pooling, begin, end);
}

template <typename D>
__attribute__((target("avx2,fma"))) void gatherAvx2(const PoolWindows &windows, const D &dy,
                                                    DType type, const uint8_t *positions,
                                                    int64_t begin, int64_t end, float *to) {
  gatherPoints(windows, dy, type, positions, begin, end, to);
}
#endif

template <typename X>
void pool(const PoolWindows &windows, const Pooling<X> &pooling, int64_t begin, int64_t end) {
#if defined(__x86_64__)
  if (usesAvx2())
    return poolAvx2(windows, pooling, begin, end);
#endif
  poolWindows(windows, pooling, begin, end);
}

template <typename D>
void gatherAll(const PoolWindows &windows, const D &dy, DType type, const uint8_t *positions,
               int64_t begin, int64_t end, float *to) {
#if defined(__x86_64__)
  if (usesAvx2())
    return gatherAvx2(windows, dy, type, positions, begin, end, to);
#endif
  gatherPoints(windows, dy, type, positions, begin, end, to);
}

Floats floats(const StoredFloats &tensor) { return {reinterpret_cast<float *>(tensor.address)}; }
AnyFloats anyFloats(const StoredFloats &tensor) { return {tensor.type, tensor.address}; }

} // namespace

PoolAxis::PoolAxis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                   int64_t pad)
    : in(in), out(out), kernel(kernel), stride(stride), dilation(dilation), pad(pad), sights(),
      firstSight(1, 0) {
  for (int64_t point = 0; point < in; ++point) {
    // Later positions are those of earlier windows.
    for (int64_t position = kernel; position-- > 0;) {
      const int64_t start = point + pad - position * dilation;
      if (start >= 0 && start % stride == 0 && start / stride < out)
        sights.push_back({start / stride, position});
    }
    firstSight.push_back(sights.size());
  }
}

void poolNormalized(const PoolWindows &windows, const ChannelLines &lines, const StoredFloats &x,
                    const StoredFloats &y, uint8_t *positions, int64_t threads) {
  const int64_t count = windows.images * windows.outputs();
  const int64_t most = 1 + count * windows.channels / 16384; // not worth waking a thread for less
  parallelFor(count, std::min(threads, most), [&](int64_t begin, int64_t end) {
    if (x.type == DType::F32 && y.type == DType::F32)
      pool<Floats>(windows,
                   {lines, floats(x), floats(y), DType::F32, positions, windows.hasHalves()}, begin,
                   end);
    else
      pool<AnyFloats>(windows,
                      {lines, anyFloats(x), anyFloats(y), y.type, positions, windows.hasHalves()},
                      begin, end);
  });
}

void gatherPooled(const PoolWindows &windows, const StoredFloats &dy, const uint8_t *positions,
                  int64_t begin, int64_t end, float *to) {
  if (dy.type == DType::F32)
    gatherAll(windows, floats(dy), DType::F32, positions, begin, end, to);
  else
    gatherAll(windows, anyFloats(dy), dy.type, positions, begin, end, to);
}

} // namespace stow::host
