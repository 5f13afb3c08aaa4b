#include "runtime/program/Checkpoint.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/device/AlgorithmText.h"
#include "runtime/program/Restore.h"
#include "runtime/program/ShapeChoice.h"
#include "runtime/program/ShardedState.h"
#include "runtime/program/WeightNames.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

namespace stow {

namespace {

constexpr const char *formatName = "stowage-checkpoint-1";

/// There where a run has chosen some.
constexpr const char *algorithmsKey = "algorithms";

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

/// Typed access to the metadata of one file.
class Metadata {
public:
  explicit Metadata(const SafetensorsFile &file) : file(file) {}

  const std::string &text(const char *key) const {
    auto found = file.metadata().find(key);
    if (found == file.metadata().end())
      throw Error::badInput(file.path() + ": the metadata has no '" + key + "'");
    return found->second;
  }

  template <typename Number> Number number(const char *key) const {
    const std::string &value = text(key);
    Number number = {};
    auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || stop != value.data() + value.size())
      throw Error::badInput(file.path() + ": the metadata '" + key +
                            "' is no number of its kind: '" + value + "'");
    return number;
  }

  int64_t count(const char *key, int64_t least) const {
    auto value = number<int64_t>(key);
    if (value < least)
      throw Error::badInput(concat(file.path(), ": the metadata '", key, "' is ", value,
                                   "; expected at least ", least));
    return value;
  }

  void expect(const char *key, const std::string &wanted) const {
    if (text(key) != wanted)
      throw Error::badInput(file.path() + ": expected the " + key + " '" + wanted +
                            "' of this program, found '" + text(key) +
                            "'; --init-from takes the parameters alone");
  }

private:
  const SafetensorsFile &file;
};

} // namespace

CheckpointWriter::CheckpointWriter(Executor &executor, std::string path, What what,
                                   ShardedState *shards)
    : executor(executor), filePath(std::move(path)), what(what), shards(shards) {
  int64_t largest = 0;
  for (const StateTensor &tensor : executor.program().state) {
    if (what == What::Trained ? !isTrained(tensor) : !tensor.saved)
      continue;
    const std::string name = what == What::Trained ? trainedName(tensor.name) : tensor.name;
    if (what == What::Trained &&
        std::ranges::find(entries, name, &SafetensorsEntry::name) != entries.end())
      throw Error::badInput("--save-trained: two parameters would have the name '" + name +
                            "', those of two adapters; expected one: --save=FILE writes both");
    entries.push_back({name, tensor.place.dtype, wholeShape(tensor)});
    tensors.push_back(&tensor);
    if (tensor.shardOf || !tensor.place.layout.isRowMajor())
      largest = std::max(largest, elementCount(wholeShape(tensor)) * sizeOf(tensor.place.dtype));
  }
  staging.resize(static_cast<size_t>(largest + 7) / 8);
  if (what == What::Trained)
    addCounters();
}

/// A normalization that PEFT keeps whole, as its modules_to_save says, has a counter among its buffers, without which PEFT refuses the
/// file. Nothing reads it in training, so that no program has it.
void CheckpointWriter::addCounters() {
  const std::vector<StateTensor> &state = executor.program().state;
  auto has = [&](const std::string &name) {
    return std::ranges::find(state, name, &StateTensor::name) != state.end();
  };
  const std::string_view ending = ".running_mean";
  for (const StateTensor &tensor : state) {
    if (tensor.kind != BufferKind::Statistic || !tensor.name.ends_with(ending) ||
        tensor.name.find(".modules_to_save.") == std::string::npos)
      continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - ending.size());
    const std::string counter = module + ".num_batches_tracked";
    if (!has(module + ".running_var") || has(counter))
      continue;
    entries.push_back({trainedName(counter), DType::I64, {}});
    tensors.push_back(nullptr);
  }
}

/// What says where the run stands.
static std::map<std::string, std::string> metadataOf(const Program &program, const RunState &run) {
  return {
      {"format", formatName},
      {"model", program.model},
      {"optimizer", program.optimizer.text},
      {"batch", std::to_string(program.samplesPerStep())},
      {"step", std::to_string(run.step)},
      {"optimizer_step", std::to_string(run.step)},
      {"log_rows", std::to_string(run.step)},
      {"epoch", std::to_string(run.step / run.rate.stepsPerEpoch)},
      {"shuffle_position",
       std::to_string(run.step % run.rate.stepsPerEpoch * program.samplesPerStep())},
      {"seed", std::to_string(run.seed)},
      {"rows", std::to_string(run.rows)},
      {"validation_split", exact(run.validationSplit)},
      {"shuffle", run.shuffle ? "1" : "0"},
      {"lr", exact(run.rate.base)},
      {"lr_schedule", nameOf(run.rate.kind)},
      {"lr_decay", exact(run.rate.decay)},
      {"lr_decay_epochs", std::to_string(run.rate.decayEpochs)},
      {"warmup_steps", std::to_string(run.rate.warmupSteps)},
      {"total_steps", std::to_string(run.rate.totalSteps)},
  };
}

void CheckpointWriter::save(const RunState &run, const std::function<void()> &isWhole) {
  try {
    write(run);
  } catch (const RankLost &) {
    throw; // nobody can be told of the end
  } catch (...) {
    endCollecting();
    throw;
  }
  if (isWhole)
    isWhole();
  endCollecting();
}

/// Waits for the others, and may lose one: never in a destructor.
void CheckpointWriter::endCollecting() {
  if (shards)
    shards->finish();
}

/// All ranks write, where all see the file. What is theirs is not what an adapter is saved as.
bool CheckpointWriter::writeTogether(const std::map<std::string, std::string> &metadata) {
  if (what != What::Run)
    return false;
  const std::string head = layOut(entries, metadata).head;
  AtomicFile file(filePath, AtomicFile::Part::Named);
  file.write(head);
  std::string why;
  if (!shards->write(file.partName(), static_cast<Bytes>(head.size()), why)) {
    if (!std::exchange(hasSaidWhy, true))
      std::fprintf(
          stderr,
          "note: not all ranks see the folder of %s (%s), so that rank 0 writes all of it\n",
          filePath.c_str(), why.c_str());
    return false;
  }
  file.commit();
  return true;
}

void CheckpointWriter::write(const RunState &run) {
  auto metadata = what == What::Run
                      ? metadataOf(executor.program(), run)
                      : std::map<std::string, std::string>{{"format", "pt"}}; // as PEFT's
  for (size_t i = 0; i < tensors.size() && tensors[i]; ++i)
    for (const std::string &other : tensors[i]->otherNames)
      metadata.emplace(what == What::Run ? other : trainedName(other), entries[i].name);
  Device &device = executor.device();
  if (std::string algorithms = device.algorithms(); what == What::Run && !algorithms.empty())
    metadata[algorithmsKey] = std::move(algorithms);
  if (shards && writeTogether(metadata))
    return;
  const int64_t batches = run.step * executor.program().batchesPerStep;
  writeSafetensors(filePath, entries, metadata, [&](size_t index, Bytes begin) {
    if (!tensors[index])
      return std::span(reinterpret_cast<const char *>(&batches), sizeof(batches));
    const StateTensor &tensor = *tensors[index];
    const Operand &place = tensor.place;
    const Bytes rest = elementCount(wholeShape(tensor)) * sizeOf(place.dtype) - begin;
    if (tensor.shardOf) {
      shards->collect(static_cast<size_t>(&tensor - executor.program().state.data()),
                      reinterpret_cast<float *>(staging.data()));
      return std::span(reinterpret_cast<const char *>(staging.data()), static_cast<size_t>(rest));
    }
    if (place.layout.isRowMajor()) {
      const Bytes piece = std::min(rest, device.transferBytes(place.offset));
      return std::span(device.download(place.offset + begin, piece), static_cast<size_t>(piece));
    }
    executor.readTensor(place, staging.data());
    return std::span(reinterpret_cast<const char *>(staging.data()), static_cast<size_t>(rest));
  });
}

RunState readRunState(const SafetensorsFile &file, const Program &program, SavedBatch batch) {
  // "pt" is what PyTorch's libraries write, and --save-trained.
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second == "pt")
    throw Error::badInput(file.path() +
                          ": these are weights without the state of a run; --init-from takes the "
                          "parameters alone, and --trained those that --save-trained wrote");
  Metadata metadata(file);
  metadata.expect("format", formatName);
  metadata.expect("model", program.model);
  metadata.expect("optimizer", program.optimizer.text);
  if (batch == SavedBatch::Same)
    metadata.expect("batch", std::to_string(program.samplesPerStep()));
  RunState run;
  run.step = metadata.count("step", 0);
  run.seed = metadata.number<uint64_t>("seed");
  run.rows = metadata.count("rows", 1);
  run.validationSplit = metadata.number<double>("validation_split");
  run.shuffle = metadata.count("shuffle", 0) != 0;
  run.rate.kind = parseLearningRateKind(metadata.text("lr_schedule"));
  run.rate.base = metadata.number<double>("lr");
  run.rate.decay = metadata.number<double>("lr_decay");
  run.rate.decayEpochs = metadata.count("lr_decay_epochs", 1);
  run.rate.warmupSteps = metadata.count("warmup_steps", 0);
  run.rate.totalSteps = metadata.count("total_steps", 0);
  run.rate.stepsPerEpoch = std::max<int64_t>(stepsPerEpoch(program, run.rows), 1);
  return run;
}

std::string savedAlgorithms(const SafetensorsFile &file) {
  const auto found = file.metadata().find(algorithmsKey);
  if (found == file.metadata().end())
    return "";
  try {
    parseAlgorithms(found->second);
  } catch (const Error &error) {
    throw Error::badInput(file.path() + ": metadata '" + algorithmsKey + "': " + error.what());
  }
  return found->second;
}

} // namespace stow
