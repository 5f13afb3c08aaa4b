// Kernels decoded for execution.
//
// A warp's registers lie in one array of bytes, its file: every register is a slot of 32 lanes of its
// width, every constant and special register a slot filled before the kernel begins. Operands of a
// decoded instruction are byte offsets of slots, so that handlers read registers, constants and
// special registers alike. A predicate is one word with a bit per lane.
//
//   file: | constants | %tid.x ... | %r0: lane 0..31 | %r1: lane 0..31 | ... | %p0 | %p1 |
#pragma once

#include "tests/gpu/execute/Type.h"
#include "tests/gpu/ptx/Module.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace stow::sim {

class Warp;
struct Op;

/// Executes an instruction for the lanes of `mask`.
using Handler = void (*)(Warp &, const Op &, uint32_t mask);

inline constexpr uint32_t kNoSlot = ~0u;
inline constexpr unsigned kWarpLanes = 32;

/// How the warp's loop treats an instruction.
enum class Control : uint8_t {
  None,       ///< runs and goes on
  Branch,     ///< active lanes go to `target`
  Indexed,    ///< active lanes go to slots[list + index]
  Exit,       ///< active lanes end
  Barrier,    ///< active threads wait for the block
  Collective, ///< runs when all lanes of the member mask in slot `d` have arrived
};

struct Op {
  Handler run = nullptr;
  uint32_t dst = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot, d = kNoSlot;
  uint32_t guard = kNoSlot; ///< slot of a predicate
  uint32_t list = 0;        ///< first of the further slots in Kernel::slots
  uint32_t target = 0;      ///< of branches
  int64_t immediate = 0;
  int32_t line = 0;
  Control control = Control::None;
  bool guardNegated = false;
  uint8_t count = 1;    ///< elements of a vector access, further slots
  uint8_t bytes = 0;    ///< of a memory access, of a register
  uint16_t options = 0; ///< meaning is the handler's
};

/// Special registers; the three of a vector in order.
enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  Lane,
  WarpId,
  WarpCount,
  SmId,
  SmCount,
  GridId,
  LaneMaskEq,
  LaneMaskLt,
  LaneMaskLe,
  LaneMaskGt,
  LaneMaskGe,
  DynamicShared,
  TotalShared
};

struct SpecialSlot {
  Special which;
  uint32_t slot = 0;
  uint8_t bytes = 4;
};

/// Where a parameter or a variable lies in its space.
struct Extent {
  uint64_t offset = 0, bytes = 0;
};

struct Kernel {
  std::string name;
  std::shared_ptr<const Module> module;
  std::vector<Op> ops;
  std::vector<uint32_t> slots; ///< lists of ops
  std::vector<uint8_t> file;   ///< a warp's file before it begins
  std::vector<SpecialSlot> specials;
  std::vector<Extent> params;
  uint64_t paramBytes = 0;
  std::vector<Extent> shared; ///< static shared memory: its variables, with gaps between them
  uint64_t sharedEnd = 0;     ///< dynamic shared memory begins here
  uint64_t sharedBytes = 0;   ///< that a GPU takes for the variables, without the gaps
  uint64_t localBytes = 0;    ///< of a thread
  int maxThreads = 1024;
  int required[3] = {}; ///< block extents that a launch must have; zeros: any
  int registers = 0;    ///< estimate of 32-bit registers of a thread, for occupancy
  bool inOrder = false; ///< atomics on global memory, or printing: one block after the other
};

/// Generic addresses of a module's variables and of its kernels' windows.
using AddressOf = std::function<uint64_t(const Variable &)>;

/// Decodes kernel `function` of `module`; device functions become part of it. Throws PtxError that
/// names line and text of an instruction that is not known.
Kernel decodeKernel(std::shared_ptr<const Module> module, const Function &function,
                    const AddressOf &addressOf);

} // namespace stow::sim
