// Tests that kernels that become part of products and convolutions take time from a step and no memory: against a target that has
// none of them, plans of the same models have no larger arenas, with everything kept, with what their time buys and
// at their smallest; and a budget that was met is met in no more time.
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "ir/StowKernelOps.h"
#include "passes/plan/Budget.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/CudnnApi.h"
#include "tests/compiler/H100.h"
#include "tests/compiler/OwnModel.h"
#include "tests/compiler/PlanningBackend.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <gtest/gtest.h>

using namespace mlir;

namespace stow {
namespace {

/// Its maps stay one by one, so that plans with and without epilogues differ in these alone: which maps are joined
/// depends on what stands between them.
class GpuWithMapsApart : public H100 {
public:
  Bytes launchBytes() const override { return 0; }
};

class GpuWithoutEpilogues : public GpuWithMapsApart {
public:
  std::optional<CommandOp> libraryCall(Operation *op) const override {
    return isa<ProductMapOp, Conv2dMapOp>(op) ? std::nullopt : H100::libraryCall(op);
  }
};

/// A model of tensors of `rows`, written down op by op.
class Text {
public:
  explicit Text(std::string rows) : rows(std::move(rows)) {}

  std::string tensor(int64_t columns) const {
    return absl::StrCat("tensor<", rows, "x", columns, "xf32>");
  }

  std::string parameter(const std::string &shape) {
    const std::string name = absl::StrCat("w", count++);
    absl::StrAppend(&arguments, ", %", name, ": tensor<", shape,
                    "xf32> {stow.kind = #stow.kind<parameter>, stow.name = \"", name,
                    "\", stow.init = #stow.init<\"normal\", 0.0, 0.1>}");
    return name;
  }

  std::string apply(const std::string &op, const std::string &a, int64_t columns,
                    const std::string &b = "", const std::string &bType = "") {
    const std::string name = absl::StrCat("v", count++), type = tensor(columns);
    absl::StrAppend(&body, "%", name, " = stow.", op, " %", a, b.empty() ? "" : ", %", b, " : (",
                    type, b.empty() ? "" : ", ",
                    b.empty()       ? ""
                    : bType.empty() ? type
                                    : bType,
                    ") -> ", type, "\n");
    return name;
  }

  std::string scalar(const std::string &value) {
    const std::string name = absl::StrCat("c", count++);
    absl::StrAppend(&body, "%", name, " = stow.constant dense<", value, "> : tensor<f32>\n");
    return name;
  }

  std::string layer(const std::string &x, int64_t in, int64_t out) {
    const std::string w = parameter(absl::StrCat(in, "x", out)), b = parameter(absl::StrCat(out));
    const std::string name = absl::StrCat("v", count++);
    absl::StrAppend(&body, "%", name, " = stow.matmul %", x, ", %", w,
                    " {transpose_a = false, transpose_b = false} : (", tensor(in), ", tensor<", in,
                    "x", out, "xf32>) -> ", tensor(out), "\n");
    return apply("add", name, out, b, absl::StrCat("tensor<", out, "xf32>"));
  }

  /// By tanh.
  std::string gelu(const std::string &x, int64_t columns) {
    const std::string scalarType = "tensor<f32>";
    std::string inner = apply("mul", apply("mul", x, columns, x), columns, x);
    inner =
        apply("add", x, columns, apply("mul", inner, columns, scalar("4.471500e-02"), scalarType));
    inner = apply("tanh", apply("mul", inner, columns, scalar("0.797884583"), scalarType), columns);
    const std::string sum = apply("add", inner, columns, scalar("1.0"), scalarType);
    return apply("mul", apply("mul", x, columns, scalar("0.5"), scalarType), columns, sum);
  }

  std::string model(int64_t in, const std::string &result, int64_t out) const {
    return absl::StrCat(
        "module attributes {stow.form = \"model\"} {\nfunc.func @model(%x: ", tensor(in),
        " {stow.name = \"x\", stow.kind = #stow.kind<input>}", arguments, ") -> (", tensor(out),
        " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n", body, "return %",
        result, " : ", tensor(out), "\n}\n}\n");
  }

private:
  std::string rows, arguments, body;
  int count = 0;
};

/// x + W2 gelu(W1 x + b1) + b2, `times` times.
std::string residual(int times) {
  Text text("4x32");
  std::string last = "x";
  for (int i = 0; i < times; ++i)
    last =
        text.apply("add", last, 64, text.layer(text.gelu(text.layer(last, 64, 256), 256), 256, 64));
  return text.model(64, text.layer(last, 64, 64), 64);
}

/// Layers with relu that become wider and narrower.
std::string hourglass() {
  Text text("128");
  std::string last = "x";
  int64_t width = 64;
  for (int64_t next : {128, 512, 384, 96, 256, 64}) {
    last = text.apply("relu", text.layer(last, width, next), next);
    width = next;
  }
  return text.model(64, last, width);
}

/// relu(x + C2 relu(C1 x + b1) + b2), `times` times, on images of 16 channels.
std::string convolutions(int times) {
  const std::string type = "tensor<8x16x28x28xf32>", weight = "tensor<16x16x3x3xf32>";
  std::string arguments, body, last = "x";
  auto parameter = [&](const std::string &name, const std::string &shape) {
    absl::StrAppend(&arguments, ", %", name, ": ", shape,
                    " {stow.kind = #stow.kind<parameter>, stow.name = \"", name,
                    "\", stow.init = #stow.init<\"normal\", 0.0, 0.1>}");
  };
  auto convolve = [&](const std::string &x, const std::string &name) {
    parameter("w" + name, weight);
    parameter("b" + name, "tensor<16xf32>");
    absl::StrAppend(&body, "%c", name, " = stow.conv2d %", x, ", %w", name, ", %b", name,
                    " {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = "
                    "array<i64: 1, 1>, groups = 1 : i64} : (",
                    type, ", ", weight, ", tensor<16xf32>) -> ", type, "\n");
  };
  auto relu = [&](const std::string &result, const std::string &x) {
    absl::StrAppend(&body, "%", result, " = stow.relu %", x, " : (", type, ") -> ", type, "\n");
  };
  for (int i = 0; i < times; ++i) {
    const std::string inner = absl::StrCat(i, "i"), outer = absl::StrCat(i, "o");
    convolve(last, inner);
    relu("r" + inner, "c" + inner);
    convolve("r" + inner, outer);
    absl::StrAppend(&body, "%s", i, " = stow.add %c", outer, ", %", last, " : (", type, ", ", type,
                    ") -> ", type, "\n");
    relu("r" + outer, absl::StrCat("s", i));
    last = "r" + outer;
  }
  convolve(last, "z");
  return absl::StrCat("module attributes {stow.form = \"model\"} {\nfunc.func @model(%x: ", type,
                      " {stow.name = \"x\", stow.kind = #stow.kind<input>}", arguments, ") -> (",
                      type,
                      " {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n",
                      body, "return %cz : ", type, "\n}\n}\n");
}

struct Case {
  std::string name, text;
  Precision precision;
  bool convolves = false; ///< cuDNN plans it
};

class FuseEpilogues : public testing::TestWithParam<Case>, protected OwnModel {
protected:
  FuseEpilogues() {
    write(GetParam().text);
    options.optimizer = parseOptimizer("adamw:lr=1e-3");
    options.precision = GetParam().precision;
  }

  static int64_t epiloguesOf(ModuleOp module) {
    int64_t count = 0;
    module.walk([&](Operation *op) { count += isa<ProductMapOp, Conv2dMapOp>(op); });
    return count;
  }

  const CostModel costs = loadDevice("h100", 1);
};

TEST_P(FuseEpilogues, TakesTimeFromAStepAndNoMemory) {
  if (GetParam().convolves)
    try {
      cuda::CudnnLibrary::open("");
    } catch (const Error &error) {
      GTEST_SKIP() << error.what();
    }
  const PlanningBackend<GpuWithMapsApart> backend;
  const PlanningBackend<GpuWithoutEpilogues> other;
  OwningOpRef<ModuleOp> fused = prepareStep(context, options, backend);
  OwningOpRef<ModuleOp> apart = prepareStep(context, options, other);
  EXPECT_EQ(epiloguesOf(*apart), 0);
  EXPECT_GE(epiloguesOf(*fused), 10);
  BudgetPlanner planner(*fused, costs, backend.target(), {.effort = 0.1});
  BudgetPlanner before(*apart, costs, other.target(), {.effort = 0.1});
  EXPECT_LE(planner.keepAll().arenaBytes, before.keepAll().arenaBytes);
  EXPECT_LT(planner.keepAll().time, before.keepAll().time);
  const Allowance allowance = {.share = 0.2};
  const Bytes withTime = before.within(allowance).arenaBytes; // two searches, of little effort
  EXPECT_LE(planner.within(allowance).arenaBytes, withTime + withTime / 100);
  // A bias that was cast in front of a convolution is a buffer of its own, of 32 bytes.
  const bool casts = GetParam().convolves && GetParam().precision == Precision::BF16;
  const Bytes bias = casts ? backend.target().alignment() : 0;
  EXPECT_LE(planner.smallest().arenaBytes, before.smallest().arenaBytes + bias);
  EXPECT_LE(planner.checkpointed().arenaBytes, before.checkpointed().arenaBytes + bias);
  EXPECT_LE(planner.lowerBound(), planner.smallest().arenaBytes);
  EXPECT_EQ(BudgetPlanner::copyOf(planner.smallest()).isSplit,
            epiloguesOf(*planner.smallest().placed) == 0);
  const Bytes whole = before.keepAll().arenaBytes;
  const Bytes least = std::max(before.smallest().arenaBytes, planner.smallest().arenaBytes);
  for (Bytes budget : {whole * 9 / 10, whole * 3 / 4, least}) {
    const std::optional<StepChoice> was = before.plan(budget), is = planner.plan(budget);
    ASSERT_TRUE(was && is) << budget;
    EXPECT_LE(is->arenaBytes, budget);
    if (budget > least) // where any plan is luck
      EXPECT_LE(is->time, was->time) << budget;
  }
  EXPECT_TRUE(planner.refusals().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Models, FuseEpilogues,
    testing::Values(Case{"ResidualF32", residual(3), Precision::F32},
                    Case{"ResidualBf16", residual(3), Precision::BF16},
                    Case{"HourglassF32", hourglass(), Precision::F32},
                    Case{"HourglassBf16", hourglass(), Precision::BF16},
                    Case{"ConvolutionsF32", convolutions(3), Precision::F32, true},
                    Case{"ConvolutionsBf16", convolutions(3), Precision::BF16, true}),
    [](const auto &info) { return info.param.name; });

} // namespace
} // namespace stow
