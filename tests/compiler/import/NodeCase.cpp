#include "tests/compiler/import/NodeCase.h"

#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "tests/compiler/import/ReferenceOf.h"

#include "mlir/IR/Verifier.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

using namespace mlir;

namespace stow::onnx {
namespace {

/// The input of a model whose own are all in the file.
constexpr const char *kUnread = "unread";

/// Which inputs are data.
enum class Data { All, Numbers, First, None };

/// The model with the inputs that are no data in the file, and the others of the shapes of the case's data.
Model formOf(Model model, const Model &tensors, Data data) {
  std::vector<Input> kept;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    Input input = model.inputs[i];
    auto known = tensors.initializers.find("input_" + input.name);
    if (known != tensors.initializers.end() && input.isTensor) {
      input.dims.emplace();
      for (int64_t extent : known->second.shape)
        input.dims->push_back({extent, ""});
    }
    const bool isNumbers = isFloat(input.type) && input.dims && !input.dims->empty();
    const bool isData = data == Data::All || (data == Data::Numbers && isNumbers) ||
                        (data == Data::First && i == 0);
    if (isData || known == tensors.initializers.end()) {
      kept.push_back(input);
      continue;
    }
    Tensor tensor = known->second;
    tensor.name = input.name;
    model.initializers.emplace(input.name, tensor);
  }
  if (kept.empty()) { // an import needs data; this is read by nothing
    Input unread;
    unread.name = kUnread;
    unread.type = ElementType::Float;
    unread.dims = {Input::Dim{1, ""}};
    kept.push_back(unread);
  }
  model.inputs = std::move(kept);
  return model;
}

/// The names of what is data: equal for forms that are the same.
std::vector<std::string> dataOf(const Model &model) {
  std::vector<std::string> names;
  for (const Input &input : model.inputs)
    names.push_back(input.name);
  return names;
}

bool hasNoData(const Model &model) { return dataOf(model) == std::vector<std::string>{kUnread}; }

struct Imported {
  std::string errors;
  OwningOpRef<ModuleOp> module;
};

Imported importModel(MLIRContext &context, const Model &model) {
  Imported result;
  ImportOptions options;
  options.dataInputs = dataOf(model);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    absl::StrAppend(&result.errors, result.errors.empty() ? "" : "; ", diagnostic.str());
    return success();
  });
  try {
    result.module = GraphImport(context, model, options).run();
  } catch (const Error &error) {
    result.errors = error.what();
  }
  if (result.module && failed(verify(*result.module)))
    throw std::runtime_error("the imported module does not verify: " + result.errors);
  return result;
}

/// True for a module whose results are drawn, or may be.
bool drawsNumbers(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return isa<RandomOp, DropoutOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// `x` as a number of the type.
double rounded(double x, Type type) {
  auto element = dyn_cast<FloatType>(type);
  if (!element || element.isF64())
    return x;
  APFloat value(x);
  bool lost;
  value.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return value.convertToDouble();
}

bool isOfType(Type type, ElementType expected) {
  return type.isF32()         ? expected == ElementType::Float
         : type.isF64()       ? expected == ElementType::Double
         : type.isF16()       ? expected == ElementType::Float16
         : type.isBF16()      ? expected == ElementType::BFloat16
         : type.isInteger(1)  ? expected == ElementType::Bool
         : type.isInteger(32) ? expected == ElementType::Int32
                              : expected == ElementType::Int64;
}

/// The first difference of an output; empty where there is none. Whole numbers are to be equal, others within the standard's
/// tolerance; what is expected was rounded on the way: by up to two steps of float32 at the largest element, in 16 bits by two of the
/// element's own.
std::string difference(const reference::Tensor &actual, const Tensor &expected, Type type,
                       const NodeCase &test, bool isDrawn) {
  if (!isOfType(type, expected.type))
    return absl::StrCat("has another type than ", nameOf(expected.type));
  if (actual.shape != expected.shape)
    return absl::StrCat("has shape [", textOf(actual.shape), "], expected [",
                        textOf(expected.shape), "]");
  if (isDrawn)
    return "";
  reference::Tensor wanted = referenceOf(expected);
  const double steps = type.isBF16() ? 0x1p-6 : type.isF16() ? 0x1p-9 : 0;
  const double relative = std::max(test.relative, steps);
  double largest = 0;
  for (double value : wanted.values)
    largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
  const double absolute = std::max(test.absolute, type.isF64() ? 0 : 0x1p-22 * largest);
  for (int64_t i = 0; i < wanted.size(); ++i) {
    const double want = wanted.values[i], got = rounded(actual.values[i], type);
    const bool isClose =
        isa<FloatType>(type) && std::abs(got - want) <= absolute + relative * std::abs(want);
    if (!isClose && got != want && !(std::isnan(got) && std::isnan(want)))
      return absl::StrCat("element ", i, " is ", got, ", expected ", want);
  }
  return "";
}

/// One form of a case.
Verdict judgeForm(const NodeCase &test, const Model &model, const Model &tensors, const Run &run) {
  MLIRContext context;
  context.loadDialect<StowDialect, func::FuncDialect>();
  Imported imported = importModel(context, model);
  if (!imported.module)
    return {Verdict::Kind::Refused, false, false, imported.errors};
  auto function = *imported.module->getOps<func::FuncOp>().begin();
  std::vector<reference::Tensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr).str();
    auto given = tensors.initializers.find("input_" + name);
    arguments.push_back(given == tensors.initializers.end() ? reference::Tensor({1}, 0.0)
                                                            : referenceOf(given->second));
  }
  const bool isDrawn = drawsNumbers(*imported.module);
  std::map<std::string, unsigned> results;
  std::vector<Type> elements;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    results[function.getResultAttrOfType<StringAttr>(i, kNameAttr).str()] = i;
    elements.push_back(cast<RankedTensorType>(type).getElementType());
  }
  std::vector<reference::Tensor> values;
  try {
    values = run(*imported.module, arguments);
  } catch (const Refusal &refusal) {
    return {Verdict::Kind::Refused, false, false, refusal.what()};
  } catch (const std::exception &error) {
    return {Verdict::Kind::Wrong, false, false, std::string("cannot be run: ") + error.what()};
  }
  for (const std::string &output : model.outputs) {
    auto found = results.find(output);
    auto expected = tensors.initializers.find("output_" + output);
    std::string what = found == results.end() ? "is left out"
                       : expected == tensors.initializers.end()
                           ? "is expected to be no tensor"
                           : difference(values.at(found->second), expected->second,
                                        elements[found->second], test, isDrawn);
    if (!what.empty())
      return {Verdict::Kind::Wrong, false, isDrawn, absl::StrCat("output '", output, "' ", what)};
  }
  return {Verdict::Kind::Right, false, isDrawn, ""};
}

std::string describe(const Model &model) {
  std::string names;
  for (const std::string &name : dataOf(model))
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  return "with data " + names + ": ";
}

} // namespace

std::vector<NodeCase> readCases(const std::filesystem::path &folder) {
  std::ifstream list(folder / "cases.txt");
  std::vector<NodeCase> cases;
  for (std::string line; std::getline(list, line);) {
    std::vector<std::string> fields = absl::StrSplit(line, '\t');
    cases.push_back({fields.at(0), fields.at(1), std::stod(fields.at(2)), std::stod(fields.at(3))});
  }
  if (cases.empty())
    throw Error::badInput("no node tests in \"" + folder.string() + "\"");
  return cases;
}

std::vector<reference::Tensor> evaluateModel(ModuleOp module,
                                             const std::vector<reference::Tensor> &arguments) {
  return reference::evaluate(*module.getOps<func::FuncOp>().begin(), arguments);
}

Verdict judge(const std::filesystem::path &folder, const NodeCase &test, const Run &run) {
  Verdict verdict;
  std::set<std::vector<std::string>> tried;
  try {
    const Model model = load(folder / (test.name + ".onnx"));
    const Model tensors = load(folder / (test.name + ".data.onnx"));
    // Stored statistics are those of an evaluation: a training normalization gets them as data.
    const bool isTraining = llvm::any_of(model.nodes, [](const Node &node) {
      auto mode = node.attributes.find("training_mode");
      return mode != node.attributes.end() && mode->second.i != 0;
    });
    for (Data data : {Data::Numbers, Data::All, Data::First, Data::None}) {
      if (isTraining && data != Data::All)
        continue;
      const Model form = formOf(model, tensors, data);
      if (!tried.insert(dataOf(form)).second)
        continue;
      Verdict one = judgeForm(test, form, tensors, run);
      if (one.kind == Verdict::Kind::Wrong) {
        one.reason = describe(form) + one.reason;
        return one;
      }
      const bool isRight = one.kind == Verdict::Kind::Right,
                 wasRight = verdict.kind == Verdict::Kind::Right;
      if (isRight) {
        one.isOfConstants = hasNoData(form) && (!wasRight || verdict.isOfConstants);
        verdict = one;
      } else if (!wasRight && verdict.reason.empty()) {
        verdict = one;
      }
    }
  } catch (const Error &error) {
    return {Verdict::Kind::Refused, false, false, error.what()};
  }
  return verdict;
}

} // namespace stow::onnx
