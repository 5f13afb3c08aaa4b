#include "compiler/import/Import.h"

#include "compiler/import/ExportCheck.h"
#include "compiler/import/GraphImport.h"

#include "mlir/IR/Verifier.h"

#include <filesystem>

using namespace mlir;

namespace stow {
namespace onnx {

const RuleTable &allRules() {
  static const RuleTable table = [] {
    RuleTable rules;
    addElementwiseRules(rules);
    addIndexRules(rules);
    addLinearRules(rules);
    addNormRules(rules);
    addReduceRules(rules);
    addShapeRules(rules);
    addWindowRules(rules);
    return rules;
  }();
  return table;
}

const OpRule *ruleOf(const std::string &type) {
  auto found = allRules().find(type);
  return found == allRules().end() ? nullptr : &found->second;
}

} // namespace onnx

OwningOpRef<ModuleOp> importOnnx(MLIRContext &context, const std::string &path,
                                 const ImportOptions &options, ImportReport *report) {
  context.loadDialect<StowDialect, func::FuncDialect>();
  Location location =
      FileLineColLoc::get(&context, std::filesystem::path(path).filename().string(), 0, 0);
  OwningOpRef<ModuleOp> module;
  try {
    if (options.batch && (*options.batch < 1 || *options.batch > (int64_t(1) << 31)))
      throw Error::badInput("batch size " + std::to_string(*options.batch) +
                            "; expected a positive number");
    onnx::Model model = onnx::load(path);
    onnx::restoreMerged(model);
    onnx::GraphImport import(context, model, options);
    onnx::ExportFindings findings = onnx::checkExport(model, import.tensorRoles());
    if (!findings.changes.empty() && !options.allowFolded)
      throw Error::badInput(onnx::describeChanges(findings, path));
    for (const std::string &warning : findings.warnings)
      mlir::emitWarning(location) << warning;
    module = import.run();
    if (report)
      *report = import.takeReport(findings);
  } catch (const Error &error) {
    mlir::emitError(location) << error.what();
    return nullptr;
  }
  if (module && failed(verify(*module)))
    return nullptr;
  return module;
}

} // namespace stow
