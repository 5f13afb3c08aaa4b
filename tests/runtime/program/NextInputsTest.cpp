// Places for next inputs: what a program refuses that says a place is free which is not.
#include "runtime/program/NextInputs.h"

#include "runtime/base/Error.h"

#include <functional>
#include <gmock/gmock.h>

namespace stow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Operand place(Bytes offset, Bytes bytes) { return {offset, DType::U8, {bytes}, {}}; }

// Six commands in an arena of 640 bytes; the next x comes to [128, 256) from command 4 on.
//
//     0        128            256       384      512      640
//     | x      | command 3    | weight  | y loss |        |      another graph has an input at 580
class NextInputsTest : public testing::Test {
protected:
  NextInputsTest() {
    program.plan.arenaBytes = 640;
    program.state = {{"weight", BufferKind::Parameter, place(256, 128), {}, true}};
    program.graphs.resize(2);
    GraphProgram &graph = program.graphs[0];
    graph.inputs = {{"x", InputRole::Data, place(0, 128)},
                    {"y", InputRole::Target, place(384, 64)}};
    graph.outputs = {{"loss", place(448, 4)}};
    graph.commands.resize(6);
    for (Command &command : graph.commands)
      command.op = CommandOp::Kernel, command.name = "node";
    graph.commands[3].operands = {place(192, 32)};
    graph.inputs[0].nextOffset = 128;
    graph.nextFrom = 4;
    program.graphs[1].role = GraphRole::Eval;
    program.graphs[1].inputs = {{"z", InputRole::Data, place(580, 60)}};
  }

  /// What is said of the program with a change.
  std::string refusal(const std::function<void(GraphProgram &)> &change) {
    Program changed = program;
    change(changed.graphs[0]);
    try {
      checkNextInputs(changed, changed.graphs[0]);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      EXPECT_THAT(error.what(), HasSubstr("compile the model again"));
      return error.what();
    }
    return "nothing is refused";
  }
  std::string refusalAt(Bytes offset) {
    return refusal([&](GraphProgram &graph) { graph.inputs[0].nextOffset = offset; });
  }

  Program program;
};

TEST_F(NextInputsTest, FreePlacesAreTaken) {
  EXPECT_EQ(refusalAt(128), "nothing is refused");
  checkNextInputs(program, program.graphs[1]);
}

TEST_F(NextInputsTest, WhatIsUsedIsNotFree) {
  EXPECT_THAT(
      refusal([](GraphProgram &graph) { graph.nextFrom = 3; }),
      AllOf(HasSubstr("the next 'x' of graph 'train' comes to [128, 256) from command 3 on"),
            HasSubstr("where command 3, 'kernel' of node 'node' has [192, 224)")));
  EXPECT_THAT(refusalAt(64), HasSubstr("where input 'x' of graph 'train' has [0, 128)"));
  EXPECT_THAT(refusalAt(129), HasSubstr("where state 'weight' has [256, 384)"));
  EXPECT_THAT(refusalAt(451), HasSubstr("where output 'loss' has [448, 452)"));
  EXPECT_THAT(refusalAt(512), HasSubstr("where input 'z' of graph 'eval' has [580, 640)"));
  EXPECT_THAT(refusalAt(513), HasSubstr("outside the arena"));
  EXPECT_THAT(refusalAt(-1), HasSubstr("outside the arena"));
}

TEST_F(NextInputsTest, AllThatACommandTouchesCounts) {
  const Operand taken = place(255, 1);
  EXPECT_THAT(
      refusal([&](GraphProgram &graph) { graph.commands[5].dying = {taken}; }),
      HasSubstr("where a dying operand of command 5, 'kernel' of node 'node' has [255, 256)"));
  EXPECT_THAT(refusal([&](GraphProgram &graph) {
                graph.commands[4].parts.emplace_back().operands = {taken};
              }),
              HasSubstr("where command 4"));
  EXPECT_THAT(refusal([](GraphProgram &graph) {
                graph.commands[5].workspaceOffset = 192, graph.commands[5].workspaceBytes = 64;
              }),
              HasSubstr("where scratch of command 5"));
  EXPECT_THAT(
      refusal([](GraphProgram &graph) { graph.inputs[1].nextOffset = 192; }),
      HasSubstr("the next 'y' of graph 'train' comes to [192, 256) from command 4 on, where "
                "the next 'x' has [128, 256)"));
}

TEST_F(NextInputsTest, PlacesAndCommandBelongTogether) {
  EXPECT_THAT(refusal([](GraphProgram &graph) { graph.nextFrom.reset(); }),
              HasSubstr("has places for next inputs, but no command"));
  EXPECT_THAT(refusal([](GraphProgram &graph) { graph.inputs[0].nextOffset.reset(); }),
              HasSubstr("has no places for them"));
  EXPECT_THAT(refusal([](GraphProgram &graph) { graph.nextFrom = 6; }),
              HasSubstr("from command 6 on, expected one of its 6"));
}

} // namespace
} // namespace stow
