// Gradients of batch, plane, layer and root-mean-square normalization and of the channel window
// sum.
#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {
namespace {

/// What normalization over dimension 1 of a tensor needs: its other dimensions, and vectors of C
/// elements as [1,C,1,...].
struct Channels {
  Channels(Formula &f, Value x) : f(f), shape(tensorType(x).getRank(), 1) {
    for (int64_t dim = 0; dim < tensorType(x).getRank(); ++dim)
      if (dim != 1)
        others.push_back(dim);
    shape[1] = tensorType(x).getDimSize(1);
    elementsPerChannel = tensorType(x).getNumElements() / shape[1];
  }
  Value spread(Value vector) { return f.reshape(vector, shape); }
  Value sum(Value x) { return f.sum(x, others); }

  Formula &f;
  SmallVector<int64_t> others, shape;
  int64_t elementsPerChannel;
};

} // namespace

/// With fixed statistics the op is affine per channel: y = x' * scale + bias, where
/// x' = (x - mean) / sqrt(variance + epsilon). The statistics get gradients too, for graphs that
/// compute them.
LogicalResult BatchNormOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  Channels channels(f, getX());
  auto add = [&](Value value, Value gradient) {
    gradients.add(builder, getLoc(), value, gradient);
  };
  bool needsMean = gradients.isNeeded(getMean()), needsVariance = gradients.isNeeded(getVariance());
  bool needsScale = gradients.isNeeded(getScale()), needsX = gradients.isNeeded(getX());
  bool needsCentred = needsScale || needsVariance;

  Value dbias;
  if (gradients.isNeeded(getBias()) || needsMean)
    dbias = channels.sum(dy);
  if (gradients.isNeeded(getBias()))
    add(getBias(), dbias);
  if (!needsX && !needsMean && !needsCentred)
    return success();
  Value inverse = f.build<ReciprocalOp>(
                       f.build<SqrtOp>(f.add(getVariance(), getEpsilon().convertToDouble())).getY())
                      .getY();
  if (needsCentred) {
    Value centred = f.sub(getX(), channels.spread(getMean()));
    Value dscale = f.mul(channels.sum(f.mul(dy, centred)), inverse);
    if (needsScale)
      add(getScale(), dscale);
    if (needsVariance)
      add(getVariance(), f.mul(f.mul(f.mul(dscale, getScale()), f.mul(inverse, inverse)), -0.5));
  }
  if (needsX || needsMean) {
    Value slope = f.mul(getScale(), inverse);
    if (needsMean)
      add(getMean(), f.neg(f.mul(dbias, slope)));
    if (needsX)
      add(getX(), f.mul(dy, channels.spread(slope)));
  }
  return success();
}

/// One op gives all three gradients of y. Gradients of the batch statistics themselves
/// are rare (running statistics do not pass any back) and composed from elementwise ops.
LogicalResult BatchNormTrainingOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), dmean = gradients.of(getMean());
  Value dvariance = gradients.of(getVariance());
  Formula f(builder, getLoc());
  bool needsX = gradients.isNeeded(getX());
  if (dy && (needsX || gradients.isNeeded(getScale()) || gradients.isNeeded(getBias()))) {
    auto grad =
        f.build<BatchNormGradOp>(getX(), getMean(), getVariance(), getScale(), dy, getEpsilon());
    if (gradients.isNeeded(getScale()))
      gradients.add(builder, getLoc(), getScale(), grad.getDscale());
    if (gradients.isNeeded(getBias()))
      gradients.add(builder, getLoc(), getBias(), grad.getDbias());
    if (needsX)
      gradients.add(builder, getLoc(), getX(), grad.getDx());
  }
  if (!needsX || (!dmean && !dvariance))
    return success();
  Channels channels(f, getX());
  double share = 1.0 / static_cast<double>(channels.elementsPerChannel);
  if (dmean)
    gradients.add(builder, getLoc(), getX(),
                  f.broadcast(channels.spread(f.mul(dmean, share)), getX().getType().getShape()));
  if (dvariance)
    gradients.add(builder, getLoc(), getX(),
                  f.mul(f.sub(getX(), channels.spread(getMean())),
                        channels.spread(f.mul(dvariance, 2.0 * share))));
  return success();
}

LogicalResult ChannelWindowSumOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  // x[j] reaches y[c] for j - after <= c <= j + before: the window mirrored.
  gradients.add(builder, getLoc(), getX(),
                f.build<ChannelWindowSumOp>(dy, getAfter(), getBefore()).getY());
  return success();
}

/// Gradients of mean and rstd themselves are rare (models that return them) and composed: mean is
/// 1/n everywhere, and drstd/dx = -rstd^3 (x - mean) / n.
LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), dmean = gradients.of(getMean()), drstd = gradients.of(getRstd());
  Formula f(builder, getLoc());
  bool needsBias = getBias() && gradients.isNeeded(getBias());
  if (dy && (needsBias || gradients.isNeeded(getScale()))) {
    auto grad = f.build<LayerNormScaleGradOp>(dy, getX(), getMean(), getRstd());
    if (gradients.isNeeded(getScale()))
      gradients.add(builder, getLoc(), getScale(), grad.getDscale());
    if (needsBias)
      gradients.add(builder, getLoc(), getBias(), grad.getDbias());
  }
  if (!gradients.isNeeded(getX()))
    return success();
  if (dy)
    gradients.add(builder, getLoc(), getX(),
                  f.build<LayerNormGradOp>(dy, getX(), getMean(), getRstd(), getScale()).getDx());
  ArrayRef<int64_t> shape = getX().getType().getShape();
  SmallVector<int64_t> perRow(shape);
  perRow.back() = 1;
  double share = 1.0 / static_cast<double>(shape.back());
  if (dmean)
    gradients.add(builder, getLoc(), getX(),
                  f.broadcast(f.reshape(f.mul(dmean, share), perRow), shape));
  if (drstd) {
    Value cube = f.mul(f.mul(getRstd(), getRstd()), getRstd());
    Value slope = f.reshape(f.mul(f.mul(drstd, cube), -share), perRow);
    Value centred = f.sub(getX(), f.reshape(getMean(), perRow));
    gradients.add(builder, getLoc(), getX(), f.mul(centred, slope));
  }
  return success();
}

/// Both moments weigh the elements of a plane alike: the mean by 1/n, the variance by
/// 2 (x - mean) / n.
LogicalResult PlaneMomentsOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dmean = gradients.of(getMean()), dvariance = gradients.of(getVariance());
  if ((!dmean && !dvariance) || !gradients.isNeeded(getX()))
    return success();
  Formula f(builder, getLoc());
  ArrayRef<int64_t> shape = getX().getType().getShape();
  SmallVector<int64_t> spread(shape.size(), 1);
  spread[0] = shape[0];
  spread[1] = shape[1];
  double share = static_cast<double>(shape[0] * shape[1]) / getX().getType().getNumElements();
  if (dmean)
    gradients.add(builder, getLoc(), getX(),
                  f.broadcast(f.reshape(f.mul(dmean, share), spread), shape));
  if (dvariance)
    gradients.add(builder, getLoc(), getX(),
                  f.mul(f.sub(getX(), f.reshape(getMean(), spread)),
                        f.reshape(f.mul(dvariance, 2.0 * share), spread)));
  return success();
}

LogicalResult PlaneNormalizeOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  bool needsMean = gradients.isNeeded(getMean()), needsSlope = gradients.isNeeded(getSlope());
  bool needsShift = gradients.isNeeded(getShift());
  if (needsMean || needsSlope || needsShift) {
    auto add = [&](Value value, Value gradient) {
      gradients.add(builder, getLoc(), value, gradient);
    };
    ArrayRef<int64_t> spread = getMean().getType().getShape();
    auto sums = f.build<PlaneProductsOp>(dy, getX(), f.reshape(getMean(), spread.take_front(2)));
    Value sum = f.reshape(sums.getSum(), spread);
    if (needsShift)
      add(getShift(), sum);
    if (needsSlope)
      add(getSlope(), f.reshape(sums.getProduct(), spread));
    if (needsMean)
      add(getMean(), f.neg(f.mul(sum, getSlope())));
  }
  if (gradients.isNeeded(getX()))
    gradients.add(builder, getLoc(), getX(), f.mul(dy, getSlope()));
  return success();
}

/// A gradient of rstd itself is composed: drstd/dx = -rstd^3 x / n.
LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY()), drstd = gradients.of(getRstd());
  Formula f(builder, getLoc());
  if (dy && gradients.isNeeded(getScale()))
    gradients.add(builder, getLoc(), getScale(),
                  f.build<RmsNormScaleGradOp>(dy, getX(), getRstd()).getDscale());
  if (!gradients.isNeeded(getX()))
    return success();
  if (dy)
    gradients.add(builder, getLoc(), getX(),
                  f.build<RmsNormGradOp>(dy, getX(), getRstd(), getScale()).getDx());
  if (drstd) {
    ArrayRef<int64_t> shape = getX().getType().getShape();
    SmallVector<int64_t> perRow(shape);
    perRow.back() = 1;
    Value cube = f.mul(f.mul(getRstd(), getRstd()), getRstd());
    Value slope = f.mul(f.mul(drstd, cube), -1.0 / static_cast<double>(shape.back()));
    gradients.add(builder, getLoc(), getX(), f.mul(getX(), f.reshape(slope, perRow)));
  }
  return success();
}

} // namespace stow
