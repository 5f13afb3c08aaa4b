#include "runtime/program/StepProfiles.h"

#include <vector>

namespace stow {

StepProfiles::StepProfiles(const Program &program, int64_t threads, int64_t steps)
    : program(program) {
  const int64_t last = program.batchesPerStep - 1;
  for (size_t shape = 0; shape < program.shapeCount();
       ++shape)                                 // which of them run, the rows will say
    for (int64_t number : {last, int64_t{0}}) { // one graph where a step is one batch
      const size_t graph = stepGraphIndex(program, number, shape);
      profiles.try_emplace(graph, program.graphs[graph], threads,
                           number == last ? steps : steps * last, &program.plan);
    }
}

Profile &StepProfiles::of(int64_t number, size_t shape) {
  return profiles.at(stepGraphIndex(program, number, shape));
}

void StepProfiles::report(const std::string &path, ProfileFormat format,
                          const Device &device) const {
  const int64_t last = program.batchesPerStep - 1;
  std::vector<const Profile *> found;
  for (size_t shape = program.shapeCount(); shape-- > 0;)
    for (int64_t number : {int64_t{0}, last}) {
      const Profile &profile = profiles.at(stepGraphIndex(program, number, shape));
      const bool isSaid = profile.hasRun() || program.shapes.empty();
      if (isSaid && (found.empty() || found.back() != &profile))
        found.push_back(&profile);
    }
  if (found.empty())
    found.push_back(&profiles.at(stepGraphIndex(program, last)));
  reportProfiles(found, path, format, device);
}

} // namespace stow
