// Matrix products with a short dimension, in loops of our own that run at the speed of memory.
//
// A product of a few rows with a large matrix, or of a few contracted elements whose sum is large, does few
// operations on each element of what is large: it can take no less time than reading that from memory, and the
// loops take little more. They walk along its rows as it lies, copy none of it, and ask for the rows
// to come while they multiply those at hand:
//
//   few rows                    few rows, transposed          few contracted elements
//
//              b |======|                 b |======|                   b |------|
//                |======|                   |======|
//   a |----|     |======|       a |------|  |======|          a |        |======|
//   c |------|                  c |----|                        |      c |======|
//
//   a vector has columns of b   a vector has all rows of a    a vector has columns of c
//
// Sums run over the contracted dimension in blocks, which are added up in order, as panels do
// (PanelProduct.h): no element depends on the number of threads. Nothing needs scratch beyond the stack.
#pragma once

#include "runtime/host/loops/PanelProduct.h"

namespace stow::host {

/// True for the products that the loops are for, which is decided by their sizes alone.
bool isSkinny(const PanelProduct &product);

/// True for products that the loops add to a large matrix in less time than panels, with the same bits: up to
/// four times as many contracted elements.
bool addsByRows(const PanelProduct &product);

/// As multiplyPanels(), for products of either kind.
void multiplySkinny(const PanelProduct &product, const float *left, const float *right,
                    const float *bias, float *result, Becomes becomes, int64_t threads);

} // namespace stow::host
