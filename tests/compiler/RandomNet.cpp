#include "tests/compiler/RandomNet.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace stow {
namespace {

using Extents = std::vector<int64_t>;

struct Node {
  std::string name;
  Extents shape;
  bool isRead = false;
};

std::string typeOf(const Extents &shape) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + "f32>";
}

std::string arrayOf(const Extents &numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? ": " : ", ") + std::to_string(number);
  return "array<i64" + text + ">";
}

int64_t elementsOf(const Extents &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

/// Writes a model op by op.
class Writer {
public:
  Writer(uint64_t seed, int64_t scale)
      : random(seed), moves(movesData(seed)), scale(scale), mostElements(6000 * scale) {}

  std::string write() {
    addInput();
    // Half of the networks are about data movement alone.
    isPlain = moves && below(2) == 0;
    const int64_t ops = 3 + below(22);
    for (int64_t i = 0; i < ops; ++i)
      addOp();
    size_t last = finish();
    return "module attributes {stow.form = \"model\"} {\nfunc.func @model(" + arguments + ") -> (" +
           typeOf(nodes[last].shape) +
           " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n" + body +
           "return %" + nodes[last].name + " : " + typeOf(nodes[last].shape) + "\n}\n}\n";
  }

private:
  int64_t below(int64_t count) { return static_cast<int64_t>(random() % uint64_t(count)); }
  template <typename T> const T &oneOf(const std::vector<T> &list) {
    return list[below(int64_t(list.size()))];
  }

  void addInput() {
    Extents shape = {scale * oneOf<int64_t>({1, 2, 4})};
    for (int64_t rank = 1 + below(3); rank > 0; --rank)
      shape.push_back(oneOf<int64_t>({2, 3, 4, 6, 8, 16}));
    while (elementsOf(shape) > mostElements / 4)
      shape.pop_back();
    arguments = "%x: " + typeOf(shape) + " {stow.name = \"x\", stow.kind = #stow.kind<input>}";
    nodes.push_back({"x", shape});
    // The rest works on something that depends on a parameter, so that there is a backward.
    emit("add", {0, parameter(shape)}, "", shape);
  }

  size_t parameter(const Extents &shape, const std::string &kind = "parameter",
                   const std::string &init = "#stow.init<\"normal\", 0.0, 0.3>") {
    std::string name = "w" + std::to_string(parameters++);
    arguments += ",\n  %" + name + ": " + typeOf(shape) + " {stow.name = \"" + name +
                 "\", stow.kind = #stow.kind<" + kind + ">, stow.init = " + init + "}";
    hidden.push_back({name, shape});
    return kHidden + hidden.size() - 1;
  }

  Node &node(size_t id) { return id >= kHidden ? hidden[id - kHidden] : nodes[id]; }

  size_t emit(const std::string &op, const std::vector<size_t> &operands,
              const std::string &attributes, Extents shape) {
    std::string names, types, name = "v" + std::to_string(nodes.size());
    for (size_t id : operands) {
      names += (names.empty() ? " %" : ", %") + node(id).name;
      types += (types.empty() ? "" : ", ") + typeOf(node(id).shape);
      node(id).isRead = true;
    }
    body += "%" + name + " = stow." + op + names +
            (attributes.empty() ? "" : " {" + attributes + "}") + " : (" + types + ") -> " +
            typeOf(shape) + " loc(\"" + name + "\")\n";
    nodes.push_back({name, shape});
    return nodes.size() - 1;
  }

  /// Mostly one of the latest values, sometimes any.
  size_t pick() {
    const auto count = static_cast<int64_t>(nodes.size());
    return static_cast<size_t>(below(4) == 0 ? below(count)
                                             : count - 1 - below(std::min<int64_t>(count, 5)));
  }

  void addOp() {
    const size_t x = pick();
    constexpr int64_t moving = 6, plain = 13, all = 18;
    switch (moves ? below(isPlain ? plain : all) : moving + below(all - moving)) {
    case 0:
    case 1:
    case 2:
      concat(x);
      return;
    case 3:
      slice(x);
      return;
    case 4:
      below(3) == 0 ? wrap(x) : split(x);
      return;
    case 5:
      nest(x);
      return;
    case 6:
      reshape(x);
      return;
    case 7:
      transpose(x);
      return;
    case 8:
    case 9:
      unary(x);
      return;
    case 10:
    case 11:
      binary(x);
      return;
    case 12:
      residual(x);
      return;
    case 13:
      emit("softmax", {x}, "axis = " + std::to_string(below(rank(x))) + " : i64", nodes[x].shape);
      return;
    case 14:
      matmul(x);
      return;
    case 15:
      gate(x);
      return;
    default:
      convolution(x);
      return;
    }
  }

  int64_t rank(size_t x) const { return static_cast<int64_t>(nodes[x].shape.size()); }

  size_t unary(size_t x) {
    return emit(oneOf<std::string>({"relu", "tanh", "sigmoid", "neg", "abs", "erf", "sign"}), {x},
                "", nodes[x].shape);
  }

  void binary(size_t x) {
    std::vector<size_t> same;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].shape == nodes[x].shape)
        same.push_back(i);
    size_t other = below(4) == 0 ? parameter(nodes[x].shape) : oneOf(same);
    emit(oneOf<std::string>({"add", "mul", "sub", "maximum"}), {x, other}, "", nodes[x].shape);
  }

  size_t residual(size_t x) {
    const Extents shape = nodes[x].shape;
    size_t y = unary(emit("mul", {x, parameter(shape)}, "", shape));
    return emit("add", {y, x}, "", shape);
  }

  size_t join(const std::vector<size_t> &parts, int64_t axis) {
    Extents shape = nodes[parts.front()].shape;
    shape[axis] = 0;
    for (size_t part : parts)
      shape[axis] += nodes[part].shape[axis];
    return emit("concat", parts, "axis = " + std::to_string(axis) + " : i64", shape);
  }

  /// Values that can be joined with `x` along `axis`.
  std::vector<size_t> partners(size_t x, int64_t axis) {
    std::vector<size_t> found;
    for (size_t i = 0; i < nodes.size(); ++i) {
      Extents shape = nodes[i].shape;
      if (shape.size() != nodes[x].shape.size())
        continue;
      shape[axis] = nodes[x].shape[axis];
      if (shape == nodes[x].shape)
        found.push_back(i);
    }
    return found;
  }

  void concat(size_t x) {
    const int64_t axis = below(rank(x));
    std::vector<size_t> candidates = partners(x, axis), parts = {x};
    for (int64_t more = 1 + below(3); more > 0; --more)
      parts.push_back(below(3) == 0 ? unary(x) : oneOf(candidates));
    std::shuffle(parts.begin(), parts.end(), random);
    int64_t elements = 0;
    for (size_t part : parts)
      elements += elementsOf(nodes[part].shape);
    if (elements <= mostElements)
      join(parts, axis);
  }

  /// A concat inside another one, on two axes; what stands beside it is no concat.
  void nest(size_t x) {
    if (elementsOf(nodes[x].shape) * 4 > mostElements || rank(x) < 2)
      return;
    const int64_t inner = below(rank(x)), outer = below(rank(x));
    size_t joined = join({unary(x), below(2) ? x : unary(x)}, inner);
    if (below(3) == 0)
      joined = unary(joined);
    size_t beside = below(2) ? unary(joined) : residual(joined);
    join(below(2) ? std::vector{beside, joined} : std::vector{joined, beside}, outer);
  }

  size_t box(size_t x, const Extents &starts, const Extents &sizes) {
    return emit("slice", {x}, "starts = " + arrayOf(starts) + ", sizes = " + arrayOf(sizes), sizes);
  }

  void slice(size_t x) {
    Extents sizes = nodes[x].shape, starts(sizes.size(), 0);
    for (int64_t times = 1 + below(2); times > 0; --times) {
      const int64_t axis = below(rank(x)), whole = nodes[x].shape[axis];
      sizes[axis] = 1 + below(whole);
      starts[axis] = below(whole - sizes[axis] + 1);
    }
    box(x, starts, sizes);
  }

  /// All of a value in pieces, some of them computed on and joined again.
  void split(size_t x) {
    const int64_t axis = below(rank(x)), whole = nodes[x].shape[axis];
    std::vector<size_t> pieces;
    for (int64_t start = 0; start < whole;) {
      Extents sizes = nodes[x].shape, starts(sizes.size(), 0);
      starts[axis] = start;
      sizes[axis] = 1 + below(whole - start);
      start += sizes[axis];
      size_t piece = box(x, starts, sizes);
      pieces.push_back(below(2) ? piece : unary(piece));
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    if (below(2))
      join(pieces, axis);
  }

  /// Circular padding: the last of a dimension, all of it, the first of it.
  void wrap(size_t x) {
    const int64_t axis = below(rank(x)), whole = nodes[x].shape[axis];
    if (elementsOf(nodes[x].shape) * 3 > mostElements)
      return;
    auto side = [&](int64_t size, bool isLast) {
      Extents sizes = nodes[x].shape, starts(sizes.size(), 0);
      sizes[axis] = size;
      starts[axis] = isLast ? whole - size : 0;
      return box(x, starts, sizes);
    };
    const size_t last = side(1 + below(whole), true), first = side(1 + below(whole), false);
    join({last, x, first}, axis);
  }

  void reshape(size_t x) {
    Extents shape = nodes[x].shape;
    const size_t dim = static_cast<size_t>(below(rank(x)));
    const int64_t extent = shape[dim];
    const int64_t choice = below(3);
    if (choice == 0 && dim + 1 < shape.size()) {
      shape[dim] *= shape[dim + 1];
      shape.erase(shape.begin() + static_cast<int64_t>(dim) + 1);
    } else if (choice == 1 && extent % 2 == 0 && shape.size() < 5) {
      shape[dim] /= 2;
      shape.insert(shape.begin() + static_cast<int64_t>(dim) + below(2), 2);
    } else if (shape.size() < 5) {
      shape.insert(shape.begin() + static_cast<int64_t>(dim), 1);
    }
    if (shape != nodes[x].shape)
      emit("reshape", {x}, "", shape);
  }

  void transpose(size_t x) {
    Extents order(nodes[x].shape.size()), shape;
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (int64_t dim : order)
      shape.push_back(nodes[x].shape[dim]);
    emit("transpose", {x}, "permutation = " + arrayOf(order), shape);
  }

  void matmul(size_t x) {
    if (rank(x) < 2)
      return;
    Extents shape = nodes[x].shape;
    const int64_t out = oneOf<int64_t>({3, 4, 8, 16});
    // Every other product of a shape that has been there has that one's weight.
    auto [known, isNew] = factors.try_emplace({shape.back(), out});
    if (isNew || below(2) == 0)
      known->second = parameter({shape.back(), out});
    size_t weight = known->second;
    shape.back() = out;
    if (elementsOf(shape) <= mostElements)
      emit("matmul", {x, weight}, "transpose_a = false, transpose_b = false", shape);
  }

  /// A mean along one axis, spread over the value again.
  void gate(size_t x) {
    const int64_t axis = below(rank(x));
    Extents shape = nodes[x].shape;
    shape[axis] = 1;
    size_t mean = emit(oneOf<std::string>({"reduce_mean", "reduce_sum"}), {x},
                       "axes = " + arrayOf({axis}) + ", keepdims = true", shape);
    emit("mul", {x, unary(mean)}, "", nodes[x].shape);
  }

  void convolution(size_t x) {
    if (rank(x) != 4)
      return matmul(x);
    Extents shape = nodes[x].shape;
    const int64_t kernel = oneOf<int64_t>({1, 3}), pad = kernel / 2;
    size_t weight = parameter({oneOf<int64_t>({3, 4, 8, 16}), shape[1], kernel, kernel});
    shape[1] = node(weight).shape[0];
    if (elementsOf(shape) > mostElements)
      return;
    size_t y = emit("conv2d", {x, weight},
                    "strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, "
                    "pads = " +
                        arrayOf({pad, pad, pad, pad}),
                    shape);
    if (below(2)) {
      const Extents channels = {shape[1]};
      const std::string type = " : " + typeOf(channels);
      y = emit("batch_norm",
               {y, parameter(channels), parameter(channels),
                parameter(channels, "statistic", "dense<0.0>" + type),
                parameter(channels, "statistic", "dense<1.0>" + type)},
               "epsilon = 1.0e-5 : f64, momentum = 0.1 : f64", shape);
    }
    if (below(2))
      unary(y);
  }

  /// The last value alone, or all that nothing reads, joined.
  size_t finish() {
    const size_t last = nodes.size() - 1;
    if (!moves || below(2) == 0)
      return unary(last);
    std::vector<size_t> flat;
    for (size_t i = 0; i <= last; ++i)
      if (!nodes[i].isRead)
        flat.push_back(nodes[i].shape.size() == 1
                           ? i
                           : emit("reshape", {i}, "", {elementsOf(nodes[i].shape)}));
    return unary(join(flat, 0));
  }

  static constexpr size_t kHidden = 1'000'000; ///< ids of parameters begin here

  std::mt19937_64 random;
  const bool moves;                  ///< has concats and slices
  const int64_t scale, mostElements; ///< of the first dimension; of one value
  bool isPlain = false;
  int parameters = 0;
  std::string arguments, body;
  std::vector<Node> nodes;  ///< what ops may read, in order of definition
  std::vector<Node> hidden; ///< parameters: read once, but for those of products
  std::map<std::pair<int64_t, int64_t>, size_t> factors; ///< parameters of products, by shape
};

} // namespace

bool movesData(uint64_t seed) { return seed % 5 != 0; }

std::string randomNet(uint64_t seed, int64_t scale) { return Writer(seed, scale).write(); }

} // namespace stow
