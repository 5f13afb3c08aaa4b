// Sums of a matrix's rows, made by the product that contracts over them: O(ops + uses) for each such sum.
//
//   %db = reduce_sum %dy over rows          %dw = matmul %x, %dy {transpose_a}
//   ...                                     %db = reduce_sum %dy over rows {stow.together}
//   %dw = matmul %x, %dy {transpose_a}      ...
//
// The left side reads %dy twice; the right side once, for the gradients of a layer's weight and bias. It is made of
// a graph whose buffers have their places, and none but %db may get another one:
//
//   bytes ^          |--- %db ---o               o: reads of %db in front of the product wait for it
//         |                   ......|--- %db ---   where its bytes are another's then, it goes where nothing is
//         |  |------------- %dy ----------|
//         +---------sum-----------product----> launches
//
// Moving the sum to the product, and what reads it behind that, must commute with every launch on the way. So
// no arena is larger for it, under no budget, and a plan that cannot have it stays as it was.
#include "passes/memory/FuseBiasGradient.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "passes/memory/Launches.h"
#include "passes/memory/Passes.h"

#include "passes/Target.h"

#include <limits>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_FUSEBIASGRADIENTPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// Which factor is contracted over its rows, by number.
bool contractsRows(Operation *op, unsigned factor) {
  auto flag = op->getAttrOfType<BoolAttr>(factor == 0 ? "transpose_a" : "transpose_b");
  return flag.getValue() == (factor == 0);
}

/// True for a sum over all dimensions but the last.
bool sumsRows(ReduceSumOp sum) {
  const int64_t rank = tensorType(sum.getX()).getRank();
  return rank >= 2 && llvm::equal(sum.getAxes(), llvm::seq<int64_t>(0, rank - 1));
}

bool isPlain(Value value) { return layoutOf(value.getType()).isRowMajor(); }

/// Launches [first, last].
struct Span {
  size_t first = std::numeric_limits<size_t>::max(), last = 0;

  void add(size_t launch) { first = std::min(first, launch), last = std::max(last, launch); }
  bool meets(const Span &other) const { return first <= other.last && other.first <= last; }
};

/// Where a sum may run, and its place there if that is another one.
struct Move {
  Operation *product = nullptr;
  size_t distance = 0; ///< in launches
  std::optional<Bytes> offset;
};

/// What sums may be placed beside.
struct Arena {
  Bytes bytes = 0, alignment = 1;
  std::vector<ArenaRange> taken; ///< whatever runs
};

/// Moves sums of one graph to products.
class Summer {
public:
  Summer(func::FuncOp graph, const Target &target, const Arena &arena)
      : graph(graph), target(target), arena(arena), liveness(graph), offsets(arenaOffsets(graph)),
        launches(launchesOf(graph)) {
    number();
  }

  /// True where a sum was moved.
  bool run() {
    bool moves = false;
    for (ReduceSumOp sum : SmallVector<ReduceSumOp>(graph.getOps<ReduceSumOp>()))
      if (const std::optional<Move> move = nearestFor(sum)) {
        if (move->offset)
          replace(sum, *move->offset);
        join(sum, move->product);
        number();
        moves = true;
      }
    return moves;
  }

private:
  void number() {
    for (auto [i, launch] : llvm::enumerate(launches))
      positions[launch.op] = i;
  }

  /// Adds the products that read `value` or a view of it.
  static void listProducts(Value value, SmallVectorImpl<Operation *> &products) {
    for (Operation *user : value.getUsers())
      if (isa<MatmulOp, ProductMapOp>(user))
        products.push_back(user);
      else if (viewedOperand(user))
        listProducts(user->getResult(0), products);
  }

  /// To the product that can make `sum` with the fewest launches between; none where none can.
  std::optional<Move> nearestFor(ReduceSumOp sum) const {
    SmallVector<Operation *> products;
    if (sumsRows(sum) && !sum->hasAttr(kTogetherAttr))
      listProducts(viewedValue(sum.getX()), products);
    std::optional<Move> nearest;
    for (Operation *product : products) {
      const std::optional<unsigned> factor = summedFactor(product, sum);
      if (!factor || sumBeside(product) || !target.sumsRows(product, *factor, sum.getY().getType()))
        continue;
      std::optional<Move> move = moveTo(product, sum);
      if (move && (!nearest || move->distance < nearest->distance))
        nearest = move;
    }
    return nearest;
  }

  std::optional<Move> moveTo(Operation *product, ReduceSumOp sum) const {
    const size_t from = positions.lookup(sum), to = positions.lookup(product);
    const SmallVector<Operation *> readers = readersBefore(sum, product);
    if (llvm::is_contained(readers, product))
      return std::nullopt;
    Move move = {product, to > from ? to - from : from - to, std::nullopt};
    if (commutes(from, to, readers, [](const PlacedLaunch &launch) { return launch; }))
      return move;
    auto elsewhere = [&](const PlacedLaunch &launch) { return withoutSum(launch, sum); };
    if (!isAlone(sum.getY()) || !commutes(from, to, readers, elsewhere))
      return std::nullopt;
    move.offset = gapFor(sum, to, readers);
    return move.offset ? std::optional(move) : std::nullopt;
  }

  /// The ops in front of `product` that need `sum`, in order; none where that stands behind it.
  static SmallVector<Operation *> readersBefore(ReduceSumOp sum, Operation *product) {
    SmallVector<Operation *> readers;
    if (product->isBeforeInBlock(sum))
      return readers;
    llvm::SmallPtrSet<Operation *, 4> all = {sum};
    for (Operation *op = sum; op != product;) {
      op = op->getNextNode();
      if (llvm::any_of(op->getOperands(), [&](Value operand) {
            return operand.getDefiningOp() && all.contains(operand.getDefiningOp());
          })) {
        readers.push_back(op);
        all.insert(op);
      }
    }
    return readers;
  }

  static bool reads(Operation *op, Value value) {
    return llvm::any_of(op->getOperands(),
                        [&](Value operand) { return viewedValue(operand) == value; });
  }

  /// What `launch` touches beside the result of `sum`, which is nobody else's while that is read.
  PlacedLaunch withoutSum(PlacedLaunch launch, ReduceSumOp sum) const {
    const ArenaRange own = launches[positions.lookup(sum)].writes.front();
    if (launch.op == sum)
      launch.writes.erase(launch.writes.begin());
    else if (reads(launch.op, sum.getY()))
      llvm::erase(launch.reads, own);
    return launch;
  }

  /// True when the sum at `from`, without its scratch, and then `readers` give the same behind the product at
  /// `to`; launches touch what `touched` says.
  bool commutes(size_t from, size_t to, ArrayRef<Operation *> readers,
                llvm::function_ref<PlacedLaunch(const PlacedLaunch &)> touched) const {
    PlacedLaunch sum = launches[from];
    sum.writes.resize(1);
    SmallVector<PlacedLaunch> waiting = {touched(sum)};
    const auto mayPass = [&](const PlacedLaunch &other) {
      return llvm::all_of(waiting,
                          [&](const PlacedLaunch &one) { return one.commutesWith(other); });
    };
    if (to < from)
      return std::all_of(launches.begin() + to, launches.begin() + from, mayPass);
    for (size_t at = from + 1; at <= to; ++at)
      if (llvm::is_contained(readers, launches[at].op))
        waiting.push_back(touched(launches[at]));
      else if (!mayPass(launches[at]))
        return false;
    return true;
  }

  /// True where nothing else lies in the storage of `value`, views of it aside.
  bool isAlone(Value value) const {
    return llvm::all_of(liveness.storages()[liveness.storageOf(value)].values,
                        [&](Value other) { return viewedValue(other) == value; });
  }

  Span spanOf(const Storage &storage) const {
    Span span;
    if (storage.isState)
      return {0, std::numeric_limits<size_t>::max()};
    auto add = [&](Operation *op) {
      if (auto found = positions.find(op); found != positions.end())
        span.add(found->second);
      else if (op->hasTrait<OpTrait::IsTerminator>())
        span.add(std::numeric_limits<size_t>::max());
    };
    for (Value value : storage.values) {
      if (Operation *op = value.getDefiningOp())
        add(op);
      else
        span.add(0);
      llvm::for_each(value.getUsers(), add);
    }
    return span;
  }

  /// The lowest place for the sum from the product at `to` on, `readers` right behind that.
  std::optional<Bytes> gapFor(ReduceSumOp sum, size_t to, ArrayRef<Operation *> readers) const {
    const StorageId own = liveness.storageOf(sum.getY());
    const Span needed = {to, std::max(to, spanOf(liveness.storages()[own]).last)};
    std::vector<ArenaRange> taken = arena.taken;
    for (auto [number, storage] : llvm::enumerate(liveness.storages())) {
      if (number == own || !spanOf(storage).meets(needed))
        continue;
      const Value value = storage.values.front();
      const Bytes begin = offsets.lookup(value) - liveness.offsetOf(value);
      taken.push_back({begin, begin + storage.size});
    }
    auto take = [&](const PlacedLaunch &launch) {
      const PlacedLaunch other = withoutSum(launch, sum);
      llvm::append_range(taken, other.reads);
      llvm::append_range(taken, other.writes);
    };
    for (Operation *reader : readers)
      if (auto found = positions.find(reader); found != positions.end())
        take(launches[found->second]);
    for (size_t at = needed.first; at <= needed.last && at < launches.size(); ++at)
      if (launches[at].op != sum)
        take(launches[at]);
    llvm::sort(taken, [](const ArenaRange &a, const ArenaRange &b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    const Bytes bytes = storedBytesOf(sum.getY().getType());
    Bytes at = 0;
    for (const ArenaRange &range : taken)
      if (range.begin - at < bytes)
        at = std::max(at, alignUp(range.end, arena.alignment));
    return arena.bytes - at < bytes ? std::nullopt : std::optional(at);
  }

  /// Gives the result of `sum` another place.
  void replace(ReduceSumOp sum, Bytes offset) {
    PlacedLaunch &launch = launches[positions.lookup(sum)];
    const ArenaRange old = launch.writes.front(), now = {offset, offset + old.end - old.begin};
    launch.writes.front() = now;
    for (PlacedLaunch &other : launches)
      if (reads(other.op, sum.getY()))
        llvm::replace(other.reads, old, now);
    for (Value value : liveness.storages()[liveness.storageOf(sum.getY())].values)
      offsets[value] = offset;
    sum->setAttr(kOffsetsAttr, DenseI64ArrayAttr::get(graph.getContext(), {offset}));
  }

  void join(ReduceSumOp sum, Operation *product) {
    const size_t from = positions.lookup(sum), to = positions.lookup(product);
    for (StringRef name : {kLibraryCallAttr, kWorkspaceAttr, kWorkspaceOffsetAttr})
      sum->removeAttr(name);
    sum->setAttr(kTogetherAttr, UnitAttr::get(graph.getContext()));
    launches[from].writes.resize(1);
    const SmallVector<Operation *> readers = readersBefore(sum, product);
    bringViews(sum.getX(), product);
    Operation *last = product;
    sum->moveAfter(last);
    last = sum;
    for (Operation *reader : readers) {
      reader->moveAfter(last);
      last = reader;
    }
    if (to < from) {
      std::rotate(launches.begin() + to + 1, launches.begin() + from, launches.begin() + from + 1);
      return;
    }
    std::vector<PlacedLaunch> behind;
    auto next = launches.begin() + from;
    for (size_t at = from; at <= to; ++at)
      if (launches[at].op == sum || llvm::is_contained(readers, launches[at].op))
        behind.push_back(std::move(launches[at]));
      else
        *next++ = std::move(launches[at]);
    std::move(behind.begin(), behind.end(), next);
  }

  /// Moves the views between `value` and what it looks at in front of `product`.
  static void bringViews(Value value, Operation *product) {
    Operation *view = value.getDefiningOp();
    if (!view || value == viewedValue(value) || view->isBeforeInBlock(product))
      return;
    bringViews(view->getOperand(*viewedOperand(view)), product);
    view->moveBefore(product);
  }

  func::FuncOp graph;
  const Target &target;
  const Arena &arena;
  const Liveness
      liveness; ///< which values share storage; its times are those of the graph as it was
  llvm::DenseMap<Value, Bytes> offsets;
  std::vector<PlacedLaunch> launches;
  llvm::DenseMap<Operation *, size_t> positions; ///< in `launches`
};

/// Nothing is placed over state, nor over what another graph is given.
Arena arenaOf(ModuleOp module) {
  Arena arena = {bytesAttr(module, kArenaBytesAttr),
                 bytesAttr(module, kAlignmentAttr),
                 {{0, bytesAttr(module, kPersistentBytesAttr)}}};
  for (auto graph : module.getOps<func::FuncOp>())
    for (BlockArgument argument : graph.getArguments()) {
      const Bytes begin =
          graph.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kOffsetAttr).getInt();
      arena.taken.push_back({begin, begin + storedBytesOf(argument.getType())});
    }
  return arena;
}

//===-- --stow-fuse-bias-gradient -------------------------------------------------------------------===//

struct FuseBiasGradientPass : impl::FuseBiasGradientPassBase<FuseBiasGradientPass> {
  explicit FuseBiasGradientPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(requirePlaced(module)))
      return signalPassFailure();
    const Arena arena = arenaOf(module);
    bool moves = false;
    for (auto graph : module.getOps<func::FuncOp>())
      moves |= Summer(graph, target, arena).run();
    if (moves)
      raiseLowerBounds(module);
  }

  const Target &target;
};

} // namespace

std::optional<unsigned> summedFactor(Operation *op, ReduceSumOp sum) {
  const RankedTensorType summed = tensorType(sum.getX());
  if (!sumsRows(sum) || !isPlain(sum.getX()))
    return std::nullopt;
  for (unsigned factor : {0, 1}) {
    Value matrix = op->getOperand(factor);
    const RankedTensorType type = tensorType(matrix);
    if (viewedValue(matrix) == viewedValue(sum.getX()) && type.getRank() == 2 &&
        contractsRows(op, factor) && isPlain(matrix) &&
        type.getShape().back() == summed.getShape().back() &&
        type.getNumElements() == summed.getNumElements())
      return factor;
  }
  return std::nullopt;
}

ReduceSumOp sumBeside(Operation *op) {
  for (Operation *part : opsOfCommand(op))
    if (auto sum = dyn_cast<ReduceSumOp>(part); sum && part != op)
      return sum;
  return {};
}

std::unique_ptr<Pass> createFuseBiasGradientPass(const Target &target) {
  return std::make_unique<FuseBiasGradientPass>(target);
}

} // namespace stow
