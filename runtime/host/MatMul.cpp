// Matrix product of the last two dimensions, batched over the leading ones (equal, or 1 on one
// side; a tensor of lower rank is repeated over the missing ones).
//
// A transposed operand is stored as [.., K, M] (a) or [.., N, K] (b) and seen through swapped
// strides; layouts are those of the stored tensor. When b is one matrix, the rows of all of a's
// batches form one tall matrix, and the product is a plain one: the library has better code for it.
#include "runtime/base/Parallel.h"
#include "runtime/host/Primitive.h"
#include "runtime/host/ProductParts.h"
#include "runtime/host/loops/PanelProduct.h"
#include "runtime/host/loops/SkinnyProduct.h"
#include "runtime/host/loops/StripProduct.h"

#include <algorithm>
#include <numeric>

namespace stow::host {

namespace {

/// `desc` with its last two dimensions exchanged; its own inverse.
dnnl::memory::desc swapLastTwo(const dnnl::memory::desc &desc) {
  std::vector<int> permutation(dimsOf(desc).size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return desc.permute_axes(permutation);
}

/// One side of the product as the primitive sees it.
struct Side {
  size_t index;
  bool transposed;
  dnnl::memory::desc desc;
};

/// True when a and dst can be seen as matrices with all their batches' rows below each other.
bool isTall(const Call &call, size_t last, bool transposeA) {
  const Shape &a = call.shape(0), &b = call.shape(1), &dst = call.shape(last);
  auto plain = [&](size_t i) { return !call.isAny(i) && call.operand(i).layout.isRowMajor(); };
  if (dst.size() < 3 || transposeA || a.size() != dst.size() || b.size() < 2 || !plain(0) ||
      !plain(last) || (call.isAny(1) && b.size() > 2))
    return false;
  return std::equal(a.begin(), a.end() - 2, dst.begin()) &&
         std::all_of(b.begin(), b.end() - 2, [](int64_t dim) { return dim == 1; });
}

/// Operand `index` in `rank` dimensions. Missing leading dimensions become 1; superfluous ones are
/// merged into the rows.
Side sideOf(const Call &call, size_t index, bool transposed, size_t rank) {
  const Operand &operand = call.operand(index);
  if (operand.shape.size() < 2)
    call.fail(call.describe(index) + " must have 2 or more dimensions");
  if (operand.shape.size() > rank)
    return call.choose([&] {
      dnnl::memory::desc desc = call.desc(index);
      if (transposed)
        desc = swapLastTwo(desc);
      Shape dims = dimsOf(desc);
      int64_t rows = elementCount(dims) / dims.back();
      return Side{index, transposed, desc.reshape({rows, dims.back()})};
    });
  size_t missing = rank - operand.shape.size();
  if (call.isAny(index)) {
    if (missing != 0)
      call.fail(call.describe(index) + " is repeated over the batch and needs a layout of its own");
    Shape dims = operand.shape;
    if (transposed)
      std::swap(dims[rank - 1], dims[rank - 2]);
    return {index, transposed, anyDesc(operand.dtype, dims)};
  }
  return call.choose([&] {
    dnnl::memory::desc desc = call.desc(index);
    if (transposed)
      desc = swapLastTwo(desc);
    if (missing != 0) {
      Shape dims = dimsOf(desc);
      dims.insert(dims.begin(), missing, 1);
      desc = desc.reshape(dims);
    }
    return Side{index, transposed, desc};
  });
}

Argument argumentOf(const Call &call, const Side &side, int dnnlArgument,
                    const dnnl::memory::desc &chosen) {
  return call.viewArgument(side.index, dnnlArgument, side.desc, chosen,
                           side.transposed ? swapLastTwo(chosen) : chosen, 1);
}

void checkShapes(const Call &call, const Side &a, const Side &b, const Side &dst) {
  Shape left = dimsOf(a.desc), right = dimsOf(b.desc), out = dimsOf(dst.desc);
  size_t rank = out.size();
  bool fits = left[rank - 2] == out[rank - 2] && left[rank - 1] == right[rank - 2] &&
              right[rank - 1] == out[rank - 1];
  for (size_t i = 0; i + 2 < rank; ++i)
    fits &= out[i] == std::max(left[i], right[i]) && (left[i] == out[i] || left[i] == 1) &&
            (right[i] == out[i] || right[i] == 1);
  if (!fits)
    call.fail("shapes do not form a product: " + call.describe(a.index) + ", " +
              call.describe(b.index) + ", " + call.describe(dst.index));
}

/// As callAttributes(), for a product that is added to what is there.
const dnnl::primitive_attr &addingAttributes() {
  static const dnnl::primitive_attr attributes = [] {
    dnnl::primitive_attr attr; // copies of attributes share what they hold
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops sum;
    sum.append_sum();
    attr.set_post_ops(sum);
    return attr;
  }();
  return attributes;
}

Preparation prepareProduct(const Command &command, const std::vector<bool> &anyLayout,
                           const dnnl::primitive_attr &attributes) {
  bool hasBias = command.operands.size() == 4;
  Call call(command, anyLayout,
            hasBias ? std::vector<std::string>{"a", "b", "bias", "dst"}
                    : std::vector<std::string>{"a", "b", "dst"});
  if (call.integerOr("has_bias", hasBias) != hasBias)
    call.fail("has_bias contradicts the number of operands");
  size_t last = hasBias ? 3 : 2;
  bool transposeA = call.integerOr("transpose_a", 0) != 0;
  size_t rank = isTall(call, last, transposeA) ? 2 : call.shape(last).size();
  for (size_t i : {size_t{0}, size_t{1}})
    if (rank > 2 && call.shape(i).size() > rank)
      call.fail(call.describe(i) + " has more dimensions than " + call.describe(last));
  Side a = sideOf(call, 0, transposeA, rank);
  Side b = sideOf(call, 1, call.integerOr("transpose_b", 0) != 0, rank);
  Side dst = sideOf(call, last, false, rank);
  checkShapes(call, a, b, dst);
  std::optional<Argument> bias;
  if (hasBias) {
    int64_t columns = call.shape(last).back();
    bias = call.vector(2, DNNL_ARG_BIAS, columns, call.operand(2).dtype);
    Shape dims(rank, 1);
    dims.back() = columns;
    bias->desc = descOf(call.operand(2).dtype, dims, {});
  }
  auto chosen = call.choose([&] {
    return describeProduct(a.desc, b.desc, bias ? &bias->desc : nullptr, dst.desc, attributes);
  });
  Preparation result{chosen,
                     {argumentOf(call, a, DNNL_ARG_SRC, chosen.src_desc()),
                      argumentOf(call, b, DNNL_ARG_WEIGHTS, chosen.weights_desc()),
                      argumentOf(call, dst, DNNL_ARG_DST, chosen.dst_desc())}};
  if (bias)
    result.arguments.push_back(*bias);
  result.parts = call.choose([&] { return partsOf(result, attributes); });
  return result;
}

/// Elements up to which panels are no slower than the library's code: the left factor is read for every panel and stays in the second
/// cache, and so does the result, which panels write 16 columns at a time; for few rows copying the right factor takes most of the time.
constexpr int64_t mostLeft = 1 << 17, mostResult = 1 << 18, mostRight = 1 << 19,
                  mostRightOfFewRows = 1 << 17, fewRows = 16;

/// The product of matrices of f32 that lie row-major.
std::optional<PanelProduct> plainProduct(const Call &call, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (call.isAny(i) || call.operand(i).dtype != DType::F32 ||
        !call.operand(i).layout.isRowMajor())
      return std::nullopt;
  const size_t last = count - 1;
  const Shape &a = call.shape(0), &b = call.shape(1), &dst = call.shape(last);
  PanelProduct product;
  product.isLeftTransposed = call.integerOr("transpose_a", 0) != 0;
  product.isRightTransposed = call.integerOr("transpose_b", 0) != 0;
  product.columns = dst.back();
  product.depth = a.end()[product.isLeftTransposed ? -2 : -1];
  product.rows = dst.end()[-2];
  if (isTall(call, last, product.isLeftTransposed))
    product.rows = elementCount(dst) / dst.back();
  else if (a.size() == dst.size() && b.size() == dst.size() &&
           std::equal(a.begin(), a.end() - 2, dst.begin()) &&
           std::equal(b.begin(), b.end() - 2, dst.begin()))
    product.count = elementCount(dst) / (product.rows * product.columns);
  else
    return std::nullopt;
  return product;
}

/// True where panels are no slower than the library's code.
bool isForPanels(const PanelProduct &product) {
  return product.rows * product.depth <= mostLeft && product.rows * product.columns <= mostResult &&
         product.columns * product.depth <=
             (product.rows < fewRows ? mostRightOfFewRows : mostRight);
}

/// A product with a short dimension, or one in panels where the library's code has more scratch.
std::optional<Preparation> prepareLoops(const Command &command, const std::vector<bool> &anyLayout,
                                        PrepareFn prepareLibrary, Becomes becomes) {
  const size_t count = command.operands.size();
  const Call call(command, anyLayout,
                  count == 4 ? std::vector<std::string>{"a", "b", "bias", "dst"}
                             : std::vector<std::string>{"a", "b", "dst"});
  const auto product = plainProduct(call, count);
  if (!product ||
      (!isSkinny(*product) && !isForPanels(*product) && !isForStrips(*product, becomes)))
    return std::nullopt;
  const Preparation library = prepareLibrary(command, anyLayout); // which checks the shapes
  std::vector<Argument> arguments;
  for (size_t i = 0; i < count; ++i)
    arguments.push_back(
        {i, 0, descOf(DType::F32, call.shape(i), call.operand(i).layout), call.operand(i).layout});
  auto prepared = [&](const char *name, Bytes scratch, auto multiply) {
    auto run = [=](const std::vector<char *> &addresses, char *scratch, int64_t threads) {
      auto floats = [&](size_t i) { return reinterpret_cast<float *>(addresses[i]); };
      multiply(floats(0), floats(1), count == 4 ? floats(2) : nullptr, floats(count - 1), scratch,
               threads);
    };
    return Preparation{{}, arguments, Loops{name, scratch, run}};
  };
  const Bytes scratch = product->scratchBytes(currentThreads());
  const bool skinny = isSkinny(*product);
  if (!skinny && isForStrips(*product, becomes) && usesHeap(library.descriptor.impl_info_str()))
    return prepared("stow_strips", stripScratchBytes(*product, currentThreads()),
                    [product = *product, becomes](const float *left, const float *right,
                                                  const float *bias, float *result, char *scratch,
                                                  int64_t threads) {
                      multiplyStrips(product, left, right, bias, result, becomes, scratch, threads);
                    });
  const auto libraryScratch = static_cast<Bytes>(library.descriptor.scratchpad_desc().get_size());
  if (!skinny && (!isForPanels(*product) || scratch >= libraryScratch))
    return std::nullopt;
  if (skinny || (becomes == Becomes::Added && addsByRows(*product)))
    return prepared("stow_skinny", 0,
                    [product = *product, becomes](const float *left, const float *right,
                                                  const float *bias, float *result, char *,
                                                  int64_t threads) {
                      multiplySkinny(product, left, right, bias, result, becomes, threads);
                    });
  return prepared("stow_panels", scratch,
                  [product = *product, becomes](const float *left, const float *right,
                                                const float *bias, float *result, char *scratch,
                                                int64_t threads) {
                    multiplyPanels(product, left, right, bias, result, becomes, scratch, threads);
                  });
}

} // namespace

Preparation prepareMatMul(const Command &command, const std::vector<bool> &anyLayout) {
  return prepareProduct(command, anyLayout, callAttributes());
}

Preparation prepareMatMulAdding(const Command &command, const std::vector<bool> &anyLayout) {
  return prepareProduct(command, anyLayout, addingAttributes());
}

std::optional<Preparation> prepareMatMulLoops(const Command &command,
                                              const std::vector<bool> &anyLayout) {
  return prepareLoops(command, anyLayout, prepareMatMul, Becomes::Result);
}

std::optional<Preparation> prepareMatMulAddingLoops(const Command &command,
                                                    const std::vector<bool> &anyLayout) {
  return prepareLoops(command, anyLayout, prepareMatMulAdding, Becomes::Added);
}

} // namespace stow::host
