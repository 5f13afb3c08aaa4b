// Times of engines are guesses, as cuDNN gives an order of them and no times:
//
//   position p of the heuristics' list    1 + p / 20
//   position p, of the fallback list      20 + p / 20
//   engine 0, of the fallback list        2000 + p / 20
//
// They are relative to the roofline, which the first way is taken to reach. Those of the fallback list were measured on an H200 (cuDNN 9.19, ResNet-50
// at batch 128): 14 times in f32 and 26 in bf16; engine 0 in bf16 2,600 to 5,500 times.
#include "codegen/cuda/EngineChoices.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <set>

namespace stow::cuda {
namespace {

constexpr double kSlowdownPerPosition = 0.05;

double slowdownOf(const EnginePlan &plan) {
  const double base = !plan.isFallback ? 1 : plan.engine.index == 0 ? 2000 : 20;
  return base + kSlowdownPerPosition * plan.position;
}

/// The fastest plan that takes no more scratch than `room`; null where all take more.
const EnginePlan *fastestWithin(const std::vector<EnginePlan> &plans, Bytes room) {
  const EnginePlan *best = nullptr;
  for (const EnginePlan &plan : plans)
    if (plan.workspaceBytes <= room && (!best || slowdownOf(plan) < slowdownOf(*best)))
      best = &plan;
  return best;
}

/// "cudnn engine 28 (STAGES=5)"; of several chips "a100: cudnn engine 28 (STAGES=5), 288 bytes; h100: ...".
std::string nameOf(const EngineChoice &choice, std::span<const ChipPlans> chips) {
  std::string name;
  for (size_t i = 0; i < chips.size(); ++i) {
    const EnginePlan &plan = *choice.engines[i];
    if (chips.size() == 1)
      return "cudnn " + plan.identity;
    absl::StrAppend(&name, name.empty() ? "" : "; ", chips[i].chip, ": cudnn ", plan.identity, ", ",
                    plan.workspaceBytes, " bytes");
  }
  return name;
}

} // namespace

std::vector<EngineChoice> engineChoices(std::span<const ChipPlans> chips, Bytes alignment) {
  std::set<Bytes, std::greater<>> rooms;
  for (const ChipPlans &chip : chips)
    for (const EnginePlan &plan : *chip.plans)
      rooms.insert(alignUp(plan.workspaceBytes, alignment));
  std::vector<EngineChoice> choices;
  for (Bytes room : rooms) {
    EngineChoice choice;
    choice.slowdown = 0;
    for (const ChipPlans &chip : chips) {
      const EnginePlan *plan = fastestWithin(*chip.plans, room);
      if (!plan) // nor does it have one within less
        return choices;
      choice.engines.push_back(plan);
      choice.workspaceBytes = std::max(choice.workspaceBytes, plan->workspaceBytes);
      choice.slowdown += slowdownOf(*plan) / static_cast<double>(chips.size());
    }
    if (!choices.empty() && choices.back().engines == choice.engines)
      continue;
    choice.name = nameOf(choice, chips);
    choices.push_back(std::move(choice));
  }
  return choices;
}

} // namespace stow::cuda
