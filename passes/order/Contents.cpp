#include "passes/order/Contents.h"

#include "ir/StowOffloadOps.h"
#include "ir/StowShapeOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

using namespace mlir;

namespace stow {
namespace {

/// Dimensions from the outermost to the innermost in memory.
std::vector<int64_t> orderOf(RankedTensorType type) {
  std::vector<int64_t> order = layoutOf(type).order;
  if (order.empty()) {
    order.resize(type.getRank());
    std::iota(order.begin(), order.end(), 0);
  }
  return order;
}

Bytes elementBytes(RankedTensorType type) { return sizeOf(dtypeOf(type.getElementType())); }

/// Adds to the end, joined with what is there where both are one stretch.
void append(Content &content, const Stretch &stretch) {
  if (!content.empty() && content.back().root == stretch.root &&
      content.back().begin + content.back().size == stretch.begin)
    content.back().size += stretch.size;
  else if (stretch.size > 0)
    content.push_back(stretch);
}

/// Reads a content from its first byte on, forwards.
class Cursor {
public:
  explicit Cursor(const Content &content) : content(content) {}

  /// Goes on to byte `begin` and appends the next `size` bytes to `to`.
  void copy(Bytes begin, Bytes size, Content &to) {
    while (size > 0) {
      const Stretch &stretch = content[index];
      if (begin >= before + stretch.size) {
        before += stretch.size;
        ++index;
        continue;
      }
      const Bytes skipped = begin - before, bytes = std::min(size, stretch.size - skipped);
      append(to, {stretch.root, stretch.begin + skipped, bytes});
      begin += bytes;
      size -= bytes;
    }
  }

private:
  const Content &content;
  size_t index = 0;
  Bytes before = 0; ///< bytes of all stretches before `index`
};

/// Calls with (begin, size) in bytes for the runs of a box before byte `limit`, in the order of
/// memory.
void visitBox(RankedTensorType type, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes, Bytes limit,
              llvm::function_ref<void(Bytes, Bytes)> visit) {
  const std::vector<int64_t> order = orderOf(type);
  size_t inner = order.size(); // dimensions from here on are whole
  Bytes run = elementBytes(type);
  while (inner > 0 && sizes[order[inner - 1]] == type.getDimSize(order[inner - 1]))
    run *= sizes[order[--inner]];
  if (inner > 0)
    --inner; // the run goes on in a dimension that is not
  std::vector<Bytes> strides(order.size());
  Bytes stride = elementBytes(type), begin = 0;
  for (size_t i = order.size(); i-- > 0;) {
    strides[i] = stride;
    begin += starts[order[i]] * stride;
    stride *= type.getDimSize(order[i]);
  }
  if (inner < order.size() && sizes[order[inner]] != type.getDimSize(order[inner]))
    run *= sizes[order[inner]];
  std::vector<int64_t> index(inner, 0);
  while (begin < limit) {
    visit(begin, std::min(run, limit - begin));
    size_t dim = inner;
    while (dim > 0 && ++index[dim - 1] == sizes[order[dim - 1]]) {
      begin -= (sizes[order[dim - 1]] - 1) * strides[dim - 1];
      index[--dim] = 0;
    }
    if (dim == 0)
      return;
    begin += strides[dim - 1];
  }
}

/// Rows of `type`, each of which a box has the same part of: the outermost dimensions that are
/// whole in it.
int64_t wholeRows(RankedTensorType type, ArrayRef<int64_t> sizes) {
  const Layout layout = layoutOf(type);
  int64_t rows = 1;
  if (!layout.blocks.empty() || layout.groups > 1)
    return rows; // nothing lies inside it, and nothing is a view of it
  for (int64_t dim : orderOf(type)) {
    if (sizes[dim] != type.getDimSize(dim))
      break;
    rows *= sizes[dim];
  }
  return rows;
}

/// The same for a part of `op`.
int64_t wholeRows(Operation *op, const Sharing &part) {
  return wholeRows(tensorType(part.wholeIn(op)), tensorType(part.partIn(op)).getShape());
}

/// Bytes of all elements, without padding.
Bytes elementBytesOf(Value value) {
  return tensorType(value).getNumElements() * elementBytes(tensorType(value));
}

int64_t storedElements(Value value) {
  return storedBytesOf(value.getType()) / elementBytes(tensorType(value));
}

/// Values that share bytes, and the rows that all of them have.
class RowClasses {
public:
  void add(Value value, int64_t rows) {
    auto [known, isNew] = ids.try_emplace(value, parents.size());
    if (isNew) {
      parents.push_back(known->second);
      rowsOf.push_back(storedElements(value));
    }
    const size_t id = find(known->second);
    rowsOf[id] = std::gcd(rowsOf[id], rows);
  }
  void join(Value one, Value other, int64_t rows) {
    add(one, rows);
    add(other, rows);
    const size_t kept = find(ids[one]), gone = find(ids[other]);
    rowsOf[kept] = std::gcd(rowsOf[kept], rowsOf[gone]);
    parents[gone] = kept;
  }
  /// One of what has no bytes, as tokens of copies.
  int64_t of(Value value) { return std::max<int64_t>(rowsOf[find(ids[value])], 1); }

private:
  size_t find(size_t id) {
    while (parents[id] != id)
      id = parents[id] = parents[parents[id]];
    return id;
  }
  llvm::DenseMap<Value, size_t> ids;
  std::vector<size_t> parents;
  std::vector<int64_t> rowsOf; ///< of the class, at its root
};

} // namespace

//===-- What values consist of ---------------------------------------------------------------===//

Contents::Contents(func::FuncOp graph, const CostModel &costs, const Target &target)
    : graph(graph), costs(costs), target(target) {
  findRows();
  for (BlockArgument argument : graph.getArguments()) {
    RootId id = addRoot(argument);
    roots[id].isPinned = isStateArgument(graph, argument.getArgNumber());
    contents[argument] = {{id, 0, roots[id].size}};
  }
  for (Operation &op : graph.getBody().front())
    findCopies(op);
  for (Operation &op : graph.getBody().front().without_terminator())
    define(op);
}

void Contents::findRows() {
  RowClasses classes;
  for (BlockArgument argument : graph.getArguments())
    classes.add(argument, 0);
  for (Operation &op : graph.getBody().front().without_terminator()) {
    for (Value result : op.getResults())
      classes.add(result, 0);
    for (const Sharing &sharing : sharingsOf(&op)) {
      Value whole = sharing.wholeIn(&op), part = sharing.partIn(&op);
      if (sharing.isPart())
        classes.join(whole, part, wholeRows(&op, sharing));
      else if (sharing.kind == SharingKind::View ||
               (sharing.kind == SharingKind::Overwrite &&
                storedBytesOf(whole.getType()) == storedBytesOf(part.getType())))
        classes.join(whole, part, 0);
    }
  }
  for (BlockArgument argument : graph.getArguments())
    rows[argument] = classes.of(argument);
  for (Operation &op : graph.getBody().front().without_terminator())
    for (Value result : op.getResults())
      rows[result] = classes.of(result);
}

Bytes Contents::rowBytesOf(Value value) const {
  return storedBytesOf(value.getType()) / rowsOf(value);
}

/// All bytes of `value`.
RootId Contents::addRoot(Value value) {
  roots.push_back({.size = rowBytesOf(value), .rows = rowsOf(value)});
  return static_cast<RootId>(roots.size() - 1);
}

Launch &Contents::launch(Operation &op, schedule::Cost cost) {
  Launch launched;
  launched.op = &op;
  launched.cost = cost;
  auto workspace = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr);
  launched.workspaceBytes = workspace ? workspace.getInt() : 0;
  auto purity = dyn_cast<PurityOpInterface>(&op);
  launched.isRecomputable = purity && purity.isRecomputable();
  all.push_back(std::move(launched));
  return all.back();
}

void Contents::define(Operation &op) {
  if (isa<ConstantOp>(op)) {
    RootId id = addRoot(op.getResult(0));
    roots[id].isPinned = roots[id].isConstant = true;
    contents[op.getResult(0)] = {{id, 0, roots[id].size}};
    return;
  }
  auto alias = dyn_cast<AliasOpInterface>(&op);
  if (std::optional<unsigned> viewed = viewedOperand(&op)) {
    Content content = of(op.getOperand(*viewed));
    contents[op.getResult(0)] = std::move(content);
    return;
  }
  if (auto in = dyn_cast<CopyInOp>(op); in && isWeightInSlowMemory(in.getToken()))
    return; // its await stands for both
  if (const Sharings parts = partsOf(&op); defineSlices(op, parts) || defineJoined(op, parts))
    return;
  auto await = dyn_cast<AwaitInOp>(op);
  if (await && isWeightInSlowMemory(await.getToken())) { // a fetch, which may run again
    Launch &fetch = launch(op, 0);
    fetch.isRecomputable = true;
    const RootId id = addRoot(await.getY());
    contents[await.getY()] = {{id, 0, roots[id].size}};
    fetch.writes.push_back(id);
    return;
  }
  Launch &launched = launch(op, costs.costOf(&op));
  launched.reads.assign(op.operand_begin(), op.operand_end());
  for (OpResult result : op.getResults()) {
    RootId id = addRoot(result);
    contents[result] = {{id, 0, roots[id].size}};
    launched.writes.push_back(id);
    auto updated = alias ? alias.getUpdatedOperand(result.getResultNumber()) : std::nullopt;
    if (updated) {
      roots[id].isPinned = true;
      roots[id].versionOf = of(op.getOperand(*updated)).front().root;
      launched.isRecomputable = false;
    } else if (alias) {
      addOverwrites(launched, result, id);
    }
  }
}

/// As stow-share-in-place may: where no other operand is the same value under another shape.
void Contents::addOverwrites(Launch &launched, OpResult result, RootId root) {
  auto alias = cast<AliasOpInterface>(launched.op);
  for (unsigned candidate : alias.getOverwritableOperands(result.getResultNumber())) {
    Value value = launched.op->getOperand(candidate);
    const bool readOtherwise = llvm::any_of(launched.reads, [&](Value other) {
      return other != value && viewedValue(other) == viewedValue(value);
    });
    if (!readOtherwise && storedBytesOf(value.getType()) == storedBytesOf(result.getType()))
      launched.overwrites.push_back({root, value});
  }
}

bool Contents::mayLieInside(Operation *op, const Sharing &part) const {
  return mayBePlaced(op, part, target);
}

/// True when all readers of `value` join it with others in a result inside of which it may lie: its
/// bytes are copied by itself, or by the reader.
bool Contents::isOnlyJoined(Value value) const {
  return !value.use_empty() && llvm::all_of(value.getUses(), [&](OpOperand &use) {
    if (auto view = viewOfPart(use, withoutPitch(tensorType(use.get()))))
      return isOnlyJoined(view->first);
    std::optional<Sharing> part = partOfResult(use);
    return part && mayLieInside(use.getOwner(), *part);
  });
}

/// False unless every result of `op` is part of an operand and may be read there, or is made for
/// what it is joined in.
bool Contents::defineSlices(Operation &op, ArrayRef<Sharing> parts) {
  const bool mayShare = llvm::all_of(parts, [&](const Sharing &part) {
    return part.kind == SharingKind::PartOfOperand &&
           (isOnlyJoined(part.partIn(&op)) || mayLieInside(&op, part));
  });
  if (parts.empty() || parts.size() != op.getNumResults() || !mayShare)
    return false;
  isSharing = true;
  std::vector<Value> reads;
  std::vector<RootId> copies; // made by the slice, or by the op it is for
  for (const Sharing &part : parts) {
    Value whole = part.wholeIn(&op), value = part.partIn(&op);
    if (isOnlyJoined(value)) {
      copies.push_back(addRoot(value));
      contents[value] = {{copies.back(), 0, roots[copies.back()].size}};
      if (!llvm::is_contained(reads, whole))
        reads.push_back(whole);
      continue;
    }
    const Content source = of(whole);
    if (orderOf(tensorType(whole)) != orderOf(tensorType(value)))
      for (const Stretch &stretch : source)
        roots[stretch.root].isUnknown = true;
    Cursor cursor(source);
    Content box;
    visitBox(tensorType(whole), part.starts, tensorType(value).getShape(), rowBytesOf(whole),
             [&](Bytes begin, Bytes size) { cursor.copy(begin, size, box); });
    contents[value] = std::move(box);
  }
  if (copies.empty())
    return true;
  Launch &launched = launch(op, copyCosts.lookup(&op));
  launched.reads = std::move(reads);
  launched.writes = std::move(copies);
  return true;
}

/// False for an op that copies all of its parts in every plan, or has none.
bool Contents::defineJoined(Operation &op, ArrayRef<Sharing> parts) {
  const bool isJoin = llvm::all_of(
      parts, [](const Sharing &part) { return part.kind == SharingKind::PartOfResult; });
  SmallVector<bool> isInside;
  for (const Sharing &part : parts)
    isInside.push_back(isJoin && mayLieInside(&op, part));
  if (!llvm::is_contained(isInside, true))
    return false;
  isSharing = true;
  std::vector<RootId> fresh; // what is copied
  std::vector<Value> copied;
  std::vector<Content> contentsOfParts;
  Taken taken;
  for (auto [part, inside] : llvm::zip(parts, isInside)) {
    Value input = part.partIn(&op);
    const size_t known = fresh.size();
    if (inside) {
      contentsOfParts.push_back(distinct(of(input), rowsOf(input), taken, fresh));
    } else {
      fresh.push_back(static_cast<RootId>(roots.size()));
      roots.push_back({.size = elementBytesOf(input) / rowsOf(input), .rows = rowsOf(input)});
      contentsOfParts.push_back({{fresh.back(), 0, roots[fresh.back()].size}});
    }
    if (fresh.size() > known)
      copied.push_back(input);
  }
  Value whole = parts.front().wholeIn(&op);
  contents[whole] = joined(op, parts, contentsOfParts);
  if (fresh.empty())
    return true;
  Launch &launched = launch(op, copyCosts.lookup(&op));
  launched.reads = std::move(copied);
  launched.writes = std::move(fresh);
  return true;
}

/// A row of the result that `parts` make up, run by run in the order of memory.
Content Contents::joined(Operation &op, ArrayRef<Sharing> parts,
                         ArrayRef<Content> contentsOfParts) const {
  struct Run {
    Bytes begin, size;
    size_t part;
  };
  Value whole = parts.front().wholeIn(&op);
  std::vector<Run> runs;
  for (auto [number, part] : llvm::enumerate(parts))
    visitBox(tensorType(whole), part.starts, tensorType(part.partIn(&op)).getShape(),
             rowBytesOf(whole),
             [&](Bytes begin, Bytes size) { runs.push_back({begin, size, number}); });
  llvm::sort(runs, [](const Run &a, const Run &b) { return a.begin < b.begin; });
  std::vector<Cursor> cursors(contentsOfParts.begin(), contentsOfParts.end());
  std::vector<Bytes> read(parts.size(), 0); // of each part's row so far
  Content row;
  for (const Run &run : runs) {
    cursors[run.part].copy(read[run.part], run.size, row);
    read[run.part] += run.size;
  }
  return row;
}

/// Copies that every plan makes for a concat: of what never lies inside it or is there already, by
/// the concat, and of what slices are made for, by them or by the concat. Each side's least cost;
/// that of the slices goes to one of them.
void Contents::findCopies(Operation &op) {
  const Sharings parts = partsOf(&op);
  SmallVector<const Sharing *> placed,
      others; // inside at best; of these, what no slice is made for
  SmallVector<Operation *> slices;
  SmallVector<Value> seen;
  schedule::Cost bySlices = 0;
  for (const Sharing &part : parts) {
    if (part.kind != SharingKind::PartOfResult)
      return;
    Value value = part.partIn(&op);
    const bool isRepeated = llvm::is_contained(seen, value);
    seen.push_back(value);
    if (isRepeated || !mayLieInside(&op, part))
      continue;
    placed.push_back(&part);
    while (value.hasOneUse()) {
      auto viewed = viewedAsPart(value, withoutPitch(tensorType(value)));
      if (!viewed)
        break;
      value = viewed->first;
    }
    Operation *maker = value.getDefiningOp();
    const Sharings makers = maker ? partsOf(maker) : Sharings();
    if (value.hasOneUse() && !makers.empty() && makers.front().kind == SharingKind::PartOfOperand) {
      slices.push_back(maker);
      bySlices += costs.costOf(maker);
    } else {
      others.push_back(&part);
    }
  }
  auto costWithInside = [&](ArrayRef<const Sharing *> inside) {
    for (const Sharing *part : inside)
      takePart(&op, *part);
    const schedule::Cost cost = costs.costOf(&op);
    op.removeAttr(kInsideAttr);
    return cost;
  };
  schedule::Cost copied = 0;
  if (placed.size() < parts.size())
    copyCosts[&op] = copied = costWithInside(placed);
  if (!slices.empty())
    copyCosts[slices.front()] = std::min(bySlices, costWithInside(others) - copied);
}

/// `given` as part of a larger result: what the result has already, and what always lies elsewhere,
/// it has a copy of, which becomes one fresh root.
Content Contents::distinct(const Content &given, int64_t rows, Taken &taken,
                           std::vector<RootId> &fresh) {
  Content content;
  std::optional<RootId> copy;
  auto addCopy = [&](Bytes size) {
    if (!copy) {
      copy = static_cast<RootId>(roots.size());
      roots.push_back({.rows = rows});
      fresh.push_back(*copy);
    }
    append(content, {*copy, roots[*copy].size, size});
    roots[*copy].size += size;
  };
  for (const Stretch &stretch : given) {
    if (roots[stretch.root].isPinned) {
      addCopy(stretch.size);
      continue;
    }
    std::map<Bytes, Bytes> &known = taken[stretch.root];
    Bytes at = stretch.begin;
    const Bytes end = at + stretch.size;
    auto next = known.upper_bound(at);
    if (next != known.begin() && std::prev(next)->second > at)
      --next;
    std::vector<std::pair<Bytes, Bytes>> added;
    while (at < end) {
      if (next != known.end() && next->first <= at) {
        const Bytes stop = std::min(end, next->second);
        addCopy(stop - at);
        at = stop;
        ++next;
        continue;
      }
      const Bytes stop = next == known.end() ? end : std::min(end, next->first);
      append(content, {stretch.root, at, stop - at});
      added.push_back({at, stop});
      at = stop;
    }
    known.insert(added.begin(), added.end());
  }
  return content;
}

//===-- Pieces that every reader reads all or none of ----------------------------------------===//

void Contents::divide() {
  spreadFlags();
  // Slices of every length and chains of overwriting ops may leave pieces of a few bytes, each with
  // options of its own. The bytes of roots with very many pieces are then not told apart.
  const int64_t allowance = 500'000 + 200 * static_cast<int64_t>(all.size());
  for (unsigned most = 256; !divideWithin(allowance); most /= 16) {
    for (Root &root : roots)
      root.isUnknown |= isDivided(root) && (most > 0 ? root.pieces.count() > most : root.isShared);
    spreadFlags();
    if (most == 0) { // what is left lies in buffers of its own
      divideWithin(std::numeric_limits<int64_t>::max());
      return;
    }
  }
}

/// Divides all roots whose bytes are told apart. False where that takes more than `allowance`, in runs
/// of bytes looked at, or leaves readers with too many pieces.
bool Contents::divideWithin(int64_t allowance) {
  work = 0;
  for (Root &root : roots)
    root.pieces = Pieces(root.size);
  llvm::DenseSet<Value> seen;
  for (const Launch &launched : all)
    for (Value read : launched.reads)
      if (seen.insert(read).second && work <= allowance)
        divideByReads(read);
  for (Value returned : graph.getBody().front().getTerminator()->getOperands())
    divideByReads(returned);
  // Most divide nothing, and would divide nothing again until one of their roots has more pieces.
  struct Pending {
    const Overwrite *overwrite;
    int64_t pieces = 0, work = 0; ///< when it last divided nothing
  };
  std::vector<Pending> pending;
  for (const Launch &launched : all)
    for (const Overwrite &overwrite : launched.overwrites)
      pending.push_back({&overwrite});
  // Along chains of ops there and back.
  for (bool isFiner = true; isFiner; std::reverse(pending.begin(), pending.end())) {
    isFiner = false;
    for (Pending &next : pending) {
      const int64_t pieces = piecesOf(*next.overwrite), before = work;
      if (work > allowance)
        break;
      if (pieces == next.pieces) {
        work += next.work;
        continue;
      }
      const bool hasMore = divideAlike(*next.overwrite);
      isFiner |= hasMore;
      next.work = work - before;
      next.pieces = hasMore ? 0 : pieces;
    }
  }
  return work <= allowance && readPieces() <= 100'000 + 8 * static_cast<int64_t>(all.size());
}

/// Pieces that launches read or may overwrite, more than once where one launch has many.
int64_t Contents::readPieces() const {
  constexpr int64_t many = 256;
  int64_t count = 0, here = 0;
  auto add = [&](Value value) {
    for (const Stretch &stretch : of(value))
      roots[stretch.root].pieces.visit(stretch.begin, stretch.begin + stretch.size,
                                       [&](unsigned, Bytes, Bytes) { ++here; });
  };
  for (const Launch &launched : all) {
    here = 0;
    llvm::for_each(launched.reads, add);
    for (const Overwrite &overwrite : launched.overwrites)
      add(overwrite.operand);
    count += here * (1 + here / many);
  }
  return count;
}

/// What is shared, or unknown, is so for whatever may lie in the same buffer by overwriting it.
void Contents::spreadFlags() {
  for (const auto &[value, content] : contents)
    for (const Stretch &stretch : content)
      roots[stretch.root].isShared |=
          content.size() > 1 || stretch.size != roots[stretch.root].size;
  bool isChanged = true;
  auto raise = [&](bool &flag) { isChanged |= !std::exchange(flag, true); };
  while (isChanged) {
    isChanged = false;
    for (const Launch &launched : all)
      for (const Overwrite &overwrite : launched.overwrites) {
        Root &result = roots[overwrite.result];
        for (const Stretch &stretch : of(overwrite.operand)) {
          Root &under = roots[stretch.root];
          if (under.isShared && !result.isShared)
            raise(result.isShared);
          if (result.isShared && !under.isShared)
            raise(under.isShared);
          if (under.isUnknown && !result.isUnknown)
            raise(result.isUnknown);
        }
      }
  }
}

void Contents::divideByReads(Value value) {
  std::map<RootId, std::vector<Pieces::Mark>> marks;
  for (const Stretch &stretch : of(value))
    if (isDivided(roots[stretch.root]) && stretch.size != roots[stretch.root].size)
      marks[stretch.root].push_back({stretch.begin, stretch.begin + stretch.size, 1});
  for (auto &[root, read] : marks) {
    llvm::sort(read, [](const auto &a, const auto &b) { return a.begin < b.begin; });
    work += static_cast<int64_t>(read.size() + roots[root].pieces.count());
    roots[root].pieces.refine(read);
  }
}

/// Of all roots that `divideAlike` looks at, one of several stretches as often.
int64_t Contents::piecesOf(const Overwrite &overwrite) const {
  int64_t count = roots[overwrite.result].pieces.count();
  for (const Stretch &stretch : of(overwrite.operand))
    count += roots[stretch.root].pieces.count();
  return count;
}

/// Divides the result by the operand's pieces and the operand's roots by the result's.
bool Contents::divideAlike(const Overwrite &overwrite) {
  Root &result = roots[overwrite.result];
  if (result.isUnknown)
    return false;
  llvm::SmallDenseMap<std::tuple<unsigned, RootId, unsigned>, unsigned, 16> keys;
  std::vector<Pieces::Mark> over;
  std::map<RootId, std::vector<Pieces::Mark>> under;
  Bytes at = 0;
  for (const Stretch &stretch : of(overwrite.operand)) {
    const Bytes offset = at - stretch.begin;
    at += stretch.size;
    if (!isDivided(roots[stretch.root]))
      continue;
    auto pair = [&](unsigned piece, Bytes begin, Bytes end) {
      result.pieces.visit(begin + offset, end + offset, [&](unsigned above, Bytes from, Bytes to) {
        const unsigned key =
            keys.try_emplace({above, stretch.root, piece}, static_cast<unsigned>(keys.size()) + 1)
                .first->second;
        over.push_back({from, to, key});
        under[stretch.root].push_back({from - offset, to - offset, key});
      });
    };
    roots[stretch.root].pieces.visit(stretch.begin, stretch.begin + stretch.size, pair);
  }
  work += static_cast<int64_t>(over.size());
  bool isFiner = result.pieces.refine(over);
  for (auto &[root, marks] : under) {
    llvm::sort(marks, [](const auto &a, const auto &b) { return a.begin < b.begin; });
    isFiner |= roots[root].pieces.refine(marks);
  }
  return isFiner;
}

} // namespace stow
