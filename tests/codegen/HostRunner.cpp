#include "codegen/host/LoadedObject.h"
#include "tests/codegen/KernelRunner.h"

#include <optional>
#include <stdexcept>

namespace stow {
namespace {

class HostRunner final : public KernelRunner {
public:
  HostRunner(mlir::MLIRContext *context, const std::string &cpu) : kernels(context), cpu(cpu) {}

  KernelInfo add(mlir::Operation *op) override {
    auto info = kernels.add(op);
    if (failed(info))
      throw std::runtime_error("the kernel cannot be emitted");
    infos.push_back(*info);
    return *info;
  }

  void compile() override { loaded.emplace(kernels, HostCpu{cpu}); }

  void run(size_t op, int64_t begin, int64_t end, const std::vector<char *> &arguments) override {
    loaded->kernels()[infos.at(op).index](begin, end, arguments.data());
  }

private:
  KernelModule kernels;
  std::string cpu;
  std::vector<KernelInfo> infos;
  std::optional<LoadedObject> loaded;
};

} // namespace

std::unique_ptr<KernelRunner> makeKernelRunner(mlir::MLIRContext *context, const std::string &cpu) {
  return std::make_unique<HostRunner>(context, cpu);
}

} // namespace stow
