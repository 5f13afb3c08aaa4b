#include "runtime/program/Trainer.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/FileLock.h"
#include "runtime/base/Parallel.h"
#include "runtime/data/Shuffle.h"
#include "runtime/format/PlanReport.h"
#include "runtime/program/BatchFeed.h"
#include "runtime/program/Evaluator.h"
#include "runtime/program/MemorySummary.h"
#include "runtime/program/Progress.h"
#include "runtime/program/RankGroup.h"
#include "runtime/program/Restore.h"
#include "runtime/program/ShapeChoice.h"
#include "runtime/program/StepProfiles.h"
#include "runtime/program/StopSignal.h"
#include "runtime/program/TrainingLog.h"
#include "runtime/program/TrainingStep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <list>
#include <numeric>

namespace stow {

namespace {

/// The state of the run that --resume names, if any.
std::optional<WeightFiles> openResumed(const TrainOptions &options) {
  if (!options.resume)
    return std::nullopt;
  if (options.initFrom || options.trained)
    throw Error::badInput(concat("--resume and ", options.initFrom ? "--init-from" : "--trained",
                                 " exclude each other: a resumed run has its own parameters"));
  std::string path = *options.resume;
  if (path.empty() && !options.save)
    throw Error::badInput("--resume without a file continues the one of --save; give either");
  return std::optional<WeightFiles>(std::in_place, path.empty() ? *options.save : path);
}

/// Takes the files to save to.
void lockFiles(const TrainOptions &options, std::list<FileLock> &locks) {
  if (options.saveEvery > 0 && !options.save && !options.othersSave)
    throw Error::badInput("--save-every needs --save=FILE");
  if (options.save && options.save == options.saveTrained)
    throw Error::badInput("--save and --save-trained name one file; expected one each");
  for (const std::optional<std::string> &path : {options.save, options.saveTrained})
    if (path) {
      checkWritable(*path);
      locks.emplace_back(*path);
    }
}

/// Gives the state what comes from files, and the rest its first values.
template <typename Weights>
void giveState(Executor &executor, const Weights &weights, uint64_t seed, bool isQuiet) {
  executor.initializeState(seed, [&](size_t position) { return weights.covers(position); });
  weights.apply(executor);
  if (const std::optional<std::string> note = weights.note(); note && !isQuiet)
    printLine("note: " + *note);
}

/// What is to be known of a device before it works.
void announceDevice(const Plan &plan, const Device &device) {
  if (const auto memory = device.driverMemory())
    printLine(driverMemorySummary(plan, *memory));
  if (const auto traffic = device.slowTraffic())
    printLine("slow memory: " + traffic->place + " of " + formatBytesExact(traffic->slowBytes));
  for (const std::string &note : device.notes())
    printLine("note: " + note);
}

std::string nonFiniteLoss(double loss, int64_t step, bool hasScale) {
  return concat("the loss is ", std::to_string(loss), " at step ", step,
                hasScale ? " at any loss scale" : "",
                "; try a lower --lr, or go on with --allow-nonfinite");
}

std::string skippedStep(int64_t step, const LossScaleState &scale) {
  return concat("step ", step, " is skipped: its gradients are not finite; the loss scale is now ",
                static_cast<int64_t>(scale.scale));
}

/// Where the samples are, if not with the host.
std::string describeKept(const GraphProgram &graph) {
  Bytes bytes = 0;
  int64_t rows = 0;
  for (const GraphInput &input : graph.inputs)
    if (const Operand all = input.whole(); input.keptRows) {
      rows = *input.keptRows;
      bytes += storedBytes(all.layout, all.shape, all.dtype);
    }
  if (rows == 0)
    return "";
  return concat("the samples stay on the device, in ", formatBytesExact(bytes),
                " of the arena, with room for ", groupDigits(rows));
}

/// What a run is to be, in words; its plan is that of the program.
void announce(const Program &program, const RunState &state, size_t validationRows, size_t testRows,
              const RankGroup &team, const BatchFeed &feeds, Executor &executor) {
  const LearningRate &rate = state.rate;
  std::string text = program.model + ": " + groupDigits(state.rows) + " training rows";
  if (validationRows > 0)
    text += ", " + groupDigits(static_cast<int64_t>(validationRows)) + " validation rows";
  if (testRows > 0)
    text += ", " + groupDigits(static_cast<int64_t>(testRows)) + " test rows";
  append(text, "; batch ", program.samplesPerStep(),
         team.size() > 1 ? concat(" on ", team.size(), " devices, ",
                                  program.batch * program.batchesPerStep, " on each")
                         : "",
         program.batchesPerStep > 1
             ? concat(" in ", program.batchesPerStep, " parts of ", program.batch)
             : "",
         ", ", groupDigits(rate.stepsPerEpoch), " steps per epoch");
  printLine(text + feeds.shapesText(state.rows));
  char base[40];
  std::snprintf(base, sizeof(base), "%g", rate.base);
  printLine(concat(describe(program.loss), ", ", program.optimizer.text, ", lr ", nameOf(rate.kind),
                   " from ", base, ", seed ", state.seed, ", arena ",
                   formatBytesExact(program.plan.arenaBytes)));
  if (const std::string counts = describe(program.plan.tensors); !counts.empty())
    printLine(counts);
  if (executor.threads() < program.threads && executor.threads() == availableProcessors())
    printLine(concat("note: ", executor.threads(), " of the plan's ", program.threads,
                     " threads, since this process may use ", availableProcessors(),
                     availableProcessors() == 1 ? " processor" : " processors",
                     team.size() > 1 ? concat("; mpirun of Open MPI binds ranks to them: give it "
                                              "--bind-to none, or --map-by slot:PE=",
                                              program.threads)
                                     : ""));
  if (const std::string kept = describeKept(program.graphs[stepGraphIndex(program)]); !kept.empty())
    printLine(kept);
  announceDevice(program.plan, executor.device());
  if (state.step > 0)
    printLine(concat("resumed after step ", state.step, " of ", rate.totalSteps));
}

/// Why `write` failed; empty where it did not.
template <typename Write> std::string problemOf(Write write) {
  try {
    write();
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

/// Writes what is trained alone; where that fails, why, behind `before`, and that `whole`, if any, has it.
std::string saveTrained(CheckpointWriter &writer, const RunState &state, const char *before,
                        const std::string &whole) {
  const std::string problem = problemOf([&] { writer.save(state); });
  if (problem.empty()) {
    printLine("saved what is trained to " + writer.path());
    return "";
  }
  return concat(before, problem, whole.empty() ? "" : "; all of it is in '" + whole + "'");
}

/// How many steps a run takes, of epochs as long as `rate` says.
void chooseLength(const TrainOptions &options, const std::optional<RunState> &saved,
                  LearningRate &rate) {
  if (options.steps && options.epochs)
    throw Error::badInput("--steps and --epochs exclude each other");
  if (options.steps)
    rate.totalSteps = *options.steps;
  else if (options.epochs &&
           *options.epochs > std::numeric_limits<int64_t>::max() / rate.stepsPerEpoch)
    throw Error::badInput(concat("--epochs=", *options.epochs, " is too many"));
  else if (options.epochs || !saved)
    rate.totalSteps = options.epochs.value_or(1) * rate.stepsPerEpoch;
  int64_t epochs = (rate.totalSteps + rate.stepsPerEpoch - 1) / rate.stepsPerEpoch;
  int64_t third = std::max<int64_t>((epochs + 2) / 3, 1);
  rate.decayEpochs = options.decayEpochs.value_or(saved ? rate.decayEpochs : third);
}

class TrainingRun {
public:
  TrainingRun(const Program &program, ProgramImage image, const TrainOptions &options,
              RankGroup &team);
  int run();

private:
  int trainToTheEnd();
  void loadData();
  void chooseState(const std::optional<WeightFiles> &resumed);
  void feed(int64_t number);
  void feedAhead(int64_t next);
  double oneStep();
  double stepOrSayWhatIsLeft();
  double oneBatch(int64_t number);
  template <typename Write> void withLog(Progress &progress, Write write);
  void saveInTheMiddle(Progress &progress);
  void save(Progress &progress);
  void saveAtTheEnd(Progress &progress);
  std::string whatIsSaved() const;
  std::string whatIsLeft() const;
  void requireLog() const;
  void endOfEpoch(Progress &progress);
  void finish(Progress &progress, int signal);
  const GraphProgram &graphOf(int64_t batch) const {
    return program.graphs[stepGraphIndex(program, batch)];
  }
  int64_t lastBatch() const { return program.batchesPerStep - 1; }
  const Fitting *fit() const { return fitting ? &*fitting : nullptr; }

  const Program &program;
  const TrainOptions &options;
  RankGroup &team;
  ArrayFile dataFile;
  const std::optional<Fitting> fitting; ///< where a step has several shapes
  Samples samples;
  std::optional<Samples> testSamples;
  Rows rows;
  std::vector<int64_t> testRows;
  RunState state;
  std::vector<int64_t> order;     ///< positions in rows.train, in the order of the current epoch
  int64_t orderedEpoch = -1;      ///< the epoch that `order` is for
  std::vector<int64_t> batchRows; ///< of the batch that was fed last
  int64_t fedBatch = -1;          ///< the one that lies in the inputs; counted over all steps
  size_t fedShape = 0;            ///< of that one
  std::exception_ptr feedProblem; ///< of a batch that was fed ahead of its turn

  std::optional<Executor> executor;
  std::optional<BatchFeed> feeds;
  std::optional<Evaluator> validationEvaluator, testEvaluator;
  std::list<FileLock> locks; ///< of the files to save to
  std::optional<CheckpointWriter> writer, trainedWriter;
  std::optional<int64_t> savedStep; ///< of the latest save of this run
  std::optional<TrainingLog> log;
  std::optional<StepProfiles> profiles;
  std::optional<Metrics> testMetrics; ///< of the latest evaluation of the test rows
  std::optional<TrainingStep> step;
  int64_t skippedSteps = 0; ///< by loss scaling, before the step at hand
};

/// Those of the run that goes on.
static Algorithms algorithmsOf(const TrainOptions &options,
                               const std::optional<WeightFiles> &resumed) {
  Algorithms algorithms = options.algorithms;
  if (resumed && algorithms.tuning != Algorithms::Tuning::Off)
    algorithms.chosen = savedAlgorithms(resumed->file());
  return algorithms;
}

TrainingRun::TrainingRun(const Program &program, ProgramImage image, const TrainOptions &options,
                         RankGroup &team)
    : program(program), options(options), team(team), dataFile(options.data),
      fitting(fittingOf(program)) {
  // What can be wrong with the request is found before the arena is touched.
  team.compareProgram(program);
  lockFiles(options, locks);
  if (options.profile && !options.profile->empty())
    checkWritable(*options.profile);
  const std::optional<WeightFiles> resumed = openResumed(options);
  const Algorithms algorithms = algorithmsOf(options, resumed);
  loadData();
  chooseState(resumed);
  team.compareRun(state, testRows.size(), options.allowNonFinite, options.stepsToSave());
  const NonFinite nonFinite = options.allowNonFinite ? NonFinite::Allowed : NonFinite::Refused;
  feeds.emplace(program, samples, nonFinite, fit());

  // What does not fit is found before memory is taken.
  std::optional<ChosenWeights> weights;
  std::optional<Restoration> restoration;
  if (resumed)
    restoration.emplace(program, *resumed, Restore::Everything);
  if (options.initFrom || options.trained)
    weights.emplace(program, options.initFrom, options.trained);
  executor.emplace(program, image,
                   ExecutorOptions{options.threads, options.poison, options.check, options.slow,
                                   options.gpu, algorithms, team.engine()});
  if (weights)
    giveState(*executor, *weights, state.seed, options.quiet);
  else if (restoration)
    giveState(*executor, *restoration, state.seed, options.quiet);
  else
    executor->initializeState(state.seed);

  feeds->keep(*executor);
  team.compareState(*executor);
  step.emplace(*executor);
  if (const std::optional<LossScaleState> scale = step->lossScale())
    skippedSteps = scale->skippedSteps;
  if (!rows.validation.empty()) {
    validationEvaluator.emplace(*executor, samples, nonFinite);
    validationEvaluator->requireRows(static_cast<int64_t>(rows.validation.size()));
  }
  if (testSamples) {
    testEvaluator.emplace(*executor, *testSamples, nonFinite);
    testEvaluator->requireRows(testSamples->rowCount);
  }
  order.resize(rows.train.size());
  batchRows.reserve(program.batch);
  ShardedState *shards = options.isSaved() ? team.shardsOf(*executor) : nullptr;
  if (options.save)
    writer.emplace(*executor, *options.save, CheckpointWriter::What::Run, shards);
  if (options.saveTrained)
    trainedWriter.emplace(*executor, *options.saveTrained, CheckpointWriter::What::Trained);
  if (options.log)
    log.emplace(*options.log, state.step, step->lossScale().has_value());
  if (options.profile)
    profiles.emplace(program, executor->threads(), state.rate.totalSteps - state.step);
}

void TrainingRun::loadData() {
  samples = *loadSamples(dataFile, graphOf(0), Split::Train, options.keys, fit());
  if (team.speaks())
    warnOfUnreadArrays(dataFile, graphOf(0), options.keys);
  checkTargets(program, samples);
  requireRoom(graphOf(0), samples, dataFile.path());
  // --validation-split=0 says that nothing is to be evaluated.
  if (options.validationSplit != 0.0)
    testSamples = loadSamples(dataFile, graphOf(0), Split::Test, options.keys, fit());
  if (testSamples) {
    checkTargets(program, *testSamples);
    requireShapes(program, *testSamples);
    testRows = allRows(testSamples->rowCount);
  }
}

void TrainingRun::chooseState(const std::optional<WeightFiles> &resumed) {
  std::optional<RunState> saved;
  if (resumed)
    saved = readRunState(resumed->file(), program);
  if (saved)
    state = *saved;
  if (saved && options.seed && *options.seed != saved->seed)
    throw Error::badInput(concat(resumed->path(), ": the run has the seed ", saved->seed,
                                 ", --seed=", *options.seed, " cannot be changed in the middle"));
  state.seed = saved ? saved->seed : options.seed.value_or(0);
  state.validationSplit = options.validationSplit.value_or(state.validationSplit);
  state.shuffle = options.shuffle.value_or(state.shuffle);

  rows = splitRows(samples.rowCount, state.validationSplit, state.seed);
  auto count = static_cast<int64_t>(rows.train.size());
  if (stepsPerEpoch(program, count) == 0)
    throw Error::badInput(concat(dataFile.path(), ": expected at least one batch of ",
                                 program.samplesPerStep(), " training rows, found ", count,
                                 "; compile with a smaller --batch"));
  if (saved && saved->rows != count)
    throw Error::badInput(concat(resumed->path(), ": the run has ", saved->rows, " training rows, ",
                                 dataFile.path(), " gives ", count,
                                 "; resume with the same data and split"));
  if (state.validationSplit > 0 && rows.validation.empty())
    throw Error::badInput(
        concat("--validation-split leaves no row of ", samples.rowCount, " for validation"));
  state.rows = count;

  LearningRate &rate = state.rate;
  rate.base = options.learningRate.value_or(saved ? rate.base : program.optimizer.learningRate);
  rate.kind = options.schedule.value_or(rate.kind);
  bool keepsDecay = saved && (!options.schedule || rate.kind == saved->rate.kind);
  double usual = rate.kind == LearningRate::Kind::Exponential ? 0.95 : LearningRate().decay;
  rate.decay = options.decay.value_or(keepsDecay ? rate.decay : usual);
  rate.warmupSteps = options.warmupSteps.value_or(rate.warmupSteps);
  rate.stepsPerEpoch = stepsPerEpoch(program, count);
  chooseLength(options, saved, rate);
}

/// Brings batch `number` of this rank, counted from 0 over all steps, into the inputs. Batches of an epoch are dealt out: each step
/// takes one for each rank, in their order.
void TrainingRun::feed(int64_t number) {
  const int64_t perEpoch = state.rate.stepsPerEpoch * program.batchesPerStep * team.size();
  const int64_t ofAll = number * team.size() + team.rank();
  int64_t epoch = ofAll / perEpoch;
  if (epoch != orderedEpoch) {
    if (state.shuffle)
      shuffleEpoch(order, state.seed, static_cast<uint64_t>(epoch));
    else
      std::iota(order.begin(), order.end(), int64_t{0});
    orderedEpoch = epoch;
  }
  const int64_t first = ofAll % perEpoch * program.batch;
  const int64_t end = std::min<int64_t>(first + program.batch, static_cast<int64_t>(order.size()));
  batchRows.clear();
  for (int64_t i = first; i < end; ++i)
    batchRows.push_back(rows.train[order[i]]);
  fedShape = feeds->write(*executor, batchRows, number % program.batchesPerStep);
  fedBatch = number;
}

/// Feeds batch `next` while a device that works beside the host runs the one before it. An evaluation
/// between them would overwrite the inputs, and a profile says what feeding takes. What is wrong with
/// the batch is told in its own turn.
void TrainingRun::feedAhead(int64_t next) {
  const bool isEvaluated = (validationEvaluator || testEvaluator) &&
                           next % (state.rate.stepsPerEpoch * program.batchesPerStep) == 0;
  if (next == state.rate.totalSteps * program.batchesPerStep || isEvaluated || profiles)
    return;
  try {
    feed(next);
  } catch (...) {
    feedProblem = std::current_exception();
  }
}

/// Runs step number state.step, counted from 0, and returns its loss.
double TrainingRun::oneStep() {
  const int64_t first = state.step * program.batchesPerStep;
  for (int64_t number = 0; number < lastBatch(); ++number)
    oneBatch(first + number);
  return oneBatch(first + lastBatch());
}

/// Runs batch `number`, counted from 0 over all steps; the loss after a step's last is the step's.
double TrainingRun::oneBatch(int64_t number) {
  const int64_t inStep = number % program.batchesPerStep;
  const auto begin = profiles ? std::optional<Profile::Moment>(std::in_place) : std::nullopt;
  if (feedProblem)
    std::rethrow_exception(feedProblem);
  if (fedBatch != number)
    feed(number);
  Profile *timing = profiles ? &profiles->of(inStep, fedShape) : nullptr;
  if (timing)
    timing->beginStep(*begin);
  step->start({state.step, state.seed, state.rate.at(state.step), team.rank()}, timing, inStep,
              fedShape);
  feedAhead(number + 1);
  double loss = step->finish();
  if (timing)
    timing->endStep();
  return loss;
}

/// One step; of a device that is lost in it the user learns where the run can be taken up again.
double TrainingRun::stepOrSayWhatIsLeft() {
  try {
    return oneStep();
  } catch (const DeviceLost &lost) {
    throw DeviceLost(concat("in step ", state.step + 1, ": ", lost.what(), "; ", whatIsLeft()));
  }
}

/// Lets `write` write to the log. A log that takes no more is reported once and does not end the
/// run.
template <typename Write> void TrainingRun::withLog(Progress &progress, Write write) {
  if (!log)
    return;
  bool wasWhole = log->problem().empty();
  write(*log);
  if (!log->problem().empty() && wasWhole)
    progress.warn(concat(log->problem(), "; rows from step ", state.step,
                         " on wait in memory until there is room, training goes on"));
  else if (log->problem().empty() && !wasWhole)
    progress.warn("'" + *options.log + "' has all its rows again");
}

/// A save that fails is reported and does not end the run: the next one may find room. A rank that is lost in it ends it.
void TrainingRun::saveInTheMiddle(Progress &progress) {
  team.serveSave();
  try {
    if (writer)
      save(progress);
  } catch (const RankLost &) {
    throw; // there is no going on
  } catch (const Error &error) {
    progress.warn(concat(error.what(), "; ", whatIsSaved(),
                         ", training goes on and saves again after ", options.saveEvery, " steps"));
  }
  if (options.isSaved() && team.hearsOfSave(savedStep == state.step))
    savedStep = state.step;
}

void TrainingRun::save(Progress &progress) {
  withLog(progress, [](TrainingLog &log) { log.writeThrough(); });
  auto start = std::chrono::steady_clock::now();
  writer->save(state, [&] { savedStep = state.step; });
  progress.exclude(std::chrono::steady_clock::now() - start);
  progress.line(concat("saved ", writer->path(), " after step ", state.step));
}

/// What a failed save leaves.
std::string TrainingRun::whatIsSaved() const {
  if (savedStep)
    return concat("the save after step ", *savedStep, " is intact");
  return std::filesystem::exists(writer->path()) ? "the file is what it was before this run"
                                                 : "nothing has been saved yet";
}

/// What a run that cannot go on leaves to the next.
std::string TrainingRun::whatIsLeft() const {
  if (!options.isSaved())
    return "nothing was saved, --save=FILE --save-every=N would have";
  if (savedStep)
    return concat("the save after step ", *savedStep, " is intact: go on with --resume");
  return writer ? whatIsSaved() : "this run has not saved yet";
}

/// Throws when rows of the log are lost; by then everything else has been written.
void TrainingRun::requireLog() const {
  if (log && !log->problem().empty())
    throw Error::badInput(
        concat(log->problem(), "; the last rows of the log are lost",
               savedStep ? concat(", '", writer->path(), "' holds the state after step ",
                                  *savedStep, ": go on with --resume and another --log")
                         : ""));
}

void TrainingRun::endOfEpoch(Progress &progress) {
  Evaluator *evaluator = validationEvaluator ? &*validationEvaluator
                         : testEvaluator     ? &*testEvaluator
                                             : nullptr;
  if (!evaluator)
    return;
  auto start = std::chrono::steady_clock::now();
  Metrics metrics = team.evaluate(*evaluator, validationEvaluator ? rows.validation : testRows);
  progress.exclude(std::chrono::steady_clock::now() - start);
  if (!validationEvaluator)
    testMetrics = metrics;
  progress.line(concat("epoch ", (state.step - 1) / state.rate.stepsPerEpoch + 1, ": ",
                       validationEvaluator ? "validation " : "test ", describe(metrics)));
}

/// Where one of several ranks is lost, the others say where the run can be taken up again.
int TrainingRun::run() {
  try {
    const int code = trainToTheEnd();
    team.watch({}, {});
    return code;
  } catch (const RankLost &lost) {
    team.watch({}, {});
    throw RankLost(concat("in step ", state.step + 1, ": ", lost.what(), "; ", whatIsLeft()));
  }
}

int TrainingRun::trainToTheEnd() {
  StopSignal stop;
  team.watch([&] { return stop.received() != 0; },
             [&](const std::string &silent) {
               const std::string text =
                   concat("rank ", team.rank(), ": asked to end in step ", state.step + 1,
                          " while it waits for ", silent, ", which may have ended; ", whatIsLeft());
               std::fprintf(stderr, "%s\n", text.c_str());
             });
  const LearningRate &rate = state.rate;
  if (!options.quiet)
    announce(program, state, rows.validation.size(), testRows.size(), team, *feeds, *executor);
  if (state.step >= rate.totalSteps) {
    printLine(concat("nothing to do: the run has ", state.step, " of ", rate.totalSteps,
                     " steps; raise --epochs or --steps"));
    return 0;
  }
  Progress progress({state.step, rate.totalSteps, rate.stepsPerEpoch, program.samplesPerStep(),
                     formatBytes(program.plan.arenaBytes)},
                    options.quiet ? Progress::Style::Quiet : Progress::styleFor(1));
  int signal = 0;
  while (state.step < rate.totalSteps && (signal = team.agreeOn(stop.received())) == 0) {
    double stepRate = rate.at(state.step);
    double loss = stepOrSayWhatIsLeft();
    ++state.step;
    const std::optional<LossScaleState> scale = step->lossScale();
    const bool isSkipped = scale && scale->skippedSteps > skippedSteps;
    if (isSkipped) {
      skippedSteps = scale->skippedSteps;
      progress.warn(skippedStep(state.step, *scale));
    }
    withLog(progress, [&](TrainingLog &log) {
      log.append(state.step, (state.step - 1) / rate.stepsPerEpoch + 1, stepRate, loss, scale);
    });
    const bool mayRecover = isSkipped && scale->scale >= 1;
    if (!std::isfinite(loss) && !options.allowNonFinite && !mayRecover) {
      progress.finish();
      throw Error::badInput(nonFiniteLoss(loss, state.step, scale.has_value()));
    }
    progress.step(state.step, stepRate, loss);
    bool isEnd = state.step == rate.totalSteps;
    if (state.step % rate.stepsPerEpoch == 0 || isEnd)
      endOfEpoch(progress);
    if (!isEnd && options.saveEvery > 0 && state.step % options.saveEvery == 0)
      saveInTheMiddle(progress);
  }
  finish(progress, signal);
  return signal != 0 ? 128 + signal : 0;
}

/// Writes both files, also where the first has no room: what is trained takes less of it. Throws what is missing of either.
void TrainingRun::saveAtTheEnd(Progress &progress) {
  team.serveSave();
  std::string problem = writer ? problemOf([&] { save(progress); }) : "";
  if (!problem.empty())
    append(problem, "; the run ended after step ", state.step, ", ", whatIsSaved(),
           log && log->problem().empty() ? " and the log is complete" : "");
  progress.finish();
  if (trainedWriter)
    append(problem, saveTrained(*trainedWriter, state, problem.empty() ? "" : "; ",
                                savedStep == state.step ? writer->path() : ""));
  if (!problem.empty())
    throw Error::badInput(problem);
}

void TrainingRun::finish(Progress &progress, int signal) {
  double seconds = progress.seconds();
  double speed = progress.samplesPerSecond(state.step);
  withLog(progress, [](TrainingLog &log) { log.writeThrough(); });
  saveAtTheEnd(progress);
  if (profiles)
    profiles->report(*options.profile, options.profileFormat, executor->device());
  if (signal) {
    printLine(concat("stopped after step ", state.step, " of ", state.rate.totalSteps,
                     writer          ? "; continue with --resume=" + writer->path()
                     : trainedWriter ? "; --save=FILE would have saved the run, to be continued"
                                     : "; nothing was saved, --save=FILE would have"));
    requireLog();
    return;
  }
  // Without a validation split the last step was followed by an evaluation of the test rows.
  if (testEvaluator && !testMetrics)
    testMetrics = team.evaluate(*testEvaluator, testRows);
  if (testMetrics)
    printLine("test: " + describe(*testMetrics));
  char text[200];
  std::snprintf(text, sizeof(text),
                "trained to step %lld in %.2f s: %.1f samples/s, %.3f ms per step",
                static_cast<long long>(state.step), seconds, speed,
                speed > 0 ? 1e3 * static_cast<double>(program.samplesPerStep()) / speed : 0);
  printLine(text + feeds->countsText());
  printLine(memorySummary(program.plan, executor->device()));
  requireLog();
}

/// What a rank does that leaves files and words to rank 0.
TrainOptions silentOf(const TrainOptions &options) {
  TrainOptions silent = options;
  if (silent.resume && silent.resume->empty())
    silent.resume = options.save;
  silent.othersSave = options.save.has_value();
  silent.save.reset();
  silent.saveTrained.reset();
  silent.log.reset();
  silent.profile.reset();
  silent.quiet = true;
  return silent;
}

} // namespace

int train(const Program &program, ProgramImage image, const TrainOptions &options) {
  RankGroup team(program);
  team.setTimeout(options.timeout);
  if (team.isAlone())
    return TrainingRun(program, image, options, team).run();
  try {
    if (team.speaks())
      return TrainingRun(program, image, options, team).run();
    keepSilent();
    const TrainOptions silent = silentOf(options);
    return TrainingRun(program, image, silent, team).run();
  } catch (const Error &error) {
    team.abort(error);
  }
}

} // namespace stow
