// A target of a test: an H100 with exact products in f32, its libraries where the dynamic linker looks.
#pragma once

#include "codegen/cuda/CudaTarget.h"

namespace stow {

class H100 : public cuda::CudaTarget {
public:
  H100()
      : CudaTarget({cuda::requireChip("h100")}, cuda::F32Products::Exact, LibraryEpilogues::All,
                   "") {}
};

} // namespace stow
