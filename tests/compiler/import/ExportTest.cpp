// Exports of PyTorch 2.x by four routes (make_exports.py): what is accepted trains the module's
// parameters, and what an exporter changed is refused with its cause.
#include "compiler/import/ExportCheck.h"
#include "compiler/import/GraphImport.h"
#include "compiler/import/TensorContent.h"
#include "runtime/base/Error.h"

#include "tests/compiler/import/Mutate.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace mlir;
using testing::HasSubstr;

namespace stow::onnx {
namespace {

const std::filesystem::path folder =
    std::filesystem::path(STOWAGE_SOURCE_DIR) / "tests/compiler/import/exports";

struct Imported {
  bool isModule = false;
  ImportReport report;
  std::string errors, warnings;
};

Imported importExport(const std::string &name, const ImportOptions &options = {},
                      const std::string &ending = ".onnx") {
  Imported result;
  MLIRContext context;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    (diagnostic.getSeverity() == DiagnosticSeverity::Error ? result.errors : result.warnings) +=
        diagnostic.str() + "\n";
    return success();
  });
  auto module = importOnnx(context, folder / (name + ending), options, &result.report);
  result.isModule = bool(module);
  return result;
}

ExportFindings findingsOf(const std::string &name) {
  Model model = load(folder / (name + ".onnx"));
  restoreMerged(model);
  return checkExport(model, rolesOf(model, {}));
}

/// "name [2, 3]" lines, as make_exports.py writes dict(module.named_parameters()).
std::multiset<std::string> parametersOf(const std::string &network) {
  std::ifstream file(folder / (network + ".parameters.txt"));
  std::multiset<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.insert(line);
  return lines;
}

std::multiset<std::string> trained(const ImportReport &report) {
  std::multiset<std::string> lines;
  for (const ImportedTensor &tensor : report.tensors) {
    if (tensor.kind != ImportedTensor::Kind::Trained)
      continue;
    std::string line = tensor.name + " [";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      line += (i ? ", " : "") + std::to_string(tensor.shape[i]);
    lines.insert(line + "]");
  }
  return lines;
}

class AcceptedTest : public testing::TestWithParam<const char *> {};

TEST_P(AcceptedTest, TrainsTheModulesParameters) {
  const std::string name = GetParam();
  Imported imported = importExport(name);
  ASSERT_TRUE(imported.isModule) << imported.errors;
  EXPECT_EQ(trained(imported.report), parametersOf(name.substr(0, name.find('.'))));
}

INSTANTIATE_TEST_SUITE_P(Exports, AcceptedTest,
                         testing::Values("residual.train", "gpt.train", "vit.train", "state.train",
                                         "state.eval", "residual.noopt", "vit.noopt", "state.noopt",
                                         "rms.noopt", "rms.default", "copies.train", "copies.noopt",
                                         "packed.train", "recurrent.train", "recurrent.noopt"),
                         [](const auto &info) {
                           std::string name = info.param;
                           name[name.find('.')] = '_';
                           return name;
                         });

struct Refused {
  const char *name;
  std::vector<std::string> causes;
};

class RefusedTest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedTest, NamesTheCauseAndTheCall) {
  Imported imported = importExport(GetParam().name);
  EXPECT_FALSE(imported.isModule);
  for (const std::string &cause : GetParam().causes)
    EXPECT_THAT(imported.errors, HasSubstr(cause));
  EXPECT_THAT(imported.errors,
              HasSubstr("dynamo=False, opset_version=18, "
                        "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)"));
  EXPECT_THAT(imported.errors, HasSubstr("dynamo=True, optimize=False)"));
  EXPECT_THAT(imported.errors, HasSubstr("--allow-folded"));
}

TEST_P(RefusedTest, IsTakenWhenAllowed) {
  ImportOptions options;
  options.allowFolded = true;
  Imported imported = importExport(GetParam().name, options);
  EXPECT_TRUE(imported.isModule) << imported.errors;
}

INSTANTIATE_TEST_SUITE_P(
    Exports, RefusedTest,
    testing::Values(
        // Batch norms folded, by name of the rule.
        Refused{"residual.default",
                {"'bn1.weight', 'bn1.bias' folded into the weights of node 'node_Conv_28' (bn1, ",
                 "FuseBatchNormIntoConv"}},
        // The legacy exporter has no rule names; what it computed is named after its reader.
        Refused{"residual.eval", {"the weights of node '/stem/Conv' are 'onnx::Conv_27'"}},
        // Equal norms merged, weights transposed, the tied head untied.
        Refused{"gpt.default",
                {"'blocks.0.norm2.weight' merged with 'blocks.0.norm1.weight'",
                 "'blocks.0.norm2.bias' merged with 'blocks.0.norm1.bias'",
                 "'blocks.0.qkv.weight' computed into 'val_7' [8,24]", "more"}},
        Refused{"gpt.eval",
                {"is a copy of 'tokens.weight'; trained apart",
                 "[6,8] was computed by the exporter, from a parameter or from constants"}},
        // The class token expanded.
        Refused{"vit.default",
                {"'cls' is not in the graph; the exporter computed 'expand' [2,1,8]"}},
        // Equal layers merged: the legacy exporter transposes both weights and keeps one.
        Refused{"copies.eval", {"is read by node '/first/MatMul' and node '/second/MatMul'"}},
        Refused{"copies.default", {"'second.weight', 'second.bias' computed into 'val_0' [6,6]"}},
        // Gates put into another order, both directions joined.
        Refused{"recurrent.default", {"'gru.bias_hh_l0_reverse' computed into 'val_76' [2,12,6]"}},
        // The first step of the recurrence computed from the zero state.
        Refused{"state.default", {"'linear_1' [4,8] is the output of a layer"}}),
    [](const auto &info) {
      std::string name = info.param.name;
      name[name.find('.')] = '_';
      return name;
    });

TEST(ExportTest, UnoptimizedExportsAreWhole) {
  for (const char *name :
       {"residual.noopt", "vit.noopt", "rms.noopt", "state.noopt", "gpt.noopt", "copies.noopt"}) {
    ExportFindings findings = findingsOf(name);
    EXPECT_THAT(findings.changes, testing::IsEmpty()) << name;
    EXPECT_THAT(findings.warnings, testing::IsEmpty()) << name;
    EXPECT_THAT(findings.ties, testing::IsEmpty()) << name;
  }
}

TEST(ExportTest, TiedWeightsAreOneParameter) {
  // torch.export reads both through one of them.
  EXPECT_THAT(findingsOf("gpt.noopt").unused, testing::ElementsAre("tokens.weight"));
  EXPECT_THAT(findingsOf("vit.noopt").unused, testing::IsEmpty());
  Imported imported = importExport("gpt.noopt");
  ASSERT_TRUE(imported.isModule) << imported.errors;
  std::multiset<std::string> expected = parametersOf("gpt");
  expected.erase("tokens.weight [11, 8]");
  expected.insert("head.weight [11, 8]");
  EXPECT_EQ(trained(imported.report), expected);
}

// The legacy exporter merges equal values in evaluation mode: block.norm1, block.norm2 and norm all
// start as ones and zeros. They are different parameters.
TEST(ExportTest, MergedParametersAreRestored) {
  Imported imported = importExport("vit.eval");
  ASSERT_TRUE(imported.isModule) << imported.errors;
  EXPECT_EQ(trained(imported.report).size(), parametersOf("vit").size());
  EXPECT_EQ(trained(imported.report).count("block.norm2.weight [8]"), 1u);
  EXPECT_EQ(trained(imported.report).count("cls [1, 1, 8]"), 1u);
  EXPECT_THAT(imported.warnings, HasSubstr("computed by the exporter"));
}

TEST(ExportTest, ReasonsAreGiven) {
  Imported stated = importExport("rms.default"), ruled = importExport("residual.train");
  EXPECT_EQ(stated.report.source, "the file's graph signature");
  EXPECT_EQ(stated.report.tensors.at(0).reason, "graph signature");
  EXPECT_THAT(ruled.report.source, HasSubstr("rules"));
  EXPECT_EQ(ruled.report.tensors.at(0).reason, "rule: weight of a convolution");
}

/// A field of a protobuf message: bytes of a length below 128.
std::string field(int number, const std::string &content) {
  std::string bytes;
  for (int key = number << 3 | 2; key > 0; key >>= 7)
    bytes += static_cast<char>((key & 127) | (key > 127 ? 128 : 0));
  return bytes + static_cast<char>(content.size()) + content;
}

// What the module does not train stays as it is, as stowage.export lists it in the graph's metadata (messages
// that stand behind each other are one); frozen as a whole it is warned of.
TEST(ExportTest, FrozenParametersAreListed) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("stowage-frozen-" + std::to_string(::getpid()));
  auto importFrozen = [&](const std::vector<std::string> &patterns, const std::string &names) {
    std::ifstream file(folder / "rms.noopt.onnx", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    std::ofstream(path, std::ios::binary)
        << bytes + field(7, field(16, field(1, "stowage.frozen") + field(2, names)));
    ImportOptions options;
    options.frozen = patterns;
    Imported imported = importExport(path.string(), options, "");
    std::filesystem::remove(path);
    EXPECT_TRUE(imported.isModule) << imported.errors;
    return imported;
  };
  const std::vector<ImportedTensor> all = importExport("rms.noopt").report.tensors;
  const std::string first = all.at(0).name, second = all.at(1).name;
  Imported imported = importFrozen({}, first + "\nabsent\n" + second);
  for (const ImportedTensor &tensor : imported.report.tensors) {
    const bool isListed = tensor.name == first || tensor.name == second;
    EXPECT_EQ(tensor.kind == ImportedTensor::Kind::Frozen, isListed) << tensor.name;
    EXPECT_EQ(tensor.reason == "asks for no gradient in the module", isListed) << tensor.name;
  }
  EXPECT_EQ(trained(imported.report).size(), parametersOf("rms").size() - 2);
  EXPECT_THAT(imported.warnings, testing::IsEmpty());
  EXPECT_THAT(importFrozen({"*"}, first).warnings,
              HasSubstr("every parameter is frozen: a step trains nothing"));
}

// Names of one parameter are lines of two names.
TEST(ExportTest, TiedNamesAreLines) {
  const auto names = onnx::parseOtherNames("head.weight\ttable.weight\nhead.weight\tcopy\n");
  EXPECT_EQ(names.at("head.weight"), (std::vector<std::string>{"table.weight", "copy"}));
  for (const char *text : {"alone", "a\ta", "\ta", "a\tb\tc"})
    EXPECT_THROW(onnx::parseOtherNames(text), Error) << text;
}

// Damaged metadata and graphs, at the file's batch and another: a module or a message.
TEST(ExportTest, MutatedExportsNeverCrash) {
  std::mt19937 random(5);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("stowage-export-" + std::to_string(::getpid()));
  int imported = 0, refused = 0;
  for (const char *name : {"residual.default", "state.noopt", "copies.eval", "rms.default"}) {
    std::ifstream file(folder / (std::string(name) + ".onnx"), std::ios::binary);
    const std::string seed((std::istreambuf_iterator<char>(file)), {});
    for (int round = 0; round < 400; ++round) {
      std::string bytes = seed;
      mutate(bytes, random);
      std::ofstream(path, std::ios::binary) << bytes;
      MLIRContext context;
      std::string last;
      ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
        last = diagnostic.str();
        return success();
      });
      ImportOptions options;
      options.allowFolded = round % 2;
      if (round % 3 == 0)
        options.batch = 3;
      ImportReport report;
      auto module = importOnnx(context, path, options, &report);
      ASSERT_TRUE(module || !last.empty()) << name << ", round " << round;
      ++(module ? imported : refused);
    }
  }
  std::filesystem::remove(path);
  EXPECT_GT(imported, 50);
  EXPECT_GT(refused, 50);
}

TEST(GraphSignatureTest, ListsInputsAndMutations) {
  GraphSignature signature = parseGraphSignature(
      "\n# inputs\np_w: PARAMETER target='a.w'\nb_m: BUFFER target='a.m' persistent=True\n"
      "c: CONSTANT_TENSOR target='c'\nx: USER_INPUT\n\n# outputs\nadd: BUFFER_MUTATION "
      "target='a.m'\ny: USER_OUTPUT\n: USER_OUTPUT\n"); // the second output is None
  ASSERT_EQ(signature.inputs.size(), 4u);
  ASSERT_TRUE(signature.find("a.w"));
  EXPECT_EQ(signature.find("a.w")->kind, GraphSignature::Kind::Parameter);
  EXPECT_EQ(signature.find("a.m")->kind, GraphSignature::Kind::Buffer);
  EXPECT_EQ(signature.findArgument("c")->kind, GraphSignature::Kind::Constant);
  EXPECT_EQ(signature.findArgument("x")->kind, GraphSignature::Kind::UserInput);
  EXPECT_EQ(signature.find("p_w"), nullptr);
  EXPECT_THAT(signature.mutatedBuffers, testing::ElementsAre("a.m"));
}

TEST(GraphSignatureTest, ListsNextValues) {
  const GraphSignature signature =
      parseGraphSignature("# inputs\np_w: PARAMETER target='w'\nb_m: BUFFER target='a.m'\n");
  EXPECT_THAT(parseNextValues("a.m.next\ta.m\n", signature),
              testing::ElementsAre(testing::Pair("a.m.next", "a.m")));
  for (const char *text : {"a.m.next", "next\tw", "x\ta.m\ny\ta.m", "\t"})
    EXPECT_THROW(parseNextValues(text, signature), Error) << text;
}

TEST(GraphSignatureTest, NamesTheLineThatIsWrong) {
  auto messageOf = [](const std::string &text) {
    try {
      parseGraphSignature(text);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(messageOf("# inputs\np_w PARAMETER"), HasSubstr("line 2"));
  EXPECT_THAT(messageOf("p_w: PARAMETER"), HasSubstr("expected \"NAME: KIND target='NAME'\""));
  EXPECT_THAT(messageOf("p_w: PARAMETER target='w"), HasSubstr("line 1"));
  EXPECT_THAT(messageOf("a: PARAMETER target='w'\nb: PARAMETER target='w'"), HasSubstr("line 2"));
  EXPECT_THAT(messageOf("a: PARAMETER target='w'\na: USER_INPUT"), HasSubstr("line 2"));
  EXPECT_EQ(messageOf(""), "");
}

TEST(GraphSignatureTest, ReadsOperations) {
  const std::string text = "%linear : [num_users=1] = call_function[target=torch.ops.aten.linear."
                           "default](args = (%x, %p_w, None, [1, 2]), kwargs = {bias: %p_b})";
  EXPECT_THAT(argumentsOf(text), testing::ElementsAre("x", "p_w", "p_b"));
  EXPECT_THAT(argumentsOf("%x"), testing::IsEmpty());
  EXPECT_THAT(argumentsOf("args = (%"), testing::IsEmpty());
  EXPECT_EQ(operationOf(text), "linear.default");
  EXPECT_EQ(argumentOf(text, 1), "%p_w");
  EXPECT_EQ(argumentOf("args = (%w, %x, 0), kwargs = {}", 2), "0");
  EXPECT_EQ(argumentOf("args = (%w, %x, 0), kwargs = {}", 3), "");
  EXPECT_EQ(argumentOf("args = (%w, [1, 2], 0)", 1), "");
  EXPECT_EQ(argumentOf("args = (%w, [1, 2], [], True)", 3), "True");
  EXPECT_EQ(argumentOf("args = ()", 0), "");
  EXPECT_EQ(argumentOf("args = (%w, 1", 1), "");
}

Tensor tensorOf(std::vector<float> values) {
  Tensor tensor{"t", ElementType::Float, {int64_t(values.size())}, nullptr};
  tensor.bytes = std::make_shared<std::string>(values.size() * 4, '\0');
  std::memcpy(tensor.bytes->data(), values.data(), tensor.bytes->size());
  return tensor;
}

TEST(TensorContentTest, KnowsMasks) {
  EXPECT_TRUE(isAdditiveMask(tensorOf({0, -INFINITY})));
  EXPECT_TRUE(isAdditiveMask(tensorOf({1, -3.4e38f})));
  EXPECT_TRUE(isAdditiveMask(tensorOf({0, -10000, 0})));
  EXPECT_FALSE(isAdditiveMask(tensorOf({0, -10000, -20000})));
  EXPECT_FALSE(isAdditiveMask(tensorOf({0, 0.5f, -2})));
  EXPECT_FALSE(isAdditiveMask(tensorOf({0, 0})));
  EXPECT_TRUE(isBinaryMask(tensorOf({0, 1, 1})));
  EXPECT_FALSE(isBinaryMask(tensorOf({1, 1})));
  EXPECT_FALSE(isBinaryMask(tensorOf({0, 1, 0.5f})));
}

TEST(TensorContentTest, HashIgnoresTheOrder) {
  EXPECT_EQ(contentHash(tensorOf({1, 2, 3, 4})), contentHash(tensorOf({4, 2, 1, 3})));
  EXPECT_NE(contentHash(tensorOf({1, 2, 3, 4})), contentHash(tensorOf({1, 2, 3, 5})));
  EXPECT_TRUE(isUniform(tensorOf({2, 2, 2})));
  EXPECT_FALSE(isUniform(tensorOf({2, 2, 3})));
}

TEST(TensorContentTest, KnowsMadeUpNames) {
  for (const char *name : {"onnx::Conv_41", "/layer/Constant_output_0", "val_12", "27", ""})
    EXPECT_TRUE(isExporterMade(name)) << name;
  for (const char *name : {"layer.weight", "val", "val_x", "position", "0.weight", "w_output_"})
    EXPECT_FALSE(isExporterMade(name)) << name;
}

} // namespace
} // namespace stow::onnx
