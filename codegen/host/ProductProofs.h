// Which products run in tiles: those whose tiles give the bits of the whole, as drawn numbers show.
//
// How a library sums follows from the shapes, the instructions in use and the threads, and is in no manual. So
// it is asked: the whole product and its tiles are computed once, when a step is planned, and compared bit by
// bit. The answer decides for all plans of the step, and each shape is asked about once.
#pragma once

#include "codegen/host/ProductTiles.h"

#include <map>
#include <mutex>

namespace stow::host {

/// Runs one call of the library in `arena`, where its operands and its workspace lie.
using RunCall = void (*)(const Command &call, char *arena, int64_t threads);
void runCall(const Command &call, char *arena, int64_t threads);

/// True where the parts give the bits of the whole, on drawn numbers.
bool givesTheSameBits(const ProductTrial &trial, int64_t threads, RunCall run);

class ProductProofs {
public:
  explicit ProductProofs(int64_t threads, RunCall run = runCall) : threads(threads), run(run) {}

  /// The form that the op runs in; none where it stays whole.
  std::optional<ProductForm> formOf(ProductMapOp op) const;

  /// What was found of the products that a step was asked about, for its plan. Empty: none was.
  std::string note() const;

private:
  struct Finding {
    bool isProven = false;
    int64_t rows = 0, ofRows = 0; ///< that were tried; 0: too large
  };
  const Finding &finding(ProductMapOp op, ProductForm form) const;

  int64_t threads;
  RunCall run;
  mutable std::mutex asking;
  mutable std::map<std::string, Finding> findings;
};

} // namespace stow::host
