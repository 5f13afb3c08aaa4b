#include "passes/autodiff/ParameterGroups.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowShapeOps.h"
#include "passes/autodiff/Graph.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace stow {
namespace {

/// True when a normalization reads `value`, or a product has it as a factor, views included.
bool scalesOrNormalizes(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    if (isa<BatchNormOp, LayerNormOp, MulOp>(user) ||
        user->getName().stripDialect().contains("norm"))
      return true;
    return isa<ReshapeOp, BroadcastToOp, CastOp>(user) && scalesOrNormalizes(user->getResult(0));
  });
}

/// "norm" or "bias", or "" for a parameter of rank 2 or more, or none.
StringRef kindOfParameter(BlockArgument argument) {
  if (!argument || cast<RankedTensorType>(argument.getType()).getRank() > 1)
    return "";
  return scalesOrNormalizes(argument) ? "norm" : "bias";
}

LogicalResult checkKinds(ModuleOp module, ArrayRef<std::string> kinds) {
  for (const std::string &kind : kinds)
    if (kind != "norm" && kind != "bias")
      return module.emitError() << "no-decay: unknown kind of parameters \"" << kind
                                << "\"; known are norm, bias";
  return success();
}

} // namespace

FailureOr<SmallVector<ParameterGroup>> assignGroups(ModuleOp module, ArrayRef<StringRef> names,
                                                    ArrayRef<ParameterGroup> rules,
                                                    ArrayRef<std::string> noDecay,
                                                    double weightDecay) {
  if (failed(checkKinds(module, noDecay)))
    return failure();
  SmallVector<llvm::GlobPattern> globs;
  for (const ParameterGroup &rule : rules) {
    // A list of names in braces may hold every parameter of a model.
    constexpr size_t kMostAlternatives = 1 << 20;
    auto glob = llvm::GlobPattern::create(rule.pattern, kMostAlternatives);
    if (!glob) {
      return module.emitError() << "group \"" << rule.pattern
                                << "\" is no pattern: " << llvm::toString(glob.takeError());
    }
    globs.push_back(std::move(*glob));
  }
  SmallVector<bool> used(rules.size(), false);
  llvm::StringSet<> usedKinds;
  SmallVector<ParameterGroup> groups;
  auto eval = findGraph(module, Role::Eval); // where normalizations are still ops of their own
  const auto parameters = eval ? argumentsByName(eval) : llvm::StringMap<BlockArgument>();
  for (StringRef name : names) {
    ParameterGroup group;
    auto match = llvm::find_if(globs, [&](const auto &glob) { return glob.match(name); });
    if (match != globs.end()) {
      group = rules[match - globs.begin()];
      used[match - globs.begin()] = true;
    }
    StringRef kind = kindOfParameter(parameters.lookup(name));
    if (llvm::is_contained(noDecay, kind)) {
      usedKinds.insert(kind);
      if (!group.weightDecay) {
        group.weightDecay = 0;
        group.pattern += (group.pattern.empty() ? "no-decay " : ", no-decay ") + kind.str();
      }
    }
    if (!group.weightDecay)
      group.weightDecay = weightDecay;
    groups.push_back(group);
  }
  for (auto [rule, isUsed] : llvm::zip_equal(rules, used))
    if (!isUsed)
      return module.emitError() << "group \"" << rule.pattern
                                << "\" has no parameter: none that is trained matches, or earlier "
                                   "groups have them all";
  for (const std::string &kind : noDecay)
    if (!usedKinds.contains(kind))
      return module.emitError() << "no-decay: no parameter is a " << kind;
  return groups;
}

SmallVector<std::string> describeGroups(ModuleOp module, ArrayRef<StringRef> names,
                                        ArrayRef<ParameterGroup> groups) {
  struct Members {
    ParameterGroup group;
    int64_t elements = 0;
    SmallVector<StringRef> names;
  };
  const auto parameters = argumentsByName(findGraph(module, Role::Train));
  llvm::MapVector<StringRef, Members> byPattern;
  for (auto [name, group] : llvm::zip_equal(names, groups)) {
    Members &members = byPattern[group.pattern];
    members.group = group;
    members.names.push_back(name);
    members.elements += cast<RankedTensorType>(parameters.lookup(name).getType()).getNumElements();
  }
  SmallVector<std::string> lines;
  if (byPattern.size() == 1 && byPattern.front().first.empty())
    return lines;
  constexpr size_t kShown = 6;
  for (auto &[pattern, members] : byPattern) {
    std::string line =
        llvm::formatv("group {0}: weight decay {1}, learning rate x {2}, {3} parameters with {4:n} "
                      "elements: ",
                      pattern.empty() ? "of the others" : "\"" + pattern.str() + "\"",
                      shortText(*members.group.weightDecay), shortText(members.group.rateScale),
                      members.names.size(), members.elements);
    size_t shown = std::min(members.names.size(), kShown);
    for (size_t i = 0; i < shown; ++i)
      line += (i ? ", " : "") + members.names[i].str();
    if (shown < members.names.size())
      line += ", ...";
    lines.push_back(line);
  }
  return lines;
}

} // namespace stow
