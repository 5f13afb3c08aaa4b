// Convolutions of programs on the stand-ins for libcuda and cuDNN: planned for a described chip, bound, run,
// and held to plain loops; what is not as planned is refused.
#include "codegen/cuda/CudnnPlans.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/ChipAtHand.h"
#include "runtime/cuda/Convolutions.h"
#include "runtime/cuda/ProductEpilogue.h"
#include "tests/gpu/StandInArena.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

namespace stow::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What a test varies; two dimensions of space alike, but for the image's extents.
struct Case {
  std::string name;
  ConvolutionKind kind;
  const char *layout;
  int64_t groups = 1, stride = 1, padBefore = 1, padAfter = 1, dilation = 1;
  DType type = DType::F32;
};

constexpr CommandOp kCalls[] = {CommandOp::CudaConvolution, CommandOp::CudaConvolutionGradInput,
                                CommandOp::CudaConvolutionGradWeight};

/// A 3x3 convolution of 4 to 6 channels at places of an arena, without an engine.
Command commandOf(const Case &of) {
  constexpr int64_t kHeight = 7, kWidth = 6, kImages = 2, kIn = 4, kOut = 6, kTaps = 3;
  auto out = [&](int64_t extent) {
    return (extent + of.padBefore + of.padAfter - of.dilation * (kTaps - 1) - 1) / of.stride + 1;
  };
  const Layout layout = parseLayout(of.layout);
  const Shape shapes[] = {{kImages, kIn, kHeight, kWidth},
                          {kOut, kIn / of.groups, kTaps, kTaps},
                          {kImages, kOut, out(kHeight), out(kWidth)}};
  const ConvolutionOperands at = operandsOf(of.kind);
  Command command;
  command.op = kCalls[static_cast<int>(of.kind)];
  command.name = "/conv";
  command.operands.resize(3);
  Bytes offset = 0;
  for (size_t i = 0; i < 3; ++i) {
    const size_t to = std::array{at.x, at.weight, at.y}[i];
    command.operands[to] = {offset, of.type, shapes[i], layout};
    offset += 8192;
  }
  command.ints = {{"strides", {of.stride, of.stride}},
                  {"dilations", {of.dilation, of.dilation}},
                  {"pads", {of.padBefore, of.padBefore, of.padAfter, of.padAfter}},
                  {"groups", {of.groups}}};
  command.workspaceOffset = offset;
  return command;
}

std::vector<double> someNumbers(size_t count, uint64_t seed) {
  std::vector<double> values(count);
  for (double &value : values) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    value = static_cast<double>(static_cast<int64_t>(seed >> 60)) / 8 - 1; // exact in all types
  }
  return values;
}

std::string refusalOf(const std::function<void()> &action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "nothing was refused";
}

class CudnnStandIn : public StandInArena {
protected:
  void TearDown() override {
    unsetenv("STANDIN_CUDNN_MORE_SCRATCH");
    unsetenv("STANDIN_CUDNN_WITHOUT");
    unsetenv("STANDIN_CUDNN_VERSION");
    StandInArena::TearDown();
  }

  static const std::vector<EnginePlan> &planned(const Command &command) {
    static CudnnPlans plans(CudnnLibrary::open(""), requireChip("h100"));
    return plans.of(convolutionOf(command));
  }

  /// Takes the engine at `position` of what was planned.
  static Command with(Command command, size_t position) {
    const EnginePlan &plan = planned(command).at(position);
    const ChipEngine chosen[] = {{0, plan.engine}};
    setEngines(command, chosen, CudnnLibrary::open("")->versionNumber(), F32Products::Exact);
    command.workspaceBytes = plan.workspaceBytes;
    return command;
  }
};

class CudnnStandInRuns : public CudnnStandIn, public testing::WithParamInterface<Case> {};

// Tests that every engine that may be used computes what plain loops do.
TEST_P(CudnnStandInRuns, AsPlainLoops) {
  const Case &of = GetParam();
  const Command command = commandOf(of);
  const ConvolutionOperands at = operandsOf(of.kind);
  const std::array<const Operand *, 3> operands = {
      &command.operands[at.x], &command.operands[at.weight], &command.operands[at.y]};
  std::array<std::vector<double>, 3> values;
  std::array<std::vector<int64_t>, 3> strides;
  for (size_t i = 0; i < 3; ++i) {
    values[i] = someNumbers(static_cast<size_t>(elementCount(operands[i]->shape)), i + 1);
    strides[i] = outerStrides(operands[i]->layout, operands[i]->shape);
  }
  auto element = [&](size_t which, int64_t a, int64_t b, int64_t c, int64_t d) -> double & {
    const auto &s = strides[which];
    return values[which][static_cast<size_t>(a * s[0] + b * s[1] + c * s[2] + d * s[3])];
  };
  const size_t result = of.kind == ConvolutionKind::Forward     ? 2
                        : of.kind == ConvolutionKind::GradInput ? 0
                                                                : 1;
  const auto given = values;
  values[result].assign(values[result].size(), 0);
  const Shape &y = operands[2]->shape, &x = operands[0]->shape, &w = operands[1]->shape;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t c = 0; c < w[1]; ++c)
        for (int64_t i = 0; i < y[2]; ++i)
          for (int64_t j = 0; j < y[3]; ++j)
            for (int64_t p = 0; p < w[2]; ++p)
              for (int64_t q = 0; q < w[3]; ++q) {
                const int64_t row = i * of.stride - of.padBefore + p * of.dilation;
                const int64_t column = j * of.stride - of.padBefore + q * of.dilation;
                if (row < 0 || row >= x[2] || column < 0 || column >= x[3])
                  continue;
                double &to = element(2, n, o, i, j), &tap = element(1, o, c, p, q);
                double &from = element(0, n, o / (y[1] / of.groups) * w[1] + c, row, column);
                if (result == 2)
                  to += from * tap;
                else if (result == 0)
                  from += to * tap;
                else
                  tap += from * to;
              }
  for (size_t position = 0; position < planned(command).size(); ++position) {
    const Command chosen = with(command, position);
    for (size_t i = 0; i < 3; ++i)
      upload(*operands[i], given[i]);
    bindConvolution(chosen, 0, arena)->submit(stream);
    const std::vector<double> found = download(*operands[result]);
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], values[result][i],
                  of.type == DType::F32 ? 1e-6 : 4e-3 * (std::abs(values[result][i]) + 1))
          << planned(command)[position].identity << ", element " << i;
  }
}

constexpr const char *kRowMajor = "0,1,2,3", *kChannelsLast = "0,2,3,1";
using enum ConvolutionKind;

INSTANTIATE_TEST_SUITE_P(
    Kinds, CudnnStandInRuns,
    testing::Values(Case{"forward", Forward, kRowMajor},
                    Case{"forward_last_bf16", Forward, kChannelsLast, 1, 2, 1, 0, 1, DType::BF16},
                    Case{"forward_groups", Forward, kRowMajor, 2, 2, 0, 1, 1},
                    Case{"forward_dilated", Forward, kChannelsLast, 1, 1, 2, 2, 2},
                    Case{"input", GradInput, kRowMajor},
                    Case{"input_last_strided", GradInput, kChannelsLast, 2, 2, 1, 1, 1},
                    Case{"input_fp16", GradInput, kRowMajor, 1, 2, 0, 2, 1, DType::F16},
                    Case{"weight", GradWeight, kRowMajor},
                    Case{"weight_last_groups", GradWeight, kChannelsLast, 2, 2, 1, 1, 1},
                    Case{"weight_dilated_bf16", GradWeight, kRowMajor, 1, 1, 2, 2, 2, DType::BF16}),
    [](const auto &info) { return info.param.name; });

/// The forward command of `of` with a bias, behind which the operand `added` may stand, and a function.
struct Epilogue {
  bool isAdded = false;
  ProductFunction function = ProductFunction::None;
};

Command withEpilogue(Command command, const Epilogue &epilogue) {
  command.op = CommandOp::CudaConvolutionEpilogue;
  const Operand y = command.operands.back();
  command.operands.pop_back();
  Bytes offset = command.workspaceOffset;
  auto add = [&](Shape shape, const Layout &layout) {
    command.operands.push_back({offset, y.dtype, std::move(shape), layout});
    offset += 8192;
    return command.operands.size() - 1;
  };
  ProductEpilogue written{epilogue.function, add({y.shape[1], 1, 1}, {}), {}, {}, {}};
  if (epilogue.isAdded)
    written.added = add(y.shape, y.layout);
  command.operands.push_back(y);
  setEpilogue(command, written);
  command.workspaceOffset = offset;
  return command;
}

// Tests that every engine adds and cuts off what it convolved as the command says, before it is rounded.
TEST_F(CudnnStandIn, RunsEpilogues) {
  using enum ProductFunction;
  for (const Epilogue &epilogue :
       {Epilogue{}, Epilogue{true, None}, Epilogue{false, Relu}, Epilogue{true, Relu}})
    for (const Case &of : {Case{"", Forward, kRowMajor}, Case{"", Forward, kRowMajor, 2, 2},
                           Case{"", Forward, kChannelsLast, 1, 2, 1, 0, 1, DType::BF16}}) {
      const Command alone = with(commandOf(of), 0), command = withEpilogue(commandOf(of), epilogue);
      const ConvolutionOperands at = operandsOf(command);
      const Operand &y = command.operands[at.y], &bias = command.operands[*at.bias];
      const auto count = static_cast<size_t>(elementCount(y.shape));
      for (size_t i : {at.x, at.weight})
        upload(command.operands[i],
               someNumbers(static_cast<size_t>(elementCount(command.operands[i].shape)), i + 1));
      const std::vector<double> more = someNumbers(count, 5),
                                biases = someNumbers(static_cast<size_t>(y.shape[1]), 6);
      bindConvolution(alone, 0, arena)->submit(stream);
      std::vector<double> expected = download(y);
      const std::vector<int64_t> strides = outerStrides(y.layout, y.shape);
      for (size_t i = 0; i < count; ++i) {
        const int64_t channel = static_cast<int64_t>(i) / strides[1] % y.shape[1];
        expected[i] += biases[static_cast<size_t>(channel)] + (epilogue.isAdded ? more[i] : 0);
        if (epilogue.function == Relu)
          expected[i] = std::max(expected[i], 0.0);
      }
      upload(bias, biases);
      if (at.added)
        upload(command.operands[*at.added], more);
      EXPECT_GE(planned(command).size(), 3);
      for (size_t position = 0; position < planned(command).size(); ++position) {
        upload(y, std::vector<double>(count, 77));
        bindConvolution(with(command, position), 0, arena)->submit(stream);
        const std::vector<double> found = download(y);
        for (size_t i = 0; i < count; ++i)
          ASSERT_NEAR(found[i], expected[i],
                      of.type == DType::F32 ? 1e-6 : 1e-2 * (std::abs(expected[i]) + 1))
              << describe(convolutionOf(command)) << ", element " << i;
      }
    }
}

// Tests that every GPU's convolutions have a handle of its own.
TEST_F(CudnnStandIn, HandlesOfTwoGpus) {
  const Command command = with(commandOf({"", Forward, kRowMajor}), 0);
  const auto convolution = bindConvolution(command, 0, arena);
  onSecondGpu([&](Stream there) {
    EXPECT_NO_THROW(bindConvolution(command, 0, arena)->submit(there));
    EXPECT_THROW(convolution->submit(there), Error);
  });
  EXPECT_NO_THROW(convolution->submit(stream));
}

// Tests that epilogues which are none of cuDNN's are refused, and that engines are those of the whole.
TEST_F(CudnnStandIn, EpiloguesThatAreNone) {
  const Command good =
      with(withEpilogue(commandOf({"", Forward, kRowMajor}), {true, ProductFunction::Relu}), 0);
  EXPECT_NO_THROW(bindConvolution(good, 0, arena));
  EXPECT_THAT(describe(convolutionOf(good)),
              testing::StartsWith("convolution with bias, sum, relu of f32, x 2x4x7x6, weight"));
  auto refused = [&](const std::function<void(Command &)> &change) {
    Command command = good;
    change(command);
    return refusalOf([&] { bindConvolution(command, 0, arena); });
  };
  EXPECT_THAT(refused([](Command &c) { c.ints["function"] = {2}; }),
              HasSubstr("has an epilogue that is none of cuDNN's"));
  EXPECT_THAT(refused([](Command &c) {
                c.ints.erase("bias"), c.ints["added"] = {2};
                c.operands.erase(c.operands.begin() + 3);
              }),
              HasSubstr("none of cuDNN's: expected a bias"));
  EXPECT_THAT(refused([](Command &c) { c.ints["bias"] = {1}; }),
              HasSubstr("has no operand 1 for its epilogue"));
  EXPECT_THAT(refused([](Command &c) { c.ints["added"] = {2}; }),
              HasSubstr("none of cuDNN's: expected a bias"));
  EXPECT_THAT(refused([](Command &c) { c.ints.erase("function"); }),
              HasSubstr("with 5 operands is no convolution for cuDNN"));
  EXPECT_THAT(refused([](Command &c) { c.op = CommandOp::CudaConvolution; }),
              HasSubstr("says of no function, or of one that it does not have"));
  EXPECT_THAT(refused([](Command &c) { c.operands[2].shape[0] += 1; }),
              HasSubstr("other chains than sum, bias and maximum"));
  EXPECT_THAT(refused([](Command &c) { c.operands[2].dtype = DType::F16; }),
              HasSubstr("what is added to the convolution does not fit y"));
  EXPECT_THAT(refused([](Command &c) { c.operands[3].offset += 4; }),
              HasSubstr("is not aligned to 64 bytes"));
}

// Tests that of the stand-in's engines those are left out that vary from run to run, and those with TF32
// products, and that scratch depends on the chip.
TEST_F(CudnnStandIn, PlansWithoutADevice) {
  const Command command = commandOf({"", Forward, kRowMajor});
  std::vector<std::string> identities;
  std::vector<Bytes> bytes;
  for (const EnginePlan &plan : planned(command)) {
    identities.push_back(plan.identity);
    bytes.push_back(plan.workspaceBytes);
  }
  EXPECT_THAT(identities,
              testing::ElementsAre("engine 11 (SPLIT_K_BUF=2)", "engine 12", "engine 0"));
  EXPECT_THAT(bytes, testing::ElementsAre(2 * 2 * 6 * 7 * 6 * 4 + 131, 288, 0));
  const Command narrow = commandOf({"", Forward, kRowMajor, 1, 1, 1, 1, 1, DType::BF16});
  EXPECT_EQ(planned(narrow).size(), 4) << "16 bits have engines of tensor cores as well";
}

// Tests that scratch beyond the planned bytes is refused with both figures, and the versions where they
// differ.
TEST_F(CudnnStandIn, MoreScratchThanPlanned) {
  const Command command = with(commandOf({"", GradWeight, kRowMajor}), 1);
  setenv("STANDIN_CUDNN_MORE_SCRATCH", "64", 1);
  EXPECT_THAT(
      refusalOf([&] { bindConvolution(command, 0, arena); }),
      AllOf(
          HasSubstr(
              "command 'cuda.convolution_grad_weight' of node '/conv', weight "
              "gradient of f32, x 2x4x7x6, weight 6x4x3x3, y 2x6x7x6, planned with "
              "cuDNN 9.99.0 and engine 12: the engine needs 352 B (352 bytes) of scratch here and "
              "was planned with 288 B (288 bytes); "),
          Not(HasSubstr("found cuDNN"))));
  setenv("STANDIN_CUDNN_VERSION", "99901", 1);
  EXPECT_THAT(refusalOf([&] { bindConvolution(command, 0, arena); }),
              HasSubstr("planned with cuDNN 9.99.0 and engine 12, found cuDNN 9.99.1: the engine "
                        "needs 352 B (352 bytes)"));
}

// Tests that another version runs what it has as planned, and refuses what it has not.
TEST_F(CudnnStandIn, AnotherVersion) {
  const Command command = with(commandOf({"", Forward, kRowMajor}), 0);
  setenv("STANDIN_CUDNN_VERSION", "99901", 1);
  EXPECT_NO_THROW(bindConvolution(command, 0, arena));
  setenv("STANDIN_CUDNN_WITHOUT", "11", 1);
  EXPECT_THAT(refusalOf([&] { bindConvolution(command, 0, arena); }),
              AllOf(HasSubstr("engine 11 (knobs 12=2), found cuDNN 9.99.1: "),
                    HasSubstr("CUDNN_STATUS_NOT_SUPPORTED: no engine 11")));
}

// Tests that commands which do not say what the compiler planned are refused, whatever is wrong.
TEST_F(CudnnStandIn, CommandsThatWereNotPlanned) {
  const Command good = with(commandOf({"", Forward, kRowMajor}), 0);
  auto refused = [&](const std::function<void(Command &)> &change) {
    Command command = good;
    change(command);
    return refusalOf([&] { bindConvolution(command, 0, arena); });
  };
  EXPECT_THAT(refused([](Command &c) { c.ints["engine"] = {10}; }),
              HasSubstr("the engine has results that differ from run to run here"));
  EXPECT_THAT(refused([](Command &c) { c.ints["engine"] = {13}; }),
              HasSubstr("the engine has TF32 products here"));
  EXPECT_THAT(refused([](Command &c) { c.ints["engine"] = {77}; }), HasSubstr("no engine 77"));
  EXPECT_THAT(refused([](Command &c) { c.ints["knobs"] = {12, 9}; }),
              HasSubstr("has no knob 12 of value 9"));
  EXPECT_THAT(refused([](Command &c) { c.ints["knobs"] = {12, 3}; }),
              HasSubstr("of scratch here and was planned with"));
  EXPECT_THAT(refused([](Command &c) { c.ints["knobs"] = {12}; }),
              HasSubstr("has a knob without a value"));
  EXPECT_THAT(refused([](Command &c) { c.ints["engine"] = {14}, c.ints["knobs"] = {}; }),
              HasSubstr("engine 14 does not run on a device with 132 multiprocessors"));
  EXPECT_THAT(refused([](Command &c) { c.ints.erase("engine"); }),
              HasSubstr("does not say \"engine\""));
  EXPECT_THAT(refused([](Command &c) { c.workspaceBytes -= 1; }),
              HasSubstr("of scratch here and was planned with"));
  EXPECT_THAT(refused([](Command &c) { c.operands[0].offset += 4; }),
              HasSubstr("an operand at offset 4 of the arena is not aligned to 64 bytes"));
  EXPECT_THAT(refused([](Command &c) { c.operands[2].shape[3] += 1; }),
              HasSubstr("extents of y do not agree"));
  EXPECT_THAT(refused([](Command &c) { c.operands[1].dtype = DType::F16; }),
              HasSubstr("types differ"));
  EXPECT_THAT(refused([](Command &c) { c.operands.push_back(c.operands[0]); }),
              HasSubstr("with 4 operands is no convolution for cuDNN"));
}

// Tests that a command holds an engine for each of several chips, and that each is bound to its own.
TEST_F(CudnnStandIn, EnginesOfSeveralChips) {
  Command command = commandOf({"", Forward, kRowMajor});
  const auto library = CudnnLibrary::open("");
  CudnnPlans a100(library, requireChip("a100"));
  const Engine small = a100.of(convolutionOf(command)).front().engine,
               large = planned(command).front().engine;
  EXPECT_EQ(small.index, 14) << "the stand-in's engine for small devices";
  EXPECT_EQ(large.index, 11);
  const std::vector<ChipEngine> engines = {{80, small}, {90, large}};
  setEngines(command, engines, library->versionNumber(), F32Products::Exact);
  command.workspaceBytes = 1 << 16;
  const std::vector<ChipEngine> read = enginesOf(command);
  ASSERT_EQ(read.size(), 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].architecture, engines[i].architecture);
    EXPECT_EQ(read[i].engine.index, engines[i].engine.index);
    EXPECT_EQ(read[i].engine.knobs, engines[i].engine.knobs);
  }
  // The device at hand is an H100.
  EXPECT_NO_THROW(bindConvolution(command, 1, arena));
  EXPECT_THAT(refusalOf([&] { bindConvolution(command, 0, arena); }),
              HasSubstr("engine 14 does not run on a device with 132 multiprocessors"));
  EXPECT_THAT(refusalOf([&] { bindConvolution(command, 2, arena); }),
              HasSubstr("has engines for 2 chips, none for number 2"));
  auto refused = [&](const char *name, std::vector<int64_t> values) {
    Command other = command;
    other.ints[name] = std::move(values);
    return refusalOf([&] { enginesOf(other); });
  };
  EXPECT_THAT(refused("knob_counts", {0}), HasSubstr("\"knob_counts\" of 1 and"));
  EXPECT_THAT(refused("architectures", {80, 90, 100}), HasSubstr("\"architectures\" of 3"));
  EXPECT_THAT(refused("knob_counts", {0, 2}), HasSubstr("engine 1 takes 2 of the 1 left"));
  EXPECT_THAT(refused("knob_counts", {-1, 1}), HasSubstr("engine 0 takes -1"));
  EXPECT_THAT(refused("knob_counts", {0, 0}), HasSubstr("1 knobs that no engine takes"));
}

// Tests that a spare engine runs where the planned one is not what was planned, the first that is, and says so.
TEST_F(CudnnStandIn, SpareEngines) {
  Command command = with(commandOf({"", GradWeight, kRowMajor}), 1);
  const std::vector<EnginePlan> &plans = planned(command);
  EXPECT_EQ(bindConvolution(command, 0, arena)->note(), "");
  const std::vector<SpareEngine> spares = {
      {1, plans[2].engine}, {0, {77, {}}}, {0, plans[0].engine}, {0, plans[2].engine}};
  setSpareEngines(command, spares);
  const std::vector<SpareEngine> read = spareEnginesOf(command);
  ASSERT_EQ(read.size(), spares.size());
  for (size_t i = 0; i < spares.size(); ++i) {
    EXPECT_EQ(read[i].chip, spares[i].chip);
    EXPECT_EQ(read[i].engine.index, spares[i].engine.index);
    EXPECT_EQ(read[i].engine.knobs, spares[i].engine.knobs);
  }
  setenv("STANDIN_CUDNN_WITHOUT", "12", 1);
  EXPECT_THAT(bindConvolution(command, 0, arena)->note(),
              AllOf(HasSubstr("of node '/conv': engine 12 is refused here: "),
                    HasSubstr("; engine 0 runs instead")));
  command.ints["spares"].resize(4);
  EXPECT_THAT(refusalOf([&] { bindConvolution(command, 0, arena); }),
              HasSubstr("'/conv' has a list of spare engines that is cut off"));
}

// Tests by which chip's engines a device runs a program for several.
TEST(ChipAtHand, ByArchitectureThenByName) {
  Program program;
  program.target = "cuda:a100,h100,h200";
  EXPECT_EQ(chipAtHand(program, "NVIDIA H100 80GB HBM3", 90), 0) << "nothing differs by chip";
  Command command = commandOf({"", Forward, kRowMajor});
  const std::vector<ChipEngine> engines = {{80, {}}, {90, {}}, {90, {}}};
  setEngines(command, engines, 99900, F32Products::Exact);
  program.graphs = {GraphProgram()};
  program.graphs[0].commands = {command};
  EXPECT_EQ(chipAtHand(program, "NVIDIA A100-SXM4-80GB", 80), 0);
  EXPECT_EQ(chipAtHand(program, "NVIDIA H100 80GB HBM3", 90), 1);
  EXPECT_EQ(chipAtHand(program, "NVIDIA H200", 90), 2);
  EXPECT_EQ(chipAtHand(program, "NVIDIA H800", 90), 1) << "the first of its architecture";
  EXPECT_THAT(
      refusalOf([&] { chipAtHand(program, "NVIDIA B200", 100); }),
      HasSubstr("planned for a100 (8.0), h100 (9.0), h200 (9.0), and the GPU is NVIDIA B200 of "
                "compute capability 10.0; compile the model with its chip in --target"));
  program.target = "cuda:a100";
  EXPECT_THAT(refusalOf([&] { chipAtHand(program, "NVIDIA A100-SXM4-80GB", 80); }),
              HasSubstr("has engines for 3 chips"));
}

} // namespace
} // namespace stow::cuda
