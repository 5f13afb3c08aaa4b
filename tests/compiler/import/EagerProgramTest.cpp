// The calls of a file's nodes, as PyTorch's exporter notes them and without its notes.
#include "compiler/import/EagerProgram.h"

#include <gmock/gmock.h>

namespace stow::onnx {
namespace {

using testing::ElementsAre;

Node node(std::string type, std::vector<std::string> inputs, std::vector<std::string> outputs,
          std::string fxNode = "") {
  Node made;
  made.name = outputs.front();
  made.type = std::move(type);
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.fxNode = std::move(fxNode);
  return made;
}

std::string noted(const std::string &name, const std::string &target,
                  const std::string &arguments) {
  return "%" + name + " : [num_users=1] = call_function[target=" + target + "](args = (" +
         arguments + "), kwargs = {})";
}

class EagerProgramTest : public testing::Test {
protected:
  EagerProgramTest() {
    Input x;
    x.name = "x";
    model.inputs = {x};
    model.initializers["w"].name = "w";
    set("x", {2, 6});
    set("w", {4, 6});
  }

  void set(const std::string &name, Shape shape, int64_t width = 4) {
    shapes.shapes[name] = std::move(shape);
    shapes.widths[name] = width;
  }

  eager::Program read(const char *loss = "cross-entropy") {
    return eagerProgram(model, shapes, {"w"}, parseLoss(loss), "");
  }

  static std::vector<std::string> opsOf(const eager::Program &program) {
    std::vector<std::string> ops;
    for (const eager::Call &call : program.calls)
      ops.push_back(call.op);
    return ops;
  }

  Model model;
  BatchShapes shapes;
};

TEST_F(EagerProgramTest, NodesOfOneOperationAreOneCall) {
  const std::string linear = noted("linear", "torch.ops.aten.linear.default", "%x, %w");
  model.nodes = {node("Transpose", {"w"}, {"val_0"}, linear),
                 node("MatMul", {"x", "val_0"}, {"linear"}, linear)};
  model.outputs = {"linear"};
  set("val_0", {6, 4});
  set("linear", {2, 4});
  const eager::Program program = read();
  EXPECT_THAT(opsOf(program), ElementsAre("linear", "log_softmax", "nll_loss"));
  const eager::Call &call = program.calls.front();
  ASSERT_EQ(call.reads.size(), 2);
  EXPECT_EQ(program.tensors[call.reads[0]].name, "x");
  EXPECT_EQ(program.tensors[call.reads[0]].kind, eager::Tensor::Kind::Input);
  EXPECT_EQ(program.tensors[call.reads[1]].kind, eager::Tensor::Kind::Parameter);
  EXPECT_EQ(program.tensors[program.loss].name, "loss");
  EXPECT_EQ(program.tensors[program.calls.back().reads[1]].shape, Shape({2})); // classes
}

TEST_F(EagerProgramTest, AListHasItsParts) {
  model.nodes = {
      node("SplitToSequence", {"x"}, {"split"},
           noted("split", "torch.ops.aten.split.Tensor", "%x, 3, -1")),
      node("SequenceAt", {"split"}, {"getitem"}, noted("getitem", "operator.getitem", "%split, 0")),
      node("SequenceAt", {"split"}, {"getitem_1"},
           noted("getitem_1", "operator.getitem", "%split, 1")),
      node("Add", {"getitem", "getitem_1"}, {"add"},
           noted("add", "torch.ops.aten.add.Tensor", "%getitem, %getitem_1"))};
  model.outputs = {"add"};
  set("split", {}, 0);
  for (const char *name : {"getitem", "getitem_1", "add"})
    set(name, {2, 3});
  const eager::Program program = read("mse");
  EXPECT_THAT(opsOf(program), ElementsAre("split", "getitem", "getitem", "add", "mse_loss"));
  EXPECT_EQ(program.tensors[program.calls[0].results[0]].shape, Shape({2, 6}));
}

TEST_F(EagerProgramTest, AttentionSaysItsDropout) {
  model.nodes = {node("Attention", {"x", "x", "x"}, {"out"},
                      noted("out", "torch.ops.aten.scaled_dot_product_attention.default",
                            "%x, %x, %x, None, 0.25"))};
  model.outputs = {"out"};
  set("out", {2, 6});
  EXPECT_EQ(read("mse").calls.front().rate, 0.25);
}

TEST_F(EagerProgramTest, OtherFilesHaveTheOperatorsOfTheirNodes) {
  model.nodes = {node("Gemm", {"x", "w"}, {"y"}), node("Relu", {"y"}, {"z"}),
                 node("NoSuchOperator", {"z"}, {"u"})};
  model.outputs = {"u"};
  for (const char *name : {"y", "z", "u"})
    set(name, {2, 4});
  const eager::Program program = read("output:u");
  EXPECT_THAT(opsOf(program), ElementsAre("linear", "relu", "NoSuchOperator"));
  EXPECT_THAT(eager::unknownOperators(program), ElementsAre("NoSuchOperator"));
  EXPECT_EQ(program.tensors[program.loss].name, "u");
}

} // namespace
} // namespace stow::onnx
