// A product that tests of its loops multiply, with its numbers.
#pragma once

#include "runtime/host/loops/PanelProduct.h"
#include "tests/runtime/host/Draw.h"

#include <ostream>
#include <vector>

namespace stow::host::test {

struct ProductCase {
  PanelProduct product;
  bool hasBias = false;
  Becomes becomes = Becomes::Result;
};

inline std::ostream &operator<<(std::ostream &out, const ProductCase &c) {
  const PanelProduct &p = c.product;
  return out << p.count << " of " << p.rows << "x" << p.columns << "x" << p.depth << ", transposed "
             << p.isLeftTransposed << p.isRightTransposed << ", bias " << c.hasBias << ", added "
             << (c.becomes == Becomes::Added);
}

/// What a case multiplies, adds and overwrites, drawn.
struct ProductNumbers {
  explicit ProductNumbers(const ProductCase &c)
      : left(draw(c.product.count * c.product.rows * c.product.depth, 1)),
        right(draw(c.product.count * c.product.columns * c.product.depth, 2)),
        bias(draw(c.product.columns, 3)),
        there(draw(c.product.count * c.product.rows * c.product.columns, 4)),
        biasOrNull(c.hasBias ? bias.data() : nullptr) {}
  ProductNumbers(const ProductNumbers &) = delete;
  ProductNumbers &operator=(const ProductNumbers &) = delete;

  const std::vector<float> left, right, bias, there;
  const float *biasOrNull;
};

/// An element of the case's result in double.
inline double elementOf(const ProductCase &c, const ProductNumbers &numbers, int64_t number,
                        int64_t row, int64_t column) {
  const PanelProduct &p = c.product;
  const float *a = numbers.left.data() + number * p.rows * p.depth,
              *b = numbers.right.data() + number * p.columns * p.depth;
  double sum = c.hasBias ? numbers.bias[static_cast<size_t>(column)] : 0;
  if (c.becomes == Becomes::Added)
    sum += numbers.there[static_cast<size_t>((number * p.rows + row) * p.columns + column)];
  for (int64_t k = 0; k < p.depth; ++k)
    sum += static_cast<double>(p.isLeftTransposed ? a[k * p.rows + row] : a[row * p.depth + k]) *
           (p.isRightTransposed ? b[column * p.depth + k] : b[k * p.columns + column]);
  return sum;
}

} // namespace stow::host::test
