#include "compiler/MixedPrecision.h"

#include "passes/memory/DescribePlan.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/StringExtras.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Rounds in which nodes are left in f32 before the whole step is.
constexpr int kMostRounds = 4;

/// A step, and what is said of it once it is the one that is taken.
struct Considered {
  StepWithPlanner step;
  std::vector<Diagnostic> said;

  Bytes arenaWithAllKept() const { return step.planner->keepAll().arenaBytes; }

  StepWithPlanner take(const CompileOptions &options, WideShare wide) {
    for (Diagnostic &diagnostic : said)
      diagnostic.getLocation()->getContext()->getDiagEngine().emit(std::move(diagnostic));
    step.options = options;
    step.options.wide = std::move(wide);
    return std::move(step);
  }
};

class Choice {
public:
  Choice(MLIRContext &context, const CompileOptions &given, StageTimer &timer,
         const BudgetOptions &planning)
      : context(context), given(given), options(given), timer(timer), planning(planning) {
    options.wide = {};
    options.profile.clear(); // times change nothing here
    options.saveProfilePath.clear();
  }

  StepWithPlanner make() {
    std::optional<Considered> wide = considerInF32();
    std::string why;
    for (int round = 0; round <= kMostRounds; ++round) {
      Considered narrow = consider(options);
      if (!wide || narrow.arenaWithAllKept() <= wide->arenaWithAllKept()) {
        WideShare share = options.wide;
        if (!share.nodes.empty())
          share.note = flag() + absl::StrCat(llvm::join(share.nodes, ", "), " ",
                                             share.nodes.size() == 1 ? "runs" : "run",
                                             " in f32, since ", why);
        return narrow.take(given, std::move(share));
      }
      if (why.empty())
        why = sixteenBits() + " take " + formatBytesExact(narrow.arenaWithAllKept()) + ", f32 " +
              formatBytesExact(wide->arenaWithAllKept());
      if (!leaveInF32(nodesAbove(*narrow.step.planner, wide->arenaWithAllKept())))
        break;
    }
    return wide->take(
        given, {true, {}, flag() + "everything is stored and computed in f32, since " + why});
  }

private:
  Considered consider(const CompileOptions &considered) {
    std::vector<Diagnostic> said;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      const bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
      if (!isError)
        said.push_back(std::move(diagnostic));
      return success(!isError);
    });
    StepWithPlanner step = stepWithPlanner(context, considered, timer, planning);
    return {std::move(step), std::move(said)};
  }

  /// None where the device has no way to run that.
  std::optional<Considered> considerInF32() {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    try {
      return consider(inF32(options));
    } catch (const Error &error) {
      if (error.kind() != ErrorKind::BadInput)
        throw;
      return std::nullopt;
    }
  }

  /// The nodes of commands at which more than `limit` bytes are in use; where gaps between buffers are what is too
  /// much, those of the peak.
  static std::vector<std::string> nodesAbove(const BudgetPlanner &planner, Bytes limit) {
    const Plan plan = describePlan(*planner.keepAll().placed);
    limit = std::min(limit, plan.livePeakBytes - 1);
    std::vector<std::string> nodes;
    for (const GraphPlan &graph : plan.graphs) {
      std::vector<Bytes> live(graph.stepCount + 1, 0);
      live[0] = fullestBytes(plan, graph) - graph.livePeakBytes; // state of other graphs
      for (const PlannedBuffer &buffer : graph.buffers) {
        live[buffer.begin] += buffer.size;
        live[buffer.end] -= buffer.size;
      }
      std::partial_sum(live.begin(), live.end(), live.begin());
      for (auto [step, bytes] : llvm::zip_first(graph.steps, live))
        if (bytes > limit && step.phase != StepPhase::Update)
          nodes.push_back(llvm::StringRef(step.name).split(" of ").second.str());
    }
    return nodes;
  }

  /// False where all of them are already.
  bool leaveInF32(const std::vector<std::string> &nodes) {
    const size_t before = options.wide.nodes.size();
    for (const std::string &node : nodes)
      if (const std::string pattern = patternOf(node);
          !pattern.empty() && !llvm::is_contained(options.wide.nodes, pattern))
        options.wide.nodes.push_back(pattern);
    return options.wide.nodes.size() > before;
  }

  /// A pattern for --keep that one name matches.
  static std::string patternOf(llvm::StringRef node) {
    std::string pattern;
    for (const char c : node) {
      if (llvm::StringRef("*?[]{}\\").contains(c))
        pattern += '\\';
      pattern += c;
    }
    return pattern;
  }

  std::string flag() const {
    return options.precision == Precision::BF16 ? "--precision=bf16: " : "--precision=fp16: ";
  }

  /// "16 bits", and what makes them take much where they do.
  std::string sixteenBits() const {
    const bool waits = options.precision == Precision::F16 && options.lossScale != "delayed";
    return waits ? "16 bits, whose updates wait with --loss-scale=dynamic," : "16 bits";
  }

  MLIRContext &context;
  const CompileOptions &given;
  CompileOptions options; ///< of the step that is considered
  StageTimer &timer;
  const BudgetOptions &planning;
};

} // namespace

CompileOptions inF32(const CompileOptions &options) {
  CompileOptions wide = options;
  wide.precision = Precision::F32;
  wide.lossScale.clear();
  wide.keepWide.clear();
  wide.wide = {};
  return wide;
}

StepWithPlanner chooseStep(MLIRContext &context, const CompileOptions &options, StageTimer &timer,
                           const BudgetOptions &planning) {
  if (options.precision == Precision::F32)
    return stepWithPlanner(context, options, timer, planning);
  StepWithPlanner step = Choice(context, options, timer, planning).make();
  if (options.profile.empty())
    return step;
  const CompileOptions stored = step.options;
  return stepWithPlanner(context, stored, timer, planning);
}

CompileOptions asStored(MLIRContext &context, const CompileOptions &options) {
  if (options.precision == Precision::F32)
    return options;
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  StageTimer timer;
  return Choice(context, options, timer, {}).make().options;
}

std::optional<Bytes> smallestInF32(MLIRContext &context, const CompileOptions &options) {
  if (options.precision == Precision::F32 || options.wide.all)
    return std::nullopt;
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  try {
    StageTimer timer;
    return stepWithPlanner(context, inF32(options), timer).planner->smallest().arenaBytes;
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::BadInput)
      throw;
    return std::nullopt;
  }
}

} // namespace stow
