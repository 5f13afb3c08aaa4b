#include "compiler/DataSheet.h"

#include "compiler/DataSheets.inc"
#include "runtime/base/Json.h"
#include "runtime/base/Names.h"
#include "runtime/base/Text.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace stow {
namespace {

double above(const JsonNode &node, const char *key) {
  double value = node.number(key);
  if (!(value > 0))
    throw Error::badInput("data sheet: " + std::string(key) + " must be above zero");
  return value;
}

CostModel parseSheet(const std::string &text, const std::string &name, int64_t threads, bool tf32) {
  Json json = parseJson(text, "data sheet " + name);
  JsonNode node(json, "data sheet " + name);
  const double scale =
      node.has("per_thread") && node.boolean("per_thread") ? static_cast<double>(threads) : 1;
  CostModel model;
  model.device = node.text("device");
  model.flopsPerSecond.clear();
  node.forEachMember("flops_per_second", [&](const std::string &key, const JsonNode &) {
    model.flopsPerSecond[parseDType(key)] = scale * above(node.at("flops_per_second"), key.c_str());
  });
  if (!model.flopsPerSecond.contains(DType::F32))
    throw Error::badInput("data sheet " + name + ": flops_per_second has no f32");
  if (node.has("tf32_flops_per_second")) {
    const double products = above(node, "tf32_flops_per_second");
    model.f32ProductsPerSecond = tf32 ? scale * products : 0;
  }
  model.bytesPerSecond = scale * above(node, "bytes_per_second");
  model.launchSeconds = above(node, "launch_seconds");
  return model;
}

} // namespace

std::vector<std::string> deviceNames() {
  std::vector<std::string> names;
  for (const auto &[name, text] : kDataSheets)
    names.push_back(name);
  return names;
}

CostModel loadDevice(const std::string &nameOrFile, int64_t threads, bool tf32) {
  const std::vector<std::string> known = deviceNames();
  if (const std::optional<size_t> found = findName(nameOrFile, known))
    return parseSheet(kDataSheets[*found].second, known[*found], threads, tf32);
  if (!std::filesystem::is_regular_file(nameOrFile))
    throw Error::badInput("unknown data sheet \"" + nameOrFile + "\" for --roofline; known are " +
                          joined(known) + ", or a JSON file of that form" +
                          didYouMean(nameOrFile, known));
  std::ifstream in(nameOrFile, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return parseSheet(text.str(), nameOrFile, threads, tf32);
}

} // namespace stow
