// Folding of arithmetic on the bits of small known tensors.
#include "compiler/import/Fold.h"

namespace stow::onnx {
namespace {

bool isUnsigned(ElementType type) {
  return type == ElementType::UInt8 || type == ElementType::UInt16 || type == ElementType::UInt32 ||
         type == ElementType::UInt64;
}

uint64_t shifted(int64_t x, int64_t by, ElementType type, bool left) {
  const bool isInside = by >= 0 && by < 8 * *byteWidthOf(type);
  if (left || isUnsigned(type)) {
    const uint64_t bits = static_cast<uint64_t>(x);
    return !isInside ? 0 : left ? bits << by : bits >> by;
  }
  return static_cast<uint64_t>(x >> (isInside ? by : 63));
}

std::vector<Literal> joinBits(const FoldSite &site) {
  const std::string &op = site.node.type;
  const bool left = site.text("direction", "") == "LEFT";
  if (op == "BitShift" && !left && site.text("direction", "") != "RIGHT")
    throw Error::badInput("attribute 'direction' is '" + site.text("direction", "") +
                          "'; expected LEFT or RIGHT");
  const ElementType type = site.in(0).type;
  if (site.in(0).isFloat() || site.in(1).isFloat() || type == ElementType::Bool)
    throw Error::badInput("works on the bits of whole numbers, found another type");
  const Shape shape = broadcast(site.in(0).shape, site.in(1).shape);
  limitedCount(shape);
  const Literal a = expanded(site.in(0), shape), b = expanded(site.in(1), shape);
  Literal y{type, shape, {}, {}};
  for (int64_t i = 0; i < a.size(); ++i) {
    const int64_t p = a.ints[i], q = b.ints[i];
    y.ints.push_back(wrapped(op == "BitwiseAnd"   ? static_cast<uint64_t>(p & q)
                             : op == "BitwiseOr"  ? static_cast<uint64_t>(p | q)
                             : op == "BitwiseXor" ? static_cast<uint64_t>(p ^ q)
                                                  : shifted(p, q, type, left),
                             type));
  }
  return {y};
}

std::vector<Literal> invertBits(const FoldSite &site) {
  Literal y = site.in(0);
  if (y.isFloat() || y.type == ElementType::Bool)
    throw Error::badInput("works on the bits of whole numbers, found another type");
  for (int64_t &x : y.ints)
    x = wrapped(static_cast<uint64_t>(~x), y.type);
  return {y};
}

} // namespace

void addBitFolds(FoldTable &table) {
  for (const char *type : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"})
    table[type] = joinBits;
  table["BitwiseNot"] = invertBits;
}

} // namespace stow::onnx
