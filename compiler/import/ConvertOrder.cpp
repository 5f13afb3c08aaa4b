// The largest elements, running sums, repetition, and products named by letters.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <algorithm>
#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

Value topK(NodeImport &node, Value x, int64_t axis, int64_t k, bool largest) {
  return node.emit<TopKOp>(x, [&](TopKOp::Properties &p) {
    p.axis = node.i64(axis);
    p.k = node.i64(k);
    p.largest = node.boolean(largest);
  });
}

/// k is an attribute before opset 10. Where no order is asked for, any order will do.
void convertTopK(NodeImport &node) {
  Value x = node.value(0);
  int64_t axis = normalizedAxis(node.integer("axis", -1), shapeOf(x).size());
  int64_t k = node.integer("k", 0);
  if (node.has(1)) {
    const Literal &given = node.constant(1, "K");
    if (given.isFloat() || given.size() != 1)
      throw Error::badInput("expects one integer as K");
    k = given.ints[0];
  }
  Value values = topK(node, x, axis, k, node.flag("largest", true));
  node.bindResult(0, values, 0);
  node.bindResult(1, values, 1);
}

/// The position of the one largest or smallest element. The last of equal ones is the first from
/// behind.
void convertArg(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  int64_t axis = normalizedAxis(node.integer("axis", 0), shape.size());
  bool last = node.flag("select_last_index", false);
  if (last) {
    Shape starts(shape.size(), 0), steps(shape.size(), 1);
    starts[axis] = shape[axis] - 1;
    steps[axis] = -1;
    x = node.emit<StridedSliceOp>(x, [&](StridedSliceOp::Properties &p) {
      p.starts = node.array(starts);
      p.sizes = node.array(shape);
      p.steps = node.array(steps);
    });
  }
  Value found = topK(node, x, axis, 1, node.node().type == "ArgMax").getDefiningOp()->getResult(1);
  if (last)
    found = node.emit<SubOp>({node.scalar(double(shape[axis] - 1), found), found});
  if (!node.flag("keepdims", true)) {
    shape.erase(shape.begin() + axis);
    found = node.reshape(found, shape);
  }
  node.bind(0, found);
}

/// 1 where the first of the largest elements lies, else 0; before opset 13 over all dimensions from
/// the axis on.
void convertHardmax(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0)
    throw Error::badInput("works on a scalar");
  bool single = node.opset() >= 13;
  int64_t axis = normalizedAxis(node.integer("axis", single ? -1 : 1), rank);
  if (!single) {
    x = node.reshape(x, flattenedShape(shape, axis));
    axis = 1;
  }
  Value found = topK(node, x, axis, 1, /*largest=*/true).getDefiningOp()->getResult(1);
  std::vector<int64_t> positions(shapeOf(x)[axis]);
  std::iota(positions.begin(), positions.end(), 0);
  Shape line(shapeOf(x).size(), 1);
  line[axis] = static_cast<int64_t>(positions.size());
  Value line64 = node.cast(node.integers(positions, line), elementOf(found));
  node.bind(0, node.reshape(node.cast(node.compare(found, line64, "eq"), elementOf(x)), shape));
}

/// The first elements along the time of each sample, as many as its length says, in reverse order.
void convertReverseSequence(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x), places(shape.size(), 1);
  int64_t batch = normalizedAxis(node.integer("batch_axis", 1), shape.size());
  int64_t time = normalizedAxis(node.integer("time_axis", 0), shape.size());
  const Literal &lengths = node.constant(1, "sequence_lens");
  if (batch == time || lengths.isFloat() || lengths.shape != Shape{shape[batch]})
    throw Error::badInput("expects one whole length per sample, and a time beside the batch");
  places[batch] = shape[batch];
  places[time] = shape[time];
  std::vector<int64_t> from(elementCount(places));
  for (int64_t sample = 0; sample < shape[batch]; ++sample) {
    int64_t length = lengths.ints[sample];
    if (length < 0 || length > shape[time])
      throw Error::badInput(absl::StrCat("reverses ", length, " of ", shape[time], " elements"));
    for (int64_t at = 0; at < shape[time]; ++at) {
      int64_t place = batch < time ? sample * shape[time] + at : at * shape[batch] + sample;
      from[place] = at < length ? length - 1 - at : at;
    }
  }
  node.bind(0,
            node.emit<TakeAlongOp>({x, node.integers(from, places)},
                                   [&](TakeAlongOp::Properties &p) { p.axis = node.i64(time); }));
}

void convertCumSum(NodeImport &node) {
  Value x = node.value(0);
  const Literal &given = node.constant(1, "axis");
  if (given.isFloat() || given.size() != 1)
    throw Error::badInput("expects one integer as axis");
  int64_t axis = normalizedAxis(given.ints[0], shapeOf(x).size());
  node.bind(0, node.emit<CumSumOp>(x, [&](CumSumOp::Properties &p) {
    p.axis = node.i64(axis);
    p.exclusive = node.boolean(node.flag("exclusive", false));
    p.reverse = node.boolean(node.flag("reverse", false));
  }));
}

/// Every dimension gets one beside it that repeats it.
void convertTile(NodeImport &node) {
  Value x = node.value(0);
  const Literal &repeats = node.constant(1, "repeats");
  Shape shape = shapeOf(x), apart, wide, result;
  if (repeats.isFloat() || repeats.size() != static_cast<int64_t>(shape.size()))
    throw Error::badInput("expects one number of repetitions per dimension");
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (repeats.ints[dim] < 1 || repeats.ints[dim] > (int64_t(1) << 31))
      throw Error::badInput(
          absl::StrCat("repeats dimension ", dim, " ", repeats.ints[dim], " times"));
    apart.insert(apart.end(), {1, shape[dim]});
    wide.insert(wide.end(), {repeats.ints[dim], shape[dim]});
    result.push_back(repeats.ints[dim] * shape[dim]);
  }
  if (result == shape)
    return node.bindSlot(0, 0);
  Value y =
      node.emitAs<BroadcastToOp>(node.reshape(x, apart), RankedTensorType::get(wide, elementOf(x)));
  node.bind(0, node.reshape(y, result));
}

/// Where the index equals the position along the new dimension: `on`, else `off`.
void convertOneHot(NodeImport &node) {
  Value indices = node.value(0), values = node.value(2);
  const Literal &given = node.constant(1, "depth");
  if (given.size() != 1 || !(given.number(0) >= 1) || given.number(0) > double(int64_t(1) << 31))
    throw Error::badInput("expects one positive depth");
  auto depth = static_cast<int64_t>(given.number(0));
  Shape shape = shapeOf(indices), line(shape.size() + 1, 1);
  int64_t axis = normalizedAxis(node.integer("axis", -1), shape.size() + 1);
  shape.insert(shape.begin() + axis, 1);
  line[axis] = depth;
  if (shapeOf(values) != Shape{2})
    throw Error::badInput("expects two values, off and on");
  Type wide = node.builder().getI64Type();
  indices = node.cast(node.reshape(indices, shape), wide);
  Value zero = node.scalar(0, indices), end = node.scalar(double(depth), indices);
  indices = node.emit<SelectOp>(
      {node.compare(indices, zero, "lt"), node.emit<AddOp>({indices, end}), indices});
  std::vector<int64_t> positions(depth);
  std::iota(positions.begin(), positions.end(), 0);
  Value mask = node.compare(indices, node.cast(node.integers(positions, line), wide), "eq");
  Value off = node.reshape(node.slice(values, {0}, {1}), {});
  Value on = node.reshape(node.slice(values, {1}, {1}), {});
  node.bind(0, node.emit<SelectOp>({mask, on, off}));
}

//===-- Einsum --------------------------------------------------------------------------------===//

/// A tensor and the letter of each of its dimensions.
struct Lettered {
  Value value;
  std::string letters;

  int64_t extentOf(char letter) const { return shapeOf(value)[letters.find(letter)]; }
  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
};

Value permuted(NodeImport &node, const Lettered &x, const std::string &order) {
  std::vector<int64_t> permutation;
  for (char letter : order)
    permutation.push_back(static_cast<int64_t>(x.letters.find(letter)));
  if (llvm::is_sorted(permutation))
    return x.value;
  return node.emit<TransposeOp>(
      x.value, [&](TransposeOp::Properties &p) { p.permutation = node.array(permutation); });
}

/// `x` summed over the letters that are in neither `kept` string.
Lettered summed(NodeImport &node, Lettered x, const std::string &kept, const std::string &other) {
  std::vector<int64_t> axes;
  std::string left;
  for (size_t i = 0; i < x.letters.size(); ++i) {
    bool stays = (kept + other).find(x.letters[i]) != std::string::npos;
    if (stays)
      left += x.letters[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (!axes.empty())
    x.value = node.emit<ReduceSumOp>(x.value, [&](ReduceSumOp::Properties &p) {
      p.axes = node.array(axes);
      p.keepdims = node.boolean(false);
    });
  return {x.value, left};
}

int64_t extentOf(const std::string &letters, const Lettered &x) {
  int64_t count = 1;
  for (char letter : letters)
    count *= x.extentOf(letter);
  return count;
}

/// One product over the letters that are neither in `kept`: stacks of matrices [batch, left,
/// summed] times [batch, summed, right].
Lettered multiplied(NodeImport &node, const Lettered &a, const Lettered &b,
                    const std::string &kept) {
  std::string batch, left, right, inner;
  for (char letter : a.letters)
    (b.has(letter) ? (kept.find(letter) != std::string::npos ? batch : inner) : left) += letter;
  for (char letter : b.letters)
    if (!a.has(letter))
      right += letter;
  Shape result;
  for (char letter : batch + left)
    result.push_back(a.extentOf(letter));
  for (char letter : right)
    result.push_back(b.extentOf(letter));
  int64_t stack = extentOf(batch, a), rows = extentOf(left, a), columns = extentOf(right, b);
  int64_t depth = extentOf(inner, a);
  Value x = node.reshape(permuted(node, a, batch + left + inner), {stack, rows, depth});
  Value y = node.reshape(permuted(node, b, batch + inner + right), {stack, depth, columns});
  Value product = depth == 1 ? node.emit<MulOp>({x, y}) : node.emit<MatmulOp>({x, y}, [&](auto &p) {
    p.transpose_a = node.boolean(false);
    p.transpose_b = node.boolean(false);
  });
  return {node.reshape(product, result), batch + left + right};
}

/// A letter that a term repeats names a diagonal: of the two dimensions as one, every element that is
/// one row and one column further.
Lettered withoutRepeats(NodeImport &node, Lettered x) {
  for (size_t second = 0; second < x.letters.size(); ++second) {
    size_t first = x.letters.find(x.letters[second]);
    if (first == second)
      continue;
    Shape shape = shapeOf(x.value);
    int64_t extent = shape[first];
    if (shape[second] != extent)
      throw Error::badInput("has different extents for one letter");
    std::vector<int64_t> order;
    Shape joined;
    std::string letters;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (dim != first && dim != second) {
        order.push_back(static_cast<int64_t>(dim));
        joined.push_back(shape[dim]);
        letters += x.letters[dim];
      }
    letters += x.letters[first];
    order.push_back(static_cast<int64_t>(first));
    order.push_back(static_cast<int64_t>(second));
    joined.push_back(extent * extent);
    Value y = x.value;
    if (!llvm::is_sorted(order))
      y = node.emit<TransposeOp>(
          y, [&](TransposeOp::Properties &p) { p.permutation = node.array(order); });
    y = node.reshape(y, joined);
    Shape starts(joined.size(), 0), steps(joined.size(), 1), sizes = joined;
    sizes.back() = extent;
    steps.back() = extent + 1;
    y = node.emit<StridedSliceOp>(y, [&](StridedSliceOp::Properties &p) {
      p.starts = node.array(starts);
      p.sizes = node.array(sizes);
      p.steps = node.array(steps);
    });
    return withoutRepeats(node, {y, letters});
  }
  return x;
}

/// The terms of an equation: letters per operand, and of the result. Upper-case letters from the
/// end of the alphabet stand for the dimensions of an ellipsis.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation parseEquation(NodeImport &node) {
  std::string text = node.text("equation", ""), plain;
  for (char c : text)
    if (c != ' ')
      plain += c;
  auto fail = [&](const std::string &why) {
    throw Error::badInput("equation '" + text + "' " + why);
  };
  size_t arrow = plain.find("->");
  std::string left = plain.substr(0, arrow);
  Equation equation;
  for (size_t start = 0, end; start <= left.size(); start = end + 1) {
    end = std::min(left.find(',', start), left.size());
    equation.operands.push_back(left.substr(start, end - start));
  }
  if (equation.operands.size() != node.inputCount())
    fail(absl::StrCat("has ", equation.operands.size(), " terms for ", node.inputCount(),
                      " inputs"));
  size_t longest = 0;
  std::vector<size_t> dots(equation.operands.size(), 0);
  for (auto [i, term] : llvm::enumerate(equation.operands)) {
    size_t rank = node.shape(i).size();
    bool hasDots = term.find("...") != std::string::npos;
    size_t named = term.size() - (hasDots ? 3 : 0);
    if (hasDots ? named > rank : named != rank)
      fail(absl::StrCat("does not fit an input of rank ", rank));
    dots[i] = rank - named;
    longest = std::max(longest, dots[i]);
  }
  std::string ellipsis;
  for (size_t i = 0; i < longest; ++i)
    ellipsis += static_cast<char>(1 + i);
  auto expand = [&](std::string term, size_t count) {
    if (size_t at = term.find("..."); at != std::string::npos)
      term.replace(at, 3, ellipsis.substr(longest - count));
    return term;
  };
  for (auto [i, term] : llvm::enumerate(equation.operands))
    term = expand(term, dots[i]);
  std::string all;
  for (const std::string &term : equation.operands)
    all += term;
  if (arrow != std::string::npos) {
    equation.result = expand(plain.substr(arrow + 2), longest);
  } else { // the letters that occur once, in order
    for (char c = 'A'; c <= 'z'; ++c)
      if (llvm::count(all, c) == 1)
        equation.result += c;
    equation.result = ellipsis + equation.result;
  }
  auto check = [&](const std::string &term, bool isResult) {
    for (char c : term)
      if ((c > 8 && !std::isalpha(static_cast<unsigned char>(c))) ||
          (isResult && (llvm::count(term, c) > 1 || all.find(c) == std::string::npos)))
        fail("repeats a letter in the result, or names one that no input has; only products, sums, "
             "diagonals and transposes are supported");
  };
  for (const std::string &term : equation.operands)
    check(term, false);
  check(equation.result, true);
  return equation;
}

/// Letters of the later operands and of the result are kept until they are used up.
void convertEinsum(NodeImport &node) {
  Equation equation = parseEquation(node);
  Lettered y;
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    std::string kept = equation.result;
    for (size_t j = i + 1; j < equation.operands.size(); ++j)
      kept += equation.operands[j];
    Lettered next = withoutRepeats(node, {node.value(i), equation.operands[i]});
    for (char letter : next.letters)
      if (i > 0 && y.has(letter) && y.extentOf(letter) != next.extentOf(letter))
        throw Error::badInput("has different extents for one letter");
    if (i == 0) {
      y = summed(node, next, kept, "");
      continue;
    }
    next = summed(node, next, kept, y.letters);
    y = multiplied(node, summed(node, y, kept, next.letters), next, kept);
  }
  node.bind(0, permuted(node, y, equation.result));
}

/// A factor of data is a weight, with the outputs last where the result keeps its last dimension.
void usesOfEinsum(UseSite &site) {
  auto equation = site.node.attributes.find("equation");
  if (equation == site.node.attributes.end())
    return;
  std::string text = equation->second.s;
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string result = arrow == std::string::npos ? "" : text.substr(arrow + 2);
  const std::vector<std::string> terms = absl::StrSplit(text.substr(0, arrow), ',');
  auto isKept = [&](char letter) {
    return arrow == std::string::npos ? std::ranges::count(text, letter) == 1
                                      : result.find(letter) != std::string::npos;
  };
  for (size_t i = 0; i < terms.size() && i < site.node.inputs.size(); ++i) {
    if (!site.isOwn(i))
      continue;
    bool meetsData = false;
    for (size_t j = 0; j < terms.size(); ++j)
      meetsData |= j != i && site.isFromData(j);
    const bool isInOut = terms[i].empty() || isKept(terms[i].back());
    site.use(i, !meetsData ? Use::Shift : isInOut ? Use::WeightInOut : Use::WeightOutIn);
  }
}

} // namespace

void addOrderRules(RuleTable &table) {
  table["TopK"] = {convertTopK, 1, 2};
  table["ArgMax"] = {convertArg, 1, 1};
  table["ArgMin"] = {convertArg, 1, 1};
  table["Hardmax"] = {convertHardmax, 1, 1};
  table["ReverseSequence"] = {convertReverseSequence, 2, 2};
  table["CumSum"] = {convertCumSum, 2, 2};
  table["Tile"] = {convertTile, 2, 2};
  table["OneHot"] = {convertOneHot, 3, 3};
  table["Einsum"] = {convertEinsum, 1, SIZE_MAX};
  takeWeights(table, {OpWeights::Kind::View}, {"Tile"});
  takeWeights(table, {OpWeights::Kind::Altered}, {"ReverseSequence", "CumSum"});
  takeWeights(table, {OpWeights::Kind::Settings}, {"OneHot"});
  takeWeights(table, {OpWeights::Kind::Product, usesOfEinsum}, {"Einsum"});
}

} // namespace stow::onnx
