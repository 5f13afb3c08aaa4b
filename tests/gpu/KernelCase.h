// A launch of a generated kernel as a file: what it was given and what it is to give. Written where
// kernels are tested on the simulated device (DeviceRunner), read where they run on a GPU
// (KernelCheck), which needs no compiler.
//
//   a line of JSON   {"module": "0007.ptx", "kernel": ..., "begin": 0, "end": 12, "blocks": 6,
//                     "threads": 256, "shared": 0, "results": 2, "places": [{"bytes": 64, "type": "f32"}, ...],
//                     "arguments": [0, 1, 1]}           places by number; from `results` on written
//   bytes            of every place before, then of every place that is written, after
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stow {

struct KernelCase {
  struct Place {
    std::string type;                ///< of its elements: "f32", "bf16", "i64", "i1" ...
    std::vector<char> before, after; ///< after: empty where it is only read
  };
  std::string module; ///< a file of PTX beside the case
  std::string kernel;
  int64_t begin = 0, end = 0;
  unsigned blocks = 1, threads = 1;
  unsigned sharedBytes = 0; ///< that the launch gives a block
  std::vector<Place> places;
  std::vector<size_t> arguments; ///< numbers of places
  size_t results = 0;            ///< number of the first argument that is written
};

/// Throw std::runtime_error naming the file.
void writeCase(const KernelCase &kernelCase, const std::filesystem::path &file);
KernelCase readCase(const std::filesystem::path &file);

} // namespace stow
