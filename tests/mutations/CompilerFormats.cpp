#include "tests/mutations/Formats.h"

#include "codegen/Linker.h"
#include "codegen/TemporaryFolder.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/program/ObjectFile.h"
#include "compiler/Compile.h"
#include "compiler/DataSheet.h"
#include "compiler/MeasuredCosts.h"
#include "compiler/PlanFile.h"
#include "compiler/ProgramCosts.h"
#include "compiler/Registration.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/format/Program.h"
#include "tests/compiler/RandomNet.h"
#include "tests/mutations/ModelText.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace stow::test {

namespace {

namespace fs = std::filesystem;
using namespace mlir;

const fs::path root = STOWAGE_SOURCE_DIR;

/// Collects what is said instead of printing it.
class Diagnosed {
public:
  explicit Diagnosed(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            said = diagnostic.str();
          return success();
        }) {}

  /// Throws Error with it, or what a failure without a word is.
  [[noreturn]] void refuse() const {
    if (said.empty())
      throw std::runtime_error("refused without a word");
    throw Error::badInput(said);
  }

private:
  std::string said;
  ScopedDiagnosticHandler handler;
};

std::vector<Sample> filesOf(const fs::path &folder, const std::string &ending, uintmax_t most) {
  std::vector<Sample> samples;
  for (const auto &entry : fs::directory_iterator(root / folder))
    if (const std::string name = entry.path().filename().string();
        name.ends_with(ending) && !name.ends_with(".data.onnx") && entry.file_size() <= most)
      samples.push_back({name, readInputFile(entry.path().string())});
  std::ranges::sort(samples, {}, &Sample::name);
  return samples;
}

std::vector<Sample> models() {
  std::vector<Sample> samples = filesOf("tests/compiler/import/exports", ".onnx", 25000);
  const std::vector<Sample> networks = filesOf("tests/compiler/import/networks", ".onnx", 25000);
  samples.insert(samples.end(), networks.begin(), networks.end());
  return samples;
}

std::vector<Sample> modelTexts() {
  std::vector<Sample> samples = models();
  for (Sample &sample : samples)
    sample.bytes = textOfModel(sample.bytes);
  return samples;
}

ImportOptions importOptions() {
  ImportOptions options;
  options.allowFolded = true;
  return options;
}

void useModel(const std::string &, const std::string &path) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Diagnosed diagnosed(context);
  if (!importOnnx(context, path, importOptions()))
    diagnosed.refuse();
}

void useModelText(const std::string &bytes, const std::string &path) {
  testfiles::writeFile(path, modelOfText(bytes));
  useModel(bytes, path);
}

void planModel(const std::string &path) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  prepareContext(context);
  Diagnosed diagnosed(context);
  CompileOptions options;
  options.modelPath = path;
  options.import = importOptions();
  options.loss = parseLoss("mse");
  options.optimizer = parseOptimizer("adamw:lr=1e-3");
  options.recompute = Allowance();
  options.threads = 1;
  StageTimer timer;
  compileToPlan(context, options, timer);
}

void planModelText(const std::string &bytes, const std::string &path) {
  testfiles::writeFile(path, modelOfText(bytes));
  planModel(path);
}

/// The pieces of the tests of ops and passes, each a module.
std::vector<Sample> modules() {
  std::vector<Sample> samples;
  for (const char *folder :
       {"tests/ir", "tests/passes/rewrite", "tests/passes/memory", "tests/passes/order"})
    for (const Sample &file : filesOf(folder, ".mlir", 40000)) {
      llvm::SmallVector<llvm::StringRef> pieces;
      llvm::StringRef(file.bytes).split(pieces, "// -----");
      for (const auto &[number, piece] : llvm::enumerate(pieces))
        samples.push_back({file.name + " " + std::to_string(number + 1), piece.str()});
    }
  return samples;
}

std::vector<Sample> randomNets() {
  std::vector<Sample> samples;
  for (uint64_t seed = 1; seed <= 12; ++seed)
    samples.push_back({"network " + std::to_string(seed), randomNet(seed)});
  return samples;
}

void useModule(const std::string &bytes, const std::string &) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  prepareContext(context);
  Diagnosed diagnosed(context);
  ParserConfig config(&context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(bytes, config);
  if (!module || failed(verify(*module)))
    diagnosed.refuse();
}

void planModule(const std::string &, const std::string &path) { planModel(path); }

/// The tiny model's program as a library, with nothing else in it.
std::vector<Sample> linkedFiles() {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  KernelModule kernels(&context);
  TemporaryFolder folder;
  if (failed(emitProgramObject(kernels.module(), {{}, toJson(makeTinyModel({}))}, {"x86-64-v3"},
                               folder.file("program.o"))))
    throw std::runtime_error("no object file");
  LinkInput input;
  input.objects = {folder.file("program.o")};
  input.shared = true;
  input.visible = "stow_*";
  link(input, folder.file("library"));
  return {{"a library", readInputFile(folder.file("library"))}};
}

void useLinkedFile(const std::string &, const std::string &path) { readPlanFile(path); }

void useDevice(const std::string &, const std::string &path) { loadDevice(path, 2); }

void useCosts(const std::string &, const std::string &path) { MeasuredCosts::load(path, 2); }

void useProfile(const std::string &, const std::string &path) {
  ProgramCosts::load(path, "cuda:h100");
}

constexpr const char *profile =
    R"({"graphs": [{"graph": "train", "device": "NVIDIA H100 80GB HBM3, driver 13.0", "threads": 2, "steps": 3, "commands": [
 {"index": 0, "kind": "conv2d", "least_ms": 0.41, "kernels": [1234567890123456789], "implementation": "cudnn engine 11"},
 {"index": 1, "kind": "map", "least_ms": 0.002, "kernels": [3, 4]}]}]}
)";

constexpr const char *costs =
    R"({"processor": "skylake", "threads": 2, "in_step": true, "kernels": [
 {"key": "conv2d 1x2", "op": "conv2d", "node": "/c1/Conv", "nanoseconds": 1200},
 {"key": "map 3", "op": "map", "node": "/r1/Relu", "nanoseconds": 310}]}
)";

} // namespace

std::vector<Format> compilerFormats() {
  return {
      {"onnx", "onnx", Content::Binary, models(), useModel, 200, 8000},
      {"onnx-text", "onnx", Content::Text, modelTexts(), useModelText, 200, 8000},
      {"onnx-plan", "onnx", Content::Text, modelTexts(), planModelText, 20, 2000},
      {"mlir", "mlir", Content::Text, modules(), useModule, 200, 8000},
      {"mlir-plan", "mlir", Content::Text, randomNets(), planModule, 20, 2000},
      {"elf", "so", Content::Binary, linkedFiles(), useLinkedFile, 200, 6000, false},
      {"device", "json", Content::Text, filesOf("compiler/sheets", ".json", 100000), useDevice, 200,
       3000},
      {"costs", "json", Content::Text, {{"two kernels", costs}}, useCosts, 200, 2000},
      {"profile", "json", Content::Text, {{"two commands", profile}}, useProfile, 200, 2000},
  };
}

} // namespace stow::test
