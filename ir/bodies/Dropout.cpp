// dropout_training: element i is kept by the first word of Philox4x32-10 at counter (i, stream)
// under the key `seed` (runtime/base/Philox.h is the same function on integers).
#include "ir/bodies/Term.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <array>
#include <cmath>

using namespace mlir;

namespace stow {
namespace {

/// Low and high 32 bits of a 64-bit term.
std::array<Term, 2> halves(Term wide) {
  OpBuilder &builder = wide.getBuilder();
  Term high = wide.with(
      arith::ShRUIOp::create(builder, wide.getLocation(), wide.get(), wide.constantInt(32).get()));
  return {wide.as(builder.getI32Type()), high.as(builder.getI32Type())};
}

Term exclusiveOr(Term a, Term b) {
  return a.with(arith::XOrIOp::create(a.getBuilder(), a.getLocation(), a.get(), b.get()));
}

/// The first output word; `counter` and `key` are i32 terms.
Term philoxWord(std::array<Term, 4> counter, std::array<Term, 2> key) {
  OpBuilder &builder = counter[0].getBuilder();
  for (int round = 0; round < 10; ++round) {
    auto first =
        arith::MulUIExtendedOp::create(builder, counter[0].getLocation(),
                                       counter[0].constantInt(0xD2511F53).get(), counter[0].get());
    auto second =
        arith::MulUIExtendedOp::create(builder, counter[0].getLocation(),
                                       counter[2].constantInt(0xCD9E8D57).get(), counter[2].get());
    counter = {exclusiveOr(exclusiveOr(key[0].with(second.getHigh()), counter[1]), key[0]),
               key[0].with(second.getLow()),
               exclusiveOr(exclusiveOr(key[0].with(first.getHigh()), counter[3]), key[1]),
               key[0].with(first.getLow())};
    key = {key[0] + key[0].constantInt(0x9E3779B9), key[1] + key[1].constantInt(0xBB67AE85)};
  }
  return counter[0];
}

} // namespace

SmallVector<Value> DropoutTrainingOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term x = body[0];
  double keep = 1 - getRatio().convertToDouble();
  double limit = std::floor(keep * 4294967296.0);
  if (limit >= 4294967296.0) // ratio 0
    return body.finish({x});

  Type wide = builder.getI64Type();
  if (auto vector = dyn_cast<VectorType>(x.get().getType()))
    wide = VectorType::get(vector.getShape(), wide);
  Term index = x.with(ElementIndexOp::create(builder, getLoc(), wide));
  Term seed = body.raw(1).as(builder.getI64Type());
  auto [low, high] = halves(index);
  uint64_t stream = getStream();
  Term word =
      philoxWord({low, high, low.constantInt(stream & 0xFFFFFFFF), low.constantInt(stream >> 32)},
                 halves(seed));
  Term bound = word.constantInt(static_cast<uint64_t>(limit));
  Term kept = word.with(
      arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::ult, word.get(), bound.get()));
  return body.finish({kept.choose(x * (1 / keep), x.constant(0))});
}

} // namespace stow
