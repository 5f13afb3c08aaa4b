#include "compiler/import/Import.h"

#include "compiler/import/EagerProgram.h"
#include "compiler/import/ExportCheck.h"
#include "compiler/import/GraphImport.h"
#include "compiler/import/InlineFunctions.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/GlobPattern.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <algorithm>
#include <filesystem>

using namespace mlir;

namespace stow {
namespace onnx {

const RuleTable &allRules() {
  static const RuleTable table = [] {
    RuleTable rules;
    addAttentionRules(rules);
    addBitRules(rules);
    addElementwiseRules(rules);
    addFourierRules(rules);
    addIndexRules(rules);
    addLogicRules(rules);
    addOrderRules(rules);
    addQuantizedRules(rules);
    addRandomRules(rules);
    addLinearRules(rules);
    addLossRules(rules);
    addNormRules(rules);
    addRecurrentRules(rules);
    addReduceRules(rules);
    addResampleRules(rules);
    addSampleRules(rules);
    addSequenceRules(rules);
    addShapeRules(rules);
    addWindowRules(rules);
    return rules;
  }();
  return table;
}

const RuleTable &functionRules() {
  static const RuleTable table = [] {
    RuleTable rules;
    addFunctionRules(rules);
    return rules;
  }();
  return table;
}

const OpRule *ruleOf(const std::string &type, const std::string &domain) {
  if (!domain.empty() && domain != kOwnDomain)
    return nullptr;
  const RuleTable &rules = domain.empty() ? allRules() : functionRules();
  auto found = rules.find(type);
  return found == rules.end() ? nullptr : &found->second;
}

void takeWeights(RuleTable &table, OpWeights weights, std::initializer_list<const char *> types) {
  for (const char *type : types)
    table.at(type).weights = weights;
}

/// The inputs and initializers that the patterns name.
static std::set<std::string> namesOf(const Model &model, const std::vector<std::string> &patterns) {
  std::set<std::string> names, inputs;
  for (const Input &input : model.inputs)
    inputs.insert(input.name);
  for (const std::string &text : patterns) {
    auto pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      throw Error::badInput("--parameter=" + text + ": " + llvm::toString(pattern.takeError()));
    const size_t before = names.size();
    auto match = [&](const std::string &name) {
      if (pattern->match(name))
        names.insert(name);
    };
    std::ranges::for_each(inputs, match);
    for (const auto &entry : model.initializers)
      match(entry.first);
    if (names.size() == before)
      throw Error::badInput("no input and no initializer matches --parameter=" + text +
                            "; --list-parameters names those there are");
  }
  return names;
}

static std::string inputNames(const Model &model) {
  return absl::StrJoin(model.inputs, ", ", [](std::string *out, const Input &input) {
    absl::StrAppend(out, "'", input.name, "'");
  });
}

Roles rolesOf(const Model &model, const ImportOptions &options) {
  return analyzeRoles(model, {options.dataInputs, namesOf(model, options.parameters)},
                      [](const std::string &type) -> const OpWeights * {
                        const OpRule *rule = ruleOf(type);
                        return rule ? &rule->weights : nullptr;
                      });
}

} // namespace onnx

/// Throws Error(BadInput) for an extent that no data input asks for.
static void requireSymbols(const onnx::Model &model, const ImportOptions &options) {
  std::set<std::string> symbols;
  for (const onnx::Input &input : model.inputs)
    if (input.dims)
      for (size_t d = 0; d < input.dims->size(); ++d)
        if (const onnx::Input::Dim &dim = (*input.dims)[d];
            !dim.size && !dim.symbol.empty() && d > 0)
          symbols.insert(dim.symbol);
  for (const auto &entry : options.extents)
    if (!symbols.count(entry.first))
      throw Error::badInput(absl::StrCat(
          "--shapes=", entry.first,
          ":...: no input of the model has an open dimension of this name; ",
          symbols.empty() ? "all but the batch are fixed: export the model with dynamic_shapes"
                          : "open are " + absl::StrJoin(symbols, ", "),
          " (--shapes=batch:... is the first dimension of every input)"));
}

class ModelFile {
public:
  /// With the parameters that an exporter merged restored.
  const onnx::Model &at(const std::string &path) {
    if (!model || path != readPath) {
      model = onnx::load(path);
      onnx::inlineFunctions(
          *model, [](const onnx::Node &node) { return onnx::ruleOf(node.type, node.domain); });
      onnx::restoreMerged(*model);
      readPath = path;
    }
    return *model;
  }

private:
  std::string readPath;
  std::optional<onnx::Model> model;
};

std::shared_ptr<ModelFile> newModelFile() { return std::make_shared<ModelFile>(); }

/// Shapes of an import without data; absent when it fails.
static std::optional<onnx::BatchShapes> shapesOf(MLIRContext &context, const onnx::Model &model,
                                                 const ImportOptions &options,
                                                 onnx::BatchChange change) {
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  onnx::GraphImport import(context, model, options, change);
  import.leaveOutData();
  return import.run() ? std::optional(import.takeShapes()) : std::nullopt;
}

/// What has to follow when the batch is not the file's; `before` keeps the shapes it points to. A
/// file that cannot be imported at its own batch has other obstacles: `options` is set back to that
/// batch, so that they are told as they are.
static onnx::BatchChange batchChangeOf(MLIRContext &context, const onnx::Model &model,
                                       ImportOptions &options, onnx::BatchShapes &before) {
  if (!options.batch)
    return {};
  const auto fileBatch = onnx::GraphImport(context, model, options).fileBatch();
  if (!fileBatch || *fileBatch == *options.batch)
    return {};
  ImportOptions original = options;
  original.batch = fileBatch;
  std::optional<onnx::BatchShapes> shapes = shapesOf(context, model, original, {});
  if (!shapes) {
    options = original;
    return {};
  }
  before = std::move(*shapes);
  onnx::BatchChange change{&before, false};
  if (!shapesOf(context, model, options, change)) {
    change.resizeRows = true;
    auto resized = shapesOf(context, model, options, change);
    change.resizeRows =
        resized && growInOneDimension(before, *resized, {*fileBatch, *options.batch});
  }
  return change;
}

OwningOpRef<ModuleOp> importOnnx(MLIRContext &context, const std::string &path,
                                 const ImportOptions &given, ImportReport *report) {
  context.loadDialect<StowDialect, func::FuncDialect>();
  Location location =
      FileLineColLoc::get(&context, std::filesystem::path(path).filename().string(), 0, 0);
  OwningOpRef<ModuleOp> module;
  ImportOptions options = given;
  try {
    if (options.batch && (*options.batch < 1 || *options.batch > (int64_t(1) << 31)))
      throw Error::badInput(
          absl::StrCat("batch size ", *options.batch, "; expected a positive number"));
    const std::shared_ptr<ModelFile> file = options.file ? options.file : newModelFile();
    const onnx::Model &model = file->at(path);
    onnx::ExportFindings findings = onnx::checkExport(model, onnx::rolesOf(model, options));
    if (!findings.changes.empty() && !options.allowFolded)
      throw Error::badInput(onnx::describeChanges(findings, path));
    for (const std::string &warning : findings.warnings)
      mlir::emitWarning(location) << warning;
    requireSymbols(model, options);
    onnx::BatchShapes before;
    const onnx::BatchChange change = batchChangeOf(context, model, options, before);
    onnx::GraphImport import(context, model, options, change);
    module = import.run();
    ImportReport taken = import.takeReport(findings);
    using Kind = ImportedTensor::Kind;
    auto holds = [&](Kind kind) {
      return llvm::any_of(taken.tensors, [&](const auto &tensor) { return tensor.kind == kind; });
    };
    if (module && holds(Kind::Frozen) && !holds(Kind::Trained))
      mlir::emitWarning(location) << "every parameter is frozen: a step trains nothing";
    if (module && !holds(Kind::Frozen) && !holds(Kind::Trained))
      mlir::emitWarning(location)
          << "nothing is trained: no initializer stands where a weight does, "
             "and the inputs are data: "
          << onnx::inputNames(model) << "; --parameter=NAMES says which of them are weights";
    if (report)
      *report = std::move(taken);
  } catch (const Error &error) {
    mlir::emitError(location) << error.what();
    return nullptr;
  }
  if (module && failed(verify(*module)))
    return nullptr;
  return module;
}

std::optional<eager::Program> importEager(MLIRContext &context, const std::string &path,
                                          const ImportOptions &given, const LossSpec &loss,
                                          const std::string &lossOutput) {
  context.loadDialect<StowDialect, func::FuncDialect>();
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  ImportOptions options = given;
  try {
    const std::shared_ptr<ModelFile> file = options.file ? options.file : newModelFile();
    const onnx::Model &model = file->at(path);
    onnx::BatchShapes before;
    const onnx::BatchChange change = batchChangeOf(context, model, options, before);
    onnx::GraphImport import(context, model, options, change);
    import.leaveOutData();
    const OwningOpRef<ModuleOp> module = import.run(); // which the shapes are of
    if (!module)
      return std::nullopt;
    const onnx::BatchShapes shapes = import.takeShapes();
    std::set<std::string> trained;
    for (const ImportedTensor &tensor : import.takeReport({}).tensors)
      if (tensor.kind == ImportedTensor::Kind::Trained)
        trained.insert(tensor.name);
    return onnx::eagerProgram(model, shapes, trained, loss, lossOutput);
  } catch (const Error &) {
    return std::nullopt;
  }
}

} // namespace stow
