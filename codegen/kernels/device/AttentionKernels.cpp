// Attention on devices: scores exist a tile at a time, in registers.
//
// A block owns some rows, 16 a warp, and streams tiles of the others through shared memory:
//
//   kernel                 owns             streams              sums in registers
//   attention              queries          keys and values      y, with the softmax as far as it is known
//   attention_gradient     queries and dy   keys and values      dq
//     and then             keys and values  queries and dy       dk and dv
//     or, of wide heads,   keys             queries and dy       dv
//     and then             keys and values  queries and dy       dk
//
// The gradient is two kernels or three, that of the queries first, which leaves numbers of each to those of the keys. All
// make the scores, so that no two blocks add to one sum: nothing is atomic, and sums have an order that shapes
// decide. Tiles beyond the diagonal or before the window that ends there are not visited, and those of documents that none of the owned
// rows can be of are neither brought nor multiplied.
// Methods: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018; T. Dao,
// "FlashAttention-2: Faster attention with better parallelism and work partitioning", 2023.
//
// Products of 16 bits round the weights and the gradients of the scores to that type; all else is f32.
#include "codegen/kernels/device/AttentionEmitter.h"
#include "codegen/kernels/device/KernelSequence.h"
#include "ir/StowAttentionOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace stow {

using Values = AttentionEmitter::Values;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===-- Forward -------------------------------------------------------------------------------===//

// What goes from tile to tile: the sums of weights and values, then of the thread's rows, one in each half, the largest
// scores and the sums of the exponentials that this thread has made.

void AttentionEmitter::weigh(const Place &place, int64_t half, Values &scores, Values &carried) {
  const size_t sums = carried.size() - 2 * static_cast<size_t>(products.halves());
  Value &largest = carried[sums + half], &total = carried[sums + products.halves() + half];
  Value top;
  eachOfHalf(half, scores.size(), [&](size_t number, const ValuePlace &at) {
    const Score score = scoreAt(place, at);
    Term full =
        problem.isScaledLate() ? term(scores[number]) : masked(scores[number], place, score);
    if (score.isSeen)
      full = term(score.isSeen).choose(full, full.constant(-kInfinity));
    scores[number] = full.get();
    top = top ? term(top).maximum(full).get() : full.get();
  });
  top = products.overRow(top, [&](Value a, Value b) { return term(a).maximum(term(b)).get(); });
  const double factor = problem.scale * unit();
  Term now = term(largest).maximum(problem.isScaledLate() ? term(top) * factor : term(top));
  // While a row sees nothing its exponentials are those of minus infinity, not NaN.
  Term base = now.equals(now.constant(-kInfinity)).choose(now.constant(0), now);
  Term less = base * -1;
  Term shrinks = power(term(largest) - base), sum = term(total) * shrinks;
  eachOfHalf(half, scores.size(), [&](size_t number, const ValuePlace &at) {
    Term score = term(scores[number]);
    Term weight =
        power(problem.isScaledLate() ? score.fma(score.constant(factor), less) : score - base);
    sum = sum + weight;
    if (auto factor = dropoutFactor(place, scoreAt(place, at)))
      weight = weight * *factor;
    scores[number] = weight.get();
  });
  eachOfHalf(half, sums, [&](size_t number, const ValuePlace &) {
    carried[number] = (term(carried[number]) * shrinks).get();
  });
  largest = now.get();
  total = sum.get();
}

void AttentionEmitter::finish(Value head, Value first, Values &carried) {
  const Matrices &lse = tensors.back();
  Value lseBase = base(lse, head);
  const size_t sums = carried.size() - 2 * static_cast<size_t>(products.halves());
  for (int64_t half = 0; half < products.halves(); ++half) {
    Term most = term(carried[sums + half]);
    Term total = term(sumOverRow(carried[sums + products.halves() + half]));
    Term inverse = total.constant(1) / total;
    Term largest = most * (1 / unit()), log = total.unary<math::LogOp>();
    // Of a row that has seen nothing.
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    Term none = most.equals(most.constant(-kInfinity));
    inverse = none.choose(inverse.constant(problem.zeroRows ? 0 : kNone), inverse);
    log = none.choose(log.constant(problem.zeroRows ? 0 : kNone), log);
    if (problem.zeroRows)
      largest = none.choose(largest.constant(0), largest);
    eachOfHalf(half, sums, [&](size_t number, const ValuePlace &) {
      carried[number] = (term(carried[number]) * inverse).get();
    });
    Value row = ownRow(first, half);
    Value writes = math.isBelow(products.member(), math.constant(1));
    if (problem.queries % tiles.owned() != 0)
      writes = both(writes, math.isBelow(row, math.constant(problem.queries)));
    lanes.ifHolds(writes, [&] {
      auto put = [&](const Term &number, int64_t column) {
        Value at = elementAt(lse, lseBase, row, math.constant(column));
        memref::StoreOp::create(builder, location, number.get(), lse.buffer.memory, ValueRange{at});
      };
      put(largest, 0);
      put(log, 1);
    });
  }
}

void AttentionEmitter::attention() {
  const Matrices &q = tensors[0], &k = tensors[1], &v = tensors[2], &y = tensors.end()[-2];
  const bool hasDiagonal = problem.diagonal.has_value();
  forTiles(problem.heads, problem.queries, hasDiagonal, [&](Value head, Value first) {
    loadTile(owned[0], q, head, first, tiles.owned());
    Values carried = products.zeros(TileProducts::padded(problem.element, problem.width));
    const size_t sums = carried.size();
    carried.append(products.halves(), number(-kInfinity));
    carried.append(products.halves(), number(0));
    const Stream stream = streamOf(Streams::Keys, k, v, head, first);
    const Visited visited = visitedKeys(first);
    bringFirst(stream, visited);
    arrive();
    takeOwned();
    auto ofTile = [&](Value tile, bool isSeen, ValueRange before) {
      const Place place{head, first, math.times(tile, tiles.streamed), Streams::Keys, isSeen, tile};
      Values scores =
          products.timesRows(factors[0], stageOf(streamed[0], place.tile), tiles.streamed);
      Values next(before);
      for (int64_t half = 0; half < products.halves(); ++half)
        weigh(place, half, scores, next);
      llvm::copy(products.addWeighted(ArrayRef(next).take_front(sums), scores,
                                      stageOf(streamed[1], place.tile), tiles.streamed,
                                      problem.width),
                 next.begin());
      return next;
    };
    carried = overTiles(stream, visited, carried, ofTile);
    finish(head, first, carried);
    store(Written{y, owned[0], ArrayRef(carried).take_front(sums)}, head, first);
  });
}

//===-- Backward ------------------------------------------------------------------------------===//

Value AttentionEmitter::rowProduct(Value head, Value row) {
  const Matrices &y = tensors[3], &dy = tensors[5];
  Type wide = builder.getF32Type();
  const int64_t count = std::min(y.together(y.buffer.element), dy.together(dy.buffer.element));
  Value fromY = elementAt(y, base(y, head), row, math.constant(0)),
        fromDy = elementAt(dy, base(dy, head), row, math.constant(0));
  Type sums = count == 1 ? wide : Type(VectorType::get({count}, wide));
  Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(sums));
  auto at = [&](const Matrices &matrices, Value from, Value column) {
    Value place = math.plus(from, math.times(column, matrices.columnStride));
    return term(load(matrices, place, count, wide));
  };
  auto partial = lanes.loop(products.member(), math.constant(problem.width / count), 4, zero,
                            [&](Value number, ValueRange old) {
                              Value column = math.times(number, count);
                              Term product =
                                  at(y, fromY, column).fma(at(dy, fromDy, column), term(old[0]));
                              return Values{product.get()};
                            });
  if (count == 1)
    return sumOverRow(partial[0]);
  Term sum = term(vector::ExtractOp::create(builder, location, partial[0], 0));
  for (int64_t i = 1; i < count; ++i)
    sum = sum + term(vector::ExtractOp::create(builder, location, partial[0], i));
  return sumOverRow(sum.get());
}

Value AttentionEmitter::placeLeft(int64_t number, Value head, Value row) {
  return math.plus(math.plus(math.times(head, problem.queries), row),
                   number * problem.heads * problem.queries);
}

AttentionEmitter::OfQuery AttentionEmitter::ofQuery(Value head, Value row) {
  const Matrices &lse = tensors[4];
  auto number = [&](int64_t column) {
    Value at = elementAt(lse, base(lse, head), row, math.constant(column));
    return (term(load(lse, at, 1, builder.getF32Type())) * unit()).get();
  };
  if (!problem.isScaledLate())
    return {number(0), number(1), rowProduct(head, row)};
  return {((term(number(0)) + term(number(1))) * -1).get(), rowProduct(head, row)};
}

void AttentionEmitter::leave(const OfQuery &numbers, Value head, Value row) {
  Value writes = math.isBelow(products.member(), math.constant(1));
  if (problem.queries % tiles.owned() != 0)
    writes = both(writes, math.isBelow(row, math.constant(problem.queries)));
  lanes.ifHolds(writes, [&] {
    for (auto [i, number] : llvm::enumerate(numbers))
      memref::StoreOp::create(builder, location, number, scratch.memory,
                              ValueRange{placeLeft(i, head, row)});
  });
}

void AttentionEmitter::bringNumbers(Value head, Value from, Value tile) {
  lanes.loop(thread, math.constant(tiles.streamed), threads, {}, [&](Value number, ValueRange) {
    Value row = clamped(math.plus(from, number), problem.queries, tiles.streamed);
    for (auto [i, place] : llvm::enumerate(rowNumbers)) {
      copyAhead(scratch, placeLeft(i, head, row), stageOf(place, tile), number, 1, {});
    }
    return Values();
  });
}

AttentionEmitter::OfQuery AttentionEmitter::numbersOfColumn(const Place &place, Value column) {
  OfQuery numbers;
  for (Value memory : rowNumbers)
    numbers.push_back(
        memref::LoadOp::create(builder, location, stageOf(memory, place.tile), column));
  return numbers;
}

AttentionEmitter::Values
AttentionEmitter::weightsOf(const Place &place,
                            llvm::function_ref<OfQuery(const ValuePlace &)> ofQuery) {
  Values weights = products.timesRows(factors[0], stageOf(streamed[0], place.tile), tiles.streamed);
  const Term factor = term(number(problem.scale * unit()));
  for (size_t number = 0; number < weights.size(); ++number) {
    const ValuePlace value = placeOf(number, weights.size());
    const Score at = scoreAt(place, value);
    const OfQuery query = ofQuery(value);
    Term weight =
        problem.isScaledLate()
            ? power(term(weights[number]).fma(factor, term(query[0])))
            : power((masked(weights[number], place, at) - term(query[0])) - term(query[1]));
    if (at.isSeen)
      weight = term(at.isSeen).choose(weight, weight.constant(0));
    weights[number] = weight.get();
  }
  return weights;
}

AttentionEmitter::Values AttentionEmitter::dropped(const Place &place, ValueRange weights) {
  Values kept(weights);
  for (size_t number = 0; number < kept.size(); ++number)
    if (auto factor = dropoutFactor(place, scoreAt(place, placeOf(number, kept.size()))))
      kept[number] = (term(kept[number]) * *factor).get();
  return kept;
}

AttentionEmitter::Values
AttentionEmitter::scoreGradients(const Place &place, ValueRange weights,
                                 llvm::function_ref<OfQuery(const ValuePlace &)> ofQuery) {
  const Values dweights = dropped(
      place, products.timesRows(factors[1], stageOf(streamed[1], place.tile), tiles.streamed));
  Values gradients;
  for (size_t number = 0; number < weights.size(); ++number) {
    const ValuePlace value = placeOf(number, weights.size());
    Term gradient = term(weights[number]) * (term(dweights[number]) - term(ofQuery(value).back()));
    // Queries may have no key of their document, and results of NaN.
    if (problem.keyDocuments)
      gradient = term(scoreAt(place, value).isSeen).choose(gradient, gradient.constant(0));
    gradients.push_back((problem.element.isF16() ? gradient * problem.scale : gradient).get());
  }
  return gradients;
}

AttentionEmitter::Values AttentionEmitter::scaled(ValueRange sums) {
  return llvm::map_to_vector(sums, [&](Value sum) {
    return problem.element.isF16() ? sum : (term(sum) * problem.scale).get();
  });
}

void AttentionEmitter::gradientByKeys() {
  const Matrices &q = tensors[0], &k = tensors[1], &v = tensors[2], &dy = tensors[5],
                 &dk = tensors.end()[-2], &dv = tensors.back();
  const bool makesKeys = tiles.kernel != AttentionKernel::ValueGradient,
             makesValues = tiles.kernel != AttentionKernel::KeyGradient;
  const int64_t heads = problem.heads / problem.shared;
  for (int64_t i = 0; i < tiles.streamedNumbers(problem); ++i)
    rowNumbers.push_back(shared({tiles.stages * tiles.streamed}, builder.getF32Type()));
  forTiles(heads, problem.keys, false, [&](Value ofKeys, Value first) {
    loadTile(owned[0], k, ofKeys, first, tiles.owned());
    if (makesKeys)
      loadTile(owned[1], v, ofKeys, first, tiles.owned());
    Values sums;
    if (makesKeys)
      sums = products.zeros(TileProducts::padded(problem.element, problem.depth));
    const size_t ofDepth = sums.size();
    if (makesValues)
      sums.append(products.zeros(TileProducts::padded(problem.element, problem.width)));
    const Visited visited = visitedQueries(first);
    auto queriesOf = [&](Value number) {
      return streamOf(Streams::Queries, q, dy,
                      math.plus(math.times(ofKeys, problem.shared), number), first);
    };
    if (problem.shared == 1)
      bringFirst(queriesOf(math.constant(0)), visited);
    arrive();
    takeOwned();
    auto ofTile = [&](Value head, Value tile, bool isSeen, ValueRange before) {
      const Place place{head,   first, math.times(tile, tiles.streamed), Streams::Queries,
                        isSeen, tile};
      auto ofColumn = [&](const ValuePlace &at) {
        return numbersOfColumn(place, products.columnOf(at.group, at.i));
      };
      // Values first: what their product takes of registers is free when the other gradients come.
      const Values weights = weightsOf(place, ofColumn);
      Values ofValues, next;
      if (makesValues)
        ofValues =
            products.addWeighted(before.drop_front(ofDepth), dropped(place, weights),
                                 stageOf(streamed[1], place.tile), tiles.streamed, problem.width);
      if (makesKeys)
        next = products.addWeighted(
            before.take_front(ofDepth), scoreGradients(place, weights, ofColumn),
            stageOf(streamed[0], place.tile), tiles.streamed, problem.depth);
      next.append(ofValues);
      return next;
    };
    sums = lanes.loop(math.constant(0), math.constant(problem.shared), 1, sums,
                      [&](Value number, ValueRange before) {
                        const Stream stream = queriesOf(number);
                        Value head = stream.head;
                        if (problem.shared > 1 && tiles.stages > 1) {
                          barrier(); // the last tile of the head before has been read
                          bringFirst(stream, visited);
                        }
                        return overTiles(stream, visited, before,
                                         [&](Value tile, bool isSeen, ValueRange carried) {
                                           return ofTile(head, tile, isSeen, carried);
                                         });
                      });
    const Values dkSums = scaled(ArrayRef(sums).take_front(ofDepth));
    SmallVector<Written> written;
    if (makesKeys)
      written.push_back({dk, owned[0], dkSums});
    if (makesValues)
      written.push_back({dv, owned[makesKeys ? 1 : 0], ArrayRef(sums).drop_front(ofDepth)});
    store(written, ofKeys, first);
  });
}

void AttentionEmitter::gradientByQueries() {
  const Matrices &q = tensors[0], &k = tensors[1], &v = tensors[2], &dy = tensors[5],
                 &dq = tensors.end()[-3];
  const bool hasDiagonal = problem.diagonal.has_value();
  forTiles(problem.heads, problem.queries, hasDiagonal, [&](Value head, Value first) {
    loadTile(owned[0], q, head, first, tiles.owned());
    loadTile(owned[1], dy, head, first, tiles.owned());
    const Stream stream = streamOf(Streams::Keys, k, v, head, first);
    const Visited visited = visitedKeys(first);
    SmallVector<OfQuery> ofRows;
    for (int64_t half = 0; half < products.halves(); ++half) {
      Value row = ownRow(first, half);
      ofRows.push_back(ofQuery(head, clamped(row, problem.queries, tiles.owned())));
      leave(ofRows.back(), head, row);
    }
    auto ofTile = [&](Value tile, bool isSeen, ValueRange before) {
      const Place place{head, first, math.times(tile, tiles.streamed), Streams::Keys, isSeen, tile};
      auto ofRow = [&](const ValuePlace &at) { return ofRows[at.half]; };
      return products.addWeighted(before, scoreGradients(place, weightsOf(place, ofRow), ofRow),
                                  stageOf(streamed[0], place.tile), tiles.streamed, problem.depth);
    };
    bringFirst(stream, visited);
    arrive();
    takeOwned();
    Values none = products.zeros(TileProducts::padded(problem.element, problem.depth));
    const Values sums = scaled(overTiles(stream, visited, none, ofTile));
    store(Written{dq, owned[0], sums}, head, first);
  });
}

void AttentionEmitter::emit() {
  using enum AttentionKernel;
  if (tiles.kernel == Forward)
    attention();
  else if (tiles.kernel == QueryGradient)
    gradientByQueries();
  else
    gradientByKeys();
}

//===-- The ops -------------------------------------------------------------------------------===//

/// Factors of f32 or 16 bits whose rows registers and shared memory hold.
static bool isTaken(Operation *op) {
  auto isDouble = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  const AttentionProblem problem = AttentionProblem::of(op);
  return llvm::none_of(op->getOperandTypes(), isDouble) &&
         llvm::all_of(kernelsOf(problem), [&](AttentionKernel kernel) {
           return AttentionTiles::of(problem, kernel).has_value();
         });
}

static SmallVector<Matrices> matricesOf(Operation *op, const KernelFrame &frame,
                                        const AttentionProblem &problem,
                                        ArrayRef<SmallVector<int64_t>> strides) {
  SmallVector<int64_t> scores(tensorType(op->getOperand(0)).getShape());
  scores.back() = problem.keys;
  SmallVector<Matrices> all;
  for (auto [i, value] : llvm::enumerate(llvm::concat<Value>(
           SmallVector<Value>(op->getOperands()), SmallVector<Value>(op->getResults())))) {
    SmallVector<int64_t> shape(tensorType(value).getShape()), steps(strides[i]);
    if (problem.mask == i) {
      steps = broadcastStrides(shape, steps, scores);
      shape = scores;
    }
    if (problem.queryDocuments == i || problem.keyDocuments == i) {
      SmallVector<int64_t> rows(ArrayRef(scores).drop_back(2));
      rows.push_back(problem.keyDocuments == i ? problem.keys : problem.queries);
      steps = broadcastStrides(shape, steps, rows);
      shape = rows;
      shape.push_back(1), steps.push_back(0);
    }
    Matrices matrices;
    matrices.buffer = frame.buffers[i];
    matrices.heads.offsets = {0};
    if (shape.size() >= 2) {
      matrices.rows = shape.end()[-2], matrices.rowStride = steps.end()[-2];
      matrices.columns = shape.end()[-1], matrices.columnStride = steps.end()[-1];
      for (size_t dim = 0; dim + 2 < shape.size(); ++dim)
        matrices.heads.dims.push_back({shape[dim], {steps[dim]}});
    }
    all.push_back(std::move(matrices));
  }
  return all;
}

static LogicalResult emitKernel(Operation *op, KernelFrame &frame, AttentionKernel kernel) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  const AttentionProblem problem = AttentionProblem::of(op);
  const AttentionTiles tiles = *AttentionTiles::of(problem, kernel);
  const SmallVector<Matrices> tensors = matricesOf(op, frame, problem, *strides);
  AttentionEmitter(frame, problem, tiles, tensors).emit();
  return success();
}

static LogicalResult emitAttention(Operation *op, KernelFrame &frame) {
  if (frame.target == KernelTarget::Host)
    return op->emitOpError() << "has a kernel for devices alone; the host has a call";
  return emitKernel(op, frame, AttentionKernel::Forward);
}

static LogicalResult emitGradient(Operation *op, KernelFrame &) {
  return op->emitOpError() << "has no kernel but a sequence of them, of devices alone";
}

std::optional<int64_t> attentionScratch(Operation *op) {
  if (!isa<AttentionGradientOp>(op) || !isTaken(op))
    return std::nullopt;
  const AttentionProblem problem = AttentionProblem::of(op);
  return problem.numbersOfQuery() * problem.heads * problem.queries;
}

FailureOr<SmallVector<KernelInfo>> addAttentionGradient(KernelModule &kernels, Operation *op,
                                                        ArrayRef<int64_t> alignments) {
  SmallVector<KernelArgument> arguments = argumentsOf(op, alignments);
  auto scratch = RankedTensorType::get({*attentionScratch(op)}, Float32Type::get(op->getContext()));
  arguments.push_back({scratch, KernelModule::kAlignment});
  SmallVector<KernelInfo> infos;
  for (AttentionKernel kernel : kernelsOf(AttentionProblem::of(op))) {
    auto info = kernels.define(op->getName().stripDialect(), arguments, op->getNumOperands(),
                               [&](KernelFrame &frame) { return emitKernel(op, frame, kernel); });
    if (failed(info))
      return failure();
    infos.push_back(*info);
  }
  return infos;
}

void addAttentionKernels(KernelTable &table) {
  table.add<AttentionOp>(emitAttention, {isTaken, takesAnyPart});
  table.add<AttentionGradientOp>(emitGradient, {isTaken, takesAnyPart});
}

} // namespace stow
