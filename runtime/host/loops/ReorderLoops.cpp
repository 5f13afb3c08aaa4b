#include "runtime/host/loops/ReorderLoops.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/Float16.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace stow::host {
namespace {

using Digit = ReorderPlan::Digit;

constexpr size_t mostDigits = 32, mostDims = 16;

/// An index along a dimension that grows by `unit` moves by `stride`, up to the next larger unit.
struct Unit {
  int64_t unit, stride;
};

/// Largest first.
std::vector<Unit> unitsOf(const Operand &operand, int64_t dim) {
  Unit whole = {1, outerStrides(operand.layout, operand.shape)[dim]};
  std::vector<Unit> blocks;
  int64_t stride = 1;
  for (size_t i = operand.layout.blocks.size(); i-- > 0;) {
    const Layout::Block &block = operand.layout.blocks[i];
    if (block.dim == dim) {
      blocks.insert(blocks.begin(), {whole.unit, stride});
      whole.unit *= block.size;
    }
    stride *= block.size;
  }
  blocks.insert(blocks.begin(), whole);
  return blocks;
}

int64_t strideAt(const std::vector<Unit> &units, int64_t unit) {
  const auto found = std::ranges::find_if(units, [&](const Unit &u) { return u.unit <= unit; });
  return found->stride * (unit / found->unit);
}

/// Adds the digits of dimension `dim` to the outer ones; false when the blocks do not nest.
bool addDigits(ReorderPlan &plan, const Operand &from, const Operand &to, int64_t dim) {
  const int64_t extent = layoutDims(to.layout, to.shape)[dim];
  const std::vector<Unit> source = unitsOf(from, dim), target = unitsOf(to, dim);
  std::vector<int64_t> units;
  for (const std::vector<Unit> &of : {source, target})
    for (const Unit &unit : of)
      units.push_back(unit.unit);
  std::ranges::sort(units, std::ranges::greater{});
  units.erase(std::ranges::unique(units).begin(), units.end());
  std::optional<size_t> number;
  if (extent % units[0] != 0) {
    number = plan.dims.size();
    plan.dims.push_back({extent, alignUp(extent, target[0].unit)});
  }
  for (size_t i = 0; i < units.size(); ++i) {
    if (i > 0 && units[i - 1] % units[i] != 0)
      return false;
    const int64_t count = i > 0 ? units[i - 1] / units[i] : (extent + units[0] - 1) / units[0];
    if (count > 1)
      plan.outer.push_back(
          {count, strideAt(source, units[i]), strideAt(target, units[i]), number, units[i]});
  }
  return true;
}

/// Joins digits that follow each other in both layouts.
void joinDigits(std::vector<Digit> &digits) {
  std::ranges::sort(digits, [](const Digit &a, const Digit &b) {
    return std::pair(a.toStride, a.fromStride) > std::pair(b.toStride, b.fromStride);
  });
  for (size_t i = digits.size(); i-- > 1;) {
    const Digit &in = digits[i];
    Digit &out = digits[i - 1];
    if (in.dim || out.dim || out.fromStride != in.count * in.fromStride ||
        out.toStride != in.count * in.toStride)
      continue;
    out = {out.count * in.count, in.fromStride, in.toStride, std::nullopt, 0};
    digits.erase(digits.begin() + static_cast<int64_t>(i));
  }
}

template <typename T> void gather(const T *from, int64_t stride, T *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = from[i * stride];
}

/// Copies and converts rows of the inner digit.
struct Copy {
  const ReorderPlan &plan;
  const char *from;
  char *to;

  void row(int64_t source, int64_t target, const int64_t *index) const;
  void elements(int64_t source, int64_t target, int64_t count) const;
  void rows(int64_t begin, int64_t end) const;
};

void Copy::elements(int64_t source, int64_t target, int64_t count) const {
  const int64_t stride = plan.inner.fromStride;
  const auto *halves = reinterpret_cast<const uint16_t *>(from) + source;
  auto *result = reinterpret_cast<uint16_t *>(to) + target;
  if (plan.fromType == plan.toType && is16Bit(plan.toType)) {
    if (stride == 1)
      std::memcpy(result, halves, static_cast<size_t>(count) * sizeof(uint16_t));
    else
      gather(halves, stride, result, count);
    return;
  }
  constexpr int64_t most = 256;
  float wide[most];
  uint16_t packed[most];
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t own = std::min(most, count - begin);
    const float *values = reinterpret_cast<const float *>(from) + source + begin * stride;
    if (is16Bit(plan.fromType)) {
      const uint16_t *stored = halves + begin * stride;
      if (stride != 1)
        gather(stored, stride, packed, own);
      widen(plan.fromType, stride == 1 ? stored : packed, wide, own);
      values = wide;
    } else if (stride != 1) {
      gather(values, stride, wide, own);
      values = wide;
    }
    if (is16Bit(plan.toType))
      narrow(plan.toType, values, result + begin, own);
    else
      std::memcpy(reinterpret_cast<float *>(to) + target + begin, values,
                  static_cast<size_t>(own) * sizeof(float));
  }
}

void Copy::row(int64_t source, int64_t target, const int64_t *index) const {
  const Digit &inner = plan.inner;
  int64_t valid = inner.count, stored = inner.count;
  for (size_t i = 0; i < plan.dims.size(); ++i) {
    const ReorderPlan::Dim &dim = plan.dims[i];
    const int64_t unit = inner.dim == i ? inner.unit : 0;
    auto within = [&](int64_t end) { // how many of the row have an index below `end`
      if (unit == 0)
        return index[i] < end ? inner.count : 0;
      return std::clamp<int64_t>((end - index[i] + unit - 1) / unit, 0, inner.count);
    };
    valid = std::min(valid, within(dim.extent));
    stored = std::min(stored, within(dim.padded));
  }
  elements(source, target, valid);
  if (valid < stored) {
    const Bytes size = sizeOf(plan.toType);
    std::memset(to + (target + valid) * size, 0, static_cast<size_t>((stored - valid) * size));
  }
}

void Copy::rows(int64_t begin, int64_t end) const {
  int64_t value[mostDigits] = {}, index[mostDims] = {}, source = 0, target = 0;
  auto move = [&](const Digit &digit, int64_t by) {
    source += by * digit.fromStride;
    target += by * digit.toStride;
    if (digit.dim)
      index[*digit.dim] += by * digit.unit;
  };
  int64_t rest = begin;
  for (size_t i = plan.outer.size(); i-- > 0; rest /= plan.outer[i].count) {
    value[i] = rest % plan.outer[i].count;
    move(plan.outer[i], value[i]);
  }
  for (int64_t number = begin; number < end; ++number) {
    row(source, target, index);
    for (size_t i = plan.outer.size(); i-- > 0;) {
      const Digit &digit = plan.outer[i];
      if (++value[i] < digit.count) {
        move(digit, 1);
        break;
      }
      value[i] = 0;
      move(digit, 1 - digit.count);
    }
  }
}

} // namespace

std::optional<ReorderPlan> ReorderPlan::of(Operand from, Operand to) {
  for (const Operand &operand : {from, to})
    if (operand.dtype != DType::F32 && !is16Bit(operand.dtype))
      return std::nullopt;
  // Row-major weights are the same bytes with their groups split off.
  if (from.layout.groups != to.layout.groups) {
    Operand &plain = from.layout.groups < to.layout.groups ? from : to;
    if (!plain.layout.isRowMajor() || plain.layout.groups > 1)
      return std::nullopt;
    plain.layout = {std::max(from.layout.groups, to.layout.groups), {}, {}};
  }
  ReorderPlan plan{from.dtype, to.dtype, {}, {1, 1, 1, std::nullopt, 0}, {}};
  const Shape dims = layoutDims(to.layout, to.shape);
  for (size_t i = 0; i < dims.size(); ++i)
    if (!addDigits(plan, from, to, static_cast<int64_t>(i)))
      return std::nullopt;
  joinDigits(plan.outer);
  if (plan.outer.size() > mostDigits || plan.dims.size() > mostDims)
    return std::nullopt;
  if (!plan.outer.empty() && plan.outer.back().toStride == 1) {
    plan.inner = plan.outer.back();
    plan.outer.pop_back();
  }
  if (elementCount(to.shape) == 0)
    plan.inner.count = 0;
  return plan;
}

void ReorderPlan::run(const char *from, char *to, int64_t threads) const {
  int64_t rows = 1;
  for (const Digit &digit : outer)
    rows *= digit.count;
  // Long rows are shared out, short ones taken together.
  constexpr int64_t share = 16384;
  const int64_t worth = 1 + rows * inner.count / share;
  parallelFor(rows, std::min(threads, worth),
              [&](int64_t begin, int64_t end) { Copy{*this, from, to}.rows(begin, end); });
}

} // namespace stow::host
