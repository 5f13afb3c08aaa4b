// Trigonometric functions of terms, on scalars and vectors alike.
#pragma once

#include "ir/bodies/Term.h"

namespace stow {

/// sin(x) and cos(x). Computed in double whatever x is, after taking off the nearest multiple of
/// pi / 2 (held in three doubles: Cody and Waite 1980), by the polynomials of fdlibm (Sun
/// Microsystems 1993). In float within one unit in the last place; in double within two below 2^50,
/// beyond which whole turns are finer than x.
Term sine(Term x);
Term cosine(Term x);

/// arctan(x), by fdlibm's reduction to five intervals; computed in double.
Term arcTangent(Term x);

/// The angle of the point (x, y), as C's atan2(y, x), infinities and the signs of zeros included; computed in double.
Term angle(Term y, Term x);

} // namespace stow
