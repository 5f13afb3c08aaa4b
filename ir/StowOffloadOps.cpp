#include "ir/StowOffloadOps.h"

#include "ir/Graphs.h"
#include "ir/OpGroup.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowOffloadOps.cpp.inc"

void stow::addOffloadOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowOffloadOps.cpp.inc"
      >(dialect);
}

namespace stow {

RankedTensorType copyTokenType(MLIRContext *context) {
  return RankedTensorType::get({0}, IntegerType::get(context, 8));
}

CopyOutOp copyOutOf(Value token) { return token.getDefiningOp<CopyOutOp>(); }

RankedTensorType slowStateOf(Value token) {
  auto argument = dyn_cast<BlockArgument>(token);
  auto graph = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  auto type =
      graph ? graph.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), kSlowStateAttr) : nullptr;
  return type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
}

bool isWeightInSlowMemory(Value token) {
  auto argument = dyn_cast<BlockArgument>(token);
  if (!argument || !slowStateOf(token))
    return false;
  const auto kind = kindOfArgument(cast<func::FuncOp>(argument.getOwner()->getParentOp()),
                                   argument.getArgNumber());
  return kind == ArgumentKind::Frozen || kind == ArgumentKind::Parameter;
}

bool fetchesState(Operation *op) {
  return isa<CopyInOp, AwaitInOp>(op) && isa<BlockArgument>(op->getOperand(0));
}

bool sendsState(Operation *op) {
  if (auto await = dyn_cast<AwaitOutOp>(op))
    op = await.getToken().getDefiningOp();
  return isa_and_nonnull<CopyOutOp>(op) && llvm::any_of(op->getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>();
         });
}

Bytes copiedBytes(Operation *op) {
  if (auto out = dyn_cast<CopyOutOp>(op))
    return storedBytesOf(out.getX().getType());
  if (auto in = dyn_cast<CopyInOp>(op))
    return storedBytesOf(in.getComing().getType());
  return 0;
}

bool isCopyOrAwait(Operation *op) { return isa<CopyOutOp, AwaitOutOp, CopyInOp, AwaitInOp>(op); }

LogicalResult CopyOutOp::verify() {
  if (getToken().getType() != copyTokenType(getContext())) // C1
    return emitOpError() << "expects a token of type " << copyTokenType(getContext()) << ", found "
                         << getToken().getType();
  return success();
}

LogicalResult AwaitOutOp::verify() {
  CopyOutOp out = copyOutOf(getToken());
  if (!out || out.getX() != getX()) // C1
    return emitOpError() << "expects the token of a copy out of the same value";
  return success();
}

LogicalResult CopyInOp::verify() {
  CopyOutOp out = copyOutOf(getToken());
  const Type there = out ? Type(out.getX().getType()) : Type(slowStateOf(getToken()));
  if (!there) // C1
    return emitOpError() << "expects the token of a copy out, or state with " << kSlowStateAttr;
  if (there != getComing().getType())
    return emitOpError() << "copies in " << getComing().getType() << " what "
                         << (out ? "was copied out as " : "lies in slow memory as ") << there;
  return success();
}

LogicalResult AwaitInOp::verify() {
  auto in = getComing().getDefiningOp<CopyInOp>();
  if (!in || in.getToken() != getToken()) // C1
    return emitOpError() << "expects what a copy in from the same token brings";
  if (getY().getType() != getComing().getType())
    return emitOpError() << "expects a result of type " << getComing().getType() << ", found "
                         << getY().getType();
  return success();
}

/// y is the bytes of what comes. To whoever asks, the await writes them: nothing reads them before it.
Sharings AwaitInOp::getSharings() { return {{SharingKind::Update, 0, 1}}; }

// A schedule places copies; none is run again as a computation is.
bool CopyOutOp::isRecomputable() { return false; }
bool AwaitOutOp::isRecomputable() { return false; }
bool CopyInOp::isRecomputable() { return false; }
bool AwaitInOp::isRecomputable() { return false; }

// Copies move bytes on lanes of their own, and no command computes less for them.
double CopyOutOp::getFlops() { return 0; }
double AwaitOutOp::getFlops() { return 0; }
double CopyInOp::getFlops() { return 0; }
double AwaitInOp::getFlops() { return 0; }
int64_t CopyOutOp::getBytesMoved() { return copiedBytes(*this); }
int64_t AwaitOutOp::getBytesMoved() { return 0; }
int64_t CopyInOp::getBytesMoved() { return copiedBytes(*this); }
int64_t AwaitInOp::getBytesMoved() { return 0; }

} // namespace stow
