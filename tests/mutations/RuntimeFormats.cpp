#include "tests/mutations/Formats.h"

#include "runtime/data/ArrayFile.h"
#include "runtime/format/PlanJson.h"
#include "runtime/program/Checkpoint.h"
#include "runtime/program/Restore.h"
#include "runtime/program/TrainingLog.h"
#include "runtime/report/Explain.h"
#include "runtime/report/Formats.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"

#include <filesystem>
#include <memory>

namespace stow::test {

namespace {

using namespace testfiles;

volatile int64_t used = 0; ///< what is read is used, so that it is read

void touch(std::span<const char> bytes) {
  int64_t sum = 0;
  for (char byte : bytes)
    sum += byte;
  used = used + sum;
}

std::vector<Sample> archives() {
  const std::vector<float> values(40, 1.5f);
  std::vector<Sample> samples;
  for (bool zip64 : {false, true})
    for (bool deflated : {false, true})
      samples.push_back(
          {std::string(zip64 ? "zip64" : "zip") + (deflated ? ", deflated" : ", stored"),
           zip({{"x.npy", npyFloats({10, 4}, values), deflated},
                {"y.npy", npyLabels({1, 2, 3}), deflated}},
               zip64)});
  return samples;
}

void useArrays(const std::string &, const std::string &path) {
  ArrayFile file(path);
  for (const std::string &name : file.names()) {
    const Array array = file.load(name);
    touch({array.bytes.data(), static_cast<size_t>(elementCount(array.shape) * array.type.bytes)});
    std::vector<char> converted(static_cast<size_t>(elementCount(array.shape)) * 8);
    convertElements(array.type, array.bytes.data(), DType::F64, converted.data(),
                    elementCount(array.shape));
  }
}

void useWeights(const std::string &, const std::string &path) {
  SafetensorsFile file(path);
  for (const SafetensorsTensor &tensor : file.tensors())
    touch(tensor.bytes);
}

Executor &tinyExecutor() {
  static const std::unique_ptr<Executor> executor = [] {
    auto made =
        std::make_unique<Executor>(makeTinyModel({}), tinyImage(), ExecutorOptions{1, false});
    made->initializeState(7);
    return made;
  }();
  return *executor;
}

std::string checkpoint() {
  TempDir folder;
  const std::string path = folder.path("w.safetensors");
  RunState run;
  run.step = 3;
  run.rows = 64;
  CheckpointWriter(tinyExecutor(), path).save(run);
  return readFile(path);
}

void useCheckpoint(const std::string &, const std::string &path) {
  const WeightFiles files(path);
  readRunState(files.file(), tinyExecutor().program());
  restoreState(tinyExecutor(), files, Restore::Everything);
}

void useLog(const std::string &, const std::string &path) { TrainingLog(path, 3, false); }

void useProgram(const std::string &bytes, const std::string &) {
  Executor executor(programFromJson(bytes), tinyImage(), {});
  executor.initializeState(1);
}

void usePlan(const std::string &bytes, const std::string &) {
  const Plan plan = planFromJson(bytes);
  for (const PlanFormat &format : planFormatTable())
    touch(format.render(plan));
}

} // namespace

std::vector<Format> runtimeFormats() {
  const Program tiny = makeTinyModel({});
  Program traveller = makeTinyModel({.travels = true});
  traveller.slowFolder = std::filesystem::temp_directory_path().string();
  traveller.plan.graphs[0].copies = PlannedCopies{9472, 9472, 0.5, 0.25, 9472};
  const std::string log =
      "step,epoch,lr,loss\n1,1,0.5,2.3\n2,1,0.5,2.25\n3,1,0.5,2.125\n4,1,0.5,2\n";
  return {
      {"npz", "npz", Content::Binary, archives(), useArrays, 2000, 20000},
      {"npy",
       "npy",
       Content::Binary,
       {{"floats", npyFloats({10, 4}, std::vector<float>(40, 1.5f))},
        {"labels", npyLabels({1, 2, 3})}},
       useArrays,
       1000,
       10000},
      {"safetensors",
       "safetensors",
       Content::Binary,
       {{"a checkpoint", checkpoint()}},
       useWeights,
       1000,
       10000},
      {"checkpoint",
       "safetensors",
       Content::Binary,
       {{"a checkpoint", checkpoint()}},
       useCheckpoint,
       1000,
       10000},
      {"log", "csv", Content::Text, {{"four steps", log}}, useLog, 500, 4000},
      {"program",
       "json",
       Content::Text,
       {{"the tiny model", toJson(tiny)}, {"one whose buffers travel", toJson(traveller)}},
       useProgram,
       1000,
       16000},
      {"plan",
       "json",
       Content::Text,
       {{"the tiny model", toJson(tiny.plan)},
        {"one whose buffers travel", toJson(traveller.plan)}},
       usePlan,
       1000,
       16000},
  };
}

} // namespace stow::test
