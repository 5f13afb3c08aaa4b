// Prints the tables of schedules with slow memory: time with none, one or both ways out.
//
//   bench-lanes [--families=chains,networks,large] [--effort=X]
//
// A row is a graph, a budget in percent of the input order's peak, and a bandwidth. Times are in
// percent more than running every op once: of recomputation alone, of copies alone, of both, and
// the lower bound (LaneBound) for any of them. Slow memory is as large as asked. Seconds are CPU
// seconds of one thread: of the plan with both, and of recomputation alone by the planner without
// lanes. Every schedule is replayed by the checker.
//
// `chains`: unit chains and random ones; a bandwidth of R moves R times the input order's peak in
// the time of the step. `networks`: convolutional networks with the costs of a GPU's kernels in
// nanoseconds (Roofline.h) and GPT steps; bandwidths in GB/s (12: PCIe 3, 25: PCIe 4, 50: PCIe 5,
// 400: NVLink-C2C). `large`: GPT steps of 12,000 and recurrent ones of 21,000 ops.
#include "Roofline.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "passes/solvers/schedule/lanes/PlanLanes.h"
#include "runtime/base/Error.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

using namespace stow;
using namespace stow::schedule;

double cpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Bench {
  PlanOptions options;
  bool failed = false;

  void header(const std::string &title) const {
    std::printf(
        "\n## %s\n\n| graph | ops | budget %% | bandwidth | recompute %% | fetch %% | both %% "
        "| bound %% | of the peak, travels %% | exposed %% | CPU s | without lanes, CPU s |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        title.c_str());
  }

  std::string extra(const Problem &problem, const LanePlanResult &result) const {
    return result.solution ? extra(problem, result.time) : "-";
  }
  static std::string extra(const Problem &problem, Cost time) {
    char text[32];
    const auto least = static_cast<double>(std::max<Cost>(problem.leastTime(), 1));
    std::snprintf(text, sizeof text, "%.3f", 100 * (static_cast<double>(time) - least) / least);
    return text;
  }

  void replay(const Problem &problem, const Lanes &lanes, const LanePlanResult &result) {
    if (!result.solution)
      return;
    const LaneReplay replay = verify(problem, lanes, *result.solution, result.budgetBytes);
    if (replay.fault || replay.time != result.time) {
      std::printf("replay disagrees: %s\n", replay.fault.value_or("times differ").c_str());
      failed = true;
    }
  }

  void row(const Problem &problem, double percent, const std::string &speed, const Link &link) {
    Lanes lanes;
    lanes.in = lanes.out = link;
    lanes.slowBytes = int64_t(1) << 60;
    double start = cpuSeconds();
    Planner plain(problem, options);
    plain.plan(percentOf(plain.inputOrderPeak(), percent));
    const double plainSeconds = cpuSeconds() - start;
    start = cpuSeconds();
    LanePlanner planner(problem, options);
    const Bytes budget = percentOf(planner.inputOrderPeak(), percent);
    const LanePlanResult both = planner.plan(budget, lanes);
    const double seconds = cpuSeconds() - start;
    const LanePlanResult fetch = planner.plan(budget, lanes, Ways::Fetch);
    for (const LanePlanResult *result : {&both, &fetch})
      replay(problem, lanes, *result);
    const auto peak = static_cast<double>(both.inputOrderPeak);
    std::printf("| %s | %zu | %g | %s | %s | %s | %s | %s | %.1f | %.3f | %.2f | %.2f |\n",
                problem.name.c_str(), problem.ops.size(), percent, speed.c_str(),
                both.recomputeTime ? extra(problem, *both.recomputeTime).c_str() : "-",
                extra(problem, fetch).c_str(), extra(problem, both).c_str(),
                both.timeBound ? extra(problem, *both.timeBound).c_str() : "-",
                100 * static_cast<double>(both.bytesIn) / peak,
                100 * static_cast<double>(both.exposed) /
                    static_cast<double>(std::max<Cost>(both.leastTime, 1)),
                seconds, plainSeconds);
    std::fflush(stdout);
  }

  /// The link moves `tenths` / 10 of the input order's peak in the time of the step.
  void relative(const Problem &problem, double percent, int tenths) {
    const Bytes peak = Planner(problem, PlanOptions{.effort = 0}).inputOrderPeak();
    char text[16];
    std::snprintf(text, sizeof text, "%.1f", tenths / 10.0);
    row(problem, percent, text, {peak * tenths, problem.leastTime() * 10, 0});
  }

  /// Costs are nanoseconds.
  void absolute(const Problem &problem, double percent, int gigabytesPerSecond) {
    constexpr Cost latency = 10'000;
    row(problem, percent, std::to_string(gigabytesPerSecond) + " GB/s",
        {gigabytesPerSecond, 1, latency});
  }
};

} // namespace

int main(int argc, char **argv) {
  try {
    std::string families = "chains,networks,large";
    Bench bench;
    for (int i = 1; i < argc; ++i) {
      const std::string text = argv[i];
      if (text.rfind("--families=", 0) == 0)
        families = text.substr(11);
      else if (text.rfind("--effort=", 0) == 0)
        bench.options.effort = std::atof(text.c_str() + 9);
      else
        throw Error::badInput("unknown flag '" + text + "'");
    }
    auto wanted = [&](const char *family) { return families.find(family) != std::string::npos; };
    if (wanted("chains")) {
      bench.header("Chains");
      for (const Problem &problem :
           {unitChainStep(50), generateChainStep(1, 30), generateChainStep(2, 100)})
        for (double percent : {70.0, 50.0, 30.0, 15.0})
          for (int tenths : {2, 5, 10, 20, 50})
            bench.relative(problem, percent, tenths);
    }
    if (wanted("networks")) {
      bench.header("Networks");
      std::vector<Problem> steps;
      for (const char *name : {"vgg19", "mobilenet", "resnet50", "unet"})
        steps.push_back(rooflineStep(convolutionalForward(name, 32), 1));
      steps.push_back(gptStep(12));
      for (const Problem &problem : steps)
        for (double percent : {80.0, 60.0, 40.0})
          for (int speed : {12, 25, 50, 400})
            bench.absolute(problem, percent, speed);
    }
    if (wanted("large")) {
      bench.header("Large steps");
      for (const Problem &problem : {gptStep(235), recurrentStep(1060)})
        for (double percent : {70.0, 40.0})
          for (int speed : {25, 400})
            bench.absolute(problem, percent, speed);
    }
    return bench.failed ? 3 : 0;
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exitCode();
  }
}
