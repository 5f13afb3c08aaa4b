#include "passes/autodiff/OptimizerUpdates.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowOptimizerOps.h"
#include "ir/StowReduceOps.h"
#include "ir/gradients/Build.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace stow {
namespace {

/// `type` with extent 1 in dimension `dim`.
RankedTensorType flattened(RankedTensorType type, int64_t dim) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = 1;
  return RankedTensorType::get(shape, type.getElementType());
}

bool isFactored(RankedTensorType parameter) { return parameter.getRank() >= 2; }

void markUpdate(Operation *op) { setPhase(op, Phase::Update); }

/// Adafactor's least root of a second moment: PyTorch's default is the type's epsilon.
double leastRoot(const OptimizerSpec &optimizer, Type element) {
  if (optimizer.epsilon1)
    return *optimizer.epsilon1;
  if (element.isF64())
    return std::numeric_limits<double>::epsilon();
  if (element.isBF16())
    return 0x1p-7;
  return element.isF16() ? 0x1p-10 : std::numeric_limits<float>::epsilon();
}

/// torch.optim.Adafactor. The squares of a matrix are estimated by the product of their means over
/// rows and columns, divided by the mean of all. Nothing of the parameter's size is kept; the
/// update itself may overwrite the gradient.
class AdafactorUpdate {
public:
  AdafactorUpdate(OpBuilder &builder, const OptimizerSpec &optimizer, Value parameter,
                  Value gradient, const UpdateInputs &inputs)
      : f(builder, parameter.getLoc()), optimizer(optimizer), parameter(parameter),
        gradient(gradient), inputs(inputs), type(tensorType(parameter)) {}

  SmallVector<Value> build(ArrayRef<Value> state) {
    SmallVector<Value> results(1);
    double least = leastRoot(optimizer, type.getElementType());
    Value estimate;
    if (isFactored(type)) {
      int64_t last = type.getRank() - 1;
      Value rows = average(state[0], meanSquares(last));
      Value columns = average(state[1], meanSquares(last - 1));
      Value level = f.build<ReduceMeanOp>(rows, ArrayRef{last - 1}, /*keepdims=*/true).getY();
      estimate = f.mul(f.div(rows, atLeast(level, least)), columns);
      results.append({rows, columns});
    } else {
      estimate = average(state[0], f.mul(gradient, gradient));
      results.push_back(estimate);
    }
    Value root = f.build<SqrtOp>(atLeast(estimate, least * least)).getY();
    Value update = f.mul(f.build<ReciprocalOp>(root).getY(), gradient);
    auto op = f.build<AdafactorOp>(
        type, parameter, update, inputs.learningRate, inputs.step,
        sumOfSquares(f.builder, f.location, parameter), sumOfSquares(f.builder, f.location, update),
        APFloat(optimizer.epsilon2), APFloat(optimizer.threshold), APFloat(inputs.weightDecay),
        APFloat(inputs.rateScale), inputs.skippable);
    markUpdate(op);
    results[0] = op.getNewParameter();
    return results;
  }

private:
  Value meanSquares(int64_t dim) {
    Value sums = f.build<ReduceSumSquaresOp>(gradient, ArrayRef{dim}, /*keepdims=*/true).getY();
    return f.mul(sums, 1.0 / static_cast<double>(type.getDimSize(dim)));
  }

  Value average(Value old, Value value) {
    auto op = f.build<MovingAverageOp>(old.getType(), old, value, inputs.step,
                                       APFloat(optimizer.beta2Decay), inputs.skippable);
    markUpdate(op);
    return op.getNewAverage();
  }

  Value atLeast(Value x, double least) { return f.build<MaximumOp>(x, f.scalar(least, x)).getY(); }

  Formula f;
  const OptimizerSpec &optimizer;
  Value parameter, gradient;
  const UpdateInputs &inputs;
  RankedTensorType type;
};

} // namespace

Value sumOfSquares(OpBuilder &builder, Location location, Value x) {
  Formula f(builder, location);
  int64_t rank = tensorType(x).getRank();
  if (rank == 0)
    return f.mul(x, x);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  // The rows of a matrix are summed by many threads.
  if (rank == 2)
    return f.sum(f.build<ReduceSumSquaresOp>(x, ArrayRef<int64_t>{1}, /*keepdims=*/false).getY(),
                 {0});
  return f.build<ReduceSumSquaresOp>(x, axes, /*keepdims=*/false).getY();
}

bool readsStep(OptimizerSpec::Kind optimizer) {
  using Kind = OptimizerSpec::Kind;
  switch (optimizer) {
  case Kind::Adam:
  case Kind::AdamW:
  case Kind::Adagrad:
  case Kind::Adafactor:
    return true;
  case Kind::Sgd:
  case Kind::Rmsprop:
  case Kind::Lion:
    break;
  }
  return false;
}

SmallVector<OptimizerState> stateOf(const OptimizerSpec &optimizer, RankedTensorType parameter) {
  using Kind = OptimizerSpec::Kind;
  SmallVector<OptimizerState> states;
  auto add = [&](const char *suffix) { states.push_back({suffix, parameter}); };
  auto addSquares = [&](const char *suffix, double init = 0) {
    states.push_back({suffix, parameter, init, /*isNeverNegative=*/true});
  };
  switch (optimizer.kind) {
  case Kind::Sgd:
    if (optimizer.momentum != 0)
      add(".momentum");
    break;
  case Kind::Adam:
  case Kind::AdamW:
    add(".exp_avg");
    addSquares(".exp_avg_sq");
    if (optimizer.amsgrad)
      addSquares(".max_exp_avg_sq");
    break;
  case Kind::Rmsprop:
    addSquares(".square_avg");
    if (optimizer.momentum != 0)
      add(".momentum_buffer");
    if (optimizer.centered)
      add(".grad_avg");
    break;
  case Kind::Adagrad:
    addSquares(".sum", optimizer.initialSum);
    break;
  case Kind::Lion:
    add(".exp_avg");
    break;
  case Kind::Adafactor:
    if (isFactored(parameter)) {
      states.push_back({".row_var", flattened(parameter, parameter.getRank() - 1)});
      states.push_back({".col_var", flattened(parameter, parameter.getRank() - 2)});
    } else {
      addSquares(".variance");
    }
    break;
  }
  return states;
}

/// The update as one op; Adafactor's is several.
static Operation *buildUpdateOp(OpBuilder &builder, const OptimizerSpec &optimizer, Value parameter,
                                Value gradient, ArrayRef<Value> state, const UpdateInputs &inputs) {
  using Kind = OptimizerSpec::Kind;
  Location location = parameter.getLoc();
  Type type = parameter.getType();
  APFloat decay(inputs.weightDecay), scale(inputs.rateScale), epsilon(optimizer.epsilon);
  APFloat beta1(optimizer.beta1), beta2(optimizer.beta2), momentum(optimizer.momentum);
  Value rate = inputs.learningRate;
  switch (optimizer.kind) {
  case Kind::Sgd:
    return SgdOp::create(builder, location, type, state.empty() ? Type() : type, parameter,
                         gradient, rate, state.empty() ? Value() : state[0], momentum, decay,
                         optimizer.nesterov, scale, inputs.skippable);
  case Kind::Rmsprop:
    return RmspropOp::create(builder, location, type, SmallVector<Type>(state.size(), type),
                             parameter, gradient, rate, state, APFloat(optimizer.alpha), momentum,
                             epsilon, decay, optimizer.centered, scale, inputs.skippable);
  case Kind::Adagrad:
    return AdagradOp::create(builder, location, type, type, parameter, gradient, rate, inputs.step,
                             state[0], APFloat(optimizer.rateDecay), epsilon, decay, scale,
                             inputs.skippable);
  case Kind::Lion:
    return LionOp::create(builder, location, type, type, parameter, gradient, rate, state[0], beta1,
                          beta2, decay, scale, inputs.skippable);
  case Kind::Adam:
  case Kind::AdamW:
    return AdamOp::create(builder, location, type, type, type, state.size() > 2 ? type : Type(),
                          parameter, gradient, rate, inputs.step, state[0], state[1],
                          state.size() > 2 ? state[2] : Value(), beta1, beta2, epsilon, decay,
                          optimizer.kind == Kind::AdamW, scale, inputs.skippable);
  case Kind::Adafactor:
    break;
  }
  llvm_unreachable("Adafactor's update is no single op");
}

SmallVector<Value> buildUpdate(OpBuilder &builder, const OptimizerSpec &optimizer, Value parameter,
                               Value gradient, ArrayRef<Value> state, const UpdateInputs &inputs) {
  if (optimizer.kind == OptimizerSpec::Kind::Adafactor)
    return AdafactorUpdate(builder, optimizer, parameter, gradient, inputs).build(state);
  Operation *op = buildUpdateOp(builder, optimizer, parameter, gradient, state, inputs);
  markUpdate(op);
  return llvm::to_vector_of<Value>(op->getResults());
}

} // namespace stow
