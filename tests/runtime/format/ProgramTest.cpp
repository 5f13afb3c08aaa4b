#include "runtime/format/Program.h"

#include "runtime/base/Error.h"
#include "tests/runtime/format/TinyPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stow {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

Program makeProgram() {
  Program program;
  program.target = "cuda:sm_90";
  program.model = "tiny";
  program.batch = 4;
  program.threads = 2;
  program.loss = parseLoss("mse:reduction=sum");
  program.optimizer = parseOptimizer("sgd:lr=0.1,momentum=0.9");
  Operand weight{0, DType::F32, {16, 4, 3, 3}, parseLayout("0,1,2,3;1:2;0:8")};
  program.state.push_back(
      {"w", BufferKind::Parameter, weight, {Init::Kind::Uniform, -0.3, 1.0 / 3, 0}, true});
  program.state.push_back({"w.momentum", BufferKind::Optimizer, weight, {}, true});
  program.state.push_back({"mean",
                           BufferKind::Statistic,
                           {4096, DType::F64, {}, {}},
                           {Init::Kind::Data, 0, 0, 72},
                           false});
  GraphProgram train;
  train.role = GraphRole::Train;
  train.inputs = {{"x", InputRole::Data, {192, DType::F32, {4, 4}, {}}},
                  {"y", InputRole::Target, {256, DType::I64, {4}, {}}},
                  {"lr", InputRole::LearningRate, {320, DType::F32, {}, {}}},
                  {"step", InputRole::Step, {328, DType::I64, {}, {}}},
                  {"seed", InputRole::Seed, {336, DType::I64, {}, {}}}};
  train.outputs = {{"loss", {344, DType::F32, {}, {}}}};
  Command conv;
  conv.op = CommandOp::DnnlConvolution;
  conv.name = "conv1";
  conv.kind = "conv2d";
  conv.phase = StepPhase::Backward;
  conv.flops = 1e9;
  conv.bytes = 4096;
  conv.operands = {weight, {192, DType::F32, {4, 4}, {}}};
  conv.ints = {{"strides", {1, 1}}, {"pads", {0, 0, 1, -1}}, {"groups", {}}};
  conv.floats = {{"epsilon", 1e-5}};
  conv.workspaceOffset = 8192;
  conv.workspaceBytes = 777;
  conv.dying = {weight};
  Command kernel;
  kernel.op = CommandOp::Kernel;
  kernel.name = "relu1";
  kernel.kernel = 3;
  kernel.tasks = 17;
  Command sequence;
  sequence.op = CommandOp::Sequence;
  sequence.parts = {conv, kernel};
  train.commands = {conv, kernel, sequence};
  program.graphs = {train, {GraphRole::Eval, {}, {{"output", {64, DType::BF16, {4, 10}, {}}}}, {}}};
  program.plan = makeTinyPlan();
  return program;
}

// Tests that nothing is lost on the way through JSON and that the bytes are stable.
TEST(ProgramTest, JsonRoundTrips) {
  Program program = makeProgram();
  std::string text = toJson(program);
  Program read = programFromJson(text);
  EXPECT_EQ(toJson(read), text);
  EXPECT_EQ(read.target, "cuda:sm_90");
  EXPECT_EQ(read.batch, 4);
  EXPECT_EQ(read.loss.kind, LossSpec::Kind::SquaredError);
  EXPECT_EQ(read.loss.reduction, LossSpec::Reduction::Sum);
  EXPECT_EQ(read.optimizer.text, "sgd:lr=0.1,momentum=0.9");
  EXPECT_EQ(read.optimizer.momentum, 0.9);
  EXPECT_EQ(read.optimizer.learningRate, 0.1);
  ASSERT_EQ(read.state.size(), 3u);
  EXPECT_EQ(read.state[0].place.layout, program.state[0].place.layout);
  EXPECT_EQ(read.state[0].init.kind, Init::Kind::Uniform);
  EXPECT_EQ(read.state[0].init.b, 1.0 / 3); // exact: the shortest text that reads back
  EXPECT_EQ(read.state[2].init.dataOffset, 72u);
  EXPECT_FALSE(read.state[2].saved);
  ASSERT_EQ(read.graphs.size(), 2u);
  const GraphProgram &train = read.graphs[0];
  EXPECT_EQ(train.inputs[2].role, InputRole::LearningRate);
  EXPECT_EQ(train.inputs[4].role, InputRole::Seed);
  const Command &conv = train.commands[0];
  EXPECT_EQ(conv.kernel, -1);
  EXPECT_EQ(conv.ints, program.graphs[0].commands[0].ints);
  EXPECT_EQ(conv.floats, program.graphs[0].commands[0].floats);
  EXPECT_EQ(conv.workspaceBytes, 777);
  EXPECT_EQ(conv.dying.size(), 1u);
  EXPECT_EQ(train.commands[1].tasks, 17);
  ASSERT_EQ(train.commands[2].parts.size(), 2u);
  EXPECT_EQ(train.commands[2].parts[1].kernel, 3);
  EXPECT_EQ(read.graphs[1].outputs[0].place.dtype, DType::BF16);
  EXPECT_EQ(toJson(read.plan), toJson(program.plan));
}

// Tests that evaluation in parts is written where there is any, and read again.
TEST(ProgramTest, JsonHoldsThePartsOfEvaluation) {
  Program program = makeProgram();
  EXPECT_THAT(toJson(program), testing::Not(HasSubstr("evaluation_parts")));
  EXPECT_THAT(toJson(program), testing::Not(HasSubstr("joining")));
  program.evaluationParts = 2;
  program.graphs[1].outputs.push_back({"total", {0, DType::F32, {}, {}}, Joining::Sum});
  program.graphs[1].outputs.push_back({"share", {0, DType::F32, {}, {}}, Joining::Mean});
  const std::string text = toJson(program);
  const Program read = programFromJson(text);
  EXPECT_EQ(toJson(read), text);
  EXPECT_EQ(read.samplesPerEvaluation(), 2);
  EXPECT_EQ(read.graphs[1].outputs[0].joining, Joining::Rows);
  EXPECT_EQ(read.graphs[1].outputs[1].joining, Joining::Sum);
  EXPECT_EQ(read.graphs[1].outputs[2].joining, Joining::Mean);
  program.evaluationParts = 3;
  EXPECT_THROW(programFromJson(toJson(program)), Error) << "4 samples in 3 parts";
}

// Tests that places for next inputs are written where there are any, and read again.
TEST(ProgramTest, JsonHoldsPlacesForNextInputs) {
  Program program = makeProgram();
  EXPECT_THAT(toJson(program), testing::Not(HasSubstr("next_")));
  program.graphs[0].nextFrom = 2;
  program.graphs[0].inputs[1].nextOffset = 640;
  const std::string text = toJson(program);
  const Program read = programFromJson(text);
  EXPECT_EQ(toJson(read), text);
  EXPECT_EQ(read.graphs[0].nextFrom, 2u);
  EXPECT_EQ(read.graphs[0].inputs[1].nextOffset, 640);
  EXPECT_FALSE(read.graphs[0].inputs[0].nextOffset);
  EXPECT_FALSE(read.graphs[1].nextFrom);
}

/// Whose step copies a tensor to slow memory and back.
Program makeProgramThatCopies() {
  Program program = makeProgram();
  program.slowBytes = 8192;
  program.slowFolder = "/scratch";
  auto add = [&](CommandOp op, int64_t copy, std::optional<int64_t> slowOffset) {
    Command command;
    command.op = op;
    command.kind = nameOf(op);
    command.name = "relu1";
    command.operands = {{192, DType::F32, {4, 4}, {}}};
    command.ints["copy"] = {copy};
    if (slowOffset)
      command.ints["slow_offset"] = {*slowOffset};
    program.graphs[0].commands.push_back(command);
  };
  add(CommandOp::CopyOut, 0, 4096);
  add(CommandOp::AwaitCopy, 0, std::nullopt);
  add(CommandOp::CopyIn, 1, 4096);
  add(CommandOp::AwaitCopy, 1, std::nullopt);
  program.plan.graphs[0].copies = PlannedCopies{64, 128, 0.25, 0.5, 4096};
  return program;
}

// Tests that slow memory, and what the plan says of copies, is written where there is any, and read again.
TEST(ProgramTest, JsonHoldsSlowMemory) {
  EXPECT_THAT(toJson(makeProgram()), testing::Not(HasSubstr("slow_")));
  EXPECT_THAT(toJson(makeProgram()), testing::Not(HasSubstr("\"copies\"")));
  const std::string text = toJson(makeProgramThatCopies());
  const Program read = programFromJson(text);
  EXPECT_EQ(toJson(read), text);
  EXPECT_EQ(read.slowBytes, 8192);
  EXPECT_EQ(read.slowFolder, "/scratch");
  const std::optional<PlannedCopies> &copies = read.plan.graphs[0].copies;
  ASSERT_TRUE(copies);
  EXPECT_EQ(copies->bytesOut, 64);
  EXPECT_EQ(copies->bytesIn, 128);
  EXPECT_EQ(copies->hiddenSeconds, 0.25);
  EXPECT_EQ(copies->exposedSeconds, 0.5);
  EXPECT_EQ(copies->slowPeakBytes, 4096);
  EXPECT_FALSE(read.plan.graphs[1].copies);
}

// Tests that copies that are not whole are refused where they are read, with the key.
TEST(ProgramTest, JsonCopiesAreWhole) {
  auto refused = [&](auto change) -> std::string {
    ordered_json json = ordered_json::parse(toJson(makeProgramThatCopies()));
    change(json);
    try {
      programFromJson(json.dump());
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refused([](auto &j) { j["slow_bytes"] = 8000; }),
            "program: slow_bytes: expected a multiple of 4096, found 8000");
  EXPECT_EQ(refused([](auto &j) { j.erase("slow_bytes"); }),
            "program: graphs[0].commands: command 3, 'copy_out' of node 'relu1': its bytes [4096, "
            "8192) leave the slow memory of 0 bytes");
  EXPECT_EQ(refused([](auto &j) { j["slow_folder"] = 3; }),
            "program: slow_folder: expected a string, found the number 3");
  EXPECT_EQ(refused([](auto &j) { j["plan"]["graphs"][0]["copies"].erase("bytes_in"); }),
            "program: plan.graphs[0].copies.bytes_in: this key is missing");
  EXPECT_EQ(refused([](auto &j) { j["plan"]["graphs"][0]["copies"]["exposed_seconds"] = -1; }),
            "program: plan.graphs[0].copies.exposed_seconds: expected 0 or more, found -1.000000");
}

/// With a second shape, whose step has half the samples.
Program makeProgramOfShapes() {
  Program program = makeProgram();
  program.shapes = {{"batch=4", 4}, {"batch=2", 2}};
  program.fillsBatches = true;
  GraphProgram small = program.graphs[0];
  small.shape = "batch=2";
  small.inputs[1].padding = -100;
  program.graphs.push_back(small);
  GraphProgram evaluation = program.graphs[1];
  evaluation.shape = "batch=2";
  program.graphs.push_back(evaluation);
  return program;
}

// Tests that several shapes are written where there are any, and that graphs are found by role and shape.
TEST(ProgramTest, JsonHoldsShapes) {
  EXPECT_THAT(toJson(makeProgram()), testing::Not(HasSubstr("shapes")));
  EXPECT_THAT(toJson(makeProgram()), testing::Not(HasSubstr("\"padding\":-100")));
  EXPECT_EQ(makeProgram().shapeCount(), 1u);
  const std::string text = toJson(makeProgramOfShapes());
  const Program read = programFromJson(text);
  EXPECT_EQ(toJson(read), text);
  EXPECT_TRUE(read.fillsBatches);
  EXPECT_EQ(read.shapeCount(), 2u);
  EXPECT_EQ(read.batchOf(0), 4);
  EXPECT_EQ(read.batchOf(1), 2);
  EXPECT_EQ(read.graphs[2].name(), "train@batch=2");
  EXPECT_EQ(read.graphs[2].inputs[1].padding, -100);
  EXPECT_FALSE(read.graphs[0].inputs[1].padding);
  EXPECT_EQ(stepGraphIndex(read), 0u);
  EXPECT_EQ(stepGraphIndex(read, 0, 1), 2u);
  EXPECT_EQ(graphIndex(read, GraphRole::Eval), 1u);
  EXPECT_EQ(graphIndex(read, GraphRole::Eval, 1), 3u);
  EXPECT_EQ(read.graphs[3].name(), "eval@batch=2");
}

// Tests that each shape evaluates a batch in parts of its own.
TEST(ProgramTest, JsonHoldsThePartsOfEachShape) {
  Program program = makeProgramOfShapes();
  EXPECT_THAT(toJson(program), testing::Not(HasSubstr("evaluation_parts")));
  program.evaluationParts = program.shapes[0].evaluationParts = 4;
  program.shapes[1].evaluationParts = 2;
  const std::string text = toJson(program);
  const Program read = programFromJson(text);
  EXPECT_EQ(toJson(read), text);
  EXPECT_EQ(read.samplesPerEvaluation(), 1);
  EXPECT_EQ(read.partsOf(1), 2);
  EXPECT_EQ(read.samplesPerEvaluation(1), 1);
  program.shapes[1].evaluationParts = 3;
  EXPECT_THROW(programFromJson(toJson(program)), Error) << "2 samples in 3 parts";
}

// Tests that a program whose shapes lack a step or an evaluation, or name one twice, is refused.
TEST(ProgramTest, JsonShapesHaveSteps) {
  auto refused = [&](auto change) -> std::string {
    Program program = makeProgramOfShapes();
    change(program);
    try {
      programFromJson(toJson(program));
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refused([](Program &p) { p.graphs.erase(p.graphs.begin() + 2); }),
            "program: shapes: no graph trains in 'batch=2'");
  EXPECT_EQ(refused([](Program &p) { p.graphs.pop_back(); }),
            "program: shapes: no graph evaluates in 'batch=2'");
  EXPECT_EQ(refused([](Program &p) { p.graphs.push_back(p.graphs[2]); }),
            "program: graphs: graphs 2 and 4 are both of role 'train@batch=2'");
  EXPECT_EQ(refused([](Program &p) { p.shapes[1].batch = 5; }),
            "program: shapes: expected a batch of 1 to 4, that of the largest, for 'batch=2', "
            "found 5");
}

// Tests that errors inside nested parts name the whole path.
TEST(ProgramTest, JsonErrorsNameTheKey) {
  const ordered_json good = ordered_json::parse(toJson(makeProgram()));
  auto changed = [&](auto change) -> std::string {
    ordered_json json = good;
    change(json);
    try {
      programFromJson(json.dump());
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["commands"][0]["operands"][1]["shape"] = 4; }),
            "program: graphs[0].commands[0].operands[1].shape: expected an array, found the "
            "number 4");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["commands"][0]["ints"]["pads"][2] = "same"; }),
            "program: graphs[0].commands[0].ints.pads[2]: expected an integer, found a string");
  EXPECT_THAT(changed([](auto &j) { j["graphs"][0]["inputs"][1]["role"] = "label"; }),
              HasSubstr("program: graphs[0].inputs[1].role: unknown value 'label'; expected one "
                        "of data, target"));
  EXPECT_EQ(changed([](auto &j) { j["graphs"][1]["name"] = "predict"; }),
            "program: graphs[1].name: unknown graph role 'predict'; expected one of train, eval, "
            "accumulate, commit, measure");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][1]["name"] = "train"; }),
            "program: graphs: graphs 0 and 1 are both of role 'train'");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["commands"][0]["phase"] = "sideways"; }),
            "program: graphs[0].commands[0].phase: unknown phase 'sideways'; expected one of "
            "forward, backward, update");
  EXPECT_THAT(
      changed([](auto &j) { j["graphs"][0]["commands"][0]["op"] = "dnnl.fft"; }),
      HasSubstr("program: graphs[0].commands[0].op: unknown command 'dnnl.fft'; expected one "
                "of kernel, sequence, product_map, copy_out, "));
  EXPECT_THAT(changed([](auto &j) { j["state"][0]["place"]["layout"] = "0,1;7:2"; }),
              HasSubstr("program: state[0].place.layout: "));
  EXPECT_THAT(changed([](auto &j) { j["version"] = 99; }),
              HasSubstr("program: version: expected 1, found 99"));
  EXPECT_EQ(changed([](auto &j) { j.erase("target"); }), "program: target: this key is missing");
  EXPECT_EQ(changed([](auto &j) { j["plan"]["buffers"][0].erase("kind"); }),
            "program: plan.buffers[0].kind: this key is missing");
  EXPECT_EQ(changed([](auto &j) { j["state"][1]["saved"] = 1; }),
            "program: state[1].saved: expected true or false, found the number 1");
}

} // namespace
} // namespace stow
