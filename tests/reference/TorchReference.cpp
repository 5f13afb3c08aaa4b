#include "tests/reference/TorchReference.h"

#include "runtime/data/ArrayFile.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace stow::reference {

static const std::filesystem::path folder =
    std::filesystem::path(STOWAGE_SOURCE_DIR) / "tests/data/op_references";

TorchReference loadTorchReference(const std::string &name) {
  TorchReference reference;
  reference.name = name;
  ArrayFile file((folder / (name + ".npz")).string());
  for (const std::string &array : file.names()) {
    Array data = file.load(array);
    if (array == "attrs" || array == "model") {
      std::string text(data.bytes.begin(), data.bytes.end());
      if (array == "attrs")
        reference.attributes = nlohmann::json::parse(text);
      else
        reference.model = text;
      continue;
    }
    Tensor tensor{std::vector<int64_t>(data.shape.begin(), data.shape.end())};
    convertElements(data.type, data.bytes.data(), DType::F64,
                    reinterpret_cast<char *>(tensor.values.data()), tensor.size());
    reference.arrays[array] = std::move(tensor);
  }
  return reference;
}

std::vector<std::string> torchReferenceNames() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".npz")
      names.push_back(entry.path().stem().string());
  if (names.empty())
    throw std::runtime_error("no .npz in " + folder.string());
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace stow::reference
