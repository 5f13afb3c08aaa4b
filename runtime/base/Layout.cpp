#include "runtime/base/Layout.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>
#include <utility>

namespace stow {

int64_t elementCount(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool Layout::isRowMajor() const {
  return blocks.empty() && !pitch && std::ranges::is_sorted(order);
}

Layout channelsLastLayout(size_t rank) {
  Layout layout;
  layout.order.resize(rank);
  std::iota(layout.order.begin() + 1, layout.order.end() - 1, 2);
  layout.order.back() = 1;
  return layout;
}

Shape layoutDims(const Layout &layout, const Shape &shape) {
  if (layout.groups <= 1)
    return shape;
  Shape dims = {layout.groups, shape.at(0) / layout.groups};
  dims.insert(dims.end(), shape.begin() + 1, shape.end());
  return dims;
}

namespace {

std::vector<int64_t> orderOf(const Layout &layout, size_t rank) {
  if (!layout.order.empty())
    return layout.order;
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> blockProducts(const Layout &layout, size_t rank) {
  std::vector<int64_t> products(rank, 1);
  for (const Layout::Block &block : layout.blocks)
    products.at(block.dim) *= block.size;
  return products;
}

int64_t innerBlockVolume(const Layout &layout) {
  int64_t volume = 1;
  for (const Layout::Block &block : layout.blocks)
    volume *= block.size;
  return volume;
}

} // namespace

int64_t storedElementCount(const Layout &layout, const Shape &shape) {
  if (layout.blocks.empty() && layout.groups <= 1) {
    const int64_t count = elementCount(shape);
    if (!layout.pitch || count == 0)
      return count;
    const std::vector<int64_t> strides = outerStrides(layout, shape);
    int64_t last = 0;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      last += (shape[dim] - 1) * strides[dim];
    return last + 1;
  }
  const Shape dims = layoutDims(layout, shape);
  std::vector<int64_t> products = blockProducts(layout, dims.size());
  int64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i)
    count *= alignUp(dims[i], products[i]);
  return count;
}

Bytes storedBytes(const Layout &layout, const Shape &shape, DType type) {
  return storedElementCount(layout, shape) * sizeOf(type);
}

std::vector<int64_t> outerStrides(const Layout &layout, const Shape &shape) {
  if (layout.blocks.empty() && layout.groups <= 1) {
    std::vector<int64_t> strides(shape.size());
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      const int64_t dim = layout.order.empty() ? static_cast<int64_t>(i) : layout.order[i];
      strides[dim] = stride;
      stride *= layout.pitch && layout.pitch->dim == dim ? layout.pitch->extent : shape[dim];
    }
    return strides;
  }
  Shape dims = layoutDims(layout, shape);
  std::vector<int64_t> products = blockProducts(layout, dims.size());
  std::vector<int64_t> strides(dims.size());
  std::vector<int64_t> order = orderOf(layout, dims.size());
  int64_t stride = innerBlockVolume(layout);
  for (size_t i = order.size(); i-- > 0;) {
    int64_t dim = order[i];
    strides[dim] = stride;
    bool wider = layout.pitch && layout.pitch->dim == dim;
    stride *= wider ? layout.pitch->extent : alignUp(dims[dim], products[dim]) / products[dim];
  }
  return strides;
}

std::optional<Layout> boxLayout(const Layout &layout, const Shape &shape, const Shape &sizes) {
  if (!layout.blocks.empty() || layout.groups > 1 || elementCount(sizes) == 0)
    return std::nullopt;
  std::vector<int64_t> strides = outerStrides(layout, shape);
  std::vector<int64_t> order = orderOf(layout, shape.size());
  Layout box = layout;
  box.pitch.reset();
  int64_t dense = 1; // stride of the dimension if nothing inside it had gaps
  for (size_t i = order.size(); i-- > 0;) {
    int64_t dim = order[i];
    if (sizes[dim] == 1 || strides[dim] == dense) {
      dense *= sizes[dim];
      continue;
    }
    // The gap belongs to the next dimension inside, or past dimensions of one element.
    for (size_t j = i + 1; j < order.size() && !box.pitch; ++j) {
      int64_t inner = order[j], own = dense / sizes[inner];
      if (strides[dim] % own == 0)
        box.pitch = Layout::Pitch{inner, strides[dim] / own};
      if (sizes[inner] != 1)
        break;
    }
    if (!box.pitch || outerStrides(box, sizes)[dim] != strides[dim])
      return std::nullopt;
    dense = strides[dim] * sizes[dim];
  }
  return box;
}

LayoutIndex::LayoutIndex(const Layout &layout, const Shape &shape)
    : dims(layoutDims(layout, shape)), strides(outerStrides(layout, shape)),
      blockOf(blockProducts(layout, dims.size())), blocks(layout.blocks) {
  blockInnerOfSame.assign(blocks.size(), 1);
  blockStride.assign(blocks.size(), 1);
  for (size_t i = 0; i < blocks.size(); ++i)
    for (size_t j = i + 1; j < blocks.size(); ++j) {
      blockStride[i] *= blocks[j].size;
      if (blocks[j].dim == blocks[i].dim)
        blockInnerOfSame[i] *= blocks[j].size;
    }
}

int64_t LayoutIndex::operator()(int64_t logical) const {
  int64_t position = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    int64_t index = logical % dims[i];
    logical /= dims[i];
    position += index / blockOf[i] * strides[i];
    for (size_t b = 0; b < blocks.size(); ++b)
      if (blocks[b].dim == static_cast<int64_t>(i))
        position += index % blockOf[i] / blockInnerOfSame[b] % blocks[b].size * blockStride[b];
  }
  return position;
}

std::string formatLayout(const Layout &layout) {
  std::string text;
  if (layout.groups > 1)
    text += concat("g", layout.groups, " ");
  for (size_t i = 0; i < layout.order.size(); ++i)
    text += concat(i ? "," : "", layout.order[i]);
  for (const Layout::Block &block : layout.blocks)
    text += concat(";", block.dim, ":", block.size);
  if (layout.pitch)
    text +=
        concat(layout.order.empty() ? "of " : " of ", layout.pitch->dim, ":", layout.pitch->extent);
  return text;
}

Layout parseLayout(const std::string &text) {
  Layout layout;
  const char *at = text.data(), *const end = at + text.size();
  auto fail = [&]() -> Error {
    return Error::badInput(
        "cannot read \"" + text +
        "\" as a layout; expected for example \"0,2,3,1\", \"0,1,2,3;1:16\" or \"0,2,3,1 of "
        "1:128\"");
  };
  auto take = [&](std::string_view word) {
    const bool isNext = std::string_view(at, end).starts_with(word);
    at += isNext ? word.size() : 0;
    return isNext;
  };
  auto skipSpaces = [&] {
    while (take(" ")) {
    }
  };
  auto readNumber = [&] {
    skipSpaces();
    int64_t number = 0;
    const auto [behind, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0)
      throw fail();
    at = behind;
    return number;
  };
  auto readPair = [&] {
    const int64_t first = readNumber();
    if (!take(":"))
      throw fail();
    return std::pair(first, readNumber());
  };
  if (take("g")) {
    layout.groups = readNumber();
    skipSpaces();
  }
  while (at != end && *at >= '0' && *at <= '9') {
    layout.order.push_back(readNumber());
    take(",");
  }
  while (take(";")) {
    const auto [dim, size] = readPair();
    layout.blocks.push_back({dim, size});
  }
  if (at != end) {
    skipSpaces();
    if (!take("of "))
      throw fail();
    const auto [dim, extent] = readPair();
    layout.pitch = Layout::Pitch{dim, extent};
  }
  if (at != end)
    throw fail();
  return layout;
}

void checkLayout(const Layout &layout, const Shape &shape) {
  auto fail = [&](const std::string &why) {
    throw Error::badInput("layout \"" + formatLayout(layout) + "\" " + why);
  };
  if (layout.groups < 1 || (layout.groups > 1 && (shape.empty() || shape[0] % layout.groups != 0)))
    fail("has groups that do not divide dimension 0");
  size_t rank = layoutDims(layout, shape).size();
  if (!layout.order.empty()) {
    std::vector<int64_t> sorted = layout.order;
    std::ranges::sort(sorted);
    if (sorted != orderOf({}, rank))
      fail(concat("is not a permutation of ", rank, " dimensions"));
  }
  for (const Layout::Block &block : layout.blocks)
    if (block.dim < 0 || block.dim >= static_cast<int64_t>(rank) || block.size < 1)
      fail(concat("has a block outside the ", rank, " dimensions"));
  if (!layout.pitch)
    return;
  if (!layout.blocks.empty() || layout.groups > 1)
    fail("has a pitch beside blocks or groups");
  if (layout.pitch->dim < 0 || layout.pitch->dim >= static_cast<int64_t>(rank))
    fail(concat("has a pitch outside the ", rank, " dimensions"));
  if (layout.pitch->extent < shape[static_cast<size_t>(layout.pitch->dim)])
    fail("has a pitch smaller than its dimension");
}

} // namespace stow
