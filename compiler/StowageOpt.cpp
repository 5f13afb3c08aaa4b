// stowage-opt: runs any pass of the pipeline alone, for tests and for looking at the forms.
#include "codegen/Backend.h"
#include "compiler/Registration.h"
#include "runtime/base/Error.h"
#include "runtime/base/Version.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <vector>

namespace {

/// The device of `--target=NAME`, which is taken out of the arguments; the host without that. On one thread, so that tests do not
/// depend on the machine's number of cores. Throws Error for an unknown name.
std::unique_ptr<stow::Backend> takeBackend(std::vector<char *> &arguments) {
  stow::BackendOptions options;
  std::erase_if(arguments, [&](llvm::StringRef argument) {
    const bool isTarget = argument.consume_front("--target=");
    if (isTarget)
      options.target = argument.str();
    return isTarget;
  });
  return stow::createBackend(options);
}

} // namespace

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "stowage-opt " << stow::version() << "\n"; });
  std::vector<char *> arguments(argv, argv + argc);
  std::unique_ptr<stow::Backend> backend;
  try {
    backend = takeBackend(arguments);
  } catch (const stow::Error &error) {
    llvm::errs() << "error: " << error.what() << "\n";
    return 1;
  }
  mlir::DialectRegistry registry;
  stow::registerDialects(registry);
  stow::registerPasses(backend->target());
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      static_cast<int>(arguments.size()), arguments.data(),
      "Stowage pass driver; with --target=NAME passes ask that device, without it the host\n",
      registry));
}
