// What a call of cuBLASLt does to a matrix product before it writes it, and one of cuDNN to a convolution, as a
// command holds it.
//
//   y = function(a b + added + bias)            function: none, relu, gelu
//   y = (a b) * gelu'(preactivation)            function: gelu gradient
//   y = function(x * weight + added + bias)     function: none, relu; there is a bias
//   y = a b + added, and sums of rows           of b, or of an a that the product takes transposed
//
// A command of a product with more than the product may have parts: a product and a kernel over its result, with the same operands, which run
// instead where the library has no algorithm for the whole.
//
// All of it in f32, in the registers that the product was summed in: what stood between product and function
// is never stored, and never rounded. GELU is Hendrycks' and Gimpel's approximation by tanh,
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
#pragma once

#include "runtime/format/Program.h"

#include <optional>
#include <string>

namespace stow::cuda {

/// The numbers are those of a command's "function".
enum class ProductFunction : uint8_t { None = 0, Relu = 1, Gelu = 2, GeluGradient = 3 };

inline const char *nameOf(ProductFunction function) {
  constexpr const char *names[] = {"", "relu", "gelu", "gelu gradient"};
  return names[static_cast<size_t>(function)];
}

/// Operands go by their numbers in the command, whose first two are the factors and whose last is y, or the sums
/// and y in front of them. `bias` is a vector along y's rows, or one of y's channels, the others have y's extents;
/// all have y's type, the sums too.
struct ProductEpilogue {
  ProductFunction function = ProductFunction::None;
  std::optional<size_t> bias, added, preactivation;
  std::optional<size_t>
      summed; ///< the factor, 0 or 1, whose rows are summed; without function and bias
};

/// " with bias, relu" and the like; empty where nothing is done to the product.
inline std::string wordsOf(const ProductEpilogue &epilogue) {
  std::string words;
  auto add = [&](const char *part) {
    words += (words.empty() ? " with " : ", ") + std::string(part);
  };
  if (epilogue.bias)
    add("bias");
  if (epilogue.added)
    add("sum");
  if (epilogue.function != ProductFunction::None)
    add(nameOf(epilogue.function));
  if (epilogue.summed)
    add("sums of rows");
  return words;
}

/// What a leading dimension of the preactivation is a multiple of, in elements, and where it and a
/// bias begin, in bytes (cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD; 16 bytes are what its kernels
/// load at once).
inline constexpr int64_t kPreactivationStep = 8;
inline constexpr int64_t kEpilogueAlignment = 16;

/// cublasLtMatmul: the workspace "must be 256B aligned".
inline constexpr int64_t kWorkspaceAlignment = 256;

inline void setEpilogue(Command &command, const ProductEpilogue &epilogue) {
  command.ints["function"] = {static_cast<int64_t>(epilogue.function)};
  auto set = [&](const char *role, std::optional<size_t> operand) {
    if (operand)
      command.ints[role] = {static_cast<int64_t>(*operand)};
  };
  set("bias", epilogue.bias);
  set("added", epilogue.added);
  set("preactivation", epilogue.preactivation);
  set("summed", epilogue.summed);
}

/// Of "cuda.matmul", "cuda.matmul_add" and "cuda.matmul_epilogue" (runtime/cuda/Products.h), and of convolutions
/// (runtime/cuda/ConvolutionPlan.h).
inline ProductEpilogue epilogueOf(const Command &command) {
  ProductEpilogue epilogue;
  const bool hasThird = command.operands.size() == 4;
  if (command.op == CommandOp::CudaMatmul && hasThird)
    epilogue.bias = 2;
  if (command.op == CommandOp::CudaMatmulAdd)
    epilogue.added = 2;
  if (!command.ints.contains("function"))
    return epilogue;
  auto number = [&](const char *role) -> std::optional<size_t> {
    auto found = command.ints.find(role);
    return found == command.ints.end() ? std::nullopt
                                       : std::optional(static_cast<size_t>(found->second.at(0)));
  };
  epilogue.function = static_cast<ProductFunction>(command.ints.at("function").at(0));
  epilogue.bias = number("bias");
  epilogue.added = number("added");
  epilogue.preactivation = number("preactivation");
  epilogue.summed = number("summed");
  return epilogue;
}

/// Makes of "cuda.matmul" or "cuda.matmul_add" one that sums the rows of its factor `factor` into its last operand.
inline void setSum(Command &command, size_t factor) {
  ProductEpilogue epilogue;
  if (command.op == CommandOp::CudaMatmulAdd)
    epilogue.added = 2;
  epilogue.summed = factor;
  setEpilogue(command, epilogue);
  command.op = CommandOp::CudaMatmulEpilogue;
}

} // namespace stow::cuda
