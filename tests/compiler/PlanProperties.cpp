// Properties of every plan, on random networks.
//
//   PlanProperties [--first=SEED] [--cases=N]       checks the networks of N seeds
//   PlanProperties --print=SEED                     prints a network: a model for `stowage`
//
// For each network, with everything copied as the reference:
//  - the plan without a budget, that of --checkpoint=sqrt, and those under all budgets from 100 %
//    down to the smallest there is, are accepted by the checker;
//  - no arena exceeds its budget, and none is smaller than the lower bound, nor any plan faster
//    than the bound for its budget, in its time or in the share of it that runs things again;
//  - where nothing is joined or sliced a smaller budget gives no larger arena and no less time.
//    What is joined or sliced is placed anew for every order, which may save copies: there points
//    of the frontier alone have that order.
//  - run, with every buffer filled with NaN at its death, they give the reference's losses, state
//    and outputs bit for bit;
//  - in larger tensors, with slow memory beside the arena, no budget takes more time, the smallest arena is no larger, bounds hold,
//    and the bits are the same;
//  - compiled in 16 bits, with everything kept it takes no more than in f32, and in segments, without
//    a flag and under budgets it gives the same bits as then.
#include "compiler/DataSheet.h"
#include "compiler/ModelSteps.h"
#include "compiler/Registration.h"
#include "ir/Graphs.h"
#include "passes/memory/Passes.h"
#include "passes/order/Passes.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Frontier.h"
#include "passes/plan/Stages.h"
#include "passes/verify/Passes.h"
#include "runtime/base/Error.h"
#include "tests/compiler/RandomNet.h"
#include "tests/compiler/TrainPlaced.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

using namespace mlir;

namespace stow {
namespace {

class Case {
public:
  Case(uint64_t seed, const std::string &path, int64_t scale = 1) {
    prepareContext(context);
    std::ofstream(path) << randomNet(seed, scale);
    options.modelPath = path;
    options.loss = parseLoss("mse");
    options.optimizer =
        parseOptimizer(seed % 3 ? "sgd:lr=0.05,momentum=0.9" : "adamw:lr=1e-2,weight-decay=0.1");
    options.threads = 2;
    backend = chooseBackend(options);
    prepared = prepareStep(context, options, *backend);
  }

  /// Throws Error, or std::runtime_error with what does not hold.
  void check(uint64_t seed) {
    expected = trainPlaced(*placed(/*mode=*/"copied"));
    run("in program order", *placed("none"));
    run("in segments", *placed("sqrt"));
    planning.effort = seed % 4 ? 0.1 : 1;
    BudgetPlanner planner(*prepared, costs, backend->target(), planning);
    checkLadder(planner, seed);
    checkAllowances(planner);
    checkSixteenBits(seed % 2 ? Precision::BF16 : Precision::F16, planner.keepAll().arenaBytes);
  }

  /// The same of slow memory, to which small values do not travel.
  void checkTravels(uint64_t seed) {
    expected = trainPlaced(*placed(/*mode=*/"copied"));
    planning.effort = 0.1;
    BudgetPlanner planner(*prepared, costs, backend->target(), planning);
    checkCopies(planner, seed);
  }

  int plans = 0, executed = 0, travelled = 0;

private:
  void require(bool holds, const std::string &what) {
    if (!holds)
      throw std::runtime_error(what);
  }

  void run(const std::string &name, ModuleOp module) {
    ++executed;
    require(trainPlaced(module, Poison::Dying) == expected, name + ": other bits");
  }

  void checkLadder(BudgetPlanner &planner, uint64_t seed) {
    const Bytes full = planner.keepAll().arenaBytes;
    Bytes before = full;
    schedule::Cost time = planner.keepAll().time;
    std::set<Bytes> arenas;
    auto check = [&](Bytes budget, const StepChoice &choice) {
      const std::string name = "budget of " + std::to_string(budget) + " bytes";
      ++plans;
      require(choice.arenaBytes <= budget, name + ": a larger arena");
      require(planner.lowerBound() <= choice.arenaBytes, name + ": a smaller arena than the bound");
      require(planner.timeBound(budget) <= choice.time, name + ": less time than the bound");
      require(planner.extraTimeBound(budget) <= extraTime(choice),
              name + ": less rerun than bound");
      require(movesData(seed) || choice.arenaBytes <= before,
              name + ": a larger arena than for more memory");
      require(movesData(seed) || choice.time >= time, name + ": less time than for more memory");
      before = choice.arenaBytes;
      time = choice.time;
      // Running is what takes long: every plan of some networks, of the others one in four.
      if (arenas.insert(choice.arenaBytes).second && (seed % 8 == 0 || arenas.size() % 4 == 1))
        run(name, *choice.placed);
    };
    for (int64_t percent = 100; percent > 0; percent -= 4) {
      const Bytes budget = full * percent / 100;
      std::optional<StepChoice> choice = planner.plan(budget);
      if (!choice)
        break;
      check(budget, *choice);
    }
    const StepChoice &smallest = planner.smallest();
    std::optional<StepChoice> least = planner.plan(smallest.arenaBytes);
    require(least.has_value(), "the smallest arena is refused as a budget");
    check(smallest.arenaBytes, *least);
    run("the smallest", *smallest.placed);
    require(planner.lowerBound() <= smallest.arenaBytes, "a lower bound above the smallest arena");
    require(planner.refusals().empty(), "the checks refuse a plan");
    const std::vector<FrontierPoint> points =
        findFrontier({planner, costs}, /*stepPercent=*/4).points;
    for (size_t i = 2; i < points.size(); ++i) // the first one is everything kept, in any case
      require(points[i].arenaBytes < points[i - 1].arenaBytes &&
                  points[i].time >= points[i - 1].time,
              "a frontier that rises with memory");
  }

  /// Plans in which buffers may travel, beside those in which none may.
  void checkCopies(BudgetPlanner &without, uint64_t seed) {
    constexpr Bytes kBandwidths[] = {Bytes{1} << 31, Bytes{1} << 35, Bytes{1} << 39};
    CostModel lanes = costs;
    lanes.slow.emplace();
    lanes.slow->out = lanes.slow->in = {kBandwidths[seed % 3], 1'000'000'000, 0};
    lanes.slow->capacity = Bytes{1} << 30;
    BudgetPlanner planner(*prepared, lanes, backend->target(), planning);
    const Bytes full = planner.keepAll().arenaBytes;
    auto check = [&](Bytes budget, const StepChoice &choice) {
      const std::string name = "copies within " + std::to_string(budget) + " bytes";
      ++plans;
      const std::optional<StepChoice> kept = without.plan(budget);
      require(choice.arenaBytes <= budget, name + ": a larger arena");
      require(!kept || choice.time <= kept->time, name + ": more time than without");
      require(planner.lowerBound() <= choice.arenaBytes, name + ": a smaller arena than the bound");
      require(planner.timeBound(budget) <= choice.time, name + ": less time than the bound");
      require(planner.extraTimeBound(budget) <= extraTime(choice, lanes),
              name + ": less extra time than the bound");
      if (choice.withCopies) {
        ++travelled;
        (*choice.placed)
            ->setAttr(kOutsideBytesAttr, Builder(&context).getI64IntegerAttr(Bytes{1} << 30));
        run(name, *choice.placed);
      }
    };
    for (const int64_t percent : {75, 55, 40, 25}) {
      const Bytes budget = full * percent / 100;
      const std::optional<StepChoice> choice = planner.plan(budget);
      require(choice || !without.plan(budget), "a budget that is met without copies alone");
      if (!choice)
        break;
      check(budget, *choice);
    }
    const StepChoice &smallest = planner.smallest();
    require(smallest.arenaBytes <= without.smallest().arenaBytes, "copies take more memory");
    const std::optional<StepChoice> least = planner.plan(smallest.arenaBytes);
    require(least.has_value(), "the smallest arena with copies is refused as a budget");
    check(smallest.arenaBytes, *least);
    require(planner.refusals().empty(), "the checks refuse a plan with copies");
  }

  /// What a share of the step's time buys without a budget.
  void checkAllowances(BudgetPlanner &planner) {
    const StepChoice &kept = planner.keepAll();
    for (const Allowance &allowance : {Allowance{}, Allowance{0.05, 2}, Allowance{0.3}}) {
      const StepChoice choice = planner.within(allowance);
      ++plans;
      const double extra = static_cast<double>(choice.time) / static_cast<double>(kept.time) - 1;
      const double saved =
          1 - static_cast<double>(choice.arenaBytes) / static_cast<double>(kept.arenaBytes);
      require(extra <= allowance.share, "more time than is allowed");
      require(saved >= allowance.worth * extra, "less memory saved than the time is worth");
      require(saved > 0 || choice.time == kept.time, "time for nothing");
      if (allowance.share > 0.1 && saved > 0)
        run("in spare time", *choice.placed);
    }
  }

  /// What is rounded to 16 bits depends on the step alone: neither a budget nor what runs again changes a bit.
  void checkSixteenBits(Precision precision, Bytes keptInF32) {
    CompileOptions asked = options;
    asked.precision = precision;
    StageTimer timer;
    ModelSteps model(context, asked, timer, planning);
    StepQuestion question;
    question.asked = variantOf(asked);
    auto answered = [&] {
      ++plans;
      return answer(model.steps, question);
    };
    question.allowance = Allowance();
    const StepAnswer kept = answered();
    const Bytes arena = kept.plan.arenaBytes;
    require(arena <= keptInF32, "16 bits take more than f32 with everything kept");
    expected = trainPlaced(*kept.choice->placed);
    question.inSegments = true;
    run("16 bits in segments", *answered().choice->placed);
    question.inSegments = false;
    question.allowance = Allowance::usual();
    run("16 bits without a flag", *answered().choice->placed);
    std::set<Bytes> arenas = {arena};
    for (const int64_t percent : {85, 70, 55, 40, 25}) {
      question.budget = {arena * percent / 100, {}};
      const StepAnswer found = answered();
      if (!found.choice)
        break;
      require(found.plan.arenaBytes <= *question.budget->bytes, "16 bits: a larger arena");
      if (arenas.insert(found.plan.arenaBytes).second)
        run("16 bits within " + std::to_string(*question.budget->bytes), *found.choice->placed);
    }
  }

  /// Time of runs beyond the first and of waits for copies, as a share of the time of all first runs.
  double extraTime(const StepChoice &choice) const { return extraTime(choice, costs); }
  static double extraTime(const StepChoice &choice, const CostModel &costs) {
    const auto time = costs.timeOf(findGraph(choice.placed.get(), Role::Train));
    return static_cast<double>(time.extra + time.waits) / static_cast<double>(time.once);
  }

  /// The step in program order, in segments, or in program order with every concat and slice
  /// copied.
  OwningOpRef<ModuleOp> placed(const std::string &mode) {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>(prepared->clone());
    runStage(*module, "test", [&](PassManager &manager) {
      addBindPasses(manager);
      if (mode == "sqrt") {
        SchedulePassOptions options;
        options.checkpoint = mode;
        manager.addPass(createPlaceInsidePass(backend->target()));
        manager.addPass(createSchedulePass(options));
      }
      if (mode == "copied") {
        manager.addPass(createShareInPlacePass());
        manager.addPass(createVerifyOrderedPass());
      } else {
        addSharePasses(manager, backend->target());
      }
      addPlacePasses(manager);
    });
    return module;
  }

  const CostModel costs = loadDevice("cpu", 2);
  CompileOptions options;
  BudgetOptions planning;
  MLIRContext context;
  std::unique_ptr<Backend> backend;
  OwningOpRef<ModuleOp> prepared;
  std::vector<char> expected;
};

uint64_t number(const std::string &word, const std::string &flag, uint64_t otherwise) {
  return word.starts_with(flag) ? std::stoull(word.substr(flag.size())) : otherwise;
}

int main(int argc, char **argv) {
  uint64_t first = 1, cases = 40;
  for (int i = 1; i < argc; ++i) {
    first = number(argv[i], "--first=", first);
    cases = number(argv[i], "--cases=", cases);
    if (std::string(argv[i]).starts_with("--print=")) {
      std::fputs(randomNet(number(argv[i], "--print=", 0)).c_str(), stdout);
      return 0;
    }
  }
  const std::string path =
      std::filesystem::temp_directory_path() / ("net-" + std::to_string(getpid()) + ".mlir");
  int failed = 0, plans = 0, executed = 0, travelled = 0;
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    try {
      Case one(seed, path);
      one.check(seed);
      Case large(seed, path, /*scale=*/32);
      large.checkTravels(seed);
      plans += one.plans + large.plans;
      executed += one.executed + large.executed;
      travelled += large.travelled;
    } catch (const std::exception &error) {
      ++failed;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), error.what());
      std::fflush(stdout);
    }
  }
  std::filesystem::remove(path);
  std::printf("%llu networks from seed %llu: %d plans, %d of them with copies, %d executed; %d "
              "networks failed\n",
              static_cast<unsigned long long>(cases), static_cast<unsigned long long>(first), plans,
              travelled, executed, failed);
  // Seeds in a row have each bandwidth in turn, by one of which something travels where the checks of copies check anything.
  if (cases >= 3 && travelled == 0) {
    std::puts("nothing has travelled in any plan");
    ++failed;
  }
  return failed ? 1 : 0;
}

} // namespace
} // namespace stow

int main(int argc, char **argv) { return stow::main(argc, argv); }
