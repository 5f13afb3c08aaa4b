// Which instructions this process computes with: the library's code and the loops of this room.
//
//   the processor and ONEDNN_MAX_CPU_ISA   availableInstructions()   what there is
//   a program, or --target-cpu             useInstructions()         what it is planned for, no more
//   every loop and every primitive         instructions()            what is in use
//
// The library takes its limit once, before it makes its first primitive, so a process computes with one
// instruction set from then on: that of the program that came first.
#pragma once

#include "runtime/base/InstructionSet.h"

namespace stow::host {

/// The most that the processor and the system have, and no more than the environment allows.
InstructionSet availableInstructions();

/// "this processor has avx2 (x86-64-v3)", or what keeps it from more.
std::string describeAvailable();

/// Keeps the library and the loops of this room to `set` from here on. Throws Error(BadInput), in which `user`
/// needs it, where the processor has less, and where the library computes with another set already and takes
/// no limit any more.
void useInstructions(InstructionSet set, const std::string &user);

/// The same for a program's target, "host:avx2"; "host" asks for nothing.
void useInstructionsOf(std::string_view target);

/// What this process computes with: what useInstructions() said, or all there is from now on.
InstructionSet instructions();

} // namespace stow::host
