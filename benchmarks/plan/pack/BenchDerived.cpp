// How robust the solvers are: hundreds of hard problems that are known to fit.
//
//   bench-pack-derived FOLDER|x.CAPACITY.csv|puzzle:N ... [--seeds=N] [--work=STEPS] [--depth=N]
//                      [--only=DERIVATION] [--minimize] [--list=SECONDS]
//
// Each file whose name ends in a capacity, and each generated puzzle of about N buffers, is packed
// once; the packing is then changed together with its problem (ir/plan/pack/Derive.h), `depth`
// times in a row, and what comes out is decided at the capacity at which it fits by construction.
// With --minimize it is packed without a capacity. One row per derivation; --list names every
// problem that took longer, or was not solved. Seconds are processor time of one thread.
#include "benchmarks/plan/pack/Instances.h"
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Derive.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/PackBuffers.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>

namespace {

using namespace stow;
using namespace stow::pack;

struct Settings {
  std::vector<std::string> sources;
  int seeds = 3, depth = 1;
  int64_t work = PackOptions().workBudget;
  std::string only;
  bool minimize = false;
  double listSeconds = 1e9;
};

struct Source {
  std::string name;
  Certified certified;
};

/// What became of the problems of one derivation.
struct Row {
  int problems = 0, fitting = 0, optimal = 0;
  double seconds = 0, slowest = 0;
};

double processorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// The packing of a problem within its capacity; nullopt when none was found.
std::optional<Certified> certify(Problem problem, Bytes capacity) {
  PackOptions options;
  options.capacity = capacity;
  PackResult result = packBuffers(problem, options);
  if (!result.solution || result.solution->height > capacity)
    return std::nullopt;
  return Certified{std::move(problem), *result.solution};
}

void addSource(const std::string &text, std::vector<Source> &sources) {
  if (text.rfind("puzzle:", 0) == 0) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Certified puzzle = generateCertifiedPuzzle(std::stoi(text.substr(7)), seed);
      sources.push_back({text + "/" + std::to_string(seed), std::move(puzzle)});
    }
    return;
  }
  const std::string stem = std::filesystem::path(text).stem().string();
  const std::optional<Bytes> capacity = capacityInName(stem);
  if (!capacity)
    return;
  if (auto certified = certify(parse(readAll(text), text), *capacity))
    sources.push_back({stem, std::move(*certified)});
  else
    std::printf("%s: not packed within its capacity\n", stem.c_str());
}

void runOne(const std::string &name, const Certified &certified, const Settings &settings,
            Row &row) {
  PackOptions options;
  options.workBudget = settings.work;
  options.explain = false;
  if (!settings.minimize)
    options.capacity = certified.packing.height;
  const double start = processorSeconds();
  const PackResult result = packBuffers(certified.problem, options);
  const double seconds = processorSeconds() - start;
  if (auto violations = verify(certified.problem, *result.solution); !violations.empty())
    throw Error::internal("wrong packing: " + violations.front().message);
  const bool fits = result.solution->height <= certified.packing.height;
  ++row.problems;
  row.fitting += fits;
  row.optimal += result.status == PackStatus::Optimal;
  row.seconds += seconds;
  row.slowest = std::max(row.slowest, seconds);
  if (fits && seconds < settings.listSeconds)
    return;
  if (settings.listSeconds < 1e9)
    std::printf("  %-48s %5zu buffers, load %.4f: %s %.4f of the capacity, %.3f s, %s\n",
                name.c_str(), certified.problem.buffers.size(),
                static_cast<double>(maxLoad(certified.problem)) /
                    static_cast<double>(certified.packing.height),
                fits ? "packed" : "NOT packed",
                static_cast<double>(result.solution->height) /
                    static_cast<double>(certified.packing.height),
                seconds, result.method.c_str());
  std::fflush(stdout);
}

Settings parseArguments(int argc, char **argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text.rfind("--seeds=", 0) == 0)
      settings.seeds = std::stoi(text.substr(8));
    else if (text.rfind("--depth=", 0) == 0)
      settings.depth = std::stoi(text.substr(8));
    else if (text.rfind("--work=", 0) == 0)
      settings.work = std::stoll(text.substr(7));
    else if (text.rfind("--only=", 0) == 0)
      settings.only = text.substr(7);
    else if (text.rfind("--list=", 0) == 0)
      settings.listSeconds = std::stod(text.substr(7));
    else if (text == "--minimize")
      settings.minimize = true;
    else
      addInstances(text, settings.sources);
  }
  std::sort(settings.sources.begin(), settings.sources.end());
  return settings;
}

void run(const Settings &settings) {
  std::vector<Source> sources;
  for (const std::string &text : settings.sources)
    addSource(text, sources);
  std::printf("%-12s %8s %8s %8s %10s %10s\n", "derivation", "problems", "packed", "optimal",
              "mean s", "slowest s");
  Row all;
  for (Derivation derivation : allDerivations) {
    if (!settings.only.empty() && settings.only != name(derivation))
      continue;
    Row row;
    for (const Source &source : sources)
      for (int seed = 1; seed <= settings.seeds; ++seed) {
        std::string label = source.name + " " + name(derivation) + "/" + std::to_string(seed);
        Certified certified = derive(source.certified, derivation, static_cast<uint64_t>(seed));
        for (int step = 1; step < settings.depth; ++step) {
          // Every pair of derivations comes up in turn.
          const size_t next = static_cast<size_t>(seed * 5 + step * 7) % std::size(allDerivations);
          certified = derive(certified, allDerivations[next], static_cast<uint64_t>(seed));
          label += std::string(" ") + name(allDerivations[next]);
        }
        runOne(label, certified, settings, row);
      }
    std::printf("%-12s %8d %8d %8d %10.4f %10.3f\n", name(derivation), row.problems, row.fitting,
                row.optimal, row.seconds / std::max(1, row.problems), row.slowest);
    std::fflush(stdout);
    all.problems += row.problems;
    all.fitting += row.fitting;
    all.optimal += row.optimal;
    all.seconds += row.seconds;
    all.slowest = std::max(all.slowest, row.slowest);
  }
  std::printf("%-12s %8d %8d %8d %10.4f %10.3f\n", "all", all.problems, all.fitting, all.optimal,
              all.seconds / std::max(1, all.problems), all.slowest);
}

} // namespace

int main(int argc, char **argv) {
  try {
    run(parseArguments(argc, argv));
    return 0;
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exitCode();
  }
}
