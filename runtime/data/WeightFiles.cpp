#include "runtime/data/WeightFiles.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

namespace stow {

namespace {

constexpr std::string_view suffix = ".safetensors", indexSuffix = ".safetensors.index.json";

/// What a folder's weights are called where there are others, too.
constexpr std::string_view usualStem = "model";

std::vector<std::string> namesIn(const std::filesystem::path &folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    names.push_back(entry->path().filename().string());
  if (problem)
    throw Error::badInput("cannot read the folder '" + folder.string() + "': " + problem.message());
  std::ranges::sort(names);
  return names;
}

/// The name with this ending: the only one, or the usual one of several. Throws where it is neither.
std::optional<std::string> chosen(const std::string &folder, const std::vector<std::string> &names,
                                  std::string_view ending) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [&](const std::string &name) { return name.ends_with(ending); });
  if (found.empty())
    return std::nullopt;
  const std::string usual = concat(usualStem, ending);
  if (found.size() == 1 || std::ranges::find(found, usual) != found.end())
    return found.size() == 1 ? found.front() : usual;
  throw Error::badInput(concat(folder, ": expected ", usual, " or one file *", ending, ", found ",
                               found.size(), ", the first '", found.front(),
                               "'; name the file itself"));
}

/// The file that stands for a folder.
std::string fileOf(const std::string &folder) {
  const std::vector<std::string> names = namesIn(folder);
  std::optional<std::string> found = chosen(folder, names, indexSuffix);
  if (!found)
    found = chosen(folder, names, suffix);
  if (found)
    return (std::filesystem::path(folder) / *found).string();
  auto pickle = std::ranges::find_if(names, [](const std::string &name) {
    return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
  });
  throw Error::badInput(
      concat(folder, ": expected ", usualStem, suffix, " or ", usualStem, indexSuffix, ", found ",
             pickle == names.end()
                 ? "neither"
                 : concat("'", *pickle,
                          "', a pickle of PyTorch's, which is not read; write it as safetensors: "
                          "model.save_pretrained(folder)")));
}

} // namespace

WeightFiles::WeightFiles(const std::string &path) : given(path) {
  const std::string file = std::filesystem::is_directory(path) ? fileOf(path) : path;
  if (file.ends_with(".json"))
    openShards(file);
  else
    open(file);
}

void WeightFiles::open(const std::string &file) {
  files.push_back(std::make_unique<SafetensorsFile>(file));
  for (const SafetensorsTensor &tensor : files.back()->tensors())
    byName.emplace(tensor.name, &tensor);
  for (const auto &[name, type] : files.back()->foreign())
    others.emplace(name, type);
  // Of tied weights the metadata have the names that the file leaves out, each with that of the tensor.
  for (const auto &[other, name] : files.back()->metadata())
    if (const SafetensorsTensor *tensor = files.back()->find(name))
      byName.emplace(other, tensor);
}

void WeightFiles::openShards(const std::string &index) {
  const Json json = parseJson(readInputFile(index), index);
  std::map<std::string, std::vector<std::string>> tensorsOf; // by shard
  size_t count = 0;
  JsonNode(json, index)
      .forEachMember("weight_map", [&](const std::string &name, const JsonNode &node) {
        const std::string shard = node.asText();
        if (shard.empty() || shard.find('/') != std::string::npos)
          node.failExpected("the name of a file beside the index");
        tensorsOf[shard].push_back(name);
        ++count;
      });
  if (tensorsOf.empty())
    throw Error::badInput(index + ": the index names no tensors");
  const std::filesystem::path folder = std::filesystem::path(index).parent_path();
  for (const auto &[shard, names] : tensorsOf)
    if (!std::filesystem::exists(folder / shard))
      throw Error::badInput(concat(index, ": the shard '", shard, "' is missing, with ",
                                   names.size(), " of ", count, " tensors, the first '",
                                   names.front(), "'; fetch it again"));
  for (const auto &[shard, names] : tensorsOf) {
    open((folder / shard).string());
    // A tensor may lie in other shards, too: the index says which one counts.
    for (const std::string &name : names)
      if (const SafetensorsTensor *tensor = files.back()->find(name))
        byName[name] = tensor;
      else if (!files.back()->foreign().contains(name))
        throw Error::badInput(concat(index, ": '", name, "' is to be in '", shard,
                                     "', which does not have it; fetch both again"));
  }
}

const SafetensorsTensor *WeightFiles::find(const std::string &name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : found->second;
}

const SafetensorsFile &WeightFiles::file() const {
  if (files.size() > 1)
    throw Error::badInput(concat(given, ": these are weights in ", files.size(),
                                 " files, not a run that can be resumed; --init-from takes them"));
  return *files.front();
}

std::optional<std::string> foreignScheme(const WeightFiles &files) {
  std::set<std::string_view> names;
  for (const auto &[name, tensor] : files.tensors())
    names.insert(name);
  for (const auto &[name, type] : files.foreign())
    names.insert(name);
  auto shown = [](std::string_view scheme, std::string_view name) {
    return concat(scheme, " ('", name, "')");
  };
  // Endings and parts of names that tools give what they make of a matrix.
  constexpr std::pair<std::string_view, std::string_view> marks[] = {
      {".quant_state.bitsandbytes__nf4", "bitsandbytes, nf4"},
      {".quant_state.bitsandbytes__fp4", "bitsandbytes, fp4"},
      {".SCB", "bitsandbytes, int8"},
      {".weight_packed", "compressed-tensors"},
      {".W_q", "HQQ"},
      {".weight_scale_inv", "FP8 in blocks"},
  };
  for (std::string_view name : names) {
    if (name.ends_with(".qweight")) {
      const std::string stem(name.substr(0, name.size() - std::string_view("qweight").size()));
      return shown(names.contains(stem + "g_idx") ? "GPTQ" : "AWQ", name);
    }
    for (const auto &[ending, scheme] : marks)
      if (name.ends_with(ending))
        return shown(scheme, name);
  }
  for (const auto &[name, type] : files.foreign())
    if (type.starts_with("F8") || type.starts_with("F4") || type == "I8")
      return shown(type == "I8" ? "int8" : "FP" + type.substr(1, 1), name);
  return std::nullopt;
}

} // namespace stow
