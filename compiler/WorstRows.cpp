#include "compiler/WorstRows.h"

#include "codegen/program/ProgramBuilder.h"
#include "ir/StepGraphs.h"
#include "passes/memory/PlanWords.h"
#include "runtime/base/Error.h"
#include "runtime/data/ArrayFile.h"
#include "runtime/format/PlanReport.h"
#include "runtime/program/Samples.h"
#include "runtime/program/ShapeChoice.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <filesystem>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Rows named of each shape.
constexpr size_t kRowsNamed = 5;

/// The program of a placed step as far as data is read: its inputs in every shape.
Program inputsOf(const CompiledPlan &compiled, const CompileOptions &options) {
  ModuleOp module = *compiled.module;
  Program program;
  program.batchesPerStep = batchesPerStep(module);
  program.loss = options.loss;
  for (auto graph : module.getOps<func::FuncOp>()) {
    GraphProgram &one = program.graphs.emplace_back();
    one.role = graphRoleOf(graph);
    one.shape = graphShape(graph).str();
    one.inputs = programInputs(graph);
  }
  setBatches(program, options);
  return program;
}

/// "rows 17 (1,930), 88 (1,100) and 3 more".
std::string listOf(const std::vector<int64_t> &rows, const std::vector<Extents> &extents) {
  std::string text = rows.size() == 1 ? "row " : "rows ";
  for (size_t i = 0; i < std::min(rows.size(), kRowsNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", rows[i], " (");
    const Extents &needed = extents[static_cast<size_t>(rows[i])];
    for (size_t axis = 0; axis < needed.size(); ++axis)
      absl::StrAppend(&text, axis == 0 ? "" : " x ", groupDigits(needed[axis]));
    absl::StrAppend(&text, ")");
  }
  if (rows.size() > kRowsNamed)
    absl::StrAppend(&text, " and ", groupDigits(static_cast<int64_t>(rows.size() - kRowsNamed)),
                    " more");
  return text;
}

} // namespace

std::vector<std::string> worstRows(const CompiledPlan &compiled, const CompileOptions &options) {
  if (options.shapes.empty())
    throw Error::badInput("--worst says which rows need which of several shapes; give them, e.g. "
                          "--shapes=sequence:128,256,512");
  const Program program = inputsOf(compiled, options);
  const std::optional<Fitting> fitting = fittingOf(program);
  const ArrayFile file(options.worstPath);
  const Samples samples = *loadSamples(file, program.graphs[stepGraphIndex(program)], Split::Train,
                                       KeyChoice(), &*fitting);
  const ShapeChoice shapes(program);
  const std::vector<Extents> extents = shapes.extentsOfRows(samples);
  std::vector<std::vector<int64_t>> rows(program.shapes.size());
  for (size_t row = 0; row < extents.size(); ++row)
    rows[shapes.smallestFor(program.batch, extents[row])].push_back(static_cast<int64_t>(row));
  const std::string name = std::filesystem::path(options.worstPath).filename().string();
  std::vector<std::string> sentences;
  for (size_t shape = 0; shape < rows.size(); ++shape) {
    std::vector<int64_t> &longest = rows[shape];
    if (longest.empty() && sentences.empty())
      sentences.push_back(absl::StrCat(name, ": no row needs ", program.shapes[shape].name));
    if (longest.empty())
      continue;
    std::ranges::stable_sort(longest, [&](int64_t a, int64_t b) {
      return extents[static_cast<size_t>(a)] > extents[static_cast<size_t>(b)];
    });
    std::string text = absl::StrCat(
        name, ": ", groupDigits(static_cast<int64_t>(longest.size())), " of ",
        groupDigits(samples.rowCount), longest.size() == 1 ? " rows needs " : " rows need ",
        program.shapes[shape].name, ", the longest first: ", listOf(longest, extents));
    auto next = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(shape) + 1, rows.end(),
                             [](const auto &of) { return !of.empty(); });
    if (shape == 0 && next != rows.end()) {
      const PlannedShape &smaller = compiled.plan.shapes[static_cast<size_t>(next - rows.begin())];
      absl::StrAppend(&text, "; without ", longest.size() == 1 ? "it " : "them ", smaller.name,
                      " is enough: ", formatBytesExact(smaller.arenaBytes));
    }
    sentences.push_back(std::move(text));
  }
  return sentences;
}

void addWorstFlag(CommandLine &line, CompileOptions &options) {
  line.value("worst", "FILE",
             "a data file (.npz): say in the plan which of its rows need which of --shapes",
             [&](const std::string &text) { options.worstPath = text; });
}

} // namespace stow
