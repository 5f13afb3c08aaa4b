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
static constexpr int64_t kValues = TileProducts::kValues;

//===-- Forward -------------------------------------------------------------------------------===//

// What goes from tile to tile: the sums of weights and values, then of the thread's two rows the largest
// scores and the sums of the exponentials that this thread has made.
static constexpr size_t kLargest = 4, kSums = 2; ///< from the end

void AttentionEmitter::weigh(const Place &place, int64_t half, Values &scores, Values &carried) {
  Value &largest = carried[carried.size() - kLargest + half],
        &total = carried[carried.size() - kSums + half];
  Value top;
  for (size_t at = 2 * half; at < scores.size(); at += kValues)
    for (size_t i : {0, 1}) {
      const Score score = scoreAt(place, at / kValues, 2 * half + i);
      Term full =
          problem.isScaledLate() ? term(scores[at + i]) : masked(scores[at + i], place, score);
      if (score.isSeen)
        full = term(score.isSeen).choose(full, full.constant(-kInfinity));
      scores[at + i] = full.get();
      top = top ? term(top).maximum(full).get() : full.get();
    }
  top = products.overRow(top, [&](Value a, Value b) { return term(a).maximum(term(b)).get(); });
  const double factor = problem.scale * unit();
  Term now = term(largest).maximum(problem.isScaledLate() ? term(top) * factor : term(top));
  // While a row sees nothing its exponentials are those of minus infinity, not NaN.
  Term base = now.equals(now.constant(-kInfinity)).choose(now.constant(0), now);
  Term less = base * -1;
  Term shrinks = power(term(largest) - base), sum = term(total) * shrinks;
  for (size_t at = 2 * half; at < scores.size(); at += kValues)
    for (size_t i : {0, 1}) {
      Term score = term(scores[at + i]);
      Term weight =
          power(problem.isScaledLate() ? score.fma(score.constant(factor), less) : score - base);
      sum = sum + weight;
      if (auto factor = dropoutFactor(place, scoreAt(place, at / kValues, 2 * half + i)))
        weight = weight * *factor;
      scores[at + i] = weight.get();
    }
  for (size_t at = 2 * half; at < carried.size() - kLargest; at += kValues)
    for (size_t i : {0, 1})
      carried[at + i] = (term(carried[at + i]) * shrinks).get();
  largest = now.get();
  total = sum.get();
}

void AttentionEmitter::finish(Value head, Value first, Values &carried) {
  const Matrices &lse = tensors.back();
  Value lseBase = base(lse, head);
  for (int64_t half : {0, 1}) {
    Term most = term(carried[carried.size() - kLargest + half]);
    Term total = term(sumOverRow(carried[carried.size() - kSums + half]));
    Term inverse = total.constant(1) / total;
    Term largest = most * (1 / unit()), log = total.unary<math::LogOp>();
    // Of a row that has seen nothing.
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    Term none = most.equals(most.constant(-kInfinity));
    inverse = none.choose(inverse.constant(problem.zeroRows ? 0 : kNone), inverse);
    log = none.choose(log.constant(problem.zeroRows ? 0 : kNone), log);
    if (problem.zeroRows)
      largest = none.choose(largest.constant(0), largest);
    for (size_t at = 2 * half; at < carried.size() - kLargest; at += kValues)
      for (size_t i : {0, 1})
        carried[at + i] = (term(carried[at + i]) * inverse).get();
    Value row = ownRow(first, 2 * half);
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
    carried.append({number(-kInfinity), number(-kInfinity), number(0), number(0)});
    const Stream stream = streamOf(Streams::Keys, k, v, head, first);
    const Visited visited = visitedKeys(first);
    bringFirst(stream, visited);
    arrive();
    auto ofTile = [&](Value tile, bool isSeen, ValueRange before) {
      const Place place{head, first, math.times(tile, tiles.streamed), Streams::Keys, isSeen, tile};
      Values scores = products.timesRows(owned[0], warpRow, stageOf(streamed[0], place.tile),
                                         tiles.streamed, problem.depth);
      Values next(before);
      for (int64_t half : {0, 1})
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

AttentionEmitter::Differentiated
AttentionEmitter::differentiate(const Place &place,
                                llvm::function_ref<OfQuery(int64_t, int64_t)> ofQuery) {
  const Values scores = products.timesRows(owned[0], warpRow, stageOf(streamed[0], place.tile),
                                           tiles.streamed, problem.depth);
  Values dweights;
  if (tiles.ownsTwo())
    dweights = products.timesRows(owned[1], warpRow, stageOf(streamed[1], place.tile),
                                  tiles.streamed, problem.width);
  const Term factor = term(number(problem.scale * unit()));
  Differentiated result;
  for (int64_t number = 0; number < static_cast<int64_t>(scores.size()); ++number) {
    const int64_t group = number / kValues, i = number % kValues;
    const Score at = scoreAt(place, group, i);
    const OfQuery query = ofQuery(group, i);
    Term weight =
        problem.isScaledLate()
            ? power(term(scores[number]).fma(factor, term(query[0])))
            : power((masked(scores[number], place, at) - term(query[0])) - term(query[1]));
    if (at.isSeen)
      weight = term(at.isSeen).choose(weight, weight.constant(0));
    const std::optional<Term> dropped = dropoutFactor(place, at);
    result.weights.push_back((dropped ? weight * *dropped : weight).get());
    if (!tiles.ownsTwo())
      continue;
    Term gradient = term(dweights[number]);
    if (dropped)
      gradient = gradient * *dropped;
    Term product = weight * (gradient - term(query.back()));
    // Queries may have no key of their document, and results of NaN.
    if (problem.keyDocuments)
      product = term(at.isSeen).choose(product, product.constant(0));
    result.products.push_back((problem.element.isF16() ? product * problem.scale : product).get());
  }
  return result;
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
    auto ofTile = [&](Value head, Value tile, bool isSeen, ValueRange before) {
      const Place place{head,   first, math.times(tile, tiles.streamed), Streams::Queries,
                        isSeen, tile};
      const Differentiated tileOf = differentiate(place, [&](int64_t group, int64_t i) {
        return numbersOfColumn(place, products.columnOf(group, i));
      });
      Values next;
      if (makesKeys)
        next =
            products.addWeighted(before.take_front(ofDepth), tileOf.products,
                                 stageOf(streamed[0], place.tile), tiles.streamed, problem.depth);
      if (makesValues)
        next.append(products.addWeighted(before.drop_front(ofDepth), tileOf.weights,
                                         stageOf(streamed[1], place.tile), tiles.streamed,
                                         problem.width));
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
    OfQuery ofRows[2];
    for (int64_t half : {0, 1}) {
      Value row = ownRow(first, 2 * half);
      ofRows[half] = ofQuery(head, clamped(row, problem.queries, tiles.owned()));
      leave(ofRows[half], head, row);
    }
    auto ofTile = [&](Value tile, bool isSeen, ValueRange before) {
      const Place place{head, first, math.times(tile, tiles.streamed), Streams::Keys, isSeen, tile};
      const Differentiated tileOf =
          differentiate(place, [&](int64_t, int64_t i) { return ofRows[i / 2]; });
      return products.addWeighted(before, tileOf.products, stageOf(streamed[0], place.tile),
                                  tiles.streamed, problem.depth);
    };
    bringFirst(stream, visited);
    arrive();
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
