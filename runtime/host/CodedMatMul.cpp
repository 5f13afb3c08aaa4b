// Products of few rows with a quantized matrix: what the loops of CodedProduct.h need of a command.
#include "runtime/host/Primitive.h"
#include "runtime/host/loops/CodedProduct.h"
#include "runtime/host/loops/Vectors.h"

namespace stow::host {

/// In 16 bits what multiplies is widened first, and what comes out narrowed behind: a few rows, in the call's scratch.
static void runNarrow(DType type, const FewRows &product, Quantization scheme,
                      const std::vector<char *> &addresses, char *scratch, int64_t threads) {
  const auto *x = reinterpret_cast<const uint16_t *>(addresses[0]);
  auto *y = reinterpret_cast<uint16_t *>(addresses[2]);
  auto *wide = reinterpret_cast<float *>(scratch);
  const int64_t factors = product.rows * product.depth, results = product.rows * product.columns;
  float *sums = wide + factors;
  widen(type, x, wide, factors);
  multiplyCodes(product, scheme, wide, addresses[1], sums, threads,
                type == DType::BF16 ? Rounding::Bf16 : Rounding::F16);
  narrow(type, sums, y, results);
}

Preparation prepareCodedMatMul(const Command &command, const std::vector<bool> &anyLayout) {
  const Call call(command, anyLayout, {"a", "codes", "dst"});
  const Shape &a = call.shape(0), &dst = call.shape(2);
  const int64_t scheme = call.integer("scheme");
  if (scheme < 0 || scheme > static_cast<int64_t>(Quantization::Int8))
    call.fail("its scheme is none");
  const DType type = call.operand(0).dtype;
  if (type != DType::F32 && type != DType::BF16 && type != DType::F16)
    call.fail(call.describe(0) + " must be in f32, bf16 or f16");
  for (size_t i = 0; i < command.operands.size(); ++i)
    if (call.operand(i).dtype != (i == 1 ? DType::U8 : type) ||
        !call.operand(i).layout.isRowMajor())
      call.fail(call.describe(i) +
                " must be row-major, in the type of the first factor, codes in u8");
  if (a.empty() || dst.empty() || a.back() < 1 || dst.back() < 1)
    call.fail("both factors must have rows");
  const FewRows product = {elementCount(dst) / dst.back(), dst.back(), a.back(),
                           call.integer("transpose_b") != 0};
  const int64_t elements = product.columns * product.depth;
  const auto given = static_cast<Quantization>(scheme);
  if (!takesCodes(product) || elementCount(a) != product.rows * product.depth ||
      !isQuantizable(elements) || call.shape(1) != Shape{partsOf(given, elements).size})
    call.fail("expected at most 8 rows and the codes of a matrix whose rows are whole blocks");
  std::vector<Argument> arguments;
  for (size_t i = 0; i < command.operands.size(); ++i)
    arguments.push_back({i, 0, descOf(call.operand(i).dtype, call.shape(i), {}), {}});
  if (type != DType::F32) {
    const Bytes scratch =
        product.rows * (product.depth + product.columns) * static_cast<Bytes>(sizeof(float));
    auto run = [=](const std::vector<char *> &addresses, char *floats, int64_t threads) {
      runNarrow(type, product, given, addresses, floats, threads);
    };
    return {{},
            arguments,
            Loops{type == DType::BF16 ? "stow_codes_bf16" : "stow_codes_f16", scratch, run}};
  }
  auto run = [=](const std::vector<char *> &addresses, char *, int64_t threads) {
    multiplyCodes(product, given, reinterpret_cast<const float *>(addresses[0]), addresses[1],
                  reinterpret_cast<float *>(addresses[2]), threads);
  };
  return {{}, arguments, Loops{"stow_codes", 0, run}};
}

} // namespace stow::host
