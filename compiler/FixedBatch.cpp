#include "compiler/FixedBatch.h"

#include "compiler/Pipeline.h"
#include "ir/Graphs.h"
#include "ir/Stow.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow {
namespace {

/// The model at a batch, or as it is; what was said instead is added to `said`.
OwningOpRef<ModuleOp> modelAt(MLIRContext &context, const CompileOptions &options,
                              std::optional<int64_t> batch, std::string &said) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      said += "\n    " + diagnostic.str();
    return success();
  });
  ImportOptions sized = options.import;
  sized.batch = batch;
  ImportReport tensors;
  try {
    return loadModel(context, options.modelPath, sized, tensors);
  } catch (const Error &) { // its diagnostics say why
    return nullptr;
  }
}

/// Samples in the first input; 0 where it has no dimension.
int64_t batchOf(ModuleOp module) {
  auto graph = findGraph(module, Role::Model);
  for (unsigned i = 0; graph && i < graph.getNumArguments(); ++i) {
    auto type = dyn_cast<RankedTensorType>(graph.getArgument(i).getType());
    if (kindOfArgument(graph, i) == ArgumentKind::Input && type && type.getRank() > 0)
      return type.getDimSize(0);
  }
  return 0;
}

} // namespace

int64_t batchOfFile(MLIRContext &context, const CompileOptions &options) {
  std::string unused;
  const OwningOpRef<ModuleOp> model = modelAt(context, options, std::nullopt, unused);
  return model ? batchOf(*model) : 0;
}

std::optional<FixedBatch> findFixedBatch(MLIRContext &context, const CompileOptions &options) {
  std::string unused;
  const OwningOpRef<ModuleOp> asItIs = modelAt(context, options, std::nullopt, unused);
  if (!asItIs) // its batch is symbolic, or whoever imports it next says what is wrong
    return std::nullopt;
  const int64_t batch = batchOf(*asItIs);
  if (!options.modelPath.ends_with(".onnx"))
    return FixedBatch{batch,
                      "the shapes of an .mlir model are its own; take the .onnx file that it "
                      "comes from, or write it for each batch"};
  std::string said;
  if (modelAt(context, options, batch + 1, said))
    return std::nullopt;
  return FixedBatch{batch,
                    absl::StrCat("at a batch of ", batch + 1, " the file does not import:", said)};
}

} // namespace stow
