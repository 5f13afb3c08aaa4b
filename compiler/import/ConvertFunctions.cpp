// Functions of the domain that stowage.export writes (python/stowage/_functions.py): what PyTorch's operators mean and the
// standard's have no word for. Their bodies in the file are for other tools; whichever has no rule here is imported as its body.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowFunctionOps.h"

#include <limits>

using namespace mlir;

namespace stow::onnx {
namespace {

template <typename Op> void convertUnary(NodeImport &node) {
  node.bind(0, node.emit<Op>(node.value(0)));
}

template <typename Op> void convertBinary(NodeImport &node) {
  node.bind(0, node.emit<Op>({node.value(0), node.value(1)}));
}

/// Hardtanh, relu6 and clamp by numbers: no gradient passes at the bounds. Above 0 alone it is relu.
void convertHardTanh(NodeImport &node) {
  double low = node.number("low", -1), high = node.number("high", 1);
  if (low == 0 && high == std::numeric_limits<double>::infinity())
    return convertUnary<ReluOp>(node);
  node.bind(0, node.emit<HardTanhOp>(node.value(0), [&](HardTanhOp::Properties &p) {
    p.low = node.f64(low);
    p.high = node.f64(high);
  }));
}

} // namespace

void addFunctionRules(RuleTable &table) {
  table["HardTanh"] = {convertHardTanh, 1, 1};
  table["Expm1"] = {convertUnary<Expm1Op>, 1, 1};
  table["Log1p"] = {convertUnary<Log1pOp>, 1, 1};
  table["Atan2"] = {convertBinary<Atan2Op>, 2, 2};
  table["BinaryCrossEntropy"] = {convertBinary<BinaryCrossEntropyOp>, 2, 2};
}

} // namespace stow::onnx
