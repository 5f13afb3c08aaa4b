// `stowage explain`: questions to a plan, answered in words.
#include "compiler/Commands.h"
#include "compiler/PlanFile.h"
#include "compiler/PlanSource.h"
#include "runtime/base/Error.h"
#include "runtime/program/Flags.h"
#include "runtime/report/Explain.h"
#include "runtime/report/Remedies.h"
#include "runtime/report/TextTable.h"

#include <algorithm>

namespace stow {
namespace {

struct Questions {
  std::optional<std::string> at, buffer;
  std::optional<Bytes> below;
  size_t rows = 10;
};

Questions takeQuestions(std::vector<std::string> &words) {
  Questions questions;
  questions.at = takeFlag(words, "at");
  questions.buffer = takeFlag(words, "buffer");
  if (auto text = takeFlag(words, "below"))
    questions.below = parseBytes(*text);
  if (auto text = takeFlag(words, "rows"))
    questions.rows = parseCount("rows", *text, 1);
  return questions;
}

std::string otherWays(const Plan &plan) {
  std::vector<Remedy> list = stateRemedies(plan, "");
  const int64_t batch = batchOf(plan);
  if (const Bytes growing = batch > 1 ? bytesThatGrow(plan, batch) : 0; growing > 0)
    list.push_back({growing / 2,
                    "half the batch, about: --batch=" + std::to_string(batch / 2) + " instead of " +
                        std::to_string(batch) + " (stowage max-batch finds the largest that fits)",
                    true});
  if (list.empty())
    return "";
  sortRemedies(list);
  return "\nother ways to less, by what they gain:\n" + renderRemedies(list);
}

/// A model can be planned again within the limit: that is no estimate. Throws Error(Infeasible)
/// STOW1001, with remedies, when no plan fits.
std::string planBelow(const std::string &path, std::vector<std::string> flags, const Plan &now,
                      const Questions &questions) {
  const std::string flag = "--memory-budget=" + std::to_string(*questions.below);
  std::erase_if(flags, [](const std::string &word) {
    return word.starts_with("--memory-budget=") || word.starts_with("--checkpoint=");
  });
  flags.push_back(flag);
  const Plan plan = planFromAny(path, flags);
  std::string text = flag + " takes " + formatBytesExact(plan.arenaBytes) + " instead of " +
                     formatBytesExact(now.arenaBytes);
  if (now.stepSeconds > 0)
    text += ", and a step " + formatSeconds(plan.stepSeconds) + " instead of " +
            formatSeconds(now.stepSeconds) + " (" + plan.costSource + ")";
  return text + ".\n" + explainRecomputation(plan, questions.rows);
}

std::string answer(const std::string &path, const std::vector<std::string> &flags, const Plan &plan,
                   const Questions &questions) {
  if (questions.buffer)
    return explainBuffer(plan, *questions.buffer, questions.rows);
  if (questions.below) {
    if (plan.arenaBytes <= *questions.below || !isModelFile(path))
      return explainSavings(plan, questions.below, questions.rows) +
             (plan.arenaBytes <= *questions.below
                  ? ""
                  : "stowage plan MODEL --memory-budget=" + std::to_string(*questions.below) +
                        " decides it.\n" + otherWays(plan));
    return planBelow(path, flags, plan, questions) + otherWays(plan);
  }
  const std::string moment =
      explainMoment(plan, findMoment(plan, questions.at.value_or("peak")), questions.rows);
  if (questions.at)
    return moment;
  return moment + "\n" + explainRecomputation(plan, questions.rows) + "\n" +
         explainSavings(plan, std::nullopt, std::min<size_t>(questions.rows, 5)) +
         "--memory-budget=BYTES asks for less, --below=BYTES says what that takes.\n" +
         otherWays(plan);
}

} // namespace

int explainCommand(const std::vector<std::string> &arguments) {
  std::vector<std::string> words = arguments;
  const std::string output = takeOutput(words);
  const Questions questions = takeQuestions(words);
  if (questions.at.has_value() + questions.buffer.has_value() + questions.below.has_value() > 1)
    throw Error::badInput("--at, --buffer and --below are questions of their own; ask one");
  const std::vector<std::string> files = takeFiles(words);
  if (files.size() != 1)
    throw Error::badInput("expected one file, a model, a plan or an executable, found " +
                          std::to_string(files.size()));
  if (!words.empty() && !isModelFile(files[0]))
    throw Error::badInput("unknown flag \"" + words.front() +
                          "\"; known are --at, --buffer, --below, --rows and -o FILE, and with a "
                          "model those of stowage plan");
  const Plan plan = planFromAny(files[0], words);
  writeReport(answer(files[0], words, plan, questions), output);
  return 0;
}

} // namespace stow
