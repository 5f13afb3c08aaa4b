#include "codegen/host/HostTarget.h"

#include "codegen/host/LibraryCommand.h"
#include "codegen/kernels/Kernels.h"
#include "runtime/base/Error.h"
#include "runtime/host/Library.h"

using namespace mlir;

namespace stow::host {

FailureOr<Target::Requirements> HostTarget::query(LibraryOpInterface op,
                                                  ArrayRef<bool> freeLayouts) const {
  Command command = libraryCommand(op);
  std::vector<bool> anyLayout(freeLayouts.begin(), freeLayouts.end());
  try {
    LibraryRequirements answer = queryLibrary(command, anyLayout, threads);
    for (auto [bytes, operand] : llvm::zip(answer.opaqueBytes, command.operands))
      if (bytes > 0 && bytes != storedBytes(operand.layout, operand.shape, operand.dtype))
        return op->emitError() << "the library wants " << bytes << " bytes for an operand planned "
                               << "with " << operand.shape[0];
    Requirements requirements;
    requirements.workspaceBytes = answer.workspaceBytes;
    requirements.heapBytes = answer.heapBytes;
    requirements.implementation = answer.implementation;
    requirements.isReference = answer.reference;
    requirements.layouts.assign(answer.layouts.begin(), answer.layouts.end());
    return requirements;
  } catch (const Error &error) {
    return op->emitError() << error.what();
  }
}

bool HostTarget::prefersKernel(Operation *op) const { return isDepthwise(op); }

} // namespace stow::host
