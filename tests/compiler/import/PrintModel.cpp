// import-print model.onnx [--batch=N] [--input=NAME] [--parameter=GLOB] [--init=RULE] [--freeze=GLOB]
//              [--momentum=M] [--allow-folded] [--elide] [--locations] [--quiet]
// Imports a model and prints its model form; --elide leaves large weights out, --quiet all of it
// (for timing).
#include "compiler/import/Import.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"

int main(int count, char **values) {
  stow::ImportOptions options;
  std::string path;
  bool elide = false, locations = false, quiet = false;
  for (int i = 1; i < count; ++i) {
    llvm::StringRef text = values[i];
    int64_t number;
    double momentum;
    if (text.consume_front("--batch=") && !text.getAsInteger(10, number))
      options.batch = number;
    else if (text.consume_front("--input="))
      options.dataInputs.push_back(text.str());
    else if (text.consume_front("--parameter="))
      options.parameters.push_back(text.str());
    else if (text.consume_front("--init="))
      options.init = text.str();
    else if (text.consume_front("--freeze="))
      options.frozen.push_back(text.str());
    else if (text.consume_front("--momentum=") && !text.getAsDouble(momentum))
      options.batchNormMomentum = momentum;
    else if (text == "--allow-folded")
      options.allowFolded = true;
    else if (text == "--elide")
      elide = true;
    else if (text == "--quiet")
      quiet = true;
    else if (text == "--locations")
      locations = true;
    else
      path = text.str();
  }
  mlir::MLIRContext context;
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = stow::importOnnx(context, path, options);
  if (!module)
    return 1;
  if (quiet)
    return 0;
  mlir::OpPrintingFlags flags;
  if (elide)
    flags.elideLargeElementsAttrs(16).elideLargeResourceString(16);
  module->print(llvm::outs(), flags.enableDebugInfo(locations, /*prettyForm=*/false));
  return 0;
}
