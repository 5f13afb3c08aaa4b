// `stowage compile` and `stowage plan`.
#include "codegen/Backend.h"
#include "compiler/CardVerdict.h"
#include "compiler/Commands.h"
#include "compiler/Compile.h"
#include "compiler/FilledBatches.h"
#include "compiler/Registration.h"
#include "compiler/TensorList.h"
#include "compiler/WorstRows.h"
#include "ir/StepGraphs.h"
#include "runtime/base/Error.h"
#include "runtime/base/LongWork.h"
#include "runtime/base/Names.h"
#include "runtime/format/PlanReport.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <absl/strings/str_format.h>
#include <cstdio>
#include <filesystem>
#include <memory>

using namespace mlir;

namespace stow {
namespace {

/// lib/ beside the bin/ this program runs from.
std::string runtimeLibrary() {
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  std::filesystem::path library = self.parent_path().parent_path() / "lib" / "libStowRuntime.a";
  if (!std::filesystem::exists(library))
    throw Error::internal("the runtime library is missing: expected " + library.string());
  return library.string();
}

void writeProgram(CompiledPlan &compiled, const CompileOptions &options, bool fillsBatches,
                  StageTimer &timer) {
  timer.start("kernels");
  auto built = compiled.backend->build(*compiled.module);
  if (failed(built))
    throw Error::badInput("compilation stopped in stage kernels");
  Program &program = built->program;
  program.batchesPerStep = batchesPerStep(*compiled.module);
  program.devices = devicesOf(*compiled.module);
  setBatches(program, options);
  program.fillsBatches = fillsBatches;
  program.threads = options.threads;
  program.loss = options.loss;
  program.lossOutput =
      options.loss.kind == LossSpec::Kind::Output ? options.loss.output : options.lossOutput;
  if (auto activation = (*compiled.module)->getAttrOfType<StringAttr>(kOutputActivationAttr))
    program.outputActivation = parseOutputActivation(activation.str());
  program.optimizer = options.optimizer;
  program.plan = compiled.plan;
  if (program.slowBytes > 0 && !options.offload.isOfHost())
    program.slowFolder = std::filesystem::absolute(options.offload.folder).string();

  timer.start("machine code");
  TemporaryFolder folder;
  auto input = compiled.backend->writeObjects(*built, options.emit, runtimeLibrary(), folder);
  if (failed(input))
    throw Error::badInput("compilation stopped in stage machine code");
  timer.start("link");
  link(*input, options.outputPath);
  timer.stop();
}

void noteWorstRows(CompiledPlan &compiled, const CompileOptions &options) {
  if (!options.worstPath.empty())
    for (std::string &sentence : worstRows(compiled, options))
      compiled.plan.notes.push_back(std::move(sentence));
}

void printTiming(const StageTimer &timer) {
  double total = 0;
  for (const auto &[name, seconds] : timer.stages()) {
    absl::PrintF("  %-14s %8.3f s\n", name, seconds);
    total += seconds;
  }
  absl::PrintF("  %-14s %8.3f s\n", "total", total);
}

/// Prints the form the compilation stopped at.
void printForm(ModuleOp module) {
  OpPrintingFlags flags;
  flags.enableDebugInfo(true, false);
  module.print(llvm::outs(), flags);
  llvm::outs() << "\n";
}

/// --list-parameters: nothing is planned.
void printTensors(MLIRContext &context, const CompileOptions &options) {
  ImportReport tensors;
  loadModel(context, options.modelPath, options.import, tensors);
  const std::string text = renderTensors(tensors);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int compile(CompileOptions &options) {
  finishOptions(options);
  if (options.outputPath.empty() && options.stopAfter == Form::Program && !options.listParameters)
    throw Error::badInput("no output given; add -o FILE");
  if (options.stopAfter == Form::Program && !options.listParameters)
    chooseBackend(options)->requireBuilds();
  const std::optional<Card> card = cardOf(options);
  MLIRContext context;
  prepareContext(context);
  if (options.listParameters) {
    printTensors(context, options);
    return 0;
  }
  StageTimer timer;
  CompiledPlan compiled = compileToPlan(context, options, timer);
  if (options.stopAfter != Form::Program) {
    printForm(*compiled.module);
    return 0;
  }
  const Plan &plan = compiled.plan;
  std::optional<Verdict> verdict;
  if (card) {
    verdict = verdictOn(context, options, compiled, *card);
    requireFit(*verdict, options.fit);
  }
  const bool fills = !options.shapes.empty() &&
                     fillsBatches(context, options, compiled.step->variant, *compiled.backend);
  compiled.step.reset(); // nothing is planned any more
  writeProgram(compiled, options, fills, timer);
  std::string logical =
      plan.logicalBoundBytes == plan.lowerBoundBytes
          ? ""
          : ", " + formatBytesExact(plan.logicalBoundBytes) + " without the padding of layouts";
  absl::PrintF("%s: arena %s, lower bound %s (%s)%s, recomputed work %.1f %%\n", options.outputPath,
               formatBytesExact(plan.arenaBytes), formatBytesExact(plan.lowerBoundBytes),
               plan.status, logical, 100 * recomputedFractionOf(plan));
  for (const std::string &line :
       {describeCopies(plan), describeReductions(plan), describeReferences(plan)})
    if (!line.empty())
      absl::PrintF("  %s\n", line);
  if (verdict)
    absl::PrintF("  %s\n", verdictLine(*verdict));
  for (const PlannedShape &shape : plan.shapes)
    absl::PrintF("  %s: %s, %.3f ms per step\n", shape.name, formatBytesExact(shape.arenaBytes),
                 1e3 * shape.stepSeconds);
  absl::PrintF("  %s\n", describe(plan.tensors));
  // What became of --accumulate, which may be no split.
  if (options.accumulate != 1)
    absl::PrintF("  %s\n", plan.notes.back());
  if (options.timing)
    printTiming(timer);
  return 0;
}

int plan(CompileOptions &options, const ReportPlace &place) {
  finishOptions(options);
  options.endsEarly = true;
  const std::optional<Card> card = cardOf(options);
  MLIRContext context;
  prepareContext(context);
  if (options.listParameters) {
    printTensors(context, options);
    return 0;
  }
  StageTimer timer;
  CompiledPlan compiled = compileToPlan(context, options, timer);
  if (options.stopAfter != Form::Program) {
    printForm(*compiled.module);
    return 0;
  }
  noteWorstRows(compiled, options);
  std::optional<Verdict> verdict;
  if (card)
    verdict = verdictOn(context, options, compiled, *card);
  writePlan(compiled.plan, verdict, place);
  if (options.timing)
    printTiming(timer);
  if (verdict)
    requireFit(*verdict, options.fit);
  return exitCodeOf(wasInterrupted(), "another plan may take less");
}

ProgramForm parseEmit(const std::string &text) {
  return oneOf(text, {"executable", "shared"}, "kind", "--emit") == 0 ? ProgramForm::Executable
                                                                      : ProgramForm::SharedLibrary;
}

} // namespace

Run compileCommand(CommandLine &line) {
  auto options = std::make_shared<CompileOptions>();
  line.value("output,o", "FILE", "the file to write",
             [options](const std::string &path) { options->outputPath = path; });
  line.value("emit", "KIND",
             "executable (the default), or shared: a library that C and Python can load",
             [options](const std::string &text) { options->emit = parseEmit(text); });
  addCompileFlags(line, *options);
  addCardFlags(line, *options);
  addModelWord(line, *options);
  line.elsewhere({"--data", "--epochs", "--steps", "--save", "--resume", "--weights", "--seed",
                  "--lr-schedule"},
                 " is a flag of the executable that is made: OUT train --data=FILE");
  return [options] { return compile(*options); };
}

Run planCommand(CommandLine &line) {
  struct Request {
    CompileOptions options;
    ReportPlace place;
  };
  auto request = std::make_shared<Request>();
  addReportFlags(line, request->place, planFormats());
  addCompileFlags(line, request->options);
  addCardFlags(line, request->options);
  addWorstFlag(line, request->options);
  addModelWord(line, request->options);
  return [request] { return plan(request->options, request->place); };
}

} // namespace stow
