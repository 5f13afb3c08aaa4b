// Plans for people and for other packers: text reports, the arena map, MiniMalloc's CSV.
#pragma once

#include "runtime/format/Plan.h"

namespace stow {

struct ReportOptions {
  int64_t liveRows = 20;   ///< buffers listed at the peak; the rest is summed in one line
  bool map = true;         ///< draw the arena map
  int64_t mapColumns = 96; ///< at most this many columns of program order
  int64_t mapRows = 24;    ///< address ranges of the map
};

/// The report: the arena map, the live set at the peak, and last the sum that closes:
/// parameters + statistics + optimizer + gradients + activations + workspace + I/O + padding =
/// arena, beside the lower bound and the status. Ends in a newline.
std::string renderText(const Plan &plan, const ReportOptions &options);

/// The arena map of one graph: time to the right, addresses upwards, a letter per buffer kind.
/// Each cell shows the kind (or free space) that fills most of it. The persistent region is drawn
/// at the bottom with a scale of its own, so that a large model still shows its activations.
std::string renderMap(const Plan &plan, const GraphPlan &graph, const ReportOptions &options);

/// `id,lower,upper,size,offset` as MiniMalloc reads and writes it, one line per buffer. Graphs
/// follow each other on one time axis; persistent buffers appear once and span all of it, so the
/// file is a packing instance whose solution is the whole arena.
std::string toCsv(const Plan &plan);

/// How many library calls run the library's slow reference code, and of which kinds; empty where
/// none does.
std::string describeReferences(const Plan &plan);

/// What travels to slow memory and back, what of it is waited for, and all extra time of the step beside its bound; empty where
/// nothing travels.
std::string describeCopies(const Plan &plan);

/// What the devices of a step exchange in it; empty for a plan of one device.
std::string describeReductions(const Plan &plan);

/// Whether something travels to slow memory.
bool travels(const Plan &plan);

/// How long a step waits for copies, of its extra time; 0 where nothing travels.
double waitSecondsOf(const Plan &plan);

/// The part of extraTimeFraction that is computed again: all of it where no copy is waited for.
double recomputedFractionOf(const Plan &plan);

/// "1,234,567".
std::string groupDigits(int64_t value);

} // namespace stow
