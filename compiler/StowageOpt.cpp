// stowage-opt: runs any pass of the pipeline alone, for tests and for looking at the forms.
#include "compiler/Registration.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  stow::registerDialects(registry);
  stow::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Stowage pass driver\n", registry));
}
