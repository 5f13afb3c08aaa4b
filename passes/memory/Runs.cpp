#include "passes/memory/Runs.h"

#include "ir/StowOffloadOps.h"
#include "ir/StowShapeOps.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace stow {
namespace {

class RunMatcher {
public:
  void visit(Operation *op) {
    std::vector<Operation *> &same = known[keyOf(op)];
    if (!op->hasAttr(kRecomputeAttr)) {
      same.push_back(op);
      return;
    }
    auto reads = [&](Operation *first) { return readsTheSame(first, op); };
    auto match = llvm::find_if(same, reads);
    if (match == same.end())
      match = same.begin();
    if (match != same.end())
      repeated[op] = *match;
  }

  llvm::DenseMap<Operation *, Operation *> repeated;

private:
  using Key = std::tuple<StringRef, std::string, std::string>;

  static Key keyOf(Operation *op) {
    std::string types;
    llvm::raw_string_ostream stream(types);
    // A clone may lie elsewhere, with or without gaps.
    for (Type type : op->getResultTypes())
      stream << withoutLayout(cast<RankedTensorType>(type)) << ", ";
    if (op->getNumRegions())
      op->getRegion(0).walk([&](Operation *inner) { stream << inner->getName(); });
    return {op->getName().getStringRef(), sourcePlaceOf(op->getLoc()), types};
  }

  /// The value as its first run makes it.
  Value firstOf(Value value) const {
    while (auto await = value.getDefiningOp<AwaitInOp>()) {
      CopyOutOp out = copyOutOf(await.getToken());
      if (!out) // state, which is the same each time
        return await.getToken();
      value = out.getX();
    }
    auto result = dyn_cast<OpResult>(value);
    Operation *first = result ? repeated.lookup(result.getOwner()) : nullptr;
    return first ? first->getResult(result.getResultNumber()) : value;
  }

  bool readsTheSame(Operation *first, Operation *again) const {
    if (first->getNumOperands() != again->getNumOperands())
      return false;
    for (auto [a, b] : llvm::zip(first->getOperands(), again->getOperands())) {
      const bool isConstant = a.getDefiningOp<ConstantOp>() && b.getDefiningOp<ConstantOp>();
      if (!isConstant && firstOf(a) != firstOf(b))
        return false;
    }
    return true;
  }

  std::map<Key, std::vector<Operation *>> known;
};

} // namespace

llvm::DenseMap<Operation *, Operation *> repeatedOps(func::FuncOp graph) {
  RunMatcher matcher;
  for (Operation &op : graph.getBody().front())
    if (!op.hasTrait<OpTrait::IsTerminator>() && !isa<ConstantOp>(op))
      matcher.visit(&op);
  return std::move(matcher.repeated);
}

std::string modulePathOf(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return modulePathOf(name.getChildLoc());
  auto fused = dyn_cast<FusedLoc>(location);
  if (!fused)
    return "";
  if (auto module = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
    return module.str();
  for (Location part : fused.getLocations())
    if (std::string module = modulePathOf(part); !module.empty())
      return module;
  return "";
}

} // namespace stow
