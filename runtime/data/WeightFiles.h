// Weights as they lie on a disk: in one safetensors file, or in the shards of a folder as Hugging Face's tools write them.
//
//   folder/model.safetensors.index.json     {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors", ...}}
//   folder/model-00001-of-00002.safetensors
//   folder/model-00002-of-00002.safetensors
#pragma once

#include "runtime/data/Safetensors.h"

#include <memory>
#include <optional>

namespace stow {

class WeightFiles {
public:
  /// `path` is a safetensors file, an index of shards (.json), or a folder that has one of either; of several the one that is called
  /// model. All files are mapped, none is read. Throws Error(BadInput) naming the file, and the shard or tensor that it lacks.
  explicit WeightFiles(const std::string &path);

  const std::string &path() const { return given; }
  const SafetensorsTensor *find(const std::string &name) const; ///< null when absent

  /// All tensors, by name; of tied weights by those that safetensors' save_model has left out as well.
  const std::map<std::string, const SafetensorsTensor *> &tensors() const { return byName; }
  /// Tensors of types that nothing here reads, by name, with their types.
  const std::map<std::string, std::string> &foreign() const { return others; }

  /// The one file there is. Throws Error(BadInput) where there are shards, which hold weights alone.
  const SafetensorsFile &file() const;

private:
  void open(const std::string &file);
  void openShards(const std::string &index);

  std::string given;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, const SafetensorsTensor *> byName;
  std::map<std::string, std::string> others;
};

/// Which scheme of other tools the weights are quantized by, with a tensor that shows it: "GPTQ ('a.qweight')". Nothing where they are
/// numbers.
std::optional<std::string> foreignScheme(const WeightFiles &files);

} // namespace stow
