// The losses of torch.nn.functional as ops of the dialect.
#pragma once

#include "ir/gradients/Build.h"
#include "runtime/format/Loss.h"

namespace stow {

/// Constants of a loss; each is a scalar, or lies along the last dimension. Null where there are
/// none.
struct LossWeights {
  mlir::Value weight, positiveWeight;
};

/// Rows of class scores: a tensor whose dimension `axis` counts the classes as [rows,C].
mlir::Value classRows(Formula &f, mlir::Value output, int64_t axis);

/// The loss of each row of class scores [R,C] against classes [R]: [R]. `weight` may be null.
mlir::Value classLosses(Formula &f, const LossSpec &loss, mlir::Value scores, mlir::Value target,
                        mlir::Value weight);

/// Such losses as one number: their sum, or their mean by the weight of the targets that count.
mlir::Value reduceClassLosses(Formula &f, const LossSpec &loss, mlir::Value losses,
                              mlir::Value target, mlir::Value weight);

/// The loss of each row of class scores [R,C] against distributions [R,C]: [R].
mlir::Value distributionLosses(Formula &f, const LossSpec &loss, mlir::Value scores,
                               mlir::Value target, mlir::Value weight);

/// The loss of each element of `output` against the target of its shape.
mlir::Value elementLosses(Formula &f, const LossSpec &loss, mlir::Value output, mlir::Value target,
                          LossWeights weights);

/// All of `x` as one number by the loss's reduction.
mlir::Value reduceLoss(Formula &f, LossSpec::Reduction reduction, mlir::Value x);

} // namespace stow
