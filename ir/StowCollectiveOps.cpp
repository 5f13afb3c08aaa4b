// Constraints and costs of what ranks do together.
#include "ir/StowCollectiveOps.h"
#include "ir/OpGroup.h"

#include "runtime/base/Shards.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowCollectiveOps.cpp.inc"

void stow::addCollectiveOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowCollectiveOps.cpp.inc"
      >(dialect);
}

namespace stow {

namespace {

/// C1 and C2 of ops between a value and a shard of it.
LogicalResult verifyShard(Operation *op, uint64_t ranks, Value whole, Value shard) {
  if (static_cast<int64_t>(ranks) < 2) // C1
    return op->emitOpError() << "expects 2 ranks or more, found " << static_cast<int64_t>(ranks);
  const RankedTensorType type = tensorType(whole);
  const RankedTensorType expected = shardType(type, static_cast<int64_t>(ranks));
  if (!type.getElementType().isF32() || shard.getType() != expected) // C2
    return op->emitOpError() << "expects a shard of " << whole.getType() << " in f32, " << expected
                             << ", found " << shard.getType();
  return success();
}

} // namespace

RankedTensorType shardType(RankedTensorType whole, int64_t ranks) {
  return RankedTensorType::get({shardElements(whole.getNumElements(), ranks)},
                               whole.getElementType());
}

LogicalResult AllReduceOp::verify() {
  if (static_cast<int64_t>(getRanks()) < 2) // C1
    return emitOpError() << "expects 2 ranks or more, found " << static_cast<int64_t>(getRanks());
  if (!tensorType(getX()).getElementType().isF32() || getX().getType() != getY().getType()) // C2
    return emitOpError() << "expects x of f32 and y of its type, found " << getX().getType()
                         << " and " << getY().getType();
  return success();
}

/// An addition for each rank; every rank does its share of them.
double AllReduceOp::getFlops() { return tensorType(getX()).getNumElements(); }

Sharings AllReduceOp::getSharings() { return {{SharingKind::Overwrite, 0, 0}}; }

bool AllReduceOp::isRecomputable() { return false; }

LogicalResult ReduceScatterOp::verify() { return verifyShard(*this, getRanks(), getX(), getY()); }

double ReduceScatterOp::getFlops() { return tensorType(getX()).getNumElements(); }

bool ReduceScatterOp::isRecomputable() { return false; }

LogicalResult ShardOp::verify() { return verifyShard(*this, getRanks(), getX(), getY()); }

bool ShardOp::isRecomputable() { return false; }

LogicalResult AllGatherOp::verify() {
  if (failed(verifyShard(*this, getRanks(), getParameter(), getX())))
    return failure();
  if (!layoutOf(getParameter().getType()).isRowMajor()) // C2
    return emitOpError() << "expects a row-major parameter, found " << getParameter().getType();
  if (getY().getType() != getParameter().getType()) // C3
    return emitOpError() << "expects a result of the parameter's type " << getParameter().getType()
                         << ", found " << getY().getType();
  return success();
}

Sharings AllGatherOp::getSharings() { return {{SharingKind::Update, 0, 1}}; }

bool AllGatherOp::isRecomputable() { return false; }

LogicalResult UnshardOp::verify() {
  if (failed(verifyShard(*this, getRanks(), getY(), getX())))
    return failure();
  if (!layoutOf(getY().getType()).isRowMajor()) // C2
    return emitOpError() << "expects a row-major result, found " << getY().getType();
  return success();
}

bool isCollective(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp, UnshardOp>(op);
}

bool isGather(Operation *op) { return isa<AllGatherOp, UnshardOp>(op); }

Value wholeOf(Operation *collective) {
  return isGather(collective) ? collective->getResult(0) : collective->getOperand(0);
}

bool isStartedCollective(Operation *op) { return isCollective(op) && op->hasAttr(kStartedAttr); }

Operation *awaitedCollective(Operation *op) {
  return isa<AwaitReduceOp, AwaitGatherOp>(op) ? op->getOperand(0).getDefiningOp() : nullptr;
}

LogicalResult AwaitReduceOp::verify() {
  Operation *start = getComing().getDefiningOp();
  const bool isSum = isa_and_nonnull<AllReduceOp>(start) && getSources().empty();
  const bool readsLater = isa_and_nonnull<ReduceScatterOp, UnshardOp>(start) &&
                          getSources().size() == 1 && getSources().front() == start->getOperand(0);
  if ((!isSum && !readsLater) || !start->hasAttr(kStartedAttr)) // C1
    return emitOpError() << "expects what a started all_reduce makes, or a started reduce_scatter "
                            "or unshard and its operand";
  if (getY().getType() != getComing().getType()) // C2
    return emitOpError() << "expects a result of type " << getComing().getType() << ", found "
                         << getY().getType();
  return success();
}

/// y is the bytes of what comes, as with what is fetched from slow memory.
Sharings AwaitReduceOp::getSharings() { return {{SharingKind::Update, 0, 0}}; }

LogicalResult AwaitGatherOp::verify() {
  auto gather = getGathered().getDefiningOp<AllGatherOp>();
  if (!gather || !gather->hasAttr(kStartedAttr) || gather.getX() != getShard()) // C1
    return emitOpError() << "expects what a started all_gather makes, and the shard that it reads";
  return success();
}

bool AwaitReduceOp::isRecomputable() { return false; }
bool AwaitGatherOp::isRecomputable() { return false; }
double AwaitReduceOp::getFlops() { return 0; }
double AwaitGatherOp::getFlops() { return 0; }
int64_t AwaitReduceOp::getBytesMoved() { return 0; }
int64_t AwaitGatherOp::getBytesMoved() { return 0; }

} // namespace stow
