// GRU, LSTM and RNN, unrolled over time.
//
// One product takes the whole sequence through the input weights; a time step then reads its rows
// of it, multiplies the state by the recurrent weights, and the gates are elementwise:
//
//   x [T,N,I] --(W, biases)--> [T*N, G*H] --rows of step t--+
//   state of step t-1 --(R)--> [N, G*H] --------------------+--> gates --> state of step t
//
// Lengths (sequence_lens) mean what PyTorch's packed sequences do: beyond its length a sequence
// gives zeros, its final state is that of its last step, and the reverse direction begins there.
// A state that starts at zero needs one tensor per step for all that: the results themselves are
// handed on, because what a padded step makes of its state is masked anyway.
#include "compiler/import/GateRows.h"
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowShapeOps.h"
#include "runtime/base/Text.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Gates in the order of the rows of W: GRU z r h, LSTM i o f c.
int64_t gatesOf(const std::string &type) { return type == "GRU" ? 3 : type == "LSTM" ? 4 : 1; }

/// Input positions that the three operators share, and those that LSTM adds.
enum Input : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

struct Sizes {
  int64_t steps, batch, features, hidden, directions, gates;
};

/// One direction of a layer.
struct Direction {
  bool isReverse = false;
  SmallVector<int64_t> order; ///< place of every gate among the rows of the weights
  Value fromInput;            ///< [T*N, G*H]: the input's share of all gates, biases included
  Value recurrent;     ///< [G*H, H], of a GRU that resets before its product the rows of z and r
  Value recurrentBias; ///< [G*H], added to the state's product; null where fromInput has it
  Value candidate;     ///< [H, H]: the rows of h of a GRU that resets before its product
  Value initialH, initialC; ///< [N, H]; null for zeros
  SmallVector<std::string> activations;
};

/// State and result of one time step.
struct State {
  Value h, c;
};

Value sum(NodeImport &node, Value a, Value b) { return node.emit<AddOp>({a, b}); }
Value times(NodeImport &node, Value a, Value b) { return node.emit<MulOp>({a, b}); }

/// x W^T (+ bias).
Value product(NodeImport &node, Value x, Value weight, Value bias = {}) {
  SmallVector<Value> operands = {x, weight};
  if (bias)
    operands.push_back(bias);
  return node.emit<MatmulOp>(operands, [&](MatmulOp::Properties &p) {
    p.transpose_a = node.boolean(false);
    p.transpose_b = node.boolean(true);
  });
}

Value activated(NodeImport &node, const std::string &name, Value x) {
  return name == "Sigmoid" ? node.emit<SigmoidOp>(x)
         : name == "Tanh"  ? node.emit<TanhOp>(x)
                           : node.emit<ReluOp>(x);
}

/// Columns [from, from + count) of a matrix.
Value columns(NodeImport &node, Value x, int64_t from, int64_t count) {
  Shape shape = shapeOf(x);
  return shape[1] == count ? x : node.slice(x, {0, from}, {shape[0], count});
}

Value rows(NodeImport &node, Value x, int64_t from, int64_t count) {
  Shape sizes = shapeOf(x), starts(sizes.size(), 0);
  starts[0] = from;
  sizes[0] = count;
  return sizes == shapeOf(x) ? x : node.slice(x, starts, sizes);
}

Value joined(NodeImport &node, const SmallVector<Value> &parts, int64_t axis) {
  if (parts.size() == 1)
    return parts[0];
  return node.emit<ConcatOp>(parts, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); });
}

Value transposed(NodeImport &node, Value x, const std::vector<int64_t> &order) {
  return node.emit<TransposeOp>(
      x, [&](TransposeOp::Properties &p) { p.permutation = node.array(order); });
}

/// Unrolls one node.
class Recurrence {
public:
  explicit Recurrence(NodeImport &node)
      : node(node), type(node.node().type), isBatchFirst(node.flag("layout", false)) {}

  void convert();

private:
  bool isLstm() const { return type == "LSTM"; }
  void readSizes();
  void readActivations();
  void refuseExtras();
  void expectShape(size_t input, const char *name, const Shape &expected) const;
  void readLengths();
  Value initialState(size_t input, const char *name, int64_t direction);
  Direction readDirection(int64_t direction);
  void readWeights(Direction &of, int64_t direction);
  bool isResetEarly() const { return type == "GRU" && !node.flag("linear_before_reset", false); }
  Value gate(const Direction &of, Value x, int64_t number);
  Value maskOf(int64_t step);
  Value masked(int64_t step, Value inside, Value beyond);
  State step(const Direction &of, const State &before, int64_t at);
  State gruStep(const Direction &of, const State &before, Value gates);
  State lstmStep(const Direction &of, const State &before, Value gates);
  Value gateSum(const Direction &of, Value gates, const State &before);
  State run(const Direction &of, SmallVector<Value> &results);
  Value lastOf(const SmallVector<Value> &results, Value initial);
  void bindResults(const SmallVector<SmallVector<Value>> &results);
  void bindStates(size_t output, const SmallVector<Value> &states);

  NodeImport &node;
  std::string type;
  bool isBatchFirst;
  Sizes sizes{};
  SmallVector<std::string> activations; ///< of all directions, one behind the other
  std::optional<std::vector<int64_t>> knownLengths;
  Value lengths; ///< [N] where they are computed or differ
  SmallVector<Value> masks;
};

void Recurrence::expectShape(size_t input, const char *name, const Shape &expected) const {
  if (node.shape(input) != expected)
    throw Error::badInput(absl::StrCat("input ", input, " (", name, ") has shape ",
                                       shapeText(node.shape(input)), ", expected ",
                                       shapeText(expected)));
}

void Recurrence::readSizes() {
  const Shape &x = node.shape(kX), &w = node.shape(kW), &r = node.shape(kR);
  if (x.size() != 3 || w.size() != 3 || r.size() != 3)
    throw Error::badInput("expects X, W and R of rank 3, found shapes " + shapeText(x) + ", " +
                          shapeText(w) + " and " + shapeText(r));
  std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    throw Error::badInput("attribute 'direction' is \"" + direction +
                          "\"; expected forward, reverse or bidirectional");
  sizes = {.steps = x[isBatchFirst ? 1 : 0],
           .batch = x[isBatchFirst ? 0 : 1],
           .features = x[2],
           .hidden = node.integer("hidden_size", r[2]),
           .directions = direction == "bidirectional" ? 2 : 1,
           .gates = gatesOf(type)};
  if (sizes.hidden < 1)
    throw Error::badInput(
        absl::StrCat("attribute 'hidden_size' is ", sizes.hidden, "; expected a positive number"));
  int64_t rowCount = sizes.gates * sizes.hidden;
  expectShape(kW, "W", {sizes.directions, rowCount, sizes.features});
  expectShape(kR, "R", {sizes.directions, rowCount, sizes.hidden});
  if (node.has(kB))
    expectShape(kB, "B", {sizes.directions, 2 * rowCount});
}

void Recurrence::refuseExtras() {
  if (node.node().attributes.count("clip"))
    throw Error::badInput("attribute 'clip' is not supported; clip gradients with --clip-norm, or "
                          "write the cell out for each time step");
  if (node.flag("input_forget", false))
    throw Error::badInput("attribute 'input_forget' is 1, which couples two gates; only 0 is "
                          "supported");
  if (isLstm() && node.has(kPeepholes))
    throw Error::badInput("input 7 (P) holds peepholes, which are not supported; write the cell "
                          "out for each time step");
  if (node.node().attributes.count("activation_alpha") ||
      node.node().attributes.count("activation_beta"))
    throw Error::badInput("attributes 'activation_alpha' and 'activation_beta' are not supported: "
                          "none of Sigmoid, Tanh and Relu has parameters");
}

void Recurrence::readActivations() {
  SmallVector<std::string> usual;
  if (type == "RNN")
    usual = {"Tanh"};
  else if (type == "GRU")
    usual = {"Sigmoid", "Tanh"};
  else
    usual = {"Sigmoid", "Tanh", "Tanh"};
  auto given = node.texts("activations");
  size_t expected = usual.size() * sizes.directions;
  if (given && given->size() != expected)
    throw Error::badInput(absl::StrCat("attribute 'activations' names ", given->size(),
                                       " functions, expected ", expected));
  for (size_t i = 0; i < expected; ++i) {
    std::string name = given ? (*given)[i] : usual[i % usual.size()];
    if (name != "Sigmoid" && name != "Tanh" && name != "Relu")
      throw Error::badInput("attribute 'activations' names \"" + name +
                            "\"; expected Sigmoid, Tanh or Relu");
    activations.push_back(name);
  }
}

/// Lengths that are all those of the whole sequence are none.
void Recurrence::readLengths() {
  if (!node.has(kLengths))
    return;
  expectShape(kLengths, "sequence_lens", {sizes.batch});
  if (const Literal *known = node.literal(kLengths)) {
    if (known->isFloat())
      throw Error::badInput("input 4 (sequence_lens) holds floats, expected integers");
    for (int64_t length : known->ints)
      if (length < 0 || length > sizes.steps)
        throw Error::badInput(absl::StrCat("input 4 (sequence_lens) holds ", length,
                                           ", expected 0 to ", sizes.steps));
    if (llvm::all_of(known->ints, [&](int64_t length) { return length == sizes.steps; }))
      return;
  }
  lengths = node.value(kLengths);
  if (!elementOf(lengths).isInteger(32) && !elementOf(lengths).isInteger(64))
    throw Error::badInput("input 4 (sequence_lens) holds no integers");
  masks.assign(sizes.steps, Value());
}

/// [N, H] of one direction; null for known zeros.
Value Recurrence::initialState(size_t input, const char *name, int64_t direction) {
  if (!node.has(input))
    return {};
  // Zeros that a file made for another batch stores are zeros of this one.
  const Literal *known = node.literal(input);
  if (known && known->isFloat() && known->shape.size() == 3 &&
      llvm::all_of(known->floats, [](double x) { return x == 0; }))
    return {};
  Shape shape = {sizes.directions, sizes.batch, sizes.hidden};
  if (isBatchFirst)
    std::swap(shape[0], shape[1]);
  expectShape(input, name, shape);
  Value state = node.value(input);
  Shape starts(3, 0), one = shape;
  starts[isBatchFirst ? 1 : 0] = direction;
  one[isBatchFirst ? 1 : 0] = 1;
  Value own = one == shape ? state : node.slice(state, starts, one);
  return node.reshape(own, {sizes.batch, sizes.hidden});
}

/// Weights and biases, as they are stored where their rows are those of ONNX in another order. What
/// can be added once for all steps is: both biases, but for a GRU that resets after its product,
/// whose reset gate scales the recurrent one.
void Recurrence::readWeights(Direction &of, int64_t direction) {
  int64_t rowCount = sizes.gates * sizes.hidden;
  SmallVector<std::tuple<size_t, int64_t, Shape>> places = {{kW, 0, {rowCount, sizes.features}},
                                                            {kR, 0, {rowCount, sizes.hidden}}};
  if (node.has(kB))
    places.append({{kB, 0, {rowCount}}, {kB, rowCount, {rowCount}}});
  SmallVector<Value> stored, cut;
  for (auto &[input, first, shape] : places) {
    Value all = node.value(input, sizes.hidden);
    auto found = findGateRows(all, direction, first, sizes.gates, sizes.hidden);
    if (found && !isResetEarly() && (stored.empty() || of.order == found->order)) {
      of.order = found->order;
      stored.push_back(found->source);
    }
  }
  bool inOrder = stored.size() == places.size();
  for (auto [i, place] : llvm::enumerate(places)) {
    auto &[input, first, shape] = place;
    if (inOrder) {
      cut.push_back(node.reshape(stored[i], shape));
      continue;
    }
    Value own = rows(node, node.value(input, sizes.hidden), direction, 1);
    Shape flat = shape;
    flat[0] = shapeOf(own)[1];
    cut.push_back(rows(node, node.reshape(own, flat), first, rowCount));
  }
  if (!inOrder)
    of.order = llvm::to_vector(llvm::seq<int64_t>(0, sizes.gates));
  Value bias = cut.size() > 2 ? cut[2] : Value();
  if (bias && type == "GRU" && !isResetEarly())
    of.recurrentBias = cut[3];
  else if (bias)
    bias = sum(node, bias, cut[3]);
  Value x = node.value(kX);
  if (isBatchFirst)
    x = transposed(node, x, {1, 0, 2});
  x = node.reshape(x, {sizes.steps * sizes.batch, sizes.features});
  of.fromInput = product(node, x, cut[0], bias);
  of.recurrent = isResetEarly() ? rows(node, cut[1], 0, 2 * sizes.hidden) : cut[1];
  if (isResetEarly())
    of.candidate = rows(node, cut[1], 2 * sizes.hidden, sizes.hidden);
}

Direction Recurrence::readDirection(int64_t direction) {
  Direction result;
  result.isReverse = direction == 1 || node.text("direction", "forward") == "reverse";
  size_t count = activations.size() / sizes.directions;
  result.activations.append(activations.begin() + direction * count,
                            activations.begin() + (direction + 1) * count);
  readWeights(result, direction);
  result.initialH = initialState(kInitialH, "initial_h", direction);
  result.initialC = isLstm() ? initialState(kInitialC, "initial_c", direction) : Value();
  return result;
}

/// True where a sequence has a step `step`, [N, 1]; null where lengths do not matter.
Value Recurrence::maskOf(int64_t step) {
  if (!lengths)
    return {};
  Value &mask = masks[step];
  if (!mask) {
    Value column = node.reshape(lengths, {sizes.batch, 1});
    mask = node.compare(column, node.scalar(double(step), column), "gt");
  }
  return mask;
}

Value Recurrence::masked(int64_t step, Value inside, Value beyond) {
  Value mask = maskOf(step);
  if (!mask)
    return inside;
  return node.emit<SelectOp>({mask, inside, beyond ? beyond : node.scalar(0, inside)});
}

/// `gates` and the state's share of them.
Value Recurrence::gateSum(const Direction &of, Value gates, const State &before) {
  return before.h ? sum(node, gates, product(node, before.h, of.recurrent)) : gates;
}

/// The columns of gate `number` of a product with all weights.
Value Recurrence::gate(const Direction &of, Value x, int64_t number) {
  return columns(node, x, of.order[number] * sizes.hidden, sizes.hidden);
}

/// z and r are gates; h' = (1 - z) n + z h with the candidate n, which sees r h.
State Recurrence::gruStep(const Direction &of, const State &before, Value gates) {
  Value state = before.h ? product(node, before.h, of.recurrent, of.recurrentBias) : Value();
  // Before a first step from zero there is nothing but the bias, [G*H].
  Value bias = before.h ? Value() : of.recurrentBias;
  auto share = [&](int64_t number) -> Value {
    if (state)
      return gate(of, state, number);
    return bias ? rows(node, bias, of.order[number] * sizes.hidden, sizes.hidden) : Value();
  };
  auto opened = [&](int64_t number) {
    Value input = gate(of, gates, number), added = share(number);
    return activated(node, of.activations[0], added ? sum(node, input, added) : input);
  };
  Value z = opened(0), r = opened(1), candidate = gate(of, gates, 2), kept;
  if (of.candidate && before.h)
    kept = product(node, times(node, r, before.h), of.candidate);
  else if (Value own = of.candidate ? Value() : share(2))
    kept = times(node, r, own);
  Value n = activated(node, of.activations[1], kept ? sum(node, candidate, kept) : candidate);
  if (!before.h)
    return {node.emit<SubOp>({n, times(node, z, n)}), {}};
  return {sum(node, n, times(node, z, node.emit<SubOp>({before.h, n}))), {}};
}

State Recurrence::lstmStep(const Direction &of, const State &before, Value gates) {
  gates = gateSum(of, gates, before);
  auto opened = [&](int64_t number) {
    return activated(node, of.activations[0], gate(of, gates, number));
  };
  Value content = activated(node, of.activations[1], gate(of, gates, 3));
  Value cell = times(node, opened(0), content);
  if (before.c)
    cell = sum(node, times(node, opened(2), before.c), cell);
  return {times(node, opened(1), activated(node, of.activations[2], cell)), cell};
}

State Recurrence::step(const Direction &of, const State &before, int64_t at) {
  Value gates = rows(node, of.fromInput, at * sizes.batch, sizes.batch);
  if (type == "GRU")
    return gruStep(of, before, gates);
  if (isLstm())
    return lstmStep(of, before, gates);
  return {activated(node, of.activations[0], gateSum(of, gates, before)), {}};
}

/// The results of all steps, in the order of time, and the final state. Forwards, a state beyond
/// its sequence's length does not matter, so that the results themselves are handed on; in reverse
/// the initial state is, up to the first step that counts.
State Recurrence::run(const Direction &of, SmallVector<Value> &results) {
  State state = {of.initialH, of.initialC};
  results.assign(sizes.steps, Value());
  for (int64_t i = 0; i < sizes.steps; ++i) {
    int64_t at = of.isReverse ? sizes.steps - 1 - i : i;
    State next = step(of, state, at);
    if (next.c && lengths)
      next.c = masked(at, next.c, state.c);
    results[at] = masked(at, next.h, {});
    state.h = of.isReverse && of.initialH ? masked(at, next.h, of.initialH) : results[at];
    state.c = next.c;
  }
  if (lengths && !of.isReverse)
    state.h = node.isRead(1) ? lastOf(results, of.initialH) : Value();
  return state;
}

/// The result of every sequence's last step, read by its number.
Value Recurrence::lastOf(const SmallVector<Value> &results, Value initial) {
  Value all = joined(node, results, 0); // [T*N, H]
  Value wide = node.cast(lengths, node.builder().getI64Type());
  Value step = node.emit<SubOp>({wide, node.scalar(1, wide)});
  std::vector<int64_t> numbers(sizes.batch);
  for (int64_t i = 0; i < sizes.batch; ++i)
    numbers[i] = i;
  Value position = node.cast(node.integers(numbers, {sizes.batch}), node.builder().getI64Type());
  Value index = sum(node, times(node, step, node.scalar(double(sizes.batch), step)), position);
  Value zero = node.scalar(0, wide);
  Value isEmpty = node.compare(wide, zero, "eq");
  index = node.emit<SelectOp>({isEmpty, zero, index});
  Value last = node.emit<EmbeddingOp>({all, index});
  Value mask = node.reshape(isEmpty, {sizes.batch, 1});
  return node.emit<SelectOp>({mask, initial ? initial : node.scalar(0, last), last});
}

/// Y [T, D, N, H], or [N, T, D, H]. Both directions lie beside each other, as their readers have it.
void Recurrence::bindResults(const SmallVector<SmallVector<Value>> &results) {
  SmallVector<Value> steps;
  for (int64_t t = 0; t < sizes.steps; ++t) {
    SmallVector<Value> parts;
    for (const SmallVector<Value> &ofDirection : results)
      parts.push_back(ofDirection[t]);
    steps.push_back(joined(node, parts, 1));
  }
  Value y = node.reshape(joined(node, steps, 0),
                         {sizes.steps, sizes.batch, sizes.directions, sizes.hidden});
  node.bind(0, isBatchFirst ? transposed(node, y, {1, 0, 2, 3})
               : sizes.directions == 1
                   ? node.reshape(y, {sizes.steps, 1, sizes.batch, sizes.hidden})
                   : transposed(node, y, {0, 2, 1, 3}));
}

/// Final states [D, N, H], or [N, D, H].
void Recurrence::bindStates(size_t output, const SmallVector<Value> &states) {
  if (!node.isRead(output))
    return;
  int64_t axis = isBatchFirst ? 1 : 0;
  SmallVector<Value> parts;
  for (Value state : states) {
    Shape shape = {sizes.batch, sizes.hidden};
    shape.insert(shape.begin() + axis, 1);
    parts.push_back(node.reshape(state, shape));
  }
  node.bind(output, joined(node, parts, axis));
}

void Recurrence::convert() {
  readSizes();
  refuseExtras();
  readActivations();
  readLengths();
  SmallVector<SmallVector<Value>> results(sizes.directions);
  SmallVector<Value> h, c;
  for (int64_t direction = 0; direction < sizes.directions; ++direction) {
    Direction of = readDirection(direction);
    State last = run(of, results[direction]);
    h.push_back(last.h);
    c.push_back(last.c);
  }
  if (node.isRead(0))
    bindResults(results);
  bindStates(1, h);
  if (isLstm())
    bindStates(2, c);
}

void convertRecurrence(NodeImport &node) { Recurrence(node).convert(); }

/// Of the states that come first nothing is said.
void usesOfRecurrence(UseSite &site) {
  site.use(1, Use::GateWeight);
  site.use(2, Use::GateWeight);
  site.use(3, Use::Bias);
}

} // namespace

void addRecurrentRules(RuleTable &table) {
  table["GRU"] = {convertRecurrence, 3, 6};
  table["LSTM"] = {convertRecurrence, 3, 8};
  table["RNN"] = {convertRecurrence, 3, 6};
  takeWeights(table, {OpWeights::Kind::Layer, usesOfRecurrence}, {"GRU", "LSTM", "RNN"});
}

} // namespace stow::onnx
