// Packs instances and prints one table: height over load, proven bound, seconds, beside what others
// reach on the same instances.
//
//   bench-pack FOLDER|x.csv|trace:N|train:BLOCKS|hard:N|nested:N|recurrent:N ...
//              [--timeout=SECONDS] [--work=STEPS] [--published=FILE] [--greedy]
//
// A folder stands for all .csv files in it. A capacity in a file name (x.1048576.csv) adds a row
// with the time to decide it. trace, train, hard, nested and recurrent are the generators of
// ir/plan/pack/Generate.h. "12 ms" is the time until no greedy pair can be lower than what is
// known, for up to 200,000 buffers; "pairs" is how many of the twelve the result is known not to
// lie above. With --greedy the columns of TFLite, XLA and greedy12 are computed, each pair to its
// end, where nobody published them. All times are processor time of one thread.
#include "benchmarks/plan/pack/Instances.h"
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/PackBuffers.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <sys/resource.h>

namespace {

using namespace stow;
using namespace stow::pack;

struct Settings {
  std::optional<double> timeoutSeconds;
  std::optional<int64_t> work;
  bool greedy = false;
  std::string published = STOWAGE_PUBLISHED;
  std::vector<std::string> instances;
};

/// Columns of published.csv by instance, as text.
using Published = std::map<std::string, std::vector<std::string>>;

Published readPublished(const std::string &path) {
  Published table;
  std::istringstream lines(readAll(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    std::vector<std::string> fields(1);
    for (char c : line)
      c == ',' ? fields.emplace_back() : fields.back() += c, void();
    fields.resize(6);
    table[fields[0]] = fields;
  }
  return table;
}

double secondsOf(const std::function<void()> &action) {
  const std::clock_t start = std::clock();
  action();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

Problem load(const std::string &instance) {
  const size_t colon = instance.find(':');
  if (colon != std::string::npos) {
    const std::string kind = instance.substr(0, colon);
    const int count = std::stoi(instance.substr(colon + 1));
    if (kind == "trace")
      return generateTrace(count, 1);
    if (kind == "train")
      return generateTraining(count, 1);
    if (kind == "hard")
      return generateHardTraining(count, 1);
    if (kind == "nested")
      return generateNestedTraining(count, 1);
    if (kind == "recurrent")
      return generateRecurrentTraining(count, 1);
  }
  return parse(readAll(instance), instance);
}

/// Heights over `load` of TFLite's order, of the better one of XLA's two, and of the best pair.
void fillGreedyColumns(const Problem &problem, Bytes load, std::vector<std::string> &row) {
  Bytes tflite = 0, xla = std::numeric_limits<Bytes>::max(), best = xla;
  for (GreedyOrder order : greedyOrders)
    for (GreedyFit fit : greedyFits) {
      const std::optional<Solution> solution = packGreedy(problem, order, fit);
      if (!solution)
        return;
      best = std::min(best, solution->height);
      if (fit == GreedyFit::Best && order == GreedyOrder::SizeStart)
        tflite = solution->height;
      if (fit == GreedyFit::Best &&
          (order == GreedyOrder::SizeLength || order == GreedyOrder::Length))
        xla = std::min(xla, solution->height);
    }
  const Bytes heights[] = {tflite, xla, best};
  for (size_t i = 0; i < std::size(heights); ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4f",
                  static_cast<double>(heights[i]) / static_cast<double>(std::max<Bytes>(load, 1)));
    row[2 + i] = text;
  }
}

/// Decides the capacities in file names, for the sum that MiniMalloc reports.
struct DecisionSum {
  double ours = 0, minimalloc = 0;
  int solved = 0, asked = 0;
};

void checked(const Problem &problem, const PackResult &result) {
  if (!result.solution)
    return;
  if (auto violations = verify(problem, *result.solution); !violations.empty())
    throw Error::internal("wrong packing: " + violations.front().message);
}

void runInstance(const std::string &instance, const Settings &settings, const Published &published,
                 DecisionSum &sum) {
  const std::string stem = instance.find(':') != std::string::npos
                               ? instance
                               : std::filesystem::path(instance).stem().string();
  const Problem problem = load(instance);
  PackOptions options;
  options.timeoutSeconds = settings.timeoutSeconds;
  if (settings.work)
    options.workBudget = *settings.work;
  else if (settings.timeoutSeconds)
    options.workBudget = std::numeric_limits<int64_t>::max() / 4;
  const Bytes load = maxLoad(problem);
  auto found = published.find(stem);
  std::vector<std::string> row =
      found == published.end() ? std::vector<std::string>(6) : found->second;
  if (settings.greedy && row[4].empty())
    fillGreedyColumns(problem, load, row);

  std::string decide = "-";
  if (std::optional<Bytes> capacity = capacityInName(stem)) {
    options.capacity = capacity;
    PackResult result;
    const double seconds = secondsOf([&] { result = packBuffers(problem, options); });
    checked(problem, result);
    const bool solved = result.solution && result.solution->height <= *capacity;
    char text[32];
    std::snprintf(text, sizeof text, solved ? "%.3f" : "not in %.0f", seconds);
    decide = text;
    sum.ours += seconds;
    sum.solved += solved;
    ++sum.asked;
    sum.minimalloc += row[5].empty() ? 0 : std::atof(row[5].c_str());
    options.capacity.reset();
  }
  std::string twelve = "-";
  if (problem.buffers.size() <= veryManyItems) {
    PackOptions noSearch;
    noSearch.workBudget = 0;
    char text[32];
    std::snprintf(text, sizeof text, "%.1f",
                  1000 * secondsOf([&] { packBuffers(problem, noSearch); }));
    twelve = text;
  }
  PackResult result;
  const double seconds = secondsOf([&] { result = packBuffers(problem, options); });
  checked(problem, result);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const Bytes height = result.solution ? result.solution->height : 0;
  std::printf("%-24s %8zu %14lld %7s %7s %8s %9s %9s %8s | %8.6f %13lld %-8s %5d %8.3f %6ld\n",
              stem.c_str(), problem.buffers.size(), static_cast<long long>(load), row[2].c_str(),
              row[3].c_str(), row[4].c_str(), row[5].c_str(), decide.c_str(), twelve.c_str(),
              static_cast<double>(height) / static_cast<double>(std::max<Bytes>(load, 1)),
              static_cast<long long>(height - result.lowerBound), name(result.status),
              result.greedyPairs, seconds, usage.ru_maxrss / 1024);
  std::fflush(stdout);
}

Settings parseArguments(int argc, char **argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text.rfind("--timeout=", 0) == 0)
      settings.timeoutSeconds = std::stod(text.substr(10));
    else if (text.rfind("--work=", 0) == 0)
      settings.work = std::stoll(text.substr(7));
    else if (text == "--greedy")
      settings.greedy = true;
    else if (text.rfind("--published=", 0) == 0)
      settings.published = text.substr(12);
    else
      addInstances(text, settings.instances);
  }
  std::sort(settings.instances.begin(), settings.instances.end());
  return settings;
}

} // namespace

int main(int argc, char **argv) {
  try {
    const Settings settings = parseArguments(argc, argv);
    const Published published = readPublished(settings.published);
    std::printf("%-24s %8s %14s %7s %7s %8s %9s %9s %8s | %8s %13s %-8s %5s %8s %6s\n", "instance",
                "buffers", "load", "TFLite", "XLA", "greedy12", "MiniM. s", "decide s", "12 ms",
                "ours/ld", "over bound", "status", "pairs", "seconds", "RSS MB");
    DecisionSum sum;
    for (const std::string &instance : settings.instances)
      runInstance(instance, settings, published, sum);
    if (sum.asked > 0)
      std::printf("capacities in file names: %d of %d solved in %.3f s (MiniMalloc: %.2f s)\n",
                  sum.solved, sum.asked, sum.ours, sum.minimalloc);
    return 0;
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exitCode();
  }
}
