#include "runtime/host/loops/BatchNormLoops.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/Vectors.h"

#include <algorithm>
#include <cmath>

namespace stow::host {
namespace {

//===-- Chunks --------------------------------------------------------------------------------===//

/// Points [pointBegin, pointEnd) of rows [rowBegin, rowEnd).
struct Box {
  int64_t rowBegin, rowEnd, pointBegin, pointEnd;
  int64_t points() const { return (rowEnd - rowBegin) * (pointEnd - pointBegin); }
};

Box chunkAt(const ChannelSpace &space, int64_t chunk) {
  if (space.chunkPoints == space.rowPoints) {
    int64_t row = chunk * space.chunkRows;
    return {row, std::min(row + space.chunkRows, space.rows), 0, space.rowPoints};
  }
  int64_t perRow = (space.rowPoints + space.chunkPoints - 1) / space.chunkPoints;
  int64_t row = chunk / perRow, point = chunk % perRow * space.chunkPoints;
  return {row, row + 1, point, std::min(point + space.chunkPoints, space.rowPoints)};
}

/// Chunks [begin, end) of one part of the channels: what a task works on.
struct Task {
  Task(const ChannelSpace &space, int64_t number)
      : part(number / space.segments), segment(number % space.segments),
        begin(space.chunks * segment / space.segments),
        end(space.chunks * (segment + 1) / space.segments) {}
  int64_t part, segment, begin, end;
};

STOW_INLINE int64_t rowOffset(const ChannelSpace &space, int64_t row) {
  int64_t offset = 0;
  for (size_t i = space.rowExtents.size(); i-- > 0; row /= space.rowExtents[i])
    offset += row % space.rowExtents[i] * space.rowStrides[i];
  return offset;
}

/// Adds up `body` over a box, every `step`-th point from `begin` on; several sums at a time, which
/// are added at the end.
template <typename T, typename Body>
STOW_INLINE void accumulate(const ChannelSpace &space, const Box &box, int64_t begin, int64_t end,
                            int64_t step, const Body &body, T &first, T &second) {
  constexpr int count = sizeof(T) > 32 ? 2 : 4;
  T a[count] = {}, b[count] = {};
  for (int64_t row = box.rowBegin; row < box.rowEnd; ++row) {
    int64_t base = rowOffset(space, row), point = begin;
    for (; point + count * step <= end; point += count * step)
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i)
        body.add(a[i], b[i], base + (point + i * step) * space.pointStride);
    for (; point + step <= end; point += step)
      body.add(a[0], b[0], base + point * space.pointStride);
  }
  first = a[0], second = b[0];
  for (int i = 1; i < count; ++i)
    first += a[i], second += b[i];
}

/// The two sums over a box, per channel of the vector T.
template <typename T, typename Body>
STOW_INLINE void foldAcross(const ChannelSpace &space, const Box &box, const Body &body,
                            Wide<T> &first, Wide<T> &second) {
  T a, b;
  accumulate<T>(space, box, box.pointBegin, box.pointEnd, 1, body, a, b);
  toDouble(a, first), toDouble(b, second);
}

/// The two sums over a box whose points are contiguous.
template <typename Body>
STOW_INLINE void foldAlong(const ChannelSpace &space, const Box &box, const Body &body,
                           double &first, double &second) {
  constexpr int64_t lanes = lanesOf<F16>;
  int64_t whole = box.pointEnd - (box.pointEnd - box.pointBegin) % lanes;
  F16 a, b;
  float tailA, tailB;
  accumulate<F16>(space, box, box.pointBegin, whole, lanes, body, a, b);
  accumulate<float>(space, box, whole, box.pointEnd, 1, body, tailA, tailB);
  first = tailA, second = tailB;
  for (int64_t i = 0; i < lanes; ++i)
    first += a[i], second += b[i];
}

template <typename T, bool along, typename Body>
STOW_INLINE void fold(const ChannelSpace &space, const Box &box, const Body &body, Wide<T> &first,
                      Wide<T> &second) {
  if constexpr (along)
    foldAlong(space, box, body, first, second);
  else
    foldAcross<T>(space, box, body, first, second);
}

/// Calls `body.put<T>(element)` for the points of a box.
template <typename T, bool along, typename Body>
STOW_INLINE void each(const ChannelSpace &space, const Box &box, const Body &body) {
  for (int64_t row = box.rowBegin; row < box.rowEnd; ++row) {
    int64_t base = rowOffset(space, row), point = box.pointBegin;
    if constexpr (along)
      for (; point + lanesOf<F16> <= box.pointEnd; point += lanesOf<F16>)
        body.template put<F16>(base + point);
    for (; point < box.pointEnd; ++point)
      body.template put<T>(base + point * space.pointStride);
  }
}

//===-- What is computed ----------------------------------------------------------------------===//

// X is Floats, or AnyFloats where a tensor has 16-bit elements; D the same of a gradient.

template <typename X> struct Sum {
  X x;
  template <typename T> STOW_INLINE void add(T &sum, T &, int64_t i) const {
    T value;
    x.load(i, value);
    sum += value;
  }
};

/// M is a vector with the mean of each channel, or the mean of the one channel.
template <typename X, typename M> struct Squares {
  X x;
  M mean;
  template <typename T> STOW_INLINE void add(T &sum, T &, int64_t i) const {
    T value;
    x.load(i, value);
    T centred = value - mean;
    sum += centred * centred;
  }
};

template <typename X, typename D, typename M> struct Products {
  X x;
  D dy;
  M mean;
  template <typename T> STOW_INLINE void add(T &sum, T &product, int64_t i) const {
    T value, gradient;
    x.load(i, value), dy.load(i, gradient);
    sum += gradient;
    product += gradient * (value - mean);
  }
};

template <typename X, typename M> struct Normal {
  X x, y;
  M mean, slope, shift;
  template <typename T> STOW_INLINE void put(int64_t i) const {
    T value;
    x.load(i, value);
    T result = (value - mean) * slope + shift;
    y.store(i, result);
  }
};

template <typename X, typename D, typename M> struct Gradient {
  X x;
  D dy;
  X dx;
  M mean, slope, level, bend;
  template <typename T> STOW_INLINE void put(int64_t i) const {
    T value, gradient;
    x.load(i, value), dy.load(i, gradient);
    T result = slope * ((gradient - level) - (value - mean) * bend);
    dx.store(i, result);
  }
};

/// Mean and sum of squared deviations of the points seen so far, merged with those of a chunk.
template <typename X> struct Moments {
  X x;
  double *mean, *squares; ///< of the segment, per channel
  template <typename T, bool along>
  STOW_INLINE void run(const ChannelSpace &space, const Box &box, double before, int64_t channel,
                       int64_t offset) const {
    double points = static_cast<double>(box.points()), all = before + points;
    Wide<T> sum, own, none;
    fold<T, along>(space, box, Sum<X>{x + offset}, sum, none);
    Squares<X, T> body{x + offset, {}};
    Wide<T> centre = sum / points;
    toFloat(centre, body.mean);
    fold<T, along>(space, box, body, own, none);
    if (before > 0) {
      Wide<T> old = wideAt<T>(mean + channel), distance = centre - old;
      centre = old + distance * (points / all);
      own += wideAt<T>(squares + channel) + distance * distance * (before * points / all);
    }
    wideAt<T>(mean + channel) = centre;
    wideAt<T>(squares + channel) = own;
  }
};

template <typename X, typename D> struct Sums {
  X x;
  D dy;
  const float *mean;
  double *sum, *product;
  template <typename T, bool along>
  STOW_INLINE void run(const ChannelSpace &space, const Box &box, double before, int64_t channel,
                       int64_t offset) const {
    Wide<T> a, b;
    Products<X, D, T> body{x + offset, dy + offset, at<T>(mean + channel)};
    fold<T, along>(space, box, body, a, b);
    if (before > 0)
      a += wideAt<T>(sum + channel), b += wideAt<T>(product + channel);
    wideAt<T>(sum + channel) = a;
    wideAt<T>(product + channel) = b;
  }
};

template <typename X> struct Normalize {
  X x, y;
  const float *mean, *slope, *shift;
  template <typename T, bool along>
  STOW_INLINE void run(const ChannelSpace &space, const Box &box, double, int64_t channel,
                       int64_t offset) const {
    Normal<X, T> body{x + offset, y + offset, at<T>(mean + channel), at<T>(slope + channel),
                      at<T>(shift + channel)};
    each<T, along>(space, box, body);
  }
};

template <typename X, typename D> struct Differentiate {
  X x;
  D dy;
  X dx;
  const float *mean, *slope, *level, *bend;
  template <typename T, bool along>
  STOW_INLINE void run(const ChannelSpace &space, const Box &box, double, int64_t channel,
                       int64_t offset) const {
    Gradient<X, D, T> body{x + offset,
                           dy + offset,
                           dx + offset,
                           at<T>(mean + channel),
                           at<T>(slope + channel),
                           at<T>(level + channel),
                           at<T>(bend + channel)};
    each<T, along>(space, box, body);
  }
};

/// Work on a gradient that exists a chunk at a time, in `buffer`.
template <typename Work> struct Making : Work {
  const MakePoints *make;
  float *buffer;
  STOW_INLINE void enter(const ChannelSpace &space, const Box &box) {
    (*make)(box.pointBegin, box.pointEnd, buffer);
    this->dy = Floats{buffer} + -box.pointBegin * space.pointStride;
  }
};

//===-- Tasks ---------------------------------------------------------------------------------===//

/// Runs `work` over a task's chunks. Where channels are contiguous, a chunk is walked once per
/// strip of channels while the cache holds it.
template <typename Work>
STOW_INLINE void runTask(const ChannelSpace &space, const Task &task, Work &work) {
  double before = 0;
  for (int64_t i = task.begin; i < task.end; ++i) {
    Box box = chunkAt(space, i);
    if constexpr (requires { work.enter(space, box); })
      work.enter(space, box);
    int64_t offset = task.part * space.blockStride;
    if (space.alongPoints) {
      work.template run<float, true>(space, box, before, task.part, offset);
    } else if (space.parts == 1) {
      int64_t channel = 0;
      for (; channel + 16 <= space.channels; channel += 16)
        work.template run<F16, false>(space, box, before, channel, channel);
      for (; channel + 8 <= space.channels; channel += 8)
        work.template run<F8, false>(space, box, before, channel, channel);
      for (; channel < space.channels; ++channel)
        work.template run<float, false>(space, box, before, channel, channel * space.blockStride);
    } else if (space.block == 16) {
      work.template run<F16, false>(space, box, before, task.part * 16, offset);
    } else if (space.block == 8) {
      work.template run<F8, false>(space, box, before, task.part * 8, offset);
    } else {
      work.template run<float, false>(space, box, before, task.part, offset);
    }
    before += static_cast<double>(box.points());
  }
}

template <typename Work> void runPlain(const ChannelSpace &space, const Task &task, Work &work) {
  runTask(space, task, work);
}

#if defined(__x86_64__)
template <typename Work>
__attribute__((target("avx2,fma"))) void runAvx2(const ChannelSpace &space, const Task &task,
                                                 Work &work) {
  runTask(space, task, work);
}
#endif

/// How many ranges of tasks run at a time.
int64_t slotsOf(const ChannelSpace &space, int64_t threads) {
  int64_t most = 1 + space.channels * space.points / 16384; // not worth waking a thread for less
  return std::min({threads, most, space.tasks()});
}

/// `make` gives the work of a segment in a slot.
template <typename Make>
void runTasks(const ChannelSpace &space, int64_t threads, const Make &make) {
  const int64_t slots = slotsOf(space, threads), tasks = space.tasks();
  auto run = [&](int64_t slot) {
    for (int64_t number = tasks * slot / slots; number < tasks * (slot + 1) / slots; ++number) {
      Task task(space, number);
      auto work = make(task.segment, slot);
#if defined(__x86_64__)
      if (usesAvx2()) {
        runAvx2(space, task, work);
        continue;
      }
#endif
      runPlain(space, task, work);
    }
  };
  parallelFor(slots, slots, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot)
      run(slot);
  });
}

double segmentPoints(const ChannelSpace &space, int64_t segment) {
  Task task(space, segment);
  int64_t points = 0;
  for (int64_t i = task.begin; i < task.end; ++i)
    points += chunkAt(space, i).points();
  return static_cast<double>(points);
}

/// The scratch: two sums per segment and channel, four coefficients per channel.
struct Scratch {
  Scratch(const ChannelSpace &space, char *bytes) : width(space.storedChannels()) {
    first = reinterpret_cast<double *>(bytes);
    second = first + space.segments * width;
    auto *floats = reinterpret_cast<float *>(second + space.segments * width);
    for (int i = 0; i < 4; ++i)
      coefficients[i] = floats + i * width;
    std::fill(floats, floats + 4 * width, 0.0f); // padding stays zero
  }
  int64_t width;
  double *first, *second;
  float *coefficients[4];
};

void planChunks(ChannelSpace &space) {
  // Few additions to a sum, and a chunk that stays in the cache for its second pass.
  int64_t together = space.parts == 1 ? space.channels : space.block;
  int64_t wanted = space.alongPoints ? 2048 : std::clamp<int64_t>(16384 / together, 64, 256);
  if (space.rowPoints <= wanted) {
    space.chunkRows = std::max<int64_t>(1, wanted / std::max<int64_t>(space.rowPoints, 1));
    space.chunkPoints = space.rowPoints;
    space.chunks = (space.rows + space.chunkRows - 1) / space.chunkRows;
  } else {
    space.chunkPoints = wanted;
    space.chunks = space.rows * ((space.rowPoints + wanted - 1) / wanted);
  }
  // A segment is worth a task, and its sums are small beside its elements.
  int64_t least = std::max<int64_t>(512, 32768 / together);
  space.segments =
      std::clamp<int64_t>(space.points / least, 1, std::min<int64_t>(64, space.chunks));
}

} // namespace

std::optional<ChannelSpace> ChannelSpace::of(const Shape &shape, const Layout &layout) {
  if (shape.size() < 2 || layout.groups > 1 || layout.pitch || elementCount(shape) == 0)
    return std::nullopt;
  ChannelSpace space;
  if (layout.blocks.size() == 1 && layout.blocks[0].dim == 1)
    space.block = layout.blocks[0].size;
  else if (!layout.blocks.empty())
    return std::nullopt;
  if (space.block != 1 && space.block != 8 && space.block != 16)
    return std::nullopt;

  std::vector<int64_t> strides = outerStrides(layout, shape);
  space.channels = shape[1];
  space.blockStride = strides[1];
  space.points = elementCount(shape) / shape[1];
  struct Dim {
    int64_t extent, stride;
  };
  std::vector<Dim> dims; // all but the channels, outermost first, neighbours joined
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != 1 && shape[i] != 1)
      dims.push_back({shape[i], strides[i]});
  std::ranges::sort(dims, std::ranges::greater{}, &Dim::stride);
  for (size_t i = dims.size(); i-- > 1;)
    if (dims[i - 1].stride == dims[i].extent * dims[i].stride) {
      dims[i - 1] = {dims[i - 1].extent * dims[i].extent, dims[i].stride};
      dims.erase(dims.begin() + static_cast<int64_t>(i));
    }
  Dim inner = dims.empty() ? Dim{1, 1} : dims.back();
  space.rowPoints = inner.extent;
  space.pointStride = inner.stride;
  space.rows = space.points / inner.extent;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    space.rowExtents.push_back(dims[i].extent);
    space.rowStrides.push_back(dims[i].stride);
  }

  bool contiguousChannels = space.block == 1 && (space.blockStride == 1 || space.channels == 1);
  space.alongPoints =
      space.block == 1 && inner.stride == 1 && !(contiguousChannels && space.points == 1);
  space.parts = contiguousChannels && !space.alongPoints
                    ? 1
                    : (space.channels + space.block - 1) / space.block;
  planChunks(space);
  return space;
}

int64_t ChannelSpace::storedChannels() const { return alignUp(channels, block); }

bool ChannelSpace::hasOneRow() const {
  return parts == 1 && rows == 1 && (points == 1 || pointStride == channels);
}

Bytes ChannelSpace::makingBytes(int64_t threads) const {
  return slotsOf(*this, threads) * chunkPoints * channels * static_cast<Bytes>(sizeof(float));
}

Bytes ChannelSpace::scratchBytes() const {
  return storedChannels() * (2 * segments * static_cast<Bytes>(sizeof(double)) +
                             4 * static_cast<Bytes>(sizeof(float)));
}

namespace {

template <typename X>
ChannelLines findStatistics(const ChannelRun &run, X x, const float *scale, const float *shift,
                            float *mean, float *variance) {
  const ChannelSpace &space = run.space;
  Scratch s(space, run.scratch);
  runTasks(space, run.threads, [&](int64_t segment, int64_t) {
    return Moments<X>{x, s.first + segment * s.width, s.second + segment * s.width};
  });
  double points = segmentPoints(space, 0);
  for (int64_t segment = 1; segment < space.segments; ++segment) {
    double more = segmentPoints(space, segment), all = points + more;
    for (int64_t c = 0; c < space.channels; ++c) {
      double distance = s.first[segment * s.width + c] - s.first[c];
      s.first[c] += distance * (more / all);
      s.second[c] += s.second[segment * s.width + c] + distance * distance * (points * more / all);
    }
    points = all;
  }
  auto [means, slopes, shifts, unused] = s.coefficients;
  for (int64_t c = 0; c < space.channels; ++c) {
    double spread = s.second[c] / points;
    mean[c] = means[c] = static_cast<float>(s.first[c]);
    variance[c] = static_cast<float>(spread);
    slopes[c] = static_cast<float>(scale[c] / std::sqrt(spread + run.epsilon));
    shifts[c] = shift ? shift[c] : 0;
  }
  return {means, slopes, shifts};
}

template <typename X> void normalize(const ChannelRun &run, X x, X y, const ChannelLines &lines) {
  runTasks(run.space, run.threads, [&](int64_t, int64_t) {
    return Normalize<X>{x, y, lines.mean, lines.slope, lines.shift};
  });
}

/// `prepare` makes of a task's work, and its slot, what runs.
template <typename X, typename D, typename Prepare>
void normalizeGrad(const ChannelRun &run, X x, const ForwardVectors &forward, D dy, X dx,
                   float *dscale, float *dshift, const Prepare &prepare) {
  const ChannelSpace &space = run.space;
  Scratch s(space, run.scratch);
  auto [means, slopes, levels, bends] = s.coefficients;
  std::copy(forward.mean, forward.mean + space.channels, means);
  runTasks(space, run.threads, [&](int64_t segment, int64_t slot) {
    return prepare(
        Sums<X, D>{x, dy, means, s.first + segment * s.width, s.second + segment * s.width}, slot);
  });
  auto points = static_cast<double>(space.points);
  for (int64_t c = 0; c < space.channels; ++c) {
    double sum = 0, product = 0;
    for (int64_t segment = 0; segment < space.segments; ++segment) {
      sum += s.first[segment * s.width + c];
      product += s.second[segment * s.width + c];
    }
    double inverse = 1 / std::sqrt(forward.variance[c] + run.epsilon);
    slopes[c] = static_cast<float>(forward.scale[c] * inverse);
    levels[c] = static_cast<float>(sum / points);
    bends[c] = static_cast<float>(product * inverse * inverse / points);
    dscale[c] = static_cast<float>(product * inverse);
    dshift[c] = static_cast<float>(sum);
  }
  runTasks(space, run.threads, [&](int64_t, int64_t slot) {
    return prepare(Differentiate<X, D>{x, dy, dx, means, slopes, levels, bends}, slot);
  });
}

Floats floats(const StoredFloats &tensor) { return {reinterpret_cast<float *>(tensor.address)}; }
AnyFloats anyFloats(const StoredFloats &tensor) { return {tensor.type, tensor.address}; }

} // namespace

ChannelLines batchStatistics(const ChannelRun &run, const StoredFloats &x, const float *scale,
                             const float *shift, float *mean, float *variance) {
  if (x.type == DType::F32)
    return findStatistics(run, floats(x), scale, shift, mean, variance);
  return findStatistics(run, anyFloats(x), scale, shift, mean, variance);
}

void normalizeBatch(const ChannelRun &run, const StoredFloats &x, const float *scale,
                    const float *shift, const StoredFloats &y, float *mean, float *variance) {
  const ChannelLines lines = batchStatistics(run, x, scale, shift, mean, variance);
  if (x.type == DType::F32 && y.type == DType::F32)
    normalize(run, floats(x), floats(y), lines);
  else
    normalize(run, anyFloats(x), anyFloats(y), lines);
}

void normalizeBatchGrad(const ChannelRun &run, const StoredFloats &x, const ForwardVectors &forward,
                        const StoredFloats &dy, const StoredFloats &dx, float *dscale,
                        float *dshift) {
  auto prepare = [](auto work, int64_t) { return work; };
  if (x.type == DType::F32 && dy.type == DType::F32 && dx.type == DType::F32)
    normalizeGrad(run, floats(x), forward, floats(dy), floats(dx), dscale, dshift, prepare);
  else
    normalizeGrad(run, anyFloats(x), forward, anyFloats(dy), anyFloats(dx), dscale, dshift,
                  prepare);
}

void normalizeBatchGradMaking(const ChannelRun &run, const StoredFloats &x,
                              const ForwardVectors &forward, const MakePoints &dy,
                              const StoredFloats &dx, float *dscale, float *dshift) {
  const ChannelSpace &space = run.space;
  auto *buffers = reinterpret_cast<float *>(run.scratch + space.scratchBytes());
  auto prepare = [&](auto work, int64_t slot) {
    return Making<decltype(work)>{work, &dy, buffers + slot * space.chunkPoints * space.channels};
  };
  if (x.type == DType::F32 && dx.type == DType::F32)
    normalizeGrad(run, floats(x), forward, Floats{}, floats(dx), dscale, dshift, prepare);
  else
    normalizeGrad(run, anyFloats(x), forward, Floats{}, anyFloats(dx), dscale, dshift, prepare);
}

const char *batchNormInstructions() { return usesAvx2() ? "avx2" : "sse2"; }

} // namespace stow::host
