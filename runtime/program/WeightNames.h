// Under which name the weights of a state tensor are found in files of other tools.
//
//   state of the program                                               file of Hugging Face's
//   base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight model.layers.0.self_attn.q_proj.weight
//   base_model.model.transformer.h.0.ln_1.weight                       h.0.ln_1.weight
#pragma once

#include "runtime/data/WeightFiles.h"

#include <string_view>

namespace stow {

/// The name that a module's parameter has without PEFT around it: "base_model.model." goes, and parts of the path that
/// adapters bring along (base_layer, original_module, modules_to_save.NAME).
std::string bareName(std::string_view name);

/// Whether the name is that of an adapter, which no base has: a part of its path begins with "lora_".
bool isAdapterName(std::string_view name);

/// The name of a trained parameter in a file of what is trained alone. Of an adapter it is PEFT's, in adapter_model.safetensors:
/// without the adapter's own name, base_model.model.fc.lora_A.weight for base_model.model.fc.lora_A.default.weight.
std::string trainedName(std::string_view name);

class WeightNames {
public:
  /// For state of these names. Where the files have one path more or less before all names that begin alike, and no other would find
  /// as many, it is that which is changed: more than half of what is missing otherwise is found so.
  WeightNames(const WeightFiles &files, const std::vector<std::string> &wanted);

  /// The tensor of that name, of its bare one, or of that with the path changed; null when absent.
  const SafetensorsTensor *find(const std::string &name) const;
  /// The names that find() looks for.
  std::vector<std::string> namesOf(const std::string &name) const;

private:
  const WeightFiles &files;
  std::string removed, added; ///< from the front of a bare name, to it
};

} // namespace stow
