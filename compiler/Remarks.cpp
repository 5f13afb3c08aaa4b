#include "compiler/Remarks.h"

#include "ir/StepGraphs.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowShapeOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/memory/Runs.h"
#include "runtime/base/AtomicFile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/YAMLTraits.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

/// An op and all times it runs.
struct Runs {
  Operation *first = nullptr;
  SmallVector<Operation *> again;
};

/// One remark, before printing.
struct Decision {
  std::string value, source, kind;
  std::string type;  ///< that it is stored in
  std::string reads; ///< types of what the op reads, each once
  Bytes bytes = 0;
  bool atPeak = false; ///< its storage is live at the peak
  Bytes saved = 0;     ///< bytes that the decision keeps away from the peak
  size_t runs = 1;
  schedule::Cost paid = 0;
  bool isReference = false; ///< the library has only its slow reference code for the op
};

/// The file, in the order of its keys.
struct Document {
  std::string device;
  Bytes livePeakBytes = 0;
  int64_t peakStep = 0;
  std::vector<Decision> decisions;
};

class Decisions {
public:
  Decisions(func::FuncOp graph, const CostModel &costs)
      : graph(graph), costs(costs), liveness(graph), waits(costs.waitsIn(graph)) {
    findPeak();
    groupRuns();
    for (Operation &op : graph.getBody().front())
      for (const Sharing &part : partsOf(&op))
        if (part.kind == SharingKind::PartOfResult && isTaken(&op, part))
          inside.insert(part.partIn(&op));
  }

  std::vector<Decision> list() {
    std::vector<Decision> all;
    for (const Runs &runs : groups)
      for (OpResult result : runs.first->getResults())
        if (!isUpdate(result))
          all.push_back(decide(runs, result));
    return all;
  }

  int64_t peakStep() const { return peak; }
  Bytes peakBytes() const { return peakSum; }

private:
  void findPeak() {
    const std::vector<Bytes> live = liveness.liveBytes();
    const auto most = std::max_element(live.begin(), live.end());
    peakSum = *most;
    peak = most - live.begin();
  }

  void groupRuns() {
    const llvm::DenseMap<Operation *, Operation *> repeated = repeatedOps(graph);
    llvm::DenseMap<Operation *, size_t> groupOf;
    for (Operation &op : graph.getBody().front()) {
      if (op.hasTrait<OpTrait::IsTerminator>() || isa<ConstantOp>(op) || isCopyOrAwait(&op))
        continue;
      if (Operation *first = repeated.lookup(&op)) {
        groups[groupOf.lookup(first)].again.push_back(&op);
        continue;
      }
      groupOf[&op] = groups.size();
      groups.push_back({&op, {}});
    }
  }

  static bool isUpdate(OpResult result) {
    auto alias = dyn_cast<AliasOpInterface>(result.getOwner());
    return alias && alias.getUpdatedOperand(result.getResultNumber());
  }

  const Storage &storageOf(Value value) const {
    return liveness.storages()[liveness.storageOf(value)];
  }
  bool isLiveAtPeak(Value value) const {
    const Storage &storage = storageOf(value);
    return storage.begin <= peak && peak < storage.end;
  }

  /// One past the last command that would read `value` if it were no part of anything.
  int64_t endOfCopy(Value value) const {
    int64_t end = 0;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      const bool isJoined = partOfResult(use).has_value();
      if (auto command = liveness.commandOf(user))
        end = std::max(end, *command + 1);
      else if (isJoined) // would copy here
        for (Operation *next = user; next; next = next->getNextNode())
          if (auto command = liveness.commandOf(next)) {
            end = std::max(end, *command);
            break;
          }
      if (!isJoined && launchesNothing(user) && user->getNumResults() == 1)
        end = std::max(end, endOfCopy(user->getResult(0)));
    }
    return end;
  }

  static std::string typeName(Value value) {
    return std::string(nameOf(dtypeOf(getElementTypeOrSelf(value))));
  }

  static std::string typesRead(Operation *op) {
    SmallVector<std::string> names;
    for (Value operand : op->getOperands())
      if (std::string name = typeName(operand); !llvm::is_contained(names, name))
        names.push_back(name);
    return llvm::join(names, " ");
  }

  Decision decide(const Runs &runs, OpResult result) const {
    Decision decision;
    Operation *op = runs.first;
    decision.value = op->getName().stripDialect().str();
    if (op->getNumResults() > 1)
      absl::StrAppend(&decision.value, "#", result.getResultNumber());
    decision.source = sourcePlaceOf(op->getLoc());
    decision.bytes = ownBytesOf(result.getType());
    decision.type = typeName(result);
    decision.reads = typesRead(op);
    decision.isReference = op->hasAttr(kReferenceAttr);
    decision.runs = 1 + runs.again.size();
    decision.atPeak = isLiveAtPeak(result);
    Bytes size = decision.bytes;
    int64_t last = storageOf(result).end;
    for (Operation *again : runs.again) {
      Value copy = again->getResult(result.getResultNumber());
      decision.atPeak |= isLiveAtPeak(copy);
      last = std::max(last, storageOf(copy).end);
    }
    bool travels = false;
    for (Operation *out : result.getUsers())
      if (isa<CopyOutOp>(out)) {
        travels = true;
        for (Operation *await : out->getResult(0).getUsers())
          if (isa<AwaitInOp>(await)) {
            decision.atPeak |= isLiveAtPeak(await->getResult(0));
            decision.paid += waits.lookup(await);
            last = std::max(last, storageOf(await->getResult(0)).end);
          } else if (isa<AwaitOutOp>(await)) {
            decision.paid += waits.lookup(await);
          }
      }
    if (viewedOperand(op) || launchesNothing(op)) {
      decision.kind = "view";
      decision.saved = decision.atPeak ? size : 0;
    } else if (!runs.again.empty()) {
      decision.kind = travels ? "recomputed and fetched" : "recomputed";
      decision.paid += static_cast<schedule::Cost>(runs.again.size()) * costs.costOf(op);
      bool spansPeak = storageOf(result).begin <= peak && peak < last;
      decision.saved = spansPeak && !decision.atPeak ? size : 0;
    } else if (travels) {
      decision.kind = "fetched";
      const bool spansPeak = storageOf(result).begin <= peak && peak < last;
      decision.saved = spansPeak && !decision.atPeak ? size : 0;
    } else if (inside.contains(result)) {
      decision.kind = "placed inside";
      decision.saved = *liveness.commandOf(op) <= peak && peak < endOfCopy(result) ? size : 0;
    } else if (sharingOf(result)) {
      decision.kind = "in place";
      decision.saved = liveness.commandOf(op) == peak ? size : 0;
    } else {
      decision.kind = "kept";
    }
    return decision;
  }

  func::FuncOp graph;
  const CostModel &costs;
  Liveness liveness;
  const llvm::DenseMap<Operation *, schedule::Cost> waits; ///< of awaits of copies
  std::vector<Runs> groups;
  llvm::DenseSet<Value> inside; ///< what lies in a larger result
  int64_t peak = 0;
  Bytes peakSum = 0;
};

} // namespace
} // namespace stow

LLVM_YAML_IS_SEQUENCE_VECTOR(stow::Decision)

template <> struct llvm::yaml::MappingTraits<stow::Decision> {
  static void mapping(IO &io, stow::Decision &decision) {
    stow::Bytes atPeak = decision.atPeak ? decision.bytes : 0;
    double microseconds = static_cast<double>(decision.paid) / 1000;
    io.mapRequired("value", decision.value);
    io.mapRequired("source", decision.source);
    io.mapRequired("decision", decision.kind);
    io.mapRequired("type", decision.type);
    io.mapRequired("reads", decision.reads);
    io.mapRequired("bytes", decision.bytes);
    io.mapRequired("bytes_at_peak", atPeak);
    io.mapRequired("saved_at_peak", decision.saved);
    io.mapRequired("runs", decision.runs);
    io.mapRequired("time_paid_us", microseconds);
    if (std::string code = "reference"; decision.isReference)
      io.mapRequired("code", code);
  }
};

template <> struct llvm::yaml::MappingTraits<stow::Document> {
  static void mapping(IO &io, stow::Document &document) {
    io.mapRequired("device", document.device);
    io.mapRequired("live_peak_bytes", document.livePeakBytes);
    io.mapRequired("peak_step", document.peakStep);
    io.mapRequired("decisions", document.decisions);
  }
};

namespace stow {

std::string describeDecisions(ModuleOp placed, const CostModel &costs) {
  Document document;
  document.device = costs.device;
  if (auto graph = stepGraph(placed)) {
    Decisions decisions(graph, costs);
    document.livePeakBytes = decisions.peakBytes();
    document.peakStep = decisions.peakStep();
    document.decisions = decisions.list();
  }
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::yaml::Output yaml(out);
  yaml << document;
  return text;
}

void writeDecisions(ModuleOp placed, const CostModel &costs, const std::string &path) {
  writeFile(path, describeDecisions(placed, costs));
}

} // namespace stow
