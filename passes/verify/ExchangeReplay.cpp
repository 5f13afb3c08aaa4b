#include "passes/verify/ExchangeReplay.h"

#include "ir/Stow.h"

using namespace mlir;

namespace stow {
namespace {

bool meets(ArrayRef<Comb> ranges, const Comb &range) {
  return llvm::any_of(ranges, [&](const Comb &known) { return known.overlaps(range); });
}

LogicalResult refuse(Operation *op, StringRef what, const Comb &range, Operation *collective,
                     StringRef does) {
  InFlightDiagnostic error = op->emitError() << what << " [" << range.begin << ", " << range.end
                                             << ") while a collective under way " << does;
  error.attachNote(collective->getLoc()) << "started here";
  return error;
}

} // namespace

LogicalResult ExchangeReplay::checkRead(Operation *reader, const Comb &range) const {
  for (const Exchange &exchange : underWay)
    if (meets(exchange.written, range))
      return refuse(reader, "reads", range, exchange.op, "writes there");
  return success();
}

LogicalResult ExchangeReplay::checkWrite(Operation *writer, const Comb &range) const {
  for (const Exchange &exchange : underWay) {
    if (meets(exchange.written, range))
      return refuse(writer, "writes", range, exchange.op, "writes there, too");
    if (meets(exchange.read, range))
      return refuse(writer, "writes", range, exchange.op, "reads there");
  }
  return success();
}

LogicalResult ExchangeReplay::start(Operation *op, ArrayRef<Comb> read, ArrayRef<Comb> written) {
  for (ArrayRef<Comb> ranges : {read, written})
    for (const Comb &range : ranges)
      if (!range.isDense())
        return op->emitError() << "exchanges a tensor with gaps";
  underWay.push_back({op, SmallVector<Comb>(read), SmallVector<Comb>(written)});
  return success();
}

LogicalResult ExchangeReplay::await(Operation *op, Operation *collective) {
  auto *found =
      llvm::find_if(underWay, [&](const Exchange &exchange) { return exchange.op == collective; });
  if (found == underWay.end())
    return op->emitError() << "awaits a collective that is not under way";
  underWay.erase(found);
  return success();
}

LogicalResult ExchangeReplay::leave() const {
  for (const Exchange &exchange : underWay)
    exchange.op->emitError() << "starts a collective that nothing awaits";
  return success(underWay.empty());
}

} // namespace stow
