// Gemm and MatMul.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow::onnx {
namespace {

Value scaled(NodeImport &node, Value x, double factor) {
  return factor == 1 ? x : node.emit<MulOp>({x, node.scalar(factor, x)});
}

Value product(NodeImport &node, SmallVector<Value> operands, bool transposeA, bool transposeB) {
  return node.emit<MatmulOp>(operands, [&](MatmulOp::Properties &p) {
    p.transpose_a = node.boolean(transposeA);
    p.transpose_b = node.boolean(transposeB);
  });
}

/// alpha * A' * B' + beta * C. A row C becomes the product's bias, any other C is added.
void convertGemm(NodeImport &node) {
  if (node.shape(0).size() != 2 || node.shape(1).size() != 2)
    throw Error::badInput(absl::StrCat("multiplies tensors of rank ", node.shape(0).size(), " and ",
                                       node.shape(1).size(), "; expected matrices"));
  bool transposeA = node.flag("transA", false), transposeB = node.flag("transB", false);
  double alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  int64_t fanIn = node.shape(0)[transposeA ? 0 : 1];
  int64_t columns = node.shape(1)[transposeB ? 0 : 1];
  SmallVector<Value> operands = {node.value(0), node.value(1)};
  Value addend = node.has(2) && beta != 0 ? scaled(node, node.value(2, fanIn), beta) : Value();
  bool isRow = addend && alpha == 1 &&
               (shapeOf(addend) == Shape{columns} || shapeOf(addend) == Shape{1, columns});
  if (isRow)
    operands.push_back(node.reshape(addend, {columns}));
  Value y = scaled(node, product(node, operands, transposeA, transposeB), alpha);
  if (addend && !isRow) {
    Shape shape = shapeOf(y);
    y = node.emit<AddOp>({y, addend});
    if (shapeOf(y) != shape)
      throw Error::badInput("C does not broadcast to the product's shape");
  }
  node.bind(0, y);
}

/// A matrix that was transposed just for this product, as a head that shares the embedding's table
/// has it, is read as it lies.
bool takeTransposed(Value &x) {
  auto transpose = x.getDefiningOp<TransposeOp>();
  if (!transpose)
    return false;
  SmallVector<int64_t> swapped(transpose.getPermutation());
  if (swapped.size() < 2)
    return false;
  std::swap(swapped[swapped.size() - 2], swapped.back());
  if (!llvm::is_sorted(swapped))
    return false;
  x = transpose.getX();
  return true;
}

/// Vectors become matrices of one row or column, which the result drops again.
void convertMatMul(NodeImport &node) {
  Value a = node.value(0), b = node.value(1);
  Shape left = shapeOf(a), right = shapeOf(b);
  if (left.empty() || right.empty())
    throw Error::badInput("multiplies a scalar");
  if (left.size() == 1)
    a = node.reshape(a, {1, left[0]});
  if (right.size() == 1)
    b = node.reshape(b, {right[0], 1});
  bool transposeA = left.size() > 1 && takeTransposed(a);
  bool transposeB = right.size() > 1 && takeTransposed(b);
  Value y = product(node, {a, b}, transposeA, transposeB);
  Shape shape = shapeOf(y);
  if (right.size() == 1)
    shape.pop_back();
  if (left.size() == 1)
    shape.erase(shape.end() - (right.size() == 1 ? 1 : 2));
  node.bind(0, node.reshape(y, shape));
}

void usesOfGemm(UseSite &site) {
  site.useProduct(site.flag("transA") ? Use::WeightInOut : Use::WeightOutIn,
                  site.flag("transB") ? Use::WeightOutIn : Use::WeightInOut);
  site.use(2, Use::Bias);
}

} // namespace

void addLinearRules(RuleTable &table) {
  table["Gemm"] = {convertGemm, 2, 3};
  table["MatMul"] = {convertMatMul, 2, 2};
  takeWeights(table, {OpWeights::Kind::Product, usesOfGemm}, {"Gemm"});
  takeWeights(table,
              {OpWeights::Kind::Product,
               [](UseSite &site) { site.useProduct(Use::WeightOutIn, Use::WeightInOut); }},
              {"MatMul"});
}

} // namespace stow::onnx
