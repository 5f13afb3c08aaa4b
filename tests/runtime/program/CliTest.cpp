// The command line from end to end: a small model trained, interrupted, resumed and evaluated in
// this process, on the digits that come with the repository.
#include "runtime/program/Cli.h"

#include "runtime/base/Version.h"
#include "runtime/data/ArrayFile.h"
#include "runtime/data/Safetensors.h"
#include "runtime/program/Metrics.h"
#include "tests/runtime/base/CountAllocations.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>

namespace stow::test {
namespace {

using namespace testfiles;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Result {
  int code = 0;
  std::string out, err;
};

class CliTest : public testing::Test {
protected:
  void TearDown() override { afterTinyStep = nullptr; }

  Result run(const Program &program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "./model");
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Result result;
    result.code = stowMain(static_cast<int>(argv.size()), argv.data(), program, tinyImage());
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }

  /// Trains with the digits and expects success.
  Result train(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"train", "--data=" + digits});
    Result result = run(program, arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  }

  std::string errorOf(std::vector<std::string> arguments) {
    Result result = run(program, arguments);
    EXPECT_EQ(result.code, 1) << result.out;
    EXPECT_THAT(result.err, StartsWith("error: "));
    return result.err;
  }

  TempDir dir;
  std::string digits = std::string(STOWAGE_SOURCE_DIR) + "/models/data/digits.npz";
  Program program = makeTinyModel({});
  std::string weights = dir.path("w.safetensors");
  std::string log = dir.path("run.csv");
};

// Tests that the model learns real digits and that the report says what happened.
TEST_F(CliTest, TrainsOnDigits) {
  Result result = train({"--epochs=10", "--save=" + weights, "--log=" + log});
  EXPECT_THAT(result.out, HasSubstr("tiny: 1,437 training rows, 360 test rows; batch 32, 44 steps "
                                    "per epoch (the last 29 rows of an epoch's order are left "
                                    "out)\n"));
  EXPECT_THAT(result.out, HasSubstr("epoch 10: test loss "));
  EXPECT_THAT(result.out,
              ContainsRegex(
                  "\ntest: loss .*\ntrained to step 440 in .* s: .* samples/s, .* ms per step\n"));
  EXPECT_THAT(result.out, HasSubstr("memory: process peak "));
  EXPECT_THAT(result.out, Not(HasSubstr("\r"))) << "no bar where there is no terminal";
  Result eval = run(program, {"eval", "--data=" + digits, "--weights=" + weights});
  double loss = 0, accuracy = 0;
  ASSERT_EQ(std::sscanf(eval.out.c_str(), "test: loss %lf, accuracy %lf", &loss, &accuracy), 2)
      << eval.out;
  EXPECT_GT(accuracy, 93); // a linear model's level
  EXPECT_LT(loss, 0.3);
  std::string rows = readFile(log);
  EXPECT_THAT(rows, StartsWith("step,epoch,lr,loss\n1,1,0.5,"));
  EXPECT_EQ(std::ranges::count(rows, '\n'), 441);
}

// Tests that seed and nothing else decides a run.
TEST_F(CliTest, RunsAreReproducible) {
  auto logOf = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--steps=60", "--log=" + log, "--quiet"});
    train(arguments);
    return readFile(log);
  };
  std::string first = logOf({});
  EXPECT_EQ(logOf({}), first);
  EXPECT_EQ(logOf({"--threads=1"}), first);
  EXPECT_EQ(logOf({"--poison"}), first);
  EXPECT_EQ(logOf({"--seed=0"}), first);
  EXPECT_NE(logOf({"--seed=1"}), first);
  EXPECT_NE(logOf({"--no-shuffle"}), first);
}

/// How a run is ended before its time.
class ResumeTest : public CliTest, public testing::WithParamInterface<const char *> {};

// Tests that a run interrupted by Ctrl-C in any schedule continues bit for bit: the log and the
// final weights are those of a run that was never interrupted.
TEST_P(ResumeTest, CtrlCAndResumeChangeNothing) {
  std::string schedule = std::string("--lr-schedule=") + GetParam();
  std::string whole = dir.path("whole.safetensors"), wholeLog = dir.path("whole.csv");
  train({"--epochs=3", schedule, "--save=" + whole, "--log=" + wholeLog, "--seed=7"});
  for (int64_t stopAt : {1, 44, 61, 88}) {
    afterTinyStep = [&](int64_t step) {
      if (step == stopAt)
        raise(SIGINT);
    };
    Result stopped = run(program, {"train", "--data=" + digits, "--epochs=3", schedule, "--seed=7",
                                   "--save=" + weights, "--log=" + log});
    EXPECT_EQ(stopped.code, 130);
    EXPECT_THAT(stopped.out, HasSubstr("stopped after step " + std::to_string(stopAt) + " of 132"));
    afterTinyStep = nullptr;
    // All settings come from the file.
    Result rest = train({"--resume", "--save=" + weights, "--log=" + log});
    EXPECT_THAT(rest.out, HasSubstr("resumed after step " + std::to_string(stopAt) + " of 132"));
    EXPECT_EQ(readFile(log), readFile(wholeLog));
    EXPECT_EQ(readFile(weights), readFile(whole));
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, ResumeTest, testing::Values("constant", "cosine", "step"));

// Tests that kill -9 in the middle of a run costs the steps since the last save and no more: the
// log runs ahead of the checkpoint, is cut back and grows into the log of an undisturbed run.
TEST_F(CliTest, KilledRunResumesFromItsLastSave) {
  std::string whole = dir.path("whole.csv");
  train({"--steps=70", "--log=" + whole});
  pid_t child = fork();
  if (child == 0) {
    afterTinyStep = [](int64_t step) {
      if (step == 38)
        kill(getpid(), SIGKILL);
    };
    run(program, {"train", "--data=" + digits, "--steps=70", "--save=" + weights, "--save-every=10",
                  "--log=" + log, "--threads=1"});
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(SafetensorsFile(weights).metadata().at("step"), "30");
  EXPECT_EQ(std::ranges::count(readFile(log), '\n'), 1 + 37);
  Result rest = train({"--resume=" + weights, "--log=" + log});
  EXPECT_THAT(rest.out, HasSubstr("resumed after step 30 of 70"));
  EXPECT_EQ(readFile(log), readFile(whole));
}

/// Writes of more than `bytes` to one file fail while an object lives, as on a full disk.
class FullDisk {
public:
  explicit FullDisk(rlim_t bytes) : previous(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit tight = {bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, previous);
  }

private:
  rlimit before = {};
  void (*previous)(int);
};

// Tests that a log that takes no more is reported at once, and that the weights are saved all the
// same, bit for bit those of an undisturbed run.
TEST_F(CliTest, FullDiskUnderTheLog) {
  std::string whole = dir.path("whole.safetensors");
  train({"--steps=400", "--save=" + whole});
  std::optional<FullDisk> full(std::in_place, 8192); // weights fit, the log does not
  Result result = run(program, {"train", "--data=" + digits, "--steps=400", "--save=" + weights,
                                "--log=" + log, "--validation-split=0"});
  full.reset();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, ContainsRegex("warning: cannot write '" + log +
                                        "': File too large; rows from step [0-9]+ on wait"));
  EXPECT_THAT(result.err, HasSubstr("error: cannot write '" + log + "'"));
  EXPECT_THAT(result.err, HasSubstr("'" + weights +
                                    "' holds the state after step 400: go on with "
                                    "--resume and another --log"));
  EXPECT_EQ(readFile(weights), readFile(whole));
}

// Tests that a save that finds no room leaves the one before and the log, and that the run goes on
// to the next save.
TEST_F(CliTest, FullDiskUnderASave) {
  std::optional<FullDisk> full;
  afterTinyStep = [&](int64_t step) {
    if (step == 15)
      full.emplace(2000); // the log of 35 steps fits, weights do not
    if (step == 25)
      full.reset();
    if (step == 33)
      full.emplace(2000);
  };
  Result result = run(program, {"train", "--data=" + digits, "--steps=35", "--save=" + weights,
                                "--save-every=10", "--log=" + log, "--validation-split=0"});
  full.reset();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("warning: cannot write '" + weights +
                        "': File too large; the save after step 10 is intact, training goes on "
                        "and saves again after 10 steps\n"));
  EXPECT_THAT(result.out, HasSubstr("after step 30"));
  EXPECT_THAT(result.err,
              HasSubstr("error: cannot write '" + weights +
                        "': File too large; the run ended after step 35, the save after step 30 "
                        "is intact and the log is complete\n"));
  EXPECT_EQ(SafetensorsFile(weights).metadata().at("step"), "30");
  EXPECT_EQ(std::ranges::count(readFile(log), '\n'), 36);
  EXPECT_THAT(dir.names(), testing::Each(testing::Not(testing::EndsWith(".part"))));
}

// Tests that what is trained is written also where the last save of the run finds no room, and that both are told where neither does.
TEST_F(CliTest, FullDiskUnderTheLastSave) {
  const std::string trained = dir.path("trained.safetensors");
  const std::vector<std::string> words = {"train", "--data=" + digits, "--steps=5",
                                          "--save=" + weights, "--save-trained=" + trained};
  ASSERT_EQ(run(program, words).code, 0);
  const std::string alone = readFile(trained);
  ASSERT_LT(alone.size(), readFile(weights).size());
  std::filesystem::remove(trained);
  std::optional<FullDisk> full;
  rlim_t room = alone.size();
  afterTinyStep = [&](int64_t step) {
    if (step == 5)
      full.emplace(room);
  };
  Result result = run(program, words);
  full.reset();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, testing::EndsWith("error: cannot write '" + weights +
                                            "': File too large; the run ended after step 5, the "
                                            "file is what it was before this run\n"));
  EXPECT_THAT(result.out, HasSubstr("saved what is trained to " + trained));
  EXPECT_EQ(readFile(trained), alone);
  room = alone.size() - 1;
  result = run(program, words);
  full.reset();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("is what it was before this run; cannot write '" + trained +
                                    "': File too large\n"));
}

// Tests that reports which standard output does not take are an error.
TEST_F(CliTest, FullStandardOutput) {
  pid_t child = fork();
  if (child == 0) {
    char name[] = "./model", command[] = "plan";
    char *argv[] = {name, command};
    if (!std::freopen("/dev/full", "w", stdout))
      _exit(99);
    _exit(stowMain(2, argv, program, tinyImage()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

// Tests that a closed terminal saves: its signal may come twice, and is left alone under nohup.
TEST_F(CliTest, HangUp) {
  afterTinyStep = [](int64_t step) {
    if (step == 20) {
      raise(SIGHUP);
      raise(SIGHUP);
    }
  };
  std::vector<std::string> arguments = {"train", "--data=" + digits, "--steps=40",
                                        "--save=" + weights};
  auto previous = std::signal(SIGHUP, SIG_DFL); // the tests may themselves run under nohup
  EXPECT_EQ(run(program, arguments).code, 129);
  EXPECT_EQ(SafetensorsFile(weights).metadata().at("step"), "20");
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(run(program, arguments).code, 0);
  EXPECT_EQ(std::signal(SIGHUP, previous), SIG_IGN);
  EXPECT_EQ(SafetensorsFile(weights).metadata().at("step"), "40");
}

// Tests that training further than first planned is a resume with a larger number.
TEST_F(CliTest, ResumeExtendsARun) {
  train({"--epochs=1", "--save=" + weights, "--log=" + log});
  EXPECT_THAT(train({"--resume", "--save=" + weights}).out, HasSubstr("nothing to do"));
  train({"--resume", "--save=" + weights, "--epochs=2", "--log=" + log});
  std::string extended = readFile(log);
  train({"--epochs=2", "--log=" + log});
  EXPECT_EQ(extended, readFile(log));
}

// Tests that the state tensors survive a save, blocked layouts included.
TEST_F(CliTest, SavesRowMajorTensors) {
  train({"--steps=1", "--save=" + weights});
  SafetensorsFile file(weights);
  ASSERT_EQ(file.tensors().size(), 4u);
  Executor executor(program, tinyImage(), {});
  executor.initializeState(0);
  std::vector<float> expected(24);
  executor.readTensor(program.state[1].place, expected.data());
  const SafetensorsTensor *blocked = file.find("blocked");
  ASSERT_TRUE(blocked);
  EXPECT_EQ(std::string(blocked->bytes.begin(), blocked->bytes.end()), bytesOf(expected));
  EXPECT_EQ(file.metadata().at("shuffle_position"), "32");
  EXPECT_EQ(file.metadata().at("epoch"), "0");
}

// Tests that the padding of the last batch never counts: 360 test rows in batches of 32 and of 7
// give what a plain loop over the saved weights gives.
TEST_F(CliTest, EvaluationCountsEachRowOnce) {
  train({"--epochs=2", "--save=" + weights, "--quiet"});
  SafetensorsFile file(weights);
  std::vector<float> w(640);
  std::memcpy(w.data(), file.find("w")->bytes.data(), 2560);
  ArrayFile data(digits);
  Array x = data.load("x_test"), y = data.load("y_test");
  Metrics expected;
  for (int64_t row = 0; row < 360; ++row) {
    std::vector<double> scores(10, 0.0);
    std::vector<float> pixels(64);
    std::memcpy(pixels.data(), x.row(row), 256);
    int64_t label = 0;
    std::memcpy(&label, y.row(row), 8);
    for (int c = 0; c < 10; ++c)
      for (int f = 0; f < 64; ++f)
        scores[c] += static_cast<double>(pixels[f]) * w[c * 64 + f];
    expected.addClassified(LossSpec(), {10, 1, 1, 0}, scores, {&label, 1});
  }
  char line[80];
  std::snprintf(line, sizeof(line), "accuracy %.2f %% (%lld of 360), 360 rows",
                100 * expected.accuracy(), static_cast<long long>(expected.correct));
  for (int64_t batch : {32, 7, 360, 500}) {
    TinyOptions options;
    options.batch = batch;
    program = makeTinyModel(options);
    // A weight file carries the model's sizes; this model's own batch is kept.
    program.state[3].kind = BufferKind::Optimizer;
    Result result = run(program, {"eval", "--data=" + digits, "--weights=" + weights});
    EXPECT_THAT(result.out, HasSubstr(line)) << batch;
    double loss = 0;
    ASSERT_EQ(std::sscanf(result.out.c_str(), "test: loss %lf", &loss), 1);
    EXPECT_NEAR(loss, expected.loss(), 1e-5) << batch;
  }
}

TEST_F(CliTest, RegressionTrains) {
  TinyOptions options;
  options.batch = 8;
  options.features = 16;
  options.classes = 1;
  options.regression = true;
  program = makeTinyModel(options);
  // y = x0 - 2 x3, exactly linear.
  std::vector<float> x(50 * 16), y(50);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 7919 % 101) / 101;
  for (size_t row = 0; row < 50; ++row)
    y[row] = x[row * 16] - 2 * x[row * 16 + 3];
  std::string data = dir.path("linear.npz");
  writeFile(data, zip({{"x.npy", npyFloats({50, 2, 8}, x)}, {"y.npy", npyFloats({50, 1}, y)}}));
  Result result = run(program, {"train", "--data=" + data, "--epochs=200", "--lr=0.05",
                                "--validation-split=0.2", "--save=" + weights});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("tiny: 40 training rows, 10 validation rows; batch 8, 5 "
                                    "steps per epoch\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("accuracy")));
  Result eval = run(program, {"eval", "--data=" + data, "--weights=" + weights});
  double loss = 1;
  ASSERT_EQ(std::sscanf(eval.out.c_str(), "loss %lf", &loss), 1) << eval.out;
  EXPECT_LT(loss, 1e-3);
}

// Tests that a held-out row is never trained on and that the choice is a function of the seed.
TEST_F(CliTest, ValidationSplit) {
  Result result = train({"--epochs=1", "--validation-split=0.1"});
  EXPECT_THAT(result.out, HasSubstr("1,294 training rows, 143 validation rows, 360 test rows"));
  EXPECT_THAT(result.out, HasSubstr("epoch 1: validation loss"));
  EXPECT_THAT(result.out, HasSubstr("test: loss"));
  Result none = train({"--epochs=1", "--validation-split=0"});
  EXPECT_THAT(none.out, Not(HasSubstr("accuracy")));
}

TEST_F(CliTest, InitFromTakesParametersAlone) {
  train({"--epochs=2", "--save=" + weights});
  Result result = train({"--steps=1", "--init-from=" + weights, "--log=" + log});
  double loss = 9;
  ASSERT_EQ(std::sscanf(readFile(log).c_str(), "step,epoch,lr,loss\n1,1,0.5,%lf", &loss), 1);
  EXPECT_LT(loss, 1); // ln 10 = 2.3 from scratch
  EXPECT_THAT(result.out, Not(HasSubstr("resumed")));
}

// Tests that a folder of shards is as good as the file.
TEST_F(CliTest, InitFromFolder) {
  train({"--epochs=2", "--save=" + weights});
  TempDir folder;
  const SafetensorsFile file(weights);
  std::string map;
  for (const SafetensorsTensor &tensor : file.tensors()) {
    const std::string shard = "model-" + std::to_string(map.size()) + ".safetensors";
    map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"" + shard + "\"";
    writeSafetensors(folder.path(shard), {{tensor.name, tensor.dtype, tensor.shape}}, {},
                     [&](size_t, Bytes) { return tensor.bytes; });
  }
  writeFile(folder.path("model.safetensors.index.json"), "{\"weight_map\":{" + map + "}}");
  const std::string whole = run(program, {"eval", "--data=" + digits, "--weights=" + weights}).out;
  auto upToMemory = [](const std::string &text) { return text.substr(0, text.find("memory:")); };
  EXPECT_EQ(
      upToMemory(run(program, {"eval", "--data=" + digits, "--weights=" + folder.path("")}).out),
      upToMemory(whole));
  train({"--steps=1", "--init-from=" + weights, "--log=" + log});
  const std::string curve = readFile(log);
  train({"--steps=1", "--init-from=" + folder.path(""), "--log=" + log});
  EXPECT_EQ(readFile(log), curve);
  EXPECT_THAT(run(program, {"train", "--data=" + digits, "--resume=" + folder.path("")}).err,
              HasSubstr("not a run that can be resumed; --init-from takes them"));
}

// Tests that a step allocates nothing: 30 and 230 steps, over five epochs, with a log and progress
// lines, call the allocator equally often.
TEST_F(CliTest, StepsDoNotAllocate) {
  if (!allocationsAreCounted())
    GTEST_SKIP() << "a sanitizer has replaced the allocator";
  auto callsIn = [&](const std::string &steps) {
    // The arguments have equal lengths, so that everything else is equal, too.
    std::vector<std::string> arguments = {"train",   "--data=" + digits, "--steps=" + steps,
                                          "--quiet", "--log=" + log,     "--validation-split=0"};
    arguments.insert(arguments.begin(), "./model");
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    int64_t atFirstStep = 0, atLastStep = 0;
    afterTinyStep = [&](int64_t step) {
      (step == 1 ? atFirstStep : atLastStep) = allocationsSoFar().calls;
    };
    testing::internal::CaptureStdout();
    EXPECT_EQ(stowMain(static_cast<int>(argv.size()), argv.data(), program, tinyImage()), 0);
    testing::internal::GetCapturedStdout();
    return atLastStep - atFirstStep;
  };
  callsIn("030");
  EXPECT_EQ(callsIn("030"), 0);
  EXPECT_EQ(callsIn("230"), 0);
}

TEST_F(CliTest, PlanFormats) {
  Result text = run(program, {"plan"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, StartsWith("memory plan of tiny: arena "));
  EXPECT_THAT(text.out, HasSubstr("arena map, graph train"));
  EXPECT_THAT(run(program, {"plan", "--no-map"}).out, Not(HasSubstr("arena map")));
  EXPECT_THAT(run(program, {"plan", "--rows=1"}).out, HasSubstr("smaller buffers"));
  Result json = run(program, {"plan", "--format", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["arena_bytes"], program.plan.arenaBytes);
  EXPECT_THAT(run(program, {"plan", "--format=csv"}).out, StartsWith("id,lower,upper,size,offset"));
  EXPECT_THAT(
      errorOf({"plan", "--format=xml"}),
      HasSubstr("unknown format \"xml\" for --format; known are text, json, csv, perfetto"));
}

TEST_F(CliTest, HelpAndMistypedCommands) {
  for (const char *argument : {"--help", "-h", "help"})
    EXPECT_THAT(run(program, {argument}).out, HasSubstr("--lr-schedule=NAME"));
  EXPECT_EQ(run(program, {"train", "--help"}).code, 0);
  EXPECT_EQ(run(program, {"--version"}).out, std::string("stowage ") + version() + "\n");
  EXPECT_THAT(errorOf({}), HasSubstr("a command is missing; expected train, eval, plan"));
  EXPECT_THAT(errorOf({"trian"}), HasSubstr("unknown command 'trian'; did you mean train?"));
  EXPECT_THAT(errorOf({"train", "--epoch=3"}),
              HasSubstr("unknown flag --epoch; did you mean --epochs?"));
  for (const char *command : {"train", "eval", "plan"})
    EXPECT_THAT(errorOf({command, "--batch=32"}), HasSubstr("error: --batch is part of the plan"));
  EXPECT_THAT(errorOf({"train"}), HasSubstr("--data=FILE is missing"));
  EXPECT_THAT(errorOf({"eval", "--data=x.npz"}), HasSubstr("--weights=FILE is missing"));
}

// Tests the mistakes that a user makes with data.
TEST_F(CliTest, DataErrors) {
  std::string data = dir.path("bad.npz");
  auto with = [&](const std::string &x, const std::string &y) {
    writeFile(data, zip({{"x.npy", x}, {"y.npy", y}}));
    return errorOf({"train", "--data=" + data});
  };
  std::vector<float> pixels(40 * 64, 0.5f);
  std::vector<int64_t> labels(40, 3);
  std::string goodX = npyFloats({40, 64 / 8, 8}, pixels);
  EXPECT_THAT(errorOf({"train", "--data=/nonexistent.npz"}), HasSubstr("No such file"));
  EXPECT_THAT(with(npyFloats({40, 64}, pixels), npyLabels(labels)),
              HasSubstr("bad.npz: x: expected f32[rows,1,8,8] for input 'x', found f32[40,64]"));
  EXPECT_THAT(with(goodX, npyFloats({40}, std::vector<float>(40))),
              HasSubstr("bad.npz: y: expected i64[rows] for input 'y', found f32[40]"));
  EXPECT_THAT(with(goodX, npyLabels({1, 2})), HasSubstr("expected 40 rows as in array 'x'"));
  labels[17] = 10;
  EXPECT_THAT(with(goodX, npyLabels(labels)),
              HasSubstr("bad.npz: y: row 17 has the label 10; expected a class from 0 to 9"));
  EXPECT_THAT(with(npyFloats({3, 8, 8}, std::vector<float>(192)), npyLabels({1, 2, 3})),
              HasSubstr("expected at least one batch of 32 training rows, found 3"));
  EXPECT_THAT(errorOf({"train", "--data=" + data, "--x=pixels"}),
              HasSubstr("looked for pixels; the file holds x, y; choose one with --x=NAME"));
}

// Tests that NaN and infinities in the data are found where they are, before they reach the
// weights.
TEST_F(CliTest, NonFiniteData) {
  std::string data = dir.path("bad.npz");
  auto with = [&](const std::string &x) {
    writeFile(data, zip({{"x.npy", x}, {"y.npy", npyLabels(std::vector<int64_t>(40, 3))}}));
    return errorOf({"train", "--data=" + data, "--epochs=9", "--save=" + weights});
  };
  std::vector<float> pixels(40 * 64, 0.5f);
  pixels[7 * 64 + 3] = pixels[30 * 64] = std::numeric_limits<float>::quiet_NaN();
  std::string x = npyFloats({40, 8, 8}, pixels);
  EXPECT_THAT(with(x), HasSubstr("bad.npz: x: row 7 holds NaN (element 3 of 64, as f32); mend or "
                                 "drop the row, or go on with --allow-nonfinite"));
  EXPECT_FALSE(std::filesystem::exists(weights));
  EXPECT_EQ(run(program, {"train", "--data=" + data, "--allow-nonfinite"}).code, 0);
  train({"--steps=1", "--save=" + weights});
  EXPECT_THAT(errorOf({"eval", "--data=" + data, "--weights=" + weights}),
              HasSubstr("row 7 holds NaN"));
  // 1e300 is a number in the file and none in the arena.
  std::vector<double> wide(40 * 64, 0.5);
  wide[11 * 64 + 1] = -1e300;
  EXPECT_THAT(with(npy("<f8", {40, 8, 8}, bytesOf(wide))),
              HasSubstr("row 11 holds -infinity (element 1 of 64, as f32)"));
}

TEST_F(CliTest, RunErrors) {
  std::string data = "--data=" + digits;
  for (const char *rate : {"-0.1", "nan", "inf", "fast"})
    EXPECT_THAT(errorOf({"train", data, std::string("--lr=") + rate}), HasSubstr("--lr: expected"));
  EXPECT_THAT(errorOf({"train", data, "--lr-decay=-1"}),
              HasSubstr("--lr-decay: expected a number of at least 0, found '-1'"));
  EXPECT_THAT(errorOf({"train", data, "--lr=1e38"}),
              HasSubstr("; try a lower --lr, or go on with --allow-nonfinite"));
  EXPECT_EQ(run(program, {"train", data, "--lr=1e38", "--allow-nonfinite", "--steps=5"}).code, 0);
  EXPECT_THAT(errorOf({"train", data, "--steps=1", "--epochs=1"}), HasSubstr("exclude each other"));
  EXPECT_THAT(errorOf({"train", data, "--save-every=5"}), HasSubstr("needs --save"));
  EXPECT_THAT(errorOf({"train", data, "--save=/nonexistent/w"}), HasSubstr("cannot write"));
  EXPECT_THAT(errorOf({"train", data, "--threads=64"}), HasSubstr("recompile with --threads=64"));
  EXPECT_THAT(errorOf({"train", data, "--resume"}), HasSubstr("continues the one of --save"));
  EXPECT_THAT(errorOf({"train", data, "--resume=" + weights}), HasSubstr("No such file"));
  train({"--steps=2", "--save=" + weights});
  EXPECT_THAT(errorOf({"train", data, "--resume=" + weights, "--seed=5"}),
              HasSubstr("the run has the seed 0"));
  EXPECT_THAT(errorOf({"train", data, "--resume=" + weights, "--validation-split=0.5"}),
              HasSubstr("the run has 1437 training rows"));
  program.optimizer = parseOptimizer("adam");
  EXPECT_THAT(errorOf({"train", data, "--resume=" + weights}),
              HasSubstr("expected the optimizer 'adam' of this program, found 'sgd"));
  program.state[0].place.shape = {64, 10};
  program.state[1].name = "other";
  EXPECT_THAT(errorOf({"eval", data, "--weights=" + weights}),
              HasSubstr("the weights do not fit this model:\n  'w': expected f32[64,10], found "
                        "f32[10,64]\n  'other' is missing"));
}

} // namespace
} // namespace stow::test
