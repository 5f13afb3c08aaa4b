#include "compiler/Compile.h"

#include "compiler/Infeasible.h"
#include "compiler/Remarks.h"
#include "compiler/StepNotes.h"
#include "compiler/StepRun.h"
#include "compiler/TensorList.h"
#include "ir/plan/schedule/Json.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Shapes.h"
#include "passes/plan/TimedPlan.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"
#include "runtime/base/LongWork.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

using namespace mlir;

namespace stow {
namespace {

/// Runs the step of `placed` beside the one that keeps everything, or waits for each copy of state, and notes by how much it takes longer.
void noteRuns(Plan &plan, const BudgetPlanner &planner, ModuleOp placed,
              const CompileOptions &options, const Backend &backend) {
  const std::optional<double> extra = extraTimeByRuns(
      *planner.keepAll().placed, placed, options.threads, backend, options.offload.folder);
  if (extra)
    plan.notes.push_back(
        absl::StrFormat("run beside the step %s on this machine, this one took %+.1f %% time",
                        planner.problem().hasLaneOps() ? "that waits for each copy of state"
                                                       : "with everything kept",
                        100 * *extra));
}

/// STOW1001, with the evidence of an answer without a choice.
Error refusalOf(StepAnswer &answer, ModelSteps &steps, const StepQuestion &question,
                const CompileOptions &options) {
  BudgetPlanner &planner = answer.step->planner();
  const StepChoice &smallest = planner.smallest(); // may come across more that is refused
  reportRefusals(planner.refusals(), answer.arenaBudget());
  // A budget that a remedy names is in bytes, of which --reserve is taken.
  const Bytes reserved = options.reserve.value_or(0) - reservedOf(options);
  std::string text = infeasible(steps, *answer.step, options, answer.arenaBudget(),
                                (question.beside ? question.beside(smallest) : 0) + reserved)
                         .what();
  if (const std::string covered = coveredBeside(options, answer.budgetBytes, answer.besideBytes);
      !covered.empty())
    text += "\n" + covered;
  if (!answer.batchesTried.empty())
    text += "\n--accumulate=auto: no number of batches fits: " + describeTried(answer);
  return Error::infeasible(text);
}

/// What the answer says beside its choice.
void complete(Plan &plan, const StepAnswer &answer, const ModelSteps &steps,
              const CompileOptions &options) {
  BudgetPlanner &planner = answer.step->planner();
  ModuleOp placed = *answer.choice->placed;
  if (!options.inSegments && (plan.extraTimeFraction > 0 || travels(plan)))
    plan.extraTimeBound = planner.extraTimeBound(answer.within);
  if (options.profile == "run" && options.devices == 1 && plan.extraTimeFraction > 0)
    noteRuns(plan, planner, placed, options, *steps.backendOf(answer.step->target()));
  if (wasInterrupted())
    plan.notes.push_back("interrupted: the best plan found so far");
  plan.tensors = countTensors(steps.tensorsOf(answer.step->target()));
  plan.withoutRecomputeBytes = planner.keepAll().arenaBytes;
  if (planner.problem().hasLaneOps())
    plan.notes.push_back("without recompute: of the step that computes nothing again and waits for "
                         "each copy of state");
  if (options.inSegments && plan.extraTimeFraction == 0)
    if (const std::string why = whyStateIsThePeak(plan); !why.empty())
      plan.notes.push_back("--checkpoint=sqrt lowers nothing here and nothing is computed again: " +
                           why);
  for (std::string note : {noteOf(answer.step->leftWide, options), noteOfBatches(answer)})
    if (!note.empty())
      plan.notes.push_back(std::move(note));
}

PlannedShape shapeOf(const StepShape &shape, const Plan &plan) {
  return {shape.name, shape.extents, plan.arenaBytes, plan.stepSeconds, plan.extraTimeFraction};
}

/// Puts the steps of the other shapes beside that of the largest, `found`, whose module and plan `result` has.
void addShapes(CompiledPlan &result, const StepAnswer &found, const StepQuestion &question,
               const CompileOptions &options) {
  ModelSteps &steps = *result.steps;
  std::vector<PlannedShape> shapes = {shapeOf(options.shapes.front(), result.plan)};
  Bytes withoutRecompute = result.plan.withoutRecomputeBytes;
  ModuleOp joint = *result.module;
  const Bytes ofLargest = outsideOfCopies(joint, options);
  for (size_t i = 1; i < options.shapes.size(); ++i) {
    const auto shape = static_cast<int64_t>(i);
    const StepShape &given = options.shapes[i];
    StepAnswer other = answerForShape(steps.steps, question, found, shape,
                                      steps.samplesIn(shape, found.step->variant.samples));
    if (!other.choice)
      throw Error::infeasible("in the shape " + given.name + ", beside that of " +
                              options.shapes.front().name + ": " +
                              refusalOf(other, steps, question, options).what());
    reportRefusals(other.step->planner().refusals(), std::nullopt);
    withoutRecompute = std::max(withoutRecompute, other.step->planner().keepAll().arenaBytes);
    joinShape(*other.choice->placed, given.name, joint);
    shapes.push_back(shapeOf(given, other.plan));
    for (const std::string &note : other.plan.notes)
      if (StringRef(note).starts_with(kPartsNote))
        result.plan.notes.push_back(absl::StrCat("in ", given.name, ": ", note));
  }
  if (const Bytes more = outsideOfCopies(joint, options) - ofLargest)
    joint->setAttr(kOutsideBytesAttr,
                   Builder(joint).getI64IntegerAttr(bytesAttr(joint, kOutsideBytesAttr) + more));
  Plan joined = planOf(*result.module, found.step->costs);
  joined.extraTimeBound = result.plan.extraTimeBound;
  joined.tensors = std::move(result.plan.tensors);
  joined.notes = std::move(result.plan.notes);
  joined.withoutRecomputeBytes = withoutRecompute;
  joined.shapes = std::move(shapes);
  result.plan = std::move(joined);
}

/// Whether no rule of passes/plan settles an axis of the question.
bool isSettled(const StepQuestion &question) {
  const StepVariant &asked = question.asked;
  return asked.eightBitPercent && asked.shardPercent && asked.weightShardPercent &&
         asked.awayPercent && asked.lossChunks != kAny && asked.rowChunks != kAny &&
         asked.batches != kAny && (asked.batches == 1 || question.asGiven);
}

} // namespace

void reportRefusals(const std::vector<Refusal> &refusals, std::optional<Bytes> unmetBudget) {
  if (refusals.empty())
    return;
  auto wouldDo = [&](const Refusal &refusal) { return refusal.arenaBytes <= *unmetBudget; };
  const bool isError = unmetBudget && llvm::any_of(refusals, wouldDo);
  if (isError)
    throw Error::internal(absl::StrCat(
        "internal error: the checks refuse ", refusals.size(),
        " of the plans for this step, and no other fits: ", describe(refusals.front())));
  absl::FPrintF(
      stderr,
      "warning: the checks refuse %d of the plans for this step, another one is taken: %s\n",
      refusals.size(), describe(refusals.front()));
}

void saveProblem(const BudgetPlanner &planner, const CompileOptions &options) {
  if (!options.saveProblemPath.empty())
    writeFile(options.saveProblemPath, schedule::print(planner.problem()));
}

void setBatches(Program &program, const CompileOptions &options) {
  program.batch = options.import.batch.value_or(1);
  auto inputOf = [&](bool isEvaluation, std::string_view shape,
                     const std::string *name) -> const GraphInput * {
    for (const GraphProgram &graph : program.graphs)
      for (const GraphInput &input : graph.inputs)
        if ((graph.role == GraphRole::Eval) == isEvaluation && graph.shape == shape &&
            input.role == InputRole::Data && !input.place.shape.empty() &&
            (!name || input.name == *name))
          return &input;
    return nullptr;
  };
  const GraphInput *counted = inputOf(false, "", nullptr);
  auto partsOf = [&](std::string_view shape, int64_t batch) -> int64_t {
    const GraphInput *evaluated = counted ? inputOf(true, shape, &counted->name) : nullptr;
    return evaluated ? batch / evaluated->place.shape.front() : 1;
  };
  if (counted)
    program.batch = counted->place.shape.front();
  program.evaluationParts = partsOf("", program.batch);
  for (const StepShape &shape : options.shapes) {
    ProgramShape &made = program.shapes.emplace_back(shape.name, program.batch);
    if (auto batch = shape.extents.find("batch"); batch != shape.extents.end())
      made.batch = batch->second / program.batchesPerStep;
    made.evaluationParts = partsOf(program.shapes.size() == 1 ? "" : shape.name, made.batch);
  }
}

CompiledPlan compileToPlan(MLIRContext &context, const CompileOptions &options, StageTimer &timer,
                           BudgetOptions planning) {
  CompiledPlan result;
  result.steps = std::make_unique<ModelSteps>(context, options, timer, std::move(planning));
  ModelSteps &steps = *result.steps;
  StepQuestion question = questionOf(context, options);
  const bool isForm = options.stopAfter < Form::Ordered;
  if (isForm && isSettled(question)) {
    result.module = steps.form(question.asked, options.stopAfter);
    return result;
  }
  std::shared_ptr<ModelStep> settled;
  if (isSettled(question)) {
    settled = steps.steps.at(question.asked, question.times);
    settled->say(); // before the search for a plan
  }
  StepAnswer found = answer(steps.steps, question);
  result.step = found.step;
  result.backend = steps.backendOf(found.step->target());
  found.step->say();
  saveProblem(found.step->planner(), options);
  if (!found.choice)
    throw refusalOf(found, steps, question, options);
  reportRefusals(found.step->planner().refusals(), std::nullopt);
  if (isForm) { // in front of the choice of what stays in f32
    StepVariant taken = found.step->variant;
    taken.precision = question.asked.precision;
    taken.wideNodes.clear();
    result.module = steps.form(taken, options.stopAfter);
    return result;
  }
  if (options.stopAfter == Form::Ordered) {
    result.module = found.step->planner().ordered(*found.choice);
    return result;
  }
  timer.start("report");
  complete(found.plan, found, steps, options);
  if (!options.remarksPath.empty())
    writeDecisions(*found.choice->placed, found.step->costs, options.remarksPath);
  result.module = std::move(found.choice->placed);
  result.plan = std::move(found.plan);
  if (!options.shapes.empty())
    addShapes(result, found, question, options);
  timer.stop();
  return result;
}

} // namespace stow
