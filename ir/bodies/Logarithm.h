// The natural logarithm of terms, on scalars and vectors alike.
#pragma once

#include "ir/bodies/Term.h"

namespace stow {

/// ln(x), of floats below the least normal number as well.
Term logarithm(Term x);

} // namespace stow
