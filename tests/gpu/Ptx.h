// Small PTX kernels for tests, and how they are run.
#pragma once

#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/LoadedModule.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::sim {

/// A module around a kernel `k` with four pointers as parameters, in %in0, %in1, %in2 and %out, and
/// registers of every type: %p %h (16 bits) %r (32) %d (64). %r0 is the thread's number in the grid,
/// %d0 four times that number.
inline std::string kernelOf(const std::string &body, const std::string &variables = "") {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + variables + R"(
.visible .entry k(.param .u64 k0, .param .u64 k1, .param .u64 k2, .param .u64 k3)
{
  .reg .pred %p<10>;
  .reg .b16 %h<20>;
  .reg .b32 %r<40>;
  .reg .b64 %d<40>, %in0, %in1, %in2, %out;
  ld.param.u64 %in0, [k0];
  ld.param.u64 %in1, [k1];
  ld.param.u64 %in2, [k2];
  ld.param.u64 %out, [k3];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mad.lo.s32 %r0, %r1, %r2, %r0;
  mul.wide.u32 %d0, %r0, 4;
)" + body +
         "\n}\n";
}

/// Device memory with arrays, and launches of kernels in it.
class Device {
public:
  template <class T> uint64_t upload(const std::vector<T> &data) {
    uint64_t address = memory.allocate(data.size() * sizeof(T));
    memcpy(memory.host(address, data.size() * sizeof(T)), data.data(), data.size() * sizeof(T));
    return address;
  }
  template <class T> std::vector<T> download(uint64_t address, size_t count) const {
    std::vector<T> data(count);
    memcpy(data.data(), memory.host(address, count * sizeof(T)), count * sizeof(T));
    return data;
  }

  /// Launches kernel `k` of `ptx`.
  LaunchCounts run(const std::string &ptx, const std::vector<uint64_t> &params,
                   Extents block = {32, 1, 1}, Extents grid = {1, 1, 1}) {
    LoadedModule module(ptx, memory);
    Launch launch = like;
    launch.kernel = module.kernel("k");
    launch.grid = grid, launch.block = block;
    launch.params.resize(launch.kernel->paramBytes);
    memcpy(launch.params.data(), params.data(),
           std::min(launch.params.size(), params.size() * sizeof(uint64_t)));
    return execute(launch, memory);
  }

  /// The message of the fault of kind `kind` that the launch must end in.
  std::string fault(Fault::Kind kind, const std::string &ptx, const std::vector<uint64_t> &params,
                    Extents block = {32, 1, 1}, Extents grid = {1, 1, 1}) {
    try {
      run(ptx, params, block, grid);
    } catch (const Fault &fault) {
      EXPECT_EQ(static_cast<int>(fault.kind), static_cast<int>(kind)) << fault.what();
      return fault.what();
    }
    ADD_FAILURE() << "the launch did not fail";
    return "";
  }

  DeviceMemory memory{uint64_t{64} << 20};
  Launch like; ///< checks and such
};

} // namespace stow::sim
