#include "passes/verify/CopyReplay.h"

#include "ir/Stow.h"

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
  Operation *out = op.getToken().getDefiningOp();
  if (out ? !written.contains(out) : !held.contains(op.getToken()))
    return failure(); // its op, or the argument, has been reported
  const Written source = out ? written.lookup(out) : held.lookup(op.getToken());
  if (!content.isWhole(source.event))
    return op.emitError() << "fetches slow bytes that another copy out has overwritten";
  if (!range.isDense())
    return op.emitError() << "copies a tensor with gaps";
  inFlight.push_back({op, {range, source.slow}});
  return success();
}

LogicalResult CopyReplay::enter(func::FuncOp graph, BlockArgument argument,
                                llvm::StringMap<Comb> &known) {
  const unsigned index = argument.getArgNumber();
  auto type = graph.getArgAttrOfType<TypeAttr>(index, kSlowStateAttr);
  if (!type)
    return success();
  const StringRef name = graph.getArgAttrOfType<StringAttr>(index, kNameAttr).getValue();
  auto offset = graph.getArgAttrOfType<IntegerAttr>(index, kSlowOffsetAttr);
  if (!offset)
    return graph.emitError() << "state \"" << name << "\" lacks " << kSlowOffsetAttr;
  constexpr int64_t block = 4096;
  const int64_t begin = offset.getInt(),
                end = begin + (storedBytesOf(type.getValue()) + block - 1) / block * block;
  const Comb slow = {begin, end, end - begin};
  if (begin < 0 || begin % block != 0 || end > slowBytes)
    return graph.emitError() << "state \"" << name << "\" lies at [" << begin << ", " << end
                             << ") of slow memory, which has " << slowBytes
                             << " bytes; expected whole blocks of " << block << " inside it";
  const auto [there, isNew] = known.try_emplace(("slow memory: " + name).str(), slow);
  if (!isNew && !(there->second == slow))
    return graph.emitError() << "state \"" << name << "\" lies at " << begin
                             << " of slow memory here and at " << there->second.begin
                             << " in another graph";
  if (content.met(slow))
    return graph.emitError() << "state \"" << name << "\" lies over other state in slow memory";
  held[argument] = {slow, content.write(slow)};
  return success();
}

LogicalResult CopyReplay::leave(func::FuncOp graph, BlockArgument argument, Value returned) const {
  const Attribute name = graph.getArgAttr(argument.getArgNumber(), kNameAttr);
  auto out = returned ? returned.getDefiningOp<CopyOutOp>() : CopyOutOp();
  if (!held.contains(argument))
    return !out ? success()
                : LogicalResult(graph.emitError() << "state " << name
                                                  << " lies in the arena, and its new value is "
                                                     "sent to slow memory");
  const Written there = held.lookup(argument);
  if (!out)
    return content.isWhole(there.event)
               ? success()
               : LogicalResult(graph.emitError() << "state " << name
                                                 << " is overwritten in slow memory, and not by "
                                                    "its new value");
  const Written sent = written.lookup(out);
  if (!(sent.slow == there.slow))
    return graph.emitError() << "the new value of state " << name
                             << " is not copied to its place in slow memory";
  if (!content.isWhole(sent.event))
    return graph.emitError() << "the new value of state " << name
                             << " has been overwritten in slow memory";
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
