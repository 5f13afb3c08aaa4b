// A GPU's answers to the passes' questions: convolutions by cuDNN, matrix products by cuBLASLt, all
// else by generated kernels without scratch.
#pragma once

#include "codegen/Backend.h"
#include "codegen/cuda/Chip.h"
#include "codegen/cuda/EngineChoices.h"
#include "passes/Target.h"
#include "runtime/cuda/ProductEpilogue.h"

namespace stow {
class Conv2dMapOp;
} // namespace stow

namespace stow::cuda {

class CudaTarget : public Target {
public:
  /// cuDNN is opened in `cudnnFolder`, or where CudnnLibrary::open looks, at the first convolution.
  CudaTarget(std::vector<Chip> chips, F32Products products, LibraryEpilogues epilogues,
             std::string cudnnFolder);

  /// Convolutions, depthwise ones too, matrix products, and those that are added to something or go
  /// through a function of cuDNN's or cuBLASLt's before they are written (codegen/cuda/Epilogues.h).
  std::optional<CommandOp> libraryCall(mlir::Operation *op) const override;

  /// Batch normalizations and a convolution's bias: their parts are generated kernels, which fuse
  /// with what surrounds them. Attention whose heads are too wide for its kernel. Convolutions with a
  /// kernel that cuDNN has no engine for that is as fast and as lean as those of the convolution alone.
  bool decomposes(mlir::Operation *op) const override;

  /// A convolution's choices are cuDNN's execution plans for the chips (engineChoices). A product's are
  /// cuBLASLt within the largest of the chips' recommended workspaces, and without any: which kernel it
  /// takes then is asked at load, where the device is.
  mlir::FailureOr<Requirements> query(mlir::Operation *op,
                                      llvm::ArrayRef<bool> freeLayouts) const override;

  /// The position of each maximum in its window: a byte for windows of up to 255 elements, else
  /// four.
  mlir::RankedTensorType savedType(MaxPoolOp pool) const override;

  /// cuBLASLt, where it does nothing else to the product but add it to something: in the type of the
  /// product.
  bool sumsRows(mlir::Operation *product, unsigned factor,
                mlir::RankedTensorType sums) const override;

  /// Tensor cores read whole vectors of 16 bytes.
  int64_t productRowStep(MatmulOp product) const override;

  /// 2 microseconds, which nodes of a graph are apart, at the 1 TB/s of the chip with the slowest memory.
  Bytes launchBytes() const override { return Bytes{2} << 20; }

  /// Images are channels last for tensor cores, 16-bit values and TF32, and row-major for others:
  /// cuDNN's exact f32 kernels are made for the latter, and copy x and y where they find the former.
  OrderWish orderWish(mlir::Operation *op) const override;

  /// Generated kernels run in all types, calls of the libraries in f32 and 16 bits.
  bool takesType(mlir::Operation *op, unsigned position, mlir::FloatType type) const override;

  /// Vectors of the kernels and of the libraries take up to 16 bytes; cuDNN is told of 64.
  Bytes alignment() const override { return 64; }

  /// As cuBLASLt asks; what cuDNN needs is not documented.
  Bytes workspaceAlignment() const override { return kWorkspaceAlignment; }

  /// What its generated kernel takes; no call of a library takes a tensor with gaps.
  bool takesPart(mlir::Operation *op, unsigned position,
                 mlir::RankedTensorType part) const override;

  /// Never in factors of products: tensor cores take them in one type.
  bool takesWide(mlir::Operation *op, unsigned position, mlir::FloatType low) const override;

  /// Writes the engines that were chosen for `op`, one for each chip, into its command. Emits an error
  /// at the op where this cuDNN does not have them.
  mlir::LogicalResult completeCommand(mlir::Operation *op, Command &command) const;

private:
  bool takesIn(const std::optional<ProductEpilogue> &epilogue) const;
  std::vector<EngineChoice> choicesOf(Command command) const;
  std::vector<SpareEngine> sparesOf(const Convolution &convolution,
                                    const EngineChoice &choice) const;
  bool isAsGoodAsApart(Conv2dMapOp op) const;
  mlir::FailureOr<Requirements> queryConvolution(mlir::Operation *op,
                                                 llvm::ArrayRef<bool> freeLayouts) const;
  Requirements queryMatmul(mlir::Operation *op) const;
  const std::vector<CudnnPlans *> &plans() const;
  bool isForTensorCores(mlir::Operation *op) const;

  const std::vector<Chip> chips;
  const F32Products products;
  const LibraryEpilogues epilogues;
  const std::string cudnnFolder;
  mutable std::vector<CudnnPlans *> opened; ///< by chip, since the first convolution
};

} // namespace stow::cuda
