// Random ops: element i is made of the words of Philox4x32-10 at counter (i, stream) under the key
// `seed` (runtime/base/Philox.h is the same function on integers).
#include "ir/StowElementwiseOps.h"
#include "ir/StowKernelOps.h"
#include "ir/bodies/Philox.h"
#include "ir/bodies/Trigonometry.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <array>
#include <cmath>
#include <numbers>

using namespace mlir;

namespace stow {
namespace {

Term shiftedRight(Term bits, unsigned by) {
  return bits.with(arith::ShRUIOp::create(bits.getBuilder(), bits.getLocation(), bits.get(),
                                          bits.constantInt(by).get()));
}

/// Low and high 32 bits of a 64-bit term.
std::array<Term, 2> halves(Term wide) {
  Type half = wide.getBuilder().getI32Type();
  return {wide.as(half), shiftedRight(wide, 32).as(half)};
}

Term exclusiveOr(Term a, Term b) {
  return a.with(arith::XOrIOp::create(a.getBuilder(), a.getLocation(), a.get(), b.get()));
}

/// The output words; `counter` and `key` are i32 terms.
std::array<Term, 4> outputWords(std::array<Term, 4> counter, std::array<Term, 2> key) {
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
  return counter;
}

/// The words of the element that the body computes; `seed` is a term of the body's shape.
std::array<Term, 4> wordsOf(Term seed, uint64_t stream) {
  seed = seed.as(seed.getBuilder().getI64Type());
  Term index =
      seed.with(ElementIndexOp::create(seed.getBuilder(), seed.getLocation(), seed.get().getType())
                    .getIndex());
  return philoxWords(index, seed, stream);
}

/// floor(word / 2^8) as a float, which holds it exactly.
Term upperBits(Term word) { return shiftedRight(word, 8).as(word.getBuilder().getF32Type()); }

} // namespace

std::array<Term, 4> philoxWords(Term index, Term seed, uint64_t stream) {
  auto [low, high] = halves(index);
  return outputWords(
      {low, high, low.constantInt(stream & 0xFFFFFFFF), low.constantInt(stream >> 32)},
      halves(seed.as(seed.getBuilder().getI64Type())));
}

Term isBelow(Term word, uint64_t limit) {
  return word.with(arith::CmpIOp::create(word.getBuilder(), word.getLocation(),
                                         arith::CmpIPredicate::ult, word.get(),
                                         word.constantInt(limit).get()));
}

SmallVector<Value> DropoutTrainingOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term x = body[0];
  double keep = 1 - getRatio().convertToDouble();
  double limit = std::floor(keep * 4294967296.0);
  if (limit >= 4294967296.0) // ratio 0
    return body.finish({x});

  Term seed = body.raw(1);
  Term kept = isBelow(wordsOf(seed, getStream())[0], static_cast<uint64_t>(limit));
  return body.finish({kept.choose(x * (1 / keep), x.constant(0))});
}
SmallVector<Value> DrawOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  constexpr double unit = 1.0 / (1 << 24);
  double a = getA().convertToDouble(), b = getB().convertToDouble();
  auto words = wordsOf(body.raw(0), getStream());
  Term first = upperBits(words[0]);
  if (getDistribution() == "uniform")
    return body.finish({first * unit * (b - a) + a});
  if (getDistribution() == "bernoulli") {
    double limit = std::floor(a * 4294967296.0);
    if (limit >= 4294967296.0)
      return body.finish({first.constant(1)});
    return body.finish({isBelow(words[0], static_cast<uint64_t>(limit)).as(builder.getF32Type())});
  }
  Term radius = (((first + 1.0) * unit).unary<math::LogOp>() * -2.0).unary<math::SqrtOp>();
  Term angle = upperBits(words[1]) * unit * (2 * std::numbers::pi);
  return body.finish({radius * cosine(angle) * b + a});
}

} // namespace stow
