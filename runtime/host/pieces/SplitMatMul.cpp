// Matrix products split in every dimension.
//
// A tile takes some of the leading dimensions, rows, columns and of the contracted dimension. Of
// the tiles whose f32 copies stay within the target the one is chosen that moves least: conversions
// of a and b, which are repeated when the tiles between them evict a copy, and what every product
// reads and writes. Tiles of the contracted dimension add to the result, which stays in f32 until
// the last of them.
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/host/Float16.h"
#include "runtime/host/pieces/Pieces.h"

#include <algorithm>

namespace stow::host {
namespace {

/// One size per leading dimension, then rows, columns and the contracted dimension. The operands
/// see these through the positions that they store them at.
struct Product {
  explicit Product(const Command &whole) : whole(whole), last(whole.operands.size() - 1) {
    auto flag = [&](const char *name) {
      auto found = whole.ints.find(name);
      return found != whole.ints.end() && found->second.at(0) != 0;
    };
    const Shape &result = whole.operands[last].shape, &a = whole.operands[0].shape;
    transposed[0] = flag("transpose_a");
    transposed[1] = flag("transpose_b");
    full.assign(result.begin(), result.end());
    full.push_back(a[a.size() - (transposed[0] ? 2 : 1)]);
    lead = result.size() - 2;
  }

  size_t rows() const { return lead; }
  size_t columns() const { return lead + 1; }
  size_t depth() const { return lead + 2; }

  /// For each stored dimension of an operand the position in `full`; none: repeated.
  std::vector<std::optional<size_t>> dimsOf(size_t operand) const {
    const Shape &shape = whole.operands[operand].shape;
    if (operand != 0 && operand != 1 && operand != last)
      return {columns()}; // the bias
    size_t first = operand == 1 ? depth() : rows(), second = operand == 0 ? depth() : columns();
    if (operand < 2 && transposed[operand])
      std::swap(first, second);
    std::vector<std::optional<size_t>> dims;
    for (size_t i = 0; i + 2 < shape.size(); ++i)
      dims.push_back(shape[i] == 1 ? std::nullopt : std::optional(lead + 2 - shape.size() + i));
    dims.insert(dims.end(), {first, second});
    return dims;
  }

  const Command &whole;
  size_t last, lead;
  bool transposed[2];
  std::vector<int64_t> full;
};

Shape select(const Product &product, size_t operand, const std::vector<int64_t> &values,
             int64_t repeated) {
  Shape result;
  for (std::optional<size_t> dim : product.dimsOf(operand))
    result.push_back(dim ? values[*dim] : repeated);
  return result;
}

int64_t tilesOf(int64_t full, int64_t tile) { return (full + tile - 1) / tile; }

/// How much longer a product of a tile takes than one of good shape. The library (2.6, AVX2) walks
/// operands of products with few rows or columns as they lie, and where the contracted dimension
/// strides by a multiple of 2 KiB, what it walks over falls into the same few lines of the cache:
/// 64 GFlop/s instead of 90 were measured for 2 KiB, 44 for 4 KiB.
double slowness(const Product &product, const std::vector<int64_t> &tile) {
  const int64_t rows = tile[product.rows()], columns = tile[product.columns()];
  if (std::min(rows, columns) > 300 && rows * columns > 370000)
    return 1; // it packs them first
  double most = 1;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Operand &operand = product.whole.operands[i];
    const bool packed = is16Bit(operand.dtype);
    const std::vector<std::optional<size_t>> dims = product.dimsOf(i);
    const auto depth =
        static_cast<size_t>(std::ranges::find(dims, std::optional(product.depth())) - dims.begin());
    const int64_t stride =
        packed ? outerStrides(packedLayout(operand), select(product, i, tile, 1))[depth]
               : outerStrides(operand.layout, operand.shape)[depth];
    most = std::max(most, stride % 1024 == 0 ? 2.05 : stride % 512 == 0 ? 1.4 : 1.0);
  }
  return most;
}

/// What a tile takes, in f32 bytes of the workspace, and what the product moves with it, in
/// elements.
struct Price {
  Bytes scratch = 0;
  double moved = 0;
};

/// None where an operand cannot be split so.
std::optional<Price> priceOf(const Product &product, const std::vector<int64_t> &tile) {
  const Command &whole = product.whole;
  int64_t leadTiles = 1, bLeadTiles = 1;
  std::vector<std::optional<size_t>> bDims = product.dimsOf(1);
  for (size_t i = 0; i < product.lead; ++i) {
    int64_t tiles = tilesOf(product.full[i], tile[i]);
    leadTiles *= tiles;
    if (std::ranges::find(bDims, std::optional(i)) != bDims.end())
      bLeadTiles *= tiles;
  }
  auto tiles = [&](size_t dim) { return tilesOf(product.full[dim], tile[dim]); };
  const int64_t rows = tiles(product.rows()), columns = tiles(product.columns()),
                depth = tiles(product.depth());
  const int64_t steps = leadTiles * rows * columns * depth;
  Price price;
  for (size_t i = 0; i < whole.operands.size(); ++i) {
    const Operand &operand = whole.operands[i];
    const Shape sizes = select(product, i, tile, 1);
    const bool isSplit = sizes != operand.shape, converted = is16Bit(operand.dtype);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] != operand.shape[d] && !isSplittable(operand.layout, d))
        return std::nullopt;
    if (isSplit && !converted && !layoutInPlace(operand, sizes))
      return std::nullopt;
    const auto elements = static_cast<double>(elementCount(sizes));
    int64_t conversions = leadTiles * rows * columns; // the result's
    if (i == 0)
      conversions = leadTiles * rows * depth == 1 ? 1 : steps;
    else if (i == 1)
      conversions = depth > 1 ? steps : columns * bLeadTiles;
    if (converted) {
      price.scratch += alignUp(storedBytes(packedLayout(operand), sizes, DType::F32), 64);
      price.moved += elements * static_cast<double>(conversions);
    }
    price.moved += elements * static_cast<double>(steps) / (i == product.last ? 1 : 2);
  }
  constexpr double start = 20000; // a product of its own costs as much as moving this many
  price.moved += start * static_cast<double>(steps);
  double products = static_cast<double>(steps);
  for (int64_t size : tile)
    products *= static_cast<double>(size);
  constexpr double perElement = 16; // multiplications in the time that moving an element takes
  price.moved += (slowness(product, tile) - 1) * products / perElement;
  return price;
}

/// The sizes worth trying for a dimension: the whole, halves, quarters, ... in multiples of 16.
std::vector<int64_t> sizesOf(int64_t full) {
  std::vector<int64_t> sizes = {full};
  for (int64_t parts = 2; sizes.back() >= 64; parts *= 2) {
    int64_t size = alignUp((full + parts - 1) / parts, 16);
    if (size < sizes.back())
      sizes.push_back(size);
  }
  return sizes;
}

/// Leading dimensions are taken whole from the inside: {1, .., 1, some, all, .., all}.
std::vector<std::vector<int64_t>> leadsOf(const Product &product) {
  std::vector<int64_t> sizes(product.full.begin(), product.full.begin() + product.lead);
  std::vector<std::vector<int64_t>> leads = {sizes};
  for (size_t i = 0; i < product.lead; ++i)
    while (sizes[i] > 1) {
      sizes[i] = (sizes[i] + 1) / 2;
      leads.push_back(sizes);
    }
  return leads;
}

struct Tile {
  std::vector<int64_t> sizes;
  Price price;
};

/// True for a product that is added to what is there: its sums have to be whole before that.
bool addsWhole(const Product &product) { return product.whole.op == CommandOp::DnnlMatmulAdd; }

/// The tile that moves least within the target, or that takes least.
Tile chooseTile(const Product &product, Bytes target) {
  Tile best = {product.full, *priceOf(product, product.full)};
  for (const std::vector<int64_t> &lead : leadsOf(product))
    for (int64_t rows : sizesOf(product.full[product.rows()]))
      for (int64_t columns : sizesOf(product.full[product.columns()]))
        for (int64_t depth : sizesOf(product.full[product.depth()])) {
          if (addsWhole(product) && depth != product.full[product.depth()])
            continue;
          std::vector<int64_t> tile = lead;
          tile.insert(tile.end(), {rows, columns, depth});
          std::optional<Price> price = priceOf(product, tile);
          if (!price)
            continue;
          const Bytes scratch = std::max(price->scratch, target),
                      least = std::max(best.price.scratch, target);
          if (scratch < least || (scratch == least && price->moved < best.price.moved))
            best = {tile, *price};
        }
  return best;
}

/// The tile that the command states; else the best one. A little more than the target is taken where
/// that spares half of the work or more.
std::vector<int64_t> chooseTile(const Product &product) {
  if (auto piece = product.whole.ints.find("piece"); piece != product.whole.ints.end()) {
    if (piece->second.size() != product.full.size() ||
        std::ranges::any_of(piece->second, [](int64_t size) { return size <= 0; }))
      throw Error::badInput(concat(callTitle(product.whole), ": piece must have ",
                                   product.full.size(), " sizes above 0"));
    std::vector<int64_t> tile = piece->second;
    for (size_t i = 0; i < tile.size(); ++i)
      tile[i] = std::min(tile[i], product.full[i]);
    return tile;
  }
  const Bytes target = piecesTarget(product.whole);
  const Tile tight = chooseTile(product, target), loose = chooseTile(product, target / 3 * 4);
  return 2 * loose.price.moved < tight.price.moved ? loose.sizes : tight.sizes;
}

/// The command of a tile of `sizes`; `first`: of those along the contracted dimension.
size_t commandOf(Split &split, const Product &product, const std::vector<int64_t> &sizes,
                 bool first, PrepareFn prepare) {
  for (size_t i = 0; i < split.commands.size(); ++i)
    if (split.commands[i].sizes == sizes && split.commands[i].adds == !first)
      return i;
  const Command &whole = product.whole;
  PieceCommand piece{whole, {}, first ? prepare : prepareMatMulAdding, sizes, !first};
  piece.command.operands.clear();
  for (size_t i = 0; i < whole.operands.size(); ++i) {
    const bool isBias = i == 2 && product.last == 3;
    if (isBias && !first)
      continue;
    Operand &operand = piece.command.operands.emplace_back(whole.operands[i]);
    operand.shape = select(product, i, sizes, 1);
    piece.operands.push_back(i);
  }
  piece.command.ints["has_bias"] = {piece.operands.size() == 4};
  split.commands.push_back(std::move(piece));
  return split.commands.size() - 1;
}

/// A call that sees its operands with other dimensions than they have is not split.
Split uncut(const Command &whole, PrepareFn prepare) {
  Split split;
  PieceCommand &piece = split.commands.emplace_back(PieceCommand{whole, {}, prepare, {}});
  PieceStep &step = split.steps.emplace_back();
  for (size_t i = 0; i < whole.operands.size(); ++i) {
    const Operand &operand = whole.operands[i];
    piece.operands.push_back(i);
    step.boxes.push_back(boxOf(operand, Shape(operand.shape.size()), operand.shape));
  }
  return split;
}

} // namespace

Split splitMatMul(const Command &whole, PrepareFn prepare) {
  const size_t rank = whole.operands.back().shape.size();
  for (size_t i : {size_t{0}, size_t{1}})
    if (whole.operands[i].shape.size() > rank)
      return uncut(whole, prepare);
  const Product product(whole);
  const std::vector<int64_t> tile = chooseTile(product);
  Split split;
  // Columns outermost, then leading dimensions, rows, and innermost the contracted dimension.
  std::vector<size_t> loops = {product.columns()};
  for (size_t i = 0; i < product.lead; ++i)
    loops.push_back(i);
  loops.insert(loops.end(), {product.rows(), product.depth()});
  std::vector<int64_t> from(product.full.size());
  for (bool more = true; more;) {
    std::vector<int64_t> sizes(from.size());
    for (size_t i = 0; i < from.size(); ++i)
      sizes[i] = std::min(tile[i], product.full[i] - from[i]);
    const bool first = from[product.depth()] == 0;
    PieceStep step{commandOf(split, product, sizes, first, prepare), {}, !first};
    for (size_t i = 0; i < whole.operands.size(); ++i)
      step.boxes.push_back(
          boxOf(whole.operands[i], select(product, i, from, 0), select(product, i, sizes, 1)));
    split.steps.push_back(std::move(step));
    more = false;
    for (size_t i = loops.size(); i-- > 0 && !more;) {
      from[loops[i]] += tile[loops[i]];
      more = from[loops[i]] < product.full[loops[i]];
      if (!more)
        from[loops[i]] = 0;
    }
  }
  return split;
}

} // namespace stow::host
