#include "passes/verify/CopyReplay.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

using namespace mlir;

namespace stow {

LogicalResult CopyReplay::checkRead(Operation *reader, const Comb &range) const {
  for (const auto &[op, copy] : inFlight)
    if (isa<CopyInOp>(op) && copy.range.overlaps(range))
      return reader->emitError() << "reads [" << range.begin << ", " << range.end
                                 << ") while a copy in writes them";
  return success();
}

LogicalResult CopyReplay::checkWrite(Operation *writer, const Comb &range) const {
  for (const auto &[op, copy] : inFlight)
    if (copy.range.overlaps(range))
      return writer->emitError() << "writes [" << range.begin << ", " << range.end
                                 << ") while a copy " << (isa<CopyInOp>(op) ? "in" : "out")
                                 << " is under way there";
  return success();
}

LogicalResult CopyReplay::start(CopyOutOp op, const Comb &range) {
  auto offset = op->getAttrOfType<IntegerAttr>(kSlowOffsetAttr);
  if (!offset)
    return op.emitError() << "lacks " << kSlowOffsetAttr;
  if (!range.isDense())
    return op.emitError() << "copies a tensor with gaps";
  constexpr int64_t block = 4096;
  const int64_t begin = offset.getInt(),
                end = (begin + range.end - range.begin + block - 1) / block * block;
  if (begin < 0 || begin % block != 0 || end > slowBytes)
    return op.emitError() << "copies to [" << begin << ", " << end << ") of slow memory, which has "
                          << slowBytes << " bytes; expected whole blocks of " << block
                          << " inside it";
  const Comb slow = {begin, end, end - begin};
  for (const auto &[other, copy] : inFlight)
    if (copy.slow.overlaps(slow))
      return op.emitError() << "overwrites slow bytes of a copy that has not been awaited";
  inFlight.push_back({op, {range, slow}});
  written[op] = {slow, content.write(slow)};
  return success();
}

LogicalResult CopyReplay::start(CopyInOp op, const Comb &range) {
  auto source = written.find(op.getToken().getDefiningOp());
  if (source == written.end())
    return failure(); // its op has been reported
  if (!content.isWhole(source->second.event))
    return op.emitError() << "fetches slow bytes that another copy out has overwritten";
  if (!range.isDense())
    return op.emitError() << "copies a tensor with gaps";
  inFlight.push_back({op, {range, source->second.slow}});
  return success();
}

LogicalResult CopyReplay::await(Operation *op, Operation *copy) {
  auto *found = llvm::find_if(inFlight, [&](const auto &known) { return known.first == copy; });
  if (found == inFlight.end())
    return op->emitError() << "awaits a copy that is not under way";
  inFlight.erase(found);
  return success();
}

LogicalResult CopyReplay::leave() const {
  for (const auto &[op, copy] : inFlight)
    op->emitError() << "starts a copy that nothing awaits";
  return success(inFlight.empty());
}

} // namespace stow
