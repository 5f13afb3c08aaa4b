// Prints the tables of the schedule family: our extra time, its bounds, published figures, seconds.
//
//   bench-schedule [--folder=DIR] [--families=published,nets,roofline,inplace,layered,large,
//                  frontier]
//                  [--prove=SECONDS] [--effort=X] [--peer[=FACTOR]] [--seeds=N]
//                  [--first-seed=N] [--prove-layered=SECONDS]
//
// `published` plans every .json of the folder; the other families are generated. Seconds are CPU
// seconds of one thread, schedule and bounds together. Every schedule is replayed by the checker.
// `inplace` is steps in which ops overwrite what they read (inPlaceStep), each row beside what the
// same problem with copies instead takes within as many bytes.
// `roofline` is the networks of `nets` with costs as a profile of kernels has them (rooflineStep).
// `--prove` spends up to about that many seconds a row on proofs for published graphs, nets and
// roofline, `--prove-layered` the same for random layered graphs.
// `--peer` runs a peer (SlotAnnealing.h) after every row of the layered graphs, for the same CPU
// seconds, or FACTOR times as many: its extra time, or the peak at which it stopped where that is
// above the budget. `--seeds`: random layered graphs of each size, and draws of costs of each
// network (2), `--first-seed`: the first (1).
#include "Roofline.h"
#include "SlotAnnealing.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Json.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

using namespace stow;
using namespace stow::schedule;

struct Published {
  std::string name, source;
  double budget = 0, extra = 0;
};

double cpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string readFile(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<Published> readPublished() {
  std::vector<Published> rows;
  std::stringstream text(readFile(STOWAGE_PUBLISHED));
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    size_t a = line.find(','), b = line.find(',', a + 1), c = line.rfind(',');
    rows.push_back({line.substr(0, a), line.substr(b + 1, c - b - 1),
                    std::atof(line.substr(a + 1, b - a - 1).c_str()),
                    std::atof(line.substr(c + 1).c_str())});
  }
  return rows;
}

const char *statusText(const PlanResult &result) {
  switch (result.status) {
  case Status::Optimal:
    return "optimal";
  case Status::Bounded:
    return "bounded";
  case Status::Infeasible:
    return "infeasible (proven)";
  case Status::NotFound:
    return "not found";
  }
  return "";
}

struct Bench {
  PlanOptions options;
  std::vector<Published> published = readPublished();
  bool failed = false, peer = false, withCopies = false;
  double peerFactor = 1;

  void prove(double seconds) {
    options.prove = seconds > 0;
    options.proveSeconds = seconds;
  }

  void header(const std::string &title) {
    std::printf(
        "\n## %s\n\n| graph | ops | budget %% | extra %% | cut bound %% | phase bound %% | "
        "peak %% | status | published | CPU s |%s\n|---|---|---|---|---|---|---|---|---|---|%s\n",
        title.c_str(),
        peer         ? " peer |"
        : withCopies ? " with copies |"
                     : "",
        peer || withCopies ? "---|" : "");
  }

  void row(const Problem &problem, double percent) {
    const double start = cpuSeconds();
    Planner planner(problem, options);
    PlanResult result = planner.plan(percentOf(planner.inputOrderPeak(), percent));
    const double seconds = cpuSeconds() - start;
    auto extra = [&](Cost time) {
      char text[32];
      std::snprintf(text, sizeof text, "%.4f",
                    100.0 * static_cast<double>(time - result.leastTime) /
                        static_cast<double>(std::max<Cost>(result.leastTime, 1)));
      return std::string(text);
    };
    std::string others;
    for (const Published &row : published)
      if (problem.name.rfind(row.name, 0) == 0 && row.budget == percent) {
        char text[160];
        std::snprintf(text, sizeof text, "%s%s %.1f", others.empty() ? "" : "; ",
                      row.source.c_str(), row.extra);
        others += text;
      }
    if (result.solution) {
      Replay replay = verify(problem, *result.solution);
      if (replay.fault || replay.time != result.time || replay.peakBytes != result.peakBytes ||
          replay.peakBytes > result.budgetBytes) {
        std::printf("replay disagrees: %s\n", replay.fault.value_or("figures differ").c_str());
        failed = true;
      }
    }
    std::printf("| %s | %zu | %g | %s | %s | %s | %.2f | %s | %s | %.2f |", problem.name.c_str(),
                problem.ops.size(), percent, result.solution ? extra(result.time).c_str() : "-",
                result.cutBound ? extra(*result.cutBound).c_str() : "-",
                result.phaseBound ? extra(*result.phaseBound).c_str() : "-",
                100.0 *
                    static_cast<double>(result.solution ? result.peakBytes : result.smallestPeak) /
                    static_cast<double>(result.inputOrderPeak),
                statusText(result), others.c_str(), seconds);
    if (peer) {
      Graph graph(problem);
      PeerResult other = annealSlots(graph, result.budgetBytes, peerFactor * seconds, 1);
      if (other.peakBytes <= result.budgetBytes)
        std::printf(" %s |", extra(other.time).c_str());
      else
        std::printf(" peak %.2f %% |", 100.0 * static_cast<double>(other.peakBytes) /
                                           static_cast<double>(result.inputOrderPeak));
    }
    if (withCopies) {
      // The same problem with the overwrites taken away, at the same budget in bytes.
      const PlanResult other =
          planSchedule(withoutOverwrites(problem), result.budgetBytes, options);
      if (!other.solution) {
        std::printf(" - |");
      } else {
        const Replay replay = verify(problem, *other.solution);
        const bool isLegal = !replay.fault && replay.peakBytes <= result.budgetBytes;
        std::printf(" %s%s |", extra(other.time).c_str(), isLegal ? "" : " (not legal)");
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  void frontier(const Problem &problem) {
    const double start = cpuSeconds();
    PlanOptions cutsOnly = options;
    cutsOnly.effort = 0;
    Planner planner(problem, cutsOnly);
    std::vector<FrontierRow> rows = planner.frontier();
    std::printf("| %s | %zu | %zu | %.2f | %.2f | %.2f |\n", problem.name.c_str(),
                problem.ops.size(), rows.size(),
                100.0 * static_cast<double>(rows.back().peakBytes) /
                    static_cast<double>(planner.inputOrderPeak()),
                100.0 * static_cast<double>(rows.back().time - problem.leastTime()) /
                    static_cast<double>(problem.leastTime()),
                cpuSeconds() - start);
    std::fflush(stdout);
  }
};

void publishedTable(Bench &bench, const std::string &folder, double proveSeconds) {
  bench.prove(proveSeconds);
  std::vector<std::string> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json")
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  bench.header("Published graphs");
  for (const std::string &path : paths) {
    Problem problem = parse(readFile(path), path);
    for (double percent : {90.0, 85.0, 80.0, 70.0, 65.0, 60.0, 50.0})
      bench.row(problem, percent);
  }
}

void generatedTables(Bench &bench, const std::string &families, double proveSeconds,
                     double layeredSeconds, bool withPeer, uint64_t firstSeed, uint64_t seeds) {
  auto wanted = [&](const char *family) { return families.find(family) != std::string::npos; };
  bench.prove(proveSeconds);
  if (wanted("nets")) {
    bench.header("Training steps of convolutional networks, FLOP costs");
    for (const char *name : {"vgg19", "mobilenet", "resnet50", "unet", "segnet"})
      for (double percent : {90.0, 80.0, 70.0, 60.0, 50.0})
        bench.row(trainingStep(convolutionalForward(name, 32)), percent);
  }
  if (wanted("roofline")) {
    bench.header("The same with costs of a roofline, varied at random");
    for (const char *name : {"vgg19", "mobilenet", "resnet50", "unet", "segnet"})
      for (uint64_t seed = firstSeed; seed < firstSeed + seeds; ++seed) {
        Problem step = rooflineStep(convolutionalForward(name, 32), seed);
        step.name += "-" + std::to_string(seed);
        for (double percent : {90.0, 80.0, 70.0, 60.0, 50.0})
          bench.row(step, percent);
      }
  }
  if (wanted("inplace")) {
    bench.withCopies = true;
    bench.header("Training steps with ops in place");
    for (auto [family, depth] : {std::pair("chain", 24),
                                 {"residual", 8},
                                 {"dense", 12},
                                 {"unet", 4},
                                 {"recurrent", 20},
                                 {"residual", 33}})
      for (double percent : {90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0})
        bench.row(inPlaceStep(family, depth), percent);
    bench.withCopies = false;
  }
  bench.prove(layeredSeconds);
  if (wanted("layered")) {
    bench.peer = withPeer;
    bench.header("Random layered graphs");
    for (int count : {100, 250, 500, 1000}) {
      LayeredOptions options;
      options.opCount = count;
      for (uint64_t seed = firstSeed; seed < firstSeed + seeds; ++seed)
        for (double percent : {90.0, 80.0, 70.0, 60.0})
          bench.row(generateLayered(seed, options), percent);
    }
  }
  bench.peer = false;
  bench.prove(0);
  if (wanted("large")) {
    bench.header("Large training steps");
    for (const Problem &problem : {gptStep(20), gptStep(235), recurrentStep(1060)})
      for (double percent : {90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0})
        bench.row(problem, percent);
  }
  if (wanted("frontier")) {
    std::printf("\n## Whole frontiers from one price sweep of cuts\n\n| graph | ops | points "
                "| least peak %% | its extra %% | CPU s |\n|---|---|---|---|---|---|\n");
    for (const Problem &problem : {gptStep(20), gptStep(235), recurrentStep(1060)})
      bench.frontier(problem);
  }
}

} // namespace

int main(int argc, char **argv) {
  try {
    std::string folder, families = "published,nets,roofline,inplace,layered,large,frontier";
    Bench bench;
    double proveSeconds = 0, layeredSeconds = 0;
    bool withPeer = false;
    uint64_t firstSeed = 1, seeds = 2;
    for (int i = 1; i < argc; ++i) {
      std::string text = argv[i];
      if (text.rfind("--folder=", 0) == 0)
        folder = text.substr(9);
      else if (text.rfind("--families=", 0) == 0)
        families = text.substr(11);
      else if (text.rfind("--effort=", 0) == 0)
        bench.options.effort = std::atof(text.c_str() + 9);
      else if (text == "--peer")
        withPeer = true;
      else if (text.rfind("--peer=", 0) == 0) {
        withPeer = true;
        bench.peerFactor = std::atof(text.c_str() + 7);
      } else if (text.rfind("--first-seed=", 0) == 0)
        firstSeed = std::strtoull(text.c_str() + 13, nullptr, 10);
      else if (text.rfind("--prove=", 0) == 0)
        proveSeconds = std::atof(text.c_str() + 8);
      else if (text.rfind("--prove-layered=", 0) == 0)
        layeredSeconds = std::atof(text.c_str() + 16);
      else if (text.rfind("--seeds=", 0) == 0)
        seeds = std::strtoull(text.c_str() + 8, nullptr, 10);
      else
        throw Error::badInput("unknown flag '" + text + "'");
    }
    if (!folder.empty() && families.find("published") != std::string::npos)
      publishedTable(bench, folder, proveSeconds);
    generatedTables(bench, families, proveSeconds, layeredSeconds, withPeer, firstSeed, seeds);
    return bench.failed ? 3 : 0;
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exitCode();
  }
}
