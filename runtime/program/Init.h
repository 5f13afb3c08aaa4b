// First values of state tensors.
//
// Random values come from Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
// 3", SC 2011), a counter-based generator: element i of a tensor depends on the run's seed, the
// tensor's name and i alone. Neither the thread count, nor the layout, nor other tensors change it.
// Logarithm and sine are computed here from IEEE additions, multiplications and divisions, so that
// every machine and C library gives the same bits.
#pragma once

#include "runtime/format/Program.h"

#include <cstdint>
#include <string_view>

namespace stow {

/// The key of a tensor: a mix of the run's seed and a hash of the name.
uint64_t tensorKey(uint64_t seed, std::string_view name);

/// Values of the row-major elements [begin, begin + count) of a tensor whose Init is Constant,
/// Uniform (in [a, b)) or Normal (mean a, standard deviation b, by Box and Muller). `begin` is
/// even.
void initialValues(const Init &init, uint64_t key, int64_t begin, int64_t count, double *values);

/// Converts values to stored elements: floating types round to nearest even, integers truncate.
void encodeValues(DType type, const double *values, int64_t count, void *elements);

} // namespace stow
