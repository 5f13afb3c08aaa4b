// Random words of terms; runtime/base/Philox.h is the same function on integers.
#pragma once

#include "ir/bodies/Term.h"

#include <array>

namespace stow {

/// The words of Philox4x32-10 at counter (index, stream) under the key `seed`: i32. `index` is of i64,
/// `seed` of any integers, which are signed.
std::array<Term, 4> philoxWords(Term index, Term seed, uint64_t stream);

/// word < limit, unsigned.
Term isBelow(Term word, uint64_t limit);

} // namespace stow
