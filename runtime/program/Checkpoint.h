// Saving a run, and where a saved one stood; Restore.h brings its state back.
//
// One safetensors file holds the state tensors and, as metadata, where the run stands. Everything
// random is a function of seed and step, so seed and step are all there is to remember.
#pragma once

#include "runtime/data/Safetensors.h"
#include "runtime/program/Executor.h"
#include "runtime/program/LearningRate.h"

#include <functional>
#include <optional>
#include <string>

namespace stow {

class ShardedState;

/// Where a run stands and the settings its curve depends on.
struct RunState {
  int64_t step = 0;  ///< steps done; the optimizer's step number and the rows of the log
  uint64_t seed = 0; ///< of initial values, epoch orders and dropout
  int64_t rows = 0;  ///< training samples, the validation split left out
  double validationSplit = 0;
  bool shuffle = true;
  LearningRate rate;
};

class CheckpointWriter {
public:
  enum class What : uint8_t {
    Run,     ///< all that a run goes on from
    Trained, ///< of the model what is trained (isTrained), under the names of trainedName: no base, no optimizer, no run
  };

  /// Takes all memory it needs, so that a save in the middle of a run allocates no tensors: tensors
  /// in row-major order are written from the device's staging memory, others through one buffer of
  /// the largest.
  CheckpointWriter(Executor &executor, std::string path, What what = What::Run,
                   ShardedState *shards = nullptr);

  /// Replaces the file in one step and on the disk. Throws Error(BadInput) when it cannot. With `shards`, of a program for several devices,
  /// all other ranks ShardedState::serve() meanwhile, and are told of the end in either case, but for RankLost. That may be
  /// thrown behind the last byte as well: `isWhole` is called once the file is in its place, before the others are told.
  void save(const RunState &run, const std::function<void()> &isWhole = {});

  const std::string &path() const { return filePath; }

private:
  void addCounters();
  void write(const RunState &run);
  bool writeTogether(const std::map<std::string, std::string> &metadata);
  void endCollecting();

  Executor &executor;
  std::string filePath;
  What what;
  ShardedState *shards; ///< null: one process writes all
  bool hasSaidWhy = false;
  std::vector<SafetensorsEntry> entries;
  std::vector<const StateTensor *>
      tensors; ///< as entries; null, behind all others: the batches that were trained on
  std::vector<uint64_t> staging; ///< 8-byte words for alignment
};

/// Whether a run goes on with the batch that it was saved with. State depends on none; epochs do.
enum class SavedBatch : uint8_t { Same, Any };

/// Where the run that wrote `file` stood. Throws Error(BadInput) when it is not a checkpoint, or is
/// one of another model, optimizer or, where it is to be the same, batch.
RunState readRunState(const SafetensorsFile &file, const Program &program,
                      SavedBatch batch = SavedBatch::Same);

/// Which algorithms the run that wrote `file` had chosen; empty where it had not. Throws Error(BadInput) naming the file
/// where the text is damaged.
std::string savedAlgorithms(const SafetensorsFile &file);

} // namespace stow
