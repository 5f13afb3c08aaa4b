// What the folds of operators on known tensors share.
#pragma once

#include "compiler/import/Literal.h"
#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <functional>
#include <map>

namespace stow::onnx {

/// What one fold sees: the node and its inputs, null where they are absent.
struct FoldSite {
  const Node &node;
  const std::vector<const Literal *> &inputs;

  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  const Literal &in(size_t i) const {
    if (!has(i))
      throw Error::badInput(absl::StrCat("lacks input ", i));
    return *inputs[i];
  }
  /// The integers of input `i`.
  const std::vector<int64_t> &ints(size_t i) const {
    if (in(i).isFloat())
      throw Error::badInput(absl::StrCat("expects integers as input ", i));
    return in(i).ints;
  }
  int64_t integer(const char *name, int64_t fallback) const {
    auto found = node.attributes.find(name);
    return found == node.attributes.end() ? fallback : found->second.i;
  }
  std::string text(const char *name, const char *fallback) const {
    auto found = node.attributes.find(name);
    return found == node.attributes.end() ? fallback : found->second.s;
  }
};

/// The outputs of one op.
using Fold = std::vector<Literal> (*)(const FoldSite &);
using FoldTable = std::map<std::string, Fold>;

/// The order of integers of a type.
inline bool lessThan(ElementType type, int64_t a, int64_t b) {
  return type == ElementType::UInt64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

/// The shape that two broadcast to; throws where there is none.
Shape broadcast(const Shape &a, const Shape &b);

/// `x` broadcast to `shape`.
Literal expanded(const Literal &x, const Shape &shape);

/// A computed constant that is too large to be folded: the step computes it.
struct TooManyElements : Error {
  using Error::Error;
};

/// Elements of a shape; throws TooManyElements when a computed constant would have too many.
int64_t limitedCount(const Shape &shape);

/// A literal of `shape` whose element i is element source(i) of x, or 0 where that is negative.
Literal gathered(const Literal &x, Shape shape, const std::function<int64_t(int64_t)> &source);

/// Folds of arithmetic on bits, and of reading, writing and counting by index.
void addBitFolds(FoldTable &table);
void addIndexFolds(FoldTable &table);

} // namespace stow::onnx
