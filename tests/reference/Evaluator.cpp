#include "tests/reference/Evaluator.h"

#include "runtime/base/Error.h"
#include "tests/reference/Rules.h"

#include <cassert>

using namespace mlir;

namespace stow::reference {

static int64_t elements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

Tensor::Tensor(std::vector<int64_t> shape, double fill)
    : shape(std::move(shape)), values(elements(this->shape), fill) {}

Tensor::Tensor(std::vector<int64_t> shape, std::vector<double> values)
    : shape(std::move(shape)), values(std::move(values)) {
  if (elements(this->shape) != size())
    throw Error(ErrorKind::BadInput, "tensor has " + std::to_string(size()) + " values for " +
                                         std::to_string(elements(this->shape)) + " elements");
}

int64_t Tensor::offset(const Index &index) const {
  assert(index.size() == shape.size() && "index of another rank");
  int64_t offset = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    assert(index[dim] >= 0 && index[dim] < shape[dim] && "index outside the tensor");
    offset = offset * shape[dim] + index[dim];
  }
  return offset;
}

double Tensor::broadcast(const Index &index) const {
  Index own(shape.size());
  size_t added = index.size() - shape.size();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    own[dim] = shape[dim] == 1 ? 0 : index[added + dim];
  return (*this)(own);
}

void forEachIndex(const std::vector<int64_t> &shape,
                  const std::function<void(const Index &)> &visit) {
  Index index(shape.size(), 0);
  for (int64_t count = elements(shape); count > 0; --count) {
    visit(index);
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

std::vector<int64_t> shapeOf(Value value) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return {shape.begin(), shape.end()};
}

Rule ruleFor(StringRef opName) {
  static const Rules rules = [] {
    Rules all;
    addAttentionRules(all);
    addElementwiseRules(all);
    addEmbeddingRules(all);
    addIndexRules(all);
    addLinearRules(all);
    addLossRules(all);
    addNormRules(all);
    addOptimizerRules(all);
    addPoolRules(all);
    addQuantizeRules(all);
    addReduceRules(all);
    addResampleRules(all);
    addShapeRules(all);
    return all;
  }();
  return rules.lookup(opName);
}

Rule ruleFor(Operation *op) { return ruleFor(op->getName().getStringRef()); }

std::vector<Tensor> evaluate(func::FuncOp graph, std::vector<Tensor> arguments) {
  if (arguments.size() != graph.getNumArguments())
    throw Error(ErrorKind::BadInput, "expects " + std::to_string(graph.getNumArguments()) +
                                         " arguments, found " + std::to_string(arguments.size()));
  DenseMap<Value, Tensor> values;
  for (auto [argument, tensor] : llvm::zip(graph.getArguments(), arguments)) {
    if (tensor.shape != shapeOf(argument))
      throw Error(ErrorKind::BadInput,
                  "argument " + std::to_string(argument.getArgNumber()) + " has another shape");
    values[argument] = std::move(tensor);
  }
  auto operandsOf = [&](Operation &op) {
    std::vector<Tensor> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    return operands;
  };
  for (Operation &op : graph.front().without_terminator()) {
    Rule rule = ruleFor(&op);
    if (!rule)
      throw Error(ErrorKind::BadInput,
                  "the evaluator has no rule for " + op.getName().getStringRef().str());
    std::vector<Tensor> results = rule(&op, operandsOf(op));
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), results)) {
      if (tensor.shape != shapeOf(result))
        throw Error(ErrorKind::BadInput,
                    op.getName().getStringRef().str() + " computed a tensor of another shape");
      values[result] = std::move(tensor);
    }
  }
  return operandsOf(*graph.front().getTerminator());
}

} // namespace stow::reference
