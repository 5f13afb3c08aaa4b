// stowage-opt: runs any pass of the pipeline alone, for tests and for looking at the forms.
#include "compiler/Registration.h"
#include "runtime/base/Version.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "stowage-opt " << stow::version() << "\n"; });
  mlir::DialectRegistry registry;
  stow::registerDialects(registry);
  stow::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Stowage pass driver\n", registry));
}
