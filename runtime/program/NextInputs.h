// What the next run of a graph reads, on its way while this one is under way.
#pragma once

#include "runtime/format/Program.h"

namespace stow {

/// Holds a graph's places for next inputs (GraphInput::nextOffset) to what the program uses: they are free from
/// command GraphProgram::nextFrom on, whatever the device does when. Throws Error(BadInput) naming the input
/// and what is wrong: the command is none of the graph's, a place leaves the arena, or it shares bytes with state, with
/// an input of any graph, an output, what that command or a later one works on, has as scratch or ends, or
/// another such place.
void checkNextInputs(const Program &program, const GraphProgram &graph);

} // namespace stow
