// Arithmetic on the bits of whole numbers.
#include "compiler/import/GraphImport.h"
#include "ir/StowBitwiseOps.h"

using namespace mlir;

namespace stow::onnx {
namespace {

void bindBits(NodeImport &node, Value a, Value b, const char *kind) {
  for (Value value : {a, b})
    if (!elementOf(value).isInteger(32) && !elementOf(value).isInteger(64))
      throw Error::badInput("works on the bits of whole numbers, found another type");
  node.bind(0, node.emit<BitwiseOp>({a, b}, [&](BitwiseOp::Properties &p) {
    p.kind = node.builder().getStringAttr(kind);
  }));
}

void convertBitwise(NodeImport &node) {
  const std::string &type = node.node().type;
  bindBits(node, node.value(0), node.value(1),
           type == "BitwiseAnd"  ? "and"
           : type == "BitwiseOr" ? "or"
                                 : "xor");
}

/// All bits of -1 are set.
void convertBitwiseNot(NodeImport &node) {
  Value x = node.value(0);
  bindBits(node, x, node.scalar(-1, x), "xor");
}

void convertBitShift(NodeImport &node) {
  std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    throw Error::badInput("attribute 'direction' is '" + direction + "'; expected LEFT or RIGHT");
  bindBits(node, node.value(0), node.value(1), direction == "LEFT" ? "shift_left" : "shift_right");
}

} // namespace

void addBitRules(RuleTable &table) {
  for (const char *type : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    table[type] = {convertBitwise, 2, 2};
  table["BitwiseNot"] = {convertBitwiseNot, 1, 1};
  table["BitShift"] = {convertBitShift, 2, 2};
}

} // namespace stow::onnx
