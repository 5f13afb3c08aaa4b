// A backend that plans and builds nothing: the host's, with the answers of a target of a test.
#pragma once

#include "codegen/Backend.h"
#include "runtime/host/Outside.h"

namespace stow {

template <typename AnyTarget> class PlanningBackend : public Backend {
public:
  const Target &target() const override { return answers; }
  std::string dataSheet() const override { return "cpu"; }
  OutsideArena outsideArena() const override {
    return {host::kProcessBytes, "", host::kBytesPerCall};
  }
  OutsideArena outsideOfRanks() const override { return {0, ""}; }
  std::string processor() const override { return "none"; }
  mlir::FailureOr<BuiltProgram> build(mlir::ModuleOp) const override { return mlir::failure(); }
  mlir::FailureOr<LinkInput> writeObjects(BuiltProgram &, ProgramForm, const std::string &,
                                          const TemporaryFolder &) const override {
    return mlir::failure();
  }
  std::unique_ptr<LoadedCode> load(BuiltProgram &) const override { return nullptr; }

private:
  AnyTarget answers;
};

} // namespace stow
