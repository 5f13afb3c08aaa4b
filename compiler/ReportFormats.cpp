// The formats of a plan, and where reports go.
#include "compiler/Commands.h"
#include "compiler/Picture.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"
#include "runtime/report/Formats.h"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace stow {
namespace {

/// Those of an executable, and the page for a browser.
const std::vector<PlanFormat> &allFormats() {
  static const std::vector<PlanFormat> all = [] {
    std::vector<PlanFormat> formats(planFormatTable().begin(), planFormatTable().end());
    formats.push_back({"html", drawPlan});
    return formats;
  }();
  return all;
}

std::string namesOfFormats(const char *separator) {
  std::string names;
  for (const PlanFormat &format : allFormats())
    names += (names.empty() ? "" : separator) + std::string(format.name);
  return names;
}

/// Takes "--name=VALUE" or "--name VALUE", and "-x VALUE", out of the words; the last one counts.
std::optional<std::string> takeValue(std::vector<std::string> &words, const std::string &name,
                                     const std::string &brief, const std::string &advice) {
  std::optional<std::string> value;
  for (auto word = words.begin(); word != words.end();) {
    const bool isAlone = *word == "--" + name || *word == brief;
    if (!isAlone && !word->starts_with("--" + name + "=")) {
      ++word;
      continue;
    }
    if (isAlone && std::next(word) == words.end())
      throw Error::badInput("flag " + *word + " has no value; " + advice);
    value = isAlone ? *std::next(word) : word->substr(name.size() + 3);
    word = words.erase(word, std::next(word, isAlone ? 2 : 1));
  }
  return value;
}

} // namespace

std::optional<std::string> takeFlag(std::vector<std::string> &words, const std::string &name) {
  std::optional<std::string> value;
  const std::string prefix = "--" + name + "=";
  std::erase_if(words, [&](const std::string &word) {
    if (!word.starts_with(prefix))
      return false;
    value = word.substr(prefix.size());
    return true;
  });
  return value;
}

std::string planFormats() { return namesOfFormats("|"); }

std::string takePlanFormat(std::vector<std::string> &arguments) {
  const std::string known = "known are " + namesOfFormats(", ");
  std::string format = takeValue(arguments, "format", "", known).value_or("text");
  if (std::ranges::none_of(allFormats(), [&](const PlanFormat &f) { return format == f.name; }))
    throw Error::badInput("unknown format \"" + format + "\"; " + known);
  return format;
}

std::string takeOutput(std::vector<std::string> &arguments) {
  std::optional<std::string> path =
      takeValue(arguments, "output", "-o", "expected the file to write: -o FILE");
  if (path)
    checkWritable(*path);
  return path.value_or("");
}

void writeReport(const std::string &text, const std::string &path) {
  if (path.empty())
    std::fwrite(text.data(), 1, text.size(), stdout);
  else
    writeFile(path, text);
}

void writePlan(const Plan &plan, const std::string &format, const std::string &path) {
  for (const PlanFormat &known : allFormats())
    if (format == known.name)
      writeReport(known.render(plan), path);
}

} // namespace stow
