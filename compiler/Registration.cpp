#include "compiler/Registration.h"

#include "codegen/Backend.h"
#include "compiler/ProgressLine.h"
#include "ir/Stow.h"
#include "passes/autodiff/Passes.h"
#include "passes/expand/Passes.h"
#include "passes/fission/Passes.h"
#include "passes/fuse/Passes.h"
#include "passes/layout/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/microbatch/Passes.h"
#include "passes/order/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/rewrite/Passes.h"
#include "passes/verify/Passes.h"
#include "runtime/format/PrintableText.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

using namespace mlir;

namespace {

/// "node '/conv1/Conv': " for what was imported, "model.mlir:3:7: " for text, nothing for the whole
/// file or where `text` names the node itself.
std::string placeOf(Location location, const std::string &text) {
  if (auto name = location->findInstanceOf<NameLoc>()) {
    const std::string quoted = "'" + name.getName().str() + "'";
    return text.find(quoted) == std::string::npos ? "node " + quoted + ": " : "";
  }
  auto file = location->findInstanceOf<FileLineColLoc>();
  if (!file || file.getLine() == 0)
    return "";
  return absl::StrCat(file.getFilename().str(), ":", file.getLine(), ":", file.getColumn(), ": ");
}

/// The lines of `text` as a terminal may be given them: names come out of files.
std::string printableLines(const std::string &text) {
  return absl::StrJoin(absl::StrSplit(text, '\n'), "\n",
                       [](std::string *out, absl::string_view line) {
                         out->append(stow::printableText({line.data(), line.size()}, line.size()));
                       });
}

/// Prints as every failure is printed: "error: ", the place, the text.
void printDiagnostic(Diagnostic &diagnostic) {
  StringRef severity = diagnostic.getSeverity() == DiagnosticSeverity::Error     ? "error"
                       : diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning"
                       : diagnostic.getSeverity() == DiagnosticSeverity::Remark  ? "remark"
                                                                                 : "note";
  const std::string text = diagnostic.str();
  llvm::errs() << severity << ": " << printableLines(placeOf(diagnostic.getLocation(), text) + text)
               << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    printDiagnostic(note);
}

} // namespace

void stow::registerDialects(DialectRegistry &registry) {
  registry
      .insert<stow::StowDialect, arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
              math::MathDialect, memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBackendDialects(registry);
}

void stow::registerPasses(const Target &target) {
  registerTransformsPasses();
  registerAutodiffPasses();
  registerStowFissionPasses();
  registerRewritePasses();
  registerMicrobatchPasses();
  registerFusePasses();
  registerPrecisionPasses();
  registerStowOrderPasses();
  registerMemoryPasses();
  registerVerifyPasses();
  registerBackendPasses();
  // Passes that ask a target.
  for (const auto create :
       {createTileAttentionPass, createExpandBatchNormPass, createConvolutionBiasPass,
        createBatchProductsPass, createAssignLayoutsPass, createPadLogitsPass,
        createFuseProductConsumersPass, createHoistScalarsPass, createJoinSmallMapsPass,
        createReadCodesPass, createFuseNormPoolPass, createSplitBatchNormPass,
        createFuseEpiloguesPass, createPlanWorkspacesPass, createFuseBiasGradientPass})
    registerPass([create, &target] { return create(target); });
  registerPass([&target] { return createSplitTrainEvalPass(target); });
  registerPass([&target] { return createAssignPrecisionPass(target); });
  registerPass([&target] { return createPlaceInsidePass(target); });
}

void stow::prepareContext(MLIRContext &context) {
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  context.disableMultithreading();
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    hideProgress();
    printDiagnostic(diagnostic);
    return success();
  });
}
