// Tests which kernels behind a product are recognized as functions of cuBLASLt's, and which behind a convolution
// as cuDNN's, however they are written, and which types and extents cuBLASLt's documentation (cublasLt.h,
// cublasLtEpilogue_t) leaves out.
#include "codegen/cuda/Epilogues.h"
#include "ir/StowKernelOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace stow::cuda {
namespace {

struct Given {
  std::string body;                     ///< behind the arguments: %p, and those of `inputs`
  std::vector<std::string> inputs = {}; ///< types of tensors
  std::string result = "tensor<4x16xf32>";
  std::string attributes = "";
  std::string factors = "f32"; ///< element type
};

/// "function, bias, added, preactivation" with the numbers of operands; "none".
std::string recognized(const Given &given) {
  MLIRContext context;
  context.loadDialect<StowDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  std::string arguments, names, types, body;
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    const std::string &type = given.inputs[i];
    absl::StrAppend(&arguments, ", %i", i, ": ", type);
    absl::StrAppend(&names, ", %i", i);
    absl::StrAppend(&types, ", ", type);
    absl::StrAppend(&body, ", %", i == 0 ? "q" : "r", ": ",
                    type.substr(type.rfind('x') + 1, type.size() - type.rfind('x') - 2));
  }
  const size_t x = given.result.rfind('x'), before = given.result.rfind('x', x - 1);
  const std::string columns = given.result.substr(before + 1, x - before - 1);
  const std::string a = "tensor<4x8x" + given.factors + ">",
                    b = "tensor<8x" + columns + "x" + given.factors + ">";
  const std::string text = absl::StrCat(
      "func.func @f(%a: ", a, ", %b: ", b, arguments, ") -> ", given.result,
      " {\n%y = stow.product_map %a, %b", names, " {", given.attributes,
      "transpose_a = false, transpose_b = false} : (", a, ", ", b, types, ") -> ", given.result,
      " {\n^bb0(%p: f32", body, "):\n", given.body, "\n}\nreturn %y : ", given.result, "\n}\n");
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  if (!module)
    return "no module";
  auto op = *(*module->getOps<func::FuncOp>().begin()).getOps<ProductMapOp>().begin();
  const std::optional<ProductEpilogue> found = epilogueOf(op);
  if (!found)
    return "none";
  auto number = [](std::optional<size_t> operand) {
    return operand ? absl::StrCat(*operand) : std::string("-");
  };
  const std::string name = nameOf(found->function);
  return absl::StrCat(name.empty() ? "sum" : name, " ", number(found->bias), " ",
                      number(found->added), " ", number(found->preactivation));
}

const char *kVector = "tensor<16xf32>", *kMatrix = "tensor<4x16xf32>";

/// The inner of GELU's tanh, %u, of %s.
const std::string kInner = R"(
  %cube = arith.constant 4.471500e-02 : f32
  %slope = arith.constant 0.797884583 : f32
  %s2 = arith.mulf %s, %s : f32
  %s3 = arith.mulf %s2, %s : f32
  %k = arith.mulf %s3, %cube : f32
  %v = arith.addf %s, %k : f32
  %u = arith.mulf %v, %slope : f32
  %t = math.tanh %u : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
)";

std::string geluOf(const std::string &sum) {
  return sum + kInner + R"(
  %w = arith.addf %t, %one : f32
  %h = arith.mulf %s, %half : f32
  %y = arith.mulf %h, %w : f32
  stow.yield %y : f32)";
}
const std::string kProduct = "%zero = arith.constant 0.0 : f32\n%s = arith.addf %p, %zero : f32\n";
const std::string kWithBias = "%s = arith.addf %p, %q : f32\n";

TEST(Epilogues, AreSumsAndMaxima) {
  EXPECT_EQ(recognized({"%y = arith.addf %q, %p : f32\nstow.yield %y : f32", {kVector}}),
            "sum 2 - -");
  EXPECT_EQ(
      recognized({"%s = arith.addf %p, %r : f32\n%y = arith.addf %q, %s : f32\nstow.yield %y : f32",
                  {kMatrix, kVector}}),
      "sum 3 2 -");
  const std::string relu =
      "%n = arith.constant 0.0 : f32\n%y = arith.maximumf %s, %n : f32\nstow.yield %y : f32";
  EXPECT_EQ(recognized({kProduct + relu}), "relu - - -");
  EXPECT_EQ(recognized({kWithBias + relu, {kVector}}), "relu 2 - -");
  EXPECT_EQ(recognized({kWithBias + relu, {kMatrix}}), "relu - 2 -");
}

TEST(Epilogues, AreGeluByTanhInEverySpelling) {
  EXPECT_EQ(recognized({geluOf(kProduct)}), "gelu - - -");
  EXPECT_EQ(recognized({geluOf(kWithBias), {kVector}}), "gelu 2 - -");
  // 0.5 * (x * (1 + tanh)), with a power and another rounding of the slope.
  EXPECT_EQ(recognized({kWithBias + R"(
  %three = arith.constant 3.0 : f32
  %s3 = math.powf %s, %three : f32
  %cube = arith.constant 4.471500e-02 : f32
  %k = arith.mulf %cube, %s3 : f32
  %v = arith.addf %k, %s : f32
  %slope = arith.constant 0.79788458 : f32
  %u = arith.mulf %slope, %v : f32
  %t = math.tanh %u : f32
  %one = arith.constant 1.0 : f32
  %w = arith.addf %one, %t : f32
  %x = arith.mulf %s, %w : f32
  %half = arith.constant 0.5 : f32
  %y = arith.mulf %half, %x : f32
  stow.yield %y : f32)",
                        {kVector}}),
            "gelu 2 - -");
}

// p (1 + t) / 2 + p s / 2 (1 - t^2) slope (1 + 3 cube s^2)
const std::string kGradient =
    "%z = arith.constant 0.0 : f32\n%s = arith.addf %q, %z : f32\n" + kInner + R"(
  %w = arith.addf %t, %one : f32
  %g1 = arith.mulf %w, %half : f32
  %tt = arith.mulf %t, %t : f32
  %d = arith.subf %one, %tt : f32
  %sh = arith.mulf %s, %half : f32
  %e = arith.mulf %sh, %d : f32
  %f = arith.mulf %e, %slope : f32
  %c3 = arith.constant 0.134145 : f32
  %i = arith.mulf %c3, %s2 : f32
  %j = arith.addf %i, %one : f32
  %g2 = arith.mulf %f, %j : f32
  %g = arith.addf %g1, %g2 : f32
  %y = arith.mulf %p, %g : f32
  stow.yield %y : f32)";

// The gradient's preactivation lies elsewhere than the result, in rows of a multiple of 8 elements.
TEST(Epilogues, AreGelusGradientApartFromWhatItIsTakenAt) {
  EXPECT_EQ(recognized({kGradient, {kMatrix}, kMatrix, "stow.epilogue, "}), "gelu gradient - - 2");
  EXPECT_EQ(recognized({kGradient, {kMatrix}}), "none");
  const std::string narrow = "tensor<4x12xf32>";
  EXPECT_EQ(recognized({kGradient, {narrow}, narrow, "stow.epilogue, "}), "none");
}

TEST(Epilogues, AreNotWhatTheLibraryComputesOtherwise) {
  const std::string relu = "%n = arith.constant 0.0 : f32\n%m = arith.maximumf %p, %n : f32\n";
  // A bias behind the maximum.
  EXPECT_EQ(recognized({relu + "%y = arith.addf %m, %q : f32\nstow.yield %y : f32", {kVector}}),
            "none");
  // A maximum with something else than 0.
  EXPECT_EQ(recognized({"%n = arith.constant 0.001 : f32\n%y = arith.maximumf %p, %n : "
                        "f32\nstow.yield %y : f32"}),
            "none");
  // GELU by erf differs from that by tanh by up to 5e-4.
  EXPECT_EQ(recognized({R"(
  %root = arith.constant 0.707106769 : f32
  %u = arith.mulf %p, %root : f32
  %t = math.erf %u : f32
  %one = arith.constant 1.0 : f32
  %w = arith.addf %one, %t : f32
  %half = arith.constant 0.5 : f32
  %h = arith.mulf %p, %half : f32
  %y = arith.mulf %h, %w : f32
  stow.yield %y : f32)"}),
            "none");
  // Another constant before the cube.
  std::string other = geluOf(kProduct);
  other.replace(other.find("4.471500e-02"), 12, "4.472500e-02");
  EXPECT_EQ(recognized({other}), "none");
  // tanh alone, and the product alone.
  EXPECT_EQ(recognized({"%y = math.tanh %p : f32\nstow.yield %y : f32"}), "none");
  EXPECT_EQ(recognized({"stow.yield %p : f32"}), "none");
}

// A bias has the result's type, and the result is in the factors' or in f32.
TEST(Epilogues, HaveTheLibrarysTypes) {
  const std::string narrow = R"(
  %w = arith.extf %q : bf16 to f32
  %s = arith.addf %p, %w : f32
  %y = arith.truncf %s : f32 to bf16
  stow.yield %y : bf16)";
  EXPECT_EQ(recognized({narrow, {"tensor<16xbf16>"}, "tensor<4x16xbf16>", "", "bf16"}),
            "sum 2 - -");
  EXPECT_EQ(recognized({narrow, {"tensor<16xbf16>"}, "tensor<4x16xbf16>", "", "f16"}), "none");
  const std::string wide = "%s = arith.addf %p, %q : f32\n";
  EXPECT_EQ(recognized({wide + "stow.yield %s : f32", {kVector}, kMatrix, "", "bf16"}),
            "sum 2 - -");
  EXPECT_EQ(recognized({wide + "%y = arith.truncf %s : f32 to bf16\nstow.yield %y : bf16",
                        {kVector},
                        "tensor<4x16xbf16>",
                        "",
                        "bf16"}),
            "none");
}

/// "function, bias, added" of a convolution with the numbers of operands; "none".
std::string recognizedBehindConvolution(const std::string &body,
                                        const std::vector<std::string> &inputs,
                                        const std::string &element = "f32") {
  MLIRContext context;
  context.loadDialect<StowDialect, func::FuncDialect, arith::ArithDialect>();
  std::string arguments, names, types, elements;
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::StrAppend(&arguments, ", %i", i, ": ", inputs[i]);
    absl::StrAppend(&names, ", %i", i);
    absl::StrAppend(&types, ", ", inputs[i]);
    const size_t behind = inputs[i].rfind('x') + 1;
    absl::StrAppend(&elements, ", %", i == 0 ? "q" : "r", ": ",
                    inputs[i].substr(behind, inputs[i].find_first_of(",>", behind) - behind));
  }
  const std::string x = absl::StrCat("tensor<2x3x6x6x", element, ">"),
                    w = absl::StrCat("tensor<4x3x3x3x", element, ">"),
                    y = absl::StrCat("tensor<2x4x6x6x", element, ">");
  const std::string text = absl::StrCat(
      "func.func @f(%x: ", x, ", %w: ", w, arguments, ") -> ", y, " {\n%y = stow.conv2d_map %x, %w",
      names,
      " {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
      "groups = 1 : i64} : (",
      x, ", ", w, types, ") -> ", y, " {\n^bb0(%p: f32", elements, "):\n", body,
      "\n}\nreturn %y : ", y, "\n}\n");
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  if (!module)
    return "no module";
  auto op = *(*module->getOps<func::FuncOp>().begin()).getOps<Conv2dMapOp>().begin();
  const std::optional<ProductEpilogue> found = epilogueOf(op);
  if (!found)
    return "none";
  const std::string name = nameOf(found->function);
  return absl::StrCat(name.empty() ? "sum" : name, " ", found->bias.value_or(0), " ",
                      found->added.value_or(0));
}

// Behind a convolution there is always a bias, along its channels; what is added besides lies as the result does.
TEST(Epilogues, OfConvolutionsAddABias) {
  const std::string bias = "tensor<4x1x1xf32>", same = "tensor<2x4x6x6xf32>";
  const std::string sum = "%s = arith.addf %p, %q : f32\n", yield = "stow.yield %s : f32";
  const std::string both = "%t = arith.addf %p, %q : f32\n%s = arith.addf %t, %r : f32\n";
  const std::string relu =
      "%n = arith.constant 0.0 : f32\n%y = arith.maximumf %s, %n : f32\nstow.yield %y : f32";
  EXPECT_EQ(recognizedBehindConvolution(sum + yield, {bias}), "sum 2 0");
  EXPECT_EQ(recognizedBehindConvolution(sum + relu, {bias}), "relu 2 0");
  EXPECT_EQ(recognizedBehindConvolution(both + relu, {bias, same}), "relu 2 3");
  EXPECT_EQ(recognizedBehindConvolution(both + yield, {same, bias}), "sum 3 2");
  EXPECT_EQ(recognizedBehindConvolution(sum + relu, {same}), "none") << "no bias";
  EXPECT_EQ(recognizedBehindConvolution(both + yield, {bias, bias}), "none") << "two of them";
  EXPECT_EQ(recognizedBehindConvolution(sum + yield, {"tensor<6xf32>"}), "none") << "along rows";
  EXPECT_EQ(recognizedBehindConvolution(sum + yield, {"tensor<2x4x1x1xf32>"}), "none");
  const std::string other = "tensor<2x4x6x6xf32, #stow.layout<\"0,2,3,1\">>";
  EXPECT_EQ(recognizedBehindConvolution(both + yield, {bias, other}), "none")
      << "what is added lies otherwise";
  EXPECT_EQ(recognizedBehindConvolution(sum + "%y = arith.mulf %s, %s : f32\nstow.yield %y : f32",
                                        {bias}),
            "none");
  const std::string narrow = R"(
  %w2 = arith.extf %q : bf16 to f32
  %s = arith.addf %p, %w2 : f32
  %y = arith.truncf %s : f32 to bf16
  stow.yield %y : bf16)";
  EXPECT_EQ(recognizedBehindConvolution(narrow, {"tensor<4x1x1xbf16>"}, "bf16"), "sum 2 0");
  EXPECT_EQ(recognizedBehindConvolution(
                "%s = arith.addf %p, %q : f32\n%y = arith.truncf %s : f32 to bf16\nstow.yield %y "
                ": bf16",
                {bias}, "bf16"),
            "none")
      << "a bias in f32";
}

} // namespace
} // namespace stow::cuda
