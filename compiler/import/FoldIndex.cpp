// Folding of ops that read, write, repeat or sum elements of small known tensors by position.
#include "compiler/import/Fold.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>

namespace stow::onnx {
namespace {

using Site = FoldSite;

/// A dimension of a shape as extents before, of and behind it.
struct Split {
  int64_t outer, extent, inner;
};

Split splitAt(const Shape &shape, int64_t axis) {
  return {elementCount(Shape(shape.begin(), shape.begin() + axis)), shape[axis],
          elementCount(Shape(shape.begin() + axis + 1, shape.end()))};
}

int64_t axisOf(const Site &site, int64_t fallback) {
  return normalizedAxis(site.integer("axis", fallback),
                        static_cast<int64_t>(site.in(0).shape.size()));
}

int64_t wrappedIndex(int64_t at, int64_t extent) {
  if (at < -extent || at >= extent)
    throw Error::badInput(absl::StrCat("names element ", at, " of ", extent));
  return at < 0 ? at + extent : at;
}

/// The coordinates of element `number` of `shape`.
std::vector<int64_t> coordinatesOf(int64_t number, const Shape &shape) {
  std::vector<int64_t> result(shape.size());
  for (size_t d = shape.size(); d-- > 0; number /= shape[d])
    result[d] = number % shape[d];
  return result;
}

int64_t numberOf(const std::vector<int64_t> &coordinates, const Shape &shape) {
  int64_t number = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    number = number * shape[d] + coordinates[d];
  return number;
}

std::vector<Literal> gatherElements(const Site &site) {
  const Literal &x = site.in(0);
  const std::vector<int64_t> &indices = site.ints(1);
  Shape shape = site.in(1).shape;
  int64_t axis = axisOf(site, 0);
  if (shape.size() != x.shape.size())
    throw Error::badInput("has indices of another rank than the data");
  return {gathered(x, shape, [&](int64_t i) {
    auto at = coordinatesOf(i, shape);
    at[axis] = indices[i];
    for (size_t d = 0; d < at.size(); ++d)
      at[d] = wrappedIndex(at[d], x.shape[d]);
    return numberOf(at, x.shape);
  })};
}

std::vector<Literal> gatherND(const Site &site) {
  const Literal &x = site.in(0);
  const std::vector<int64_t> &tuples = site.ints(1);
  Shape picks = site.in(1).shape;
  int64_t batch = site.integer("batch_dims", 0), width = picks.empty() ? 0 : picks.back();
  if (batch < 0 || batch >= static_cast<int64_t>(picks.size()) || width < 1 ||
      batch + width > static_cast<int64_t>(x.shape.size()) ||
      !std::equal(picks.begin(), picks.begin() + batch, x.shape.begin()))
    throw Error::badInput("has tuples of indices that do not fit the data");
  Shape rest(x.shape.begin() + batch + width, x.shape.end()), shape(picks.begin(), picks.end() - 1);
  int64_t inner = elementCount(rest), perBatch = 1;
  for (size_t d = batch; d + 1 < picks.size(); ++d)
    perBatch *= picks[d];
  shape.insert(shape.end(), rest.begin(), rest.end());
  return {gathered(x, shape, [&](int64_t i) {
    int64_t tuple = i / inner, from = tuple / perBatch;
    for (int64_t j = 0; j < width; ++j)
      from =
          from * x.shape[batch + j] + wrappedIndex(tuples[tuple * width + j], x.shape[batch + j]);
    return from * inner + i % inner;
  })};
}

/// What an update does to the element that is there.
enum class Join { Replace, Add, Multiply, Max, Min };

template <typename T> T joinedOf(T there, T update, Join join) {
  switch (join) {
  case Join::Replace:
    return update;
  case Join::Add:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(there) + static_cast<uint64_t>(update));
    else
      return there + update;
  case Join::Multiply:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(there) * static_cast<uint64_t>(update));
    else
      return there * update;
  case Join::Max:
    return std::max(there, update);
  case Join::Min:
    return std::min(there, update);
  }
  return update;
}

/// Joins element `from` of the updates to element `to`.
void combine(Literal &y, int64_t to, const Literal &updates, int64_t from, Join join) {
  if (y.isFloat())
    y.floats[to] = rounded(joinedOf(y.floats[to], updates.floats[from], join), y.type);
  else
    y.ints[to] = wrapped(joinedOf(y.ints[to], updates.ints[from], join), y.type);
}

Join joinOf(const Site &site) {
  static const std::map<std::string, Join> joins = {{"none", Join::Replace},
                                                    {"add", Join::Add},
                                                    {"mul", Join::Multiply},
                                                    {"max", Join::Max},
                                                    {"min", Join::Min}};
  std::string reduction = site.text("reduction", "none");
  auto join = joins.find(reduction);
  if (join == joins.end())
    throw Error::badInput("reduces by '" + reduction + "'; expected none, add, mul, max or min");
  if (site.in(0).isFloat() != site.in(2).isFloat())
    throw Error::badInput("writes constants of another type than the data");
  return join->second;
}

std::vector<Literal> scatterElements(const Site &site) {
  Literal y = site.in(0);
  const std::vector<int64_t> &indices = site.ints(1);
  const Shape &shape = site.in(1).shape;
  int64_t axis = axisOf(site, 0);
  Join join = joinOf(site);
  if (shape != site.in(2).shape || shape.size() != y.shape.size())
    throw Error::badInput("expects as many updates as indices, of the data's rank");
  for (int64_t i = 0; i < static_cast<int64_t>(indices.size()); ++i) {
    auto at = coordinatesOf(i, shape);
    at[axis] = indices[i];
    for (size_t d = 0; d < at.size(); ++d)
      at[d] = wrappedIndex(at[d], y.shape[d]);
    combine(y, numberOf(at, y.shape), site.in(2), i, join);
  }
  return {y};
}

std::vector<Literal> scatterND(const Site &site) {
  Literal y = site.in(0);
  const std::vector<int64_t> &tuples = site.ints(1);
  const Shape &picks = site.in(1).shape;
  int64_t width = picks.empty() ? 0 : picks.back();
  Join join = joinOf(site);
  if (width < 1 || width > static_cast<int64_t>(y.shape.size()))
    throw Error::badInput("has tuples of indices that do not fit the data");
  int64_t inner = elementCount(Shape(y.shape.begin() + width, y.shape.end()));
  auto count = static_cast<int64_t>(tuples.size()) / width;
  if (site.in(2).size() != count * inner)
    throw Error::badInput("has updates that do not fit the indices and the data");
  for (int64_t tuple = 0; tuple < count; ++tuple) {
    int64_t to = 0;
    for (int64_t j = 0; j < width; ++j)
      to = to * y.shape[j] + wrappedIndex(tuples[tuple * width + j], y.shape[j]);
    for (int64_t i = 0; i < inner; ++i)
      combine(y, to * inner + i, site.in(2), tuple * inner + i, join);
  }
  return {y};
}

std::vector<Literal> cumSum(const Site &site) {
  const Literal &x = site.in(0);
  if (site.ints(1).size() != 1)
    throw Error::badInput("expects one integer as axis");
  Split at =
      splitAt(x.shape, normalizedAxis(site.ints(1)[0], static_cast<int64_t>(x.shape.size())));
  bool exclusive = site.integer("exclusive", 0) != 0, reverse = site.integer("reverse", 0) != 0;
  Literal y = x;
  for (int64_t line = 0; line < at.outer * at.inner; ++line) {
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t step = 0; step < at.extent; ++step) {
      int64_t position = reverse ? at.extent - 1 - step : step;
      int64_t i = (line / at.inner * at.extent + position) * at.inner + line % at.inner;
      if (x.isFloat()) {
        y.floats[i] = rounded(exclusive ? sum : sum + x.floats[i], y.type);
        sum += x.floats[i];
      } else {
        uint64_t next = whole + static_cast<uint64_t>(x.ints[i]);
        y.ints[i] = wrapped(exclusive ? whole : next, y.type);
        whole = next;
      }
    }
  }
  return {y};
}

/// Coordinates of the elements that are not 0, one row per dimension.
std::vector<Literal> nonZero(const Site &site) {
  const Literal &x = site.in(0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i)
    if (x.number(i) != 0)
      found.push_back(i);
  Literal y;
  y.shape = {static_cast<int64_t>(x.shape.size()), static_cast<int64_t>(found.size())};
  limitedCount(y.shape);
  for (size_t d = 0; d < x.shape.size(); ++d)
    for (int64_t i : found)
      y.ints.push_back(coordinatesOf(i, x.shape)[d]);
  return {y};
}

std::vector<Literal> tile(const Site &site) {
  const Literal &x = site.in(0);
  const std::vector<int64_t> &repeats = site.ints(1);
  if (repeats.size() != x.shape.size())
    throw Error::badInput("expects one number of repetitions per dimension");
  Shape shape = x.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (repeats[d] < 0 || repeats[d] > kLiteralLimit)
      throw Error::badInput(absl::StrCat("repeats a constant ", repeats[d], " times"));
    shape[d] *= repeats[d];
  }
  return {gathered(x, shape, [&](int64_t i) {
    auto at = coordinatesOf(i, shape);
    for (size_t d = 0; d < at.size(); ++d)
      at[d] %= x.shape[d];
    return numberOf(at, x.shape);
  })};
}

std::vector<Literal> split(const Site &site) {
  const Literal &x = site.in(0);
  int64_t axis = axisOf(site, 0), extent = x.shape[axis], start = 0;
  std::vector<int64_t> sizes;
  if (auto given = axesOf(site.node, "split", site.has(1) ? site.inputs[1] : nullptr)) {
    sizes = *given;
  } else {
    int64_t parts = site.integer("num_outputs", static_cast<int64_t>(site.node.outputs.size()));
    int64_t size = parts < 1 ? 0 : (extent + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::max<int64_t>(0, std::min(size, extent - i * size)));
  }
  if (sizes.size() != site.node.outputs.size() ||
      std::any_of(sizes.begin(), sizes.end(), [](int64_t n) { return n < 0; }) ||
      std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != extent)
    throw Error::badInput("splits a constant into parts that do not add up to it");
  std::vector<Literal> parts;
  for (int64_t size : sizes) {
    Shape shape = x.shape;
    shape[axis] = size;
    Split at = splitAt(shape, axis);
    parts.push_back(gathered(x, shape, [&](int64_t i) {
      return (i / at.inner / size * extent + start + i / at.inner % size) * at.inner + i % at.inner;
    }));
    start += size;
  }
  return parts;
}

/// Sum, product, mean or extremum over `axes`, all dimensions when there are none.
std::vector<Literal> reduce(const Site &site) {
  const Literal &x = site.in(0);
  const std::string &op = site.node.type;
  auto axes = axesOf(site.node, "axes", site.has(1) ? site.inputs[1] : nullptr);
  auto rank = static_cast<int64_t>(x.shape.size());
  if ((!axes || axes->empty()) && site.integer("noop_with_empty_axes", 0))
    return {x};
  std::vector<bool> folded(rank, !axes || axes->empty());
  for (int64_t axis : axes.value_or(std::vector<int64_t>{}))
    folded[normalizedAxis(axis, rank)] = true;
  Shape kept, shape;
  for (int64_t d = 0; d < rank; ++d) {
    kept.push_back(folded[d] ? 1 : x.shape[d]);
    if (!folded[d] || site.integer("keepdims", 1))
      shape.push_back(kept.back());
  }
  int64_t count = elementCount(kept);
  if (count == 0 || x.size() == 0)
    throw Error::badInput("reduces an empty constant");
  Literal y{x.type, shape, {}, {}};
  std::vector<bool> seen(count, false);
  y.floats.resize(x.isFloat() ? count : 0);
  y.ints.resize(x.isFloat() ? 0 : count);
  // Sums and products in double, and of integers modulo 2^64.
  auto join = [&](auto to, auto value, bool less) {
    return op == "ReduceMax"    ? (less ? value : to)
           : op == "ReduceMin"  ? (less ? to : value)
           : op == "ReduceProd" ? to * value
                                : to + value;
  };
  for (int64_t i = 0; i < x.size(); ++i) {
    auto at = coordinatesOf(i, x.shape);
    for (int64_t d = 0; d < rank; ++d)
      at[d] = folded[d] ? 0 : at[d];
    int64_t to = numberOf(at, kept);
    if (x.isFloat())
      y.floats[to] =
          seen[to] ? join(y.floats[to], x.floats[i], y.floats[to] < x.floats[i]) : x.floats[i];
    else
      y.ints[to] = seen[to] ? static_cast<int64_t>(join(static_cast<uint64_t>(y.ints[to]),
                                                        static_cast<uint64_t>(x.ints[i]),
                                                        lessThan(x.type, y.ints[to], x.ints[i])))
                            : x.ints[i];
    seen[to] = true;
  }
  const int64_t share = op == "ReduceMean" ? x.size() / count : 1;
  for (double &value : y.floats)
    value = rounded(value / double(share), y.type);
  for (int64_t &value : y.ints)
    value = wrapped(value / share, y.type);
  return {y};
}

} // namespace

void addIndexFolds(FoldTable &table) {
  table["GatherElements"] = gatherElements;
  table["GatherND"] = gatherND;
  table["ScatterElements"] = scatterElements;
  table["ScatterND"] = scatterND;
  table["CumSum"] = cumSum;
  table["NonZero"] = nonZero;
  table["Tile"] = tile;
  table["Split"] = split;
  for (const char *type : {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"})
    table[type] = reduce;
}

} // namespace stow::onnx
