#include "passes/precision/FrozenRules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace stow {

FailureOr<SmallVector<FrozenRule>> readFrozenRules(ModuleOp module, ArrayRef<std::string> texts) {
  MLIRContext *context = module.getContext();
  SmallVector<FrozenRule> rules;
  for (const std::string &text : texts) {
    auto [pattern, word] = StringRef(text).rsplit(':');
    if (word.empty())
      std::swap(pattern, word);
    auto glob = llvm::GlobPattern::create(pattern.empty() ? "*" : pattern);
    auto type = llvm::StringSwitch<FloatType>(word)
                    .Case("f32", Float32Type::get(context))
                    .Case("bf16", BFloat16Type::get(context))
                    .Case("f16", Float16Type::get(context))
                    .Default({});
    const std::optional<Quantization> scheme = quantizationNamed(word);
    if (!glob || (!type && !scheme && word != "auto")) {
      const std::string why = glob ? "expected auto, f32, bf16, f16, int8 or nf4 as its type"
                                   : llvm::toString(glob.takeError());
      return module.emitError() << "--frozen=" << text << ": " << why;
    }
    rules.push_back({std::move(*glob), text, type, scheme});
  }
  return rules;
}

const FrozenRule *ruleFor(StringRef name, ArrayRef<FrozenRule> rules) {
  const FrozenRule *last = nullptr;
  for (const FrozenRule &rule : rules)
    if (rule.pattern.match(name))
      last = &rule;
  return last;
}

llvm::MapVector<StringAttr, SmallVector<BlockArgument>> frozenParameters(ModuleOp module) {
  llvm::MapVector<StringAttr, SmallVector<BlockArgument>> parameters;
  for (auto graph : module.getOps<func::FuncOp>())
    for (BlockArgument argument : graph.getArguments()) {
      const unsigned index = argument.getArgNumber();
      // Whole numbers have a scheme of their own already.
      if (kindOfArgument(graph, index) == ArgumentKind::Frozen &&
          isa<FloatType>(tensorType(argument).getElementType()))
        parameters[graph.getArgAttrOfType<StringAttr>(index, kNameAttr)].push_back(argument);
    }
  return parameters;
}

} // namespace stow
