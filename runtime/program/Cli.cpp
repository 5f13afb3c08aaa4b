#include "runtime/program/Cli.h"

#include "runtime/base/CommandLine.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/MemoryFlag.h"
#include "runtime/base/Names.h"
#include "runtime/base/Version.h"
#include "runtime/format/PlanReport.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/program/Evaluator.h"
#include "runtime/program/MemorySummary.h"
#include "runtime/program/Progress.h"
#include "runtime/program/RankGroup.h"
#include "runtime/program/Restore.h"
#include "runtime/program/ShapeChoice.h"
#include "runtime/program/Trainer.h"
#include "runtime/report/Formats.h"
#include "runtime/report/Verdict.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

namespace stow {

namespace {

/// What the three commands were asked to do.
struct EvalOptions {
  std::string data;
  std::optional<std::string> weights, trained;
  KeyChoice keys;
  int64_t threads = 0;
  bool poison = false;
  RunCheck check = RunCheck::None;
  SlowMemoryOptions slow;
  std::optional<int64_t> gpu;
  Algorithms algorithms;
  bool allowNonFinite = false;
  std::optional<int64_t> timeout; ///< as TrainOptions has it
  std::optional<std::string> profile;
  ProfileFormat profileFormat = ProfileFormat::Json;
};

struct PlanOptions {
  std::string format = "text";
  std::optional<Card> card;
  std::optional<Bytes> reserve;
  bool fit = false;
  ReportOptions report;
};

template <typename Target> CommandLine::Store store(Target &target) {
  return [&target](const std::string &text) { target = text; };
}

template <typename Options> void addDataFlags(CommandLine &flags, Options &options) {
  flags.value("data", "FILE", "samples and targets (.npz); required", store(options.data));
  flags.value("x", "NAME", "array with the samples (default: x, x_train, or the input's name)",
              store(options.keys.x));
  flags.value("y", "NAME", "array with the targets (default: y, y_train, or the input's name)",
              store(options.keys.y));
}

CopyPace paceOf(const CopySpeed &speed) {
  return {CopyTime::Background, 1e9 * speed.outGigabytes, 1e9 * speed.inGigabytes,
          1e-6 * speed.microseconds.value_or(0)};
}

template <typename Options> void addMachineFlags(CommandLine &flags, Options &options) {
  flags.value("threads", "N",
              "threads (default: as compiled, which is the most, or one per processor if fewer)",
              [&](const std::string &text) { options.threads = parseCount("threads", text, 1); });
  flags.value("gpu", "N",
              "the GPU to run on, by its driver's order (default: 0); refused by programs for the "
              "host",
              [&](const std::string &text) { options.gpu = parseCount("gpu", text, 0); });
  flags.value("timeout", "SECONDS",
              "several devices: how long a rank waits for another before all end (default: 600; "
              "0: without end)",
              [&](const std::string &text) { options.timeout = parseCount("timeout", text, 0); });
  flags.value("autotune", "WHEN",
              "load: time the kernels that a GPU's libraries have for each matrix product when the "
              "program is loaded, and take the fastest; off: the first (default: off, and what a "
              "resumed run took)",
              [&](const std::string &text) {
                options.algorithms.tuning = oneOf(text, {"off", "load"}, "time", "--autotune") == 0
                                                ? Algorithms::Tuning::Off
                                                : Algorithms::Tuning::Load;
              });
  flags.flag("poison", "overwrite every buffer when it dies (finds planning errors)",
             [&] { options.poison = true; });
  flags.value(
      "check", "WHAT",
      "canaries: run commands one by one and name the one that writes what is not its own "
      "(slow; takes the arena's bytes once more); early-copies, late-copies: make copies to "
      "slow memory where they start, or where they are awaited; refused where nothing travels",
      [&](const std::string &text) {
        constexpr RunCheck checks[] = {RunCheck::Canaries, RunCheck::EarlyCopies,
                                       RunCheck::LateCopies};
        options.check =
            checks[oneOf(text, {"canaries", "early-copies", "late-copies"}, "check", "--check")];
      });
  flags.value("offload", "FOLDER",
              "keep what travels to slow memory in this folder (default: that of compile "
              "--offload=FOLDER); refused where nothing travels",
              store(options.slow.folder));
  flags.value(
      "offload-bandwidth", "OUT[,IN[,US]]",
      "let copies take as long as with these GB/s, and microseconds for each, if not longer; "
      "refused where nothing travels, and with --check",
      [&](const std::string &text) { options.slow.pace = paceOf(parseCopySpeed(text)); });
  flags.optionalValue("profile", "FILE", "print where the time goes; FILE: in full, too",
                      store(options.profile));
  flags.value("profile-format", "NAME", "of that file: json or perfetto (default: json)",
              [&](const std::string &text) { options.profileFormat = parseProfileFormat(text); });
}

template <typename Options>
void addTrainedFlag(CommandLine &flags, Options &options, const std::string &base) {
  flags.value("trained", "FILE",
              "take what is trained from this file, of --save-trained or PEFT, and of " + base +
                  " only the rest; without that flag the rest is as compiled",
              store(options.trained));
}

void addRunFlags(CommandLine &flags, TrainOptions &options) {
  flags.value("epochs", "N", "passes over the data (default: 1)",
              [&](const std::string &text) { options.epochs = parseCount("epochs", text, 1); });
  flags.value("steps", "N", "steps in all, instead of --epochs",
              [&](const std::string &text) { options.steps = parseCount("steps", text, 1); });
  flags.value("lr", "RATE", "learning rate (default: as compiled)",
              [&](const std::string &text) { options.learningRate = parseRate("lr", text); });
  flags.value("lr-schedule", "NAME", learningRateKinds() + " (default: constant)",
              [&](const std::string &text) { options.schedule = parseLearningRateKind(text); });
  flags.value("lr-decay", "FACTOR",
              "step and exponential schedules: factor (default: 0.1, exponential 0.95)",
              [&](const std::string &text) { options.decay = parseRate("lr-decay", text); });
  flags.value("lr-decay-epochs", "N", "step schedule: period (default: a third of the run)",
              [&](const std::string &text) {
                options.decayEpochs = parseCount("lr-decay-epochs", text, 1);
              });
  flags.value(
      "warmup-steps", "N", "steps over which the rate rises to its value (default: 0)",
      [&](const std::string &text) { options.warmupSteps = parseCount("warmup-steps", text, 0); });
  flags.value("seed", "N", "seed of initial values, order and dropout (default: 0)",
              [&](const std::string &text) { options.seed = parseSeed("seed", text); });
  flags.value("validation-split", "F",
              "share of the samples held out for validation; 0: no evaluation (default: the "
              "_test arrays, when present)",
              [&](const std::string &text) {
                double share = parseReal("validation-split", text);
                if (share < 0 || share >= 1)
                  throw Error::badInput("--validation-split: expected 0 <= F < 1, found " + text);
                options.validationSplit = share;
              });
  flags.flag("no-shuffle", "visit the samples in the file's order",
             [&] { options.shuffle = false; });
}

void addTrainFlags(CommandLine &flags, TrainOptions &options) {
  addDataFlags(flags, options);
  addRunFlags(flags, options);
  flags.value("save", "FILE", "write weights and state (.safetensors) at the end and when stopped",
              store(options.save));
  flags.value("save-every", "N", "and every N steps", [&](const std::string &text) {
    options.saveEvery = parseCount("save-every", text, 1);
  });
  flags.optionalValue("resume", "FILE", "continue a saved run (default: that of --save)",
                      store(options.resume));
  flags.value("init-from", "PATH",
              "start from these parameters: a .safetensors file, or a folder of them (shards, with "
              "their .index.json)",
              store(options.initFrom));
  addTrainedFlag(flags, options, "--init-from");
  flags.value("save-trained", "FILE",
              "write what is trained alone, at the end and when stopped: no base, no optimizer; "
              "adapters as PEFT names them",
              store(options.saveTrained));
  flags.value("log", "FILE", "loss curve as CSV: step,epoch,lr,loss", store(options.log));
  flags.elsewhere({"--tensorboard"}, ": a run writes its curve as CSV; with --log=run.csv, "
                                     "python -m stowage.convert tensorboard run.csv FOLDER makes "
                                     "TensorBoard's file of it");
  flags.flag("allow-nonfinite", "go on when the loss or the data are infinite or NaN",
             [&] { options.allowNonFinite = true; });
  addMachineFlags(flags, options);
  flags.flag("quiet", "print only the results", [&] { options.quiet = true; });
}

void addEvalFlags(CommandLine &flags, EvalOptions &options) {
  addDataFlags(flags, options);
  flags.value("weights", "PATH",
              "parameters, a .safetensors file or a folder of them; required, or --trained",
              store(options.weights));
  addTrainedFlag(flags, options, "--weights");
  flags.flag("allow-nonfinite", "go on when the data are infinite or NaN",
             [&] { options.allowNonFinite = true; });
  addMachineFlags(flags, options);
}

void addPlanFlags(CommandLine &flags, PlanOptions &options) {
  std::vector<std::string> known;
  for (const PlanFormat &format : planFormatTable())
    known.emplace_back(format.name);
  flags.value("format", "NAME", joined(known, ", ") + " (default: text)",
              [&options, known](const std::string &text) {
                refuseMovedFormat(text);
                options.format = known[oneOf(text, known, "format", "--format")];
              });
  flags.value(
      "rows", "N", "buffers listed at the peak (default: 20)",
      [&](const std::string &text) { options.report.liveRows = parseCount("rows", text, 0); });
  flags.flag("no-map", "leave out the map of the arena", [&] { options.report.map = false; });
  flags.value(
      "card", "BYTES", "memory of the card that the step is to fit, as its maker states it: 24GiB",
      [&](const std::string &text) { options.card = cardOfSize(parseMemoryBytes("card", text)); });
  flags.value(
      "reserve", "BYTES", "of that, what is left to others (default: 512MiB)",
      [&](const std::string &text) { options.reserve = parseMemoryBytes("reserve", text); });
  flags.flag("fit", "exit with status 2 where the step does not fit --card",
             [&] { options.fit = true; });
}

void printRaw(const std::string &text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() || std::fflush(stdout) != 0)
    throw Error::badInput(std::string("cannot write to standard output: ") + std::strerror(errno));
}

void require(const std::string &value, const char *flag) {
  if (value.empty())
    throw Error::badInput("--" + std::string(flag) + "=FILE is missing");
}

/// Whether the evaluation fetches `state`.
bool fetches(const Program &program, const SlowState &state) {
  return std::ranges::any_of(program.graphs, [&](const GraphProgram &graph) {
    return graph.role == GraphRole::Eval &&
           std::ranges::any_of(graph.commands, [&](const Command &command) {
             return command.op == CommandOp::CopyIn &&
                    command.ints.at("slow_offset").front() == state.slowOffset;
           });
  });
}

/// Leaves out what a graph runs, and with it places for a next batch beside that.
void leaveOut(GraphProgram &graph) {
  graph.commands.clear();
  graph.nextFrom.reset();
  for (GraphInput &input : graph.inputs)
    input.nextOffset.reset();
}

/// The program without what only training takes: what travels there, and state that lies in slow memory and is not fetched by the
/// evaluation, which needs as much of slow memory as its own state reaches to.
Program forEvaluation(Program program) {
  std::vector<SlowState> unread = slowStateOf(program);
  Bytes slowBytes = 0;
  std::erase_if(unread, [&](const SlowState &state) {
    const bool isRead = fetches(program, state);
    slowBytes = std::max(slowBytes, isRead ? state.slowEnd() : 0);
    return isRead;
  });
  std::erase_if(program.state, [&](const StateTensor &state) {
    return std::ranges::find(unread, state.name, &SlowState::name) != unread.end();
  });
  program.slowBytes = slowBytes;
  for (GraphProgram &graph : program.graphs)
    if (graph.role != GraphRole::Eval)
      leaveOut(graph);
  return program;
}

/// The program without what only several ranks run together, so that one can evaluate as well.
Program withoutTraining(Program program) {
  for (GraphProgram &graph : program.graphs)
    if (graph.role != GraphRole::Eval)
      leaveOut(graph);
  return program;
}

int evaluate(const Program &given, ProgramImage image, const EvalOptions &options,
             RankGroup &team) {
  require(options.data, "data");
  if (!options.trained && options.weights.value_or("").empty())
    throw Error::badInput(
        "--weights=FILE is missing, or --trained=FILE, what --save-trained or PEFT "
        "has written; expected one of them, or what is trained beside its base");
  const Program program = given.slowBytes > 0 ? forEvaluation(given)
                          : given.devices > 1 ? withoutTraining(given)
                                              : given;
  const bool isStill = given.slowBytes > 0 && program.slowBytes == 0;
  ArrayFile file(options.data);
  const GraphProgram &graph = program.graphs[stepGraphIndex(program)];
  // Named arrays are meant as they are; otherwise the test arrays come first.
  const std::optional<Fitting> fitting = fittingOf(program);
  const Fitting *fit = fitting ? &*fitting : nullptr;
  std::optional<Samples> samples;
  if (!options.keys.x && !options.keys.y)
    samples = loadSamples(file, graph, Split::Test, options.keys, fit);
  bool isTest = samples.has_value();
  if (!isTest)
    samples = loadSamples(file, graph, Split::Train, options.keys, fit);
  if (team.speaks())
    warnOfUnreadArrays(file, graph, options.keys);
  checkTargets(program, *samples);
  requireShapes(program, *samples);
  const ChosenWeights weights(program, options.weights, options.trained);
  ExecutorOptions run{options.threads, options.poison, options.check,
                      options.slow,    options.gpu,    options.algorithms};
  if (evaluatesTogether(program))
    run.ranks = team.engine();
  if (const std::string flag = flagOfCopies(run); isStill && !flag.empty())
    throw Error::badInput(flag + " is about buffers that travel to slow memory, and in an "
                                 "evaluation of this program none does; leave the flag out");
  Executor executor(program, image, run);
  executor.initializeState(0, [&](size_t position) { return weights.covers(position); });
  weights.apply(executor);
  if (const std::optional<std::string> note = weights.note())
    printLine("note: " + *note);
  for (const std::string &note : executor.device().notes())
    printLine("note: " + note);
  std::vector<std::unique_ptr<Profile>> profiles; // by shape
  for (size_t shape = 0; options.profile && shape < program.shapeCount(); ++shape) {
    const int64_t samplesPerRun = program.samplesPerEvaluation(shape);
    profiles.push_back(std::make_unique<Profile>(
        program.graphs[graphIndex(program, GraphRole::Eval, shape)], executor.threads(),
        (samples->rowCount + samplesPerRun - 1) / samplesPerRun, &program.plan));
  }
  Evaluator evaluator(executor, *samples,
                      options.allowNonFinite ? NonFinite::Allowed : NonFinite::Refused);
  evaluator.requireRows(samples->rowCount);
  const std::vector<int64_t> rows = allRows(samples->rowCount);
  std::vector<Profile *> timing;
  for (const auto &profile : profiles)
    timing.push_back(profile.get());
  Metrics metrics = team.isAlone() ? evaluator.run(rows, timing) : team.evaluate(evaluator, rows);
  printLine(std::string(isTest ? "test: " : "") + describe(metrics) + ", " +
            groupDigits(metrics.rows) + " rows");
  if (const std::string counts = countsText(program, evaluator.batchesByShape()); !counts.empty())
    printLine(counts);
  // The smallest first, as in training: a trace and a page show the last.
  std::vector<const Profile *> ran;
  for (Profile *profile : timing | std::views::reverse)
    if (profile->hasRun())
      ran.push_back(profile);
  if (options.profile)
    reportProfiles(ran, *options.profile, options.profileFormat, executor.device());
  printLine(memorySummary(program.plan, executor.device()));
  return 0;
}

/// On one process, or on all that a launcher has started.
int evaluateOnRanks(const Program &program, ProgramImage image, const EvalOptions &options) {
  RankGroup team = RankGroup::ofLaunch(program);
  team.setTimeout(options.timeout);
  if (team.isAlone())
    return evaluate(program, image, options, team);
  try {
    if (options.profile)
      throw Error::badInput(
          "--profile of an evaluation is of one process; start it without mpirun");
    if (!team.speaks())
      keepSilent();
    return evaluate(program, image, options, team);
  } catch (const Error &error) {
    team.abort(error);
  }
}

int printPlan(const Program &program, const PlanOptions &options) {
  const Plan &plan = program.plan;
  if (options.fit && !options.card)
    throw Error::badInput(
        "--fit asks whether the step fits a card; say how much memory it has: --card=24GiB");
  if (options.reserve && !options.card)
    throw Error::badInput("--reserve is of a card; say how much memory it has: --card=24GiB");
  std::optional<Verdict> verdict;
  std::optional<std::string> text;
  if (options.card) {
    Card card = *options.card;
    card.systemBytes = options.reserve.value_or(card.systemBytes);
    verdict = judgeAlone(plan, card);
    text = renderJudged(plan, *verdict, options.format, options.report);
  }
  if (!text && options.format == "text")
    text = renderText(plan, options.report);
  printRaw(
      text ? *text
           : std::ranges::find(planFormatTable(), options.format, &PlanFormat::name)->render(plan));
  if (verdict)
    requireFit(*verdict, options.fit);
  return 0;
}

int runCommand(const std::string &name, const std::vector<std::string> &arguments,
               const Program &program, ProgramImage image) {
  CommandLine line;
  bool wantsVersion = false;
  line.flag("version", "print the version of the compiler", [&] { wantsVersion = true; });
  TrainOptions trainOptions;
  EvalOptions evalOptions;
  PlanOptions planOptions;
  CommandLine &trainLine = line.command("train"), &evalLine = line.command("eval"),
              &planLine = line.command("plan");
  line.command("help");
  addTrainFlags(trainLine, trainOptions);
  addEvalFlags(evalLine, evalOptions);
  addPlanFlags(planLine, planOptions);
  for (CommandLine *command : {&trainLine, &evalLine, &planLine})
    command->elsewhere({"--batch", "--loss", "--optimizer", "--memory-budget", "--accumulate",
                        "--precision", "--freeze", "--frozen"},
                       " is part of the plan, which was made when " + program.model +
                           " was compiled; compile it again: stowage compile");

  const CommandLine::Request request = line.parse(arguments);
  if (wantsVersion) {
    printRaw(std::string("stowage ") + version() + "\n");
    return 0;
  }
  if (request.wantsHelp || request.command == "help") {
    printRaw(concat(name, ": trains ", program.model, " with batches of ", program.samplesPerStep(),
                    " in ", formatBytesExact(program.plan.arenaBytes), "\n\n", name,
                    " train --data=FILE [flags]\n", trainLine.help(), "\n", name,
                    " eval --data=FILE --weights=FILE [flags]\n", evalLine.help(), "\n", name,
                    " plan [flags]\n", planLine.help(), "\n", name, " --version\n"));
    return 0;
  }
  if (request.command == "train") {
    require(trainOptions.data, "data");
    return train(program, image, trainOptions);
  }
  if (request.command == "eval")
    return evaluateOnRanks(program, image, evalOptions);
  if (request.command == "plan")
    return printPlan(program, planOptions);
  throw Error::badInput("a command is missing; expected train, eval, plan or --help");
}

} // namespace

int stowMain(int argc, char **argv, const Program &program, ProgramImage image) {
  std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "model";
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  try {
    return runCommand(name, arguments, program, image);
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exitCode();
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "error: the machine has no memory left for data and reports\n");
    return static_cast<int>(ErrorKind::BadInput);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: internal: %s\n", error.what());
    return static_cast<int>(ErrorKind::Internal);
  }
}

} // namespace stow
