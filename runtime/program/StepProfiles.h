// The profiles of the graphs that a training run may go through: the halves of a step over several batches, each in every shape.
#pragma once

#include "runtime/program/Profile.h"

#include <map>

namespace stow {

class StepProfiles {
public:
  /// Of a run of so many steps. `program` must outlive this.
  StepProfiles(const Program &program, int64_t threads, int64_t steps);

  /// Of the graph that runs on batch `number` of a step, counted from 0, in this shape.
  Profile &of(int64_t number, size_t shape);

  /// Prints and writes, as reportProfiles, those of the step's graphs; of several shapes, those that have run: the smallest first, each
  /// shape's graphs in the order of a step. The last, which alone a trace and a page show, is that of the largest.
  void report(const std::string &path, ProfileFormat format, const Device &device) const;

private:
  const Program &program;
  std::map<size_t, Profile> profiles; ///< by graph
};

} // namespace stow
