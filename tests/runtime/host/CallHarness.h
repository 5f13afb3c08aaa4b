// Runs one library call in a small arena: queries the free layouts, places the operands, fills them
// from row-major doubles, binds, runs, and reads every operand back. Every call is also held to three
// promises: a second run, with other bytes in the workspace, gives the same results, nothing is
// written behind the workspace, and each of its primitives allocates less than 1 KiB or what the
// implementation states.
#pragma once

#include "runtime/host/Library.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stow::host::test {

/// A row-major tensor of the reference computations.
struct Tensor {
  Shape shape;
  std::vector<double> data;

  Tensor() = default;
  explicit Tensor(Shape shape) : shape(shape), data(elementCount(shape)) {}
  double &at(std::initializer_list<int64_t> index);
  double at(std::initializer_list<int64_t> index) const;
};

/// Values in [-1, 1], different for each seed, exactly representable in bf16 and f16.
Tensor sample(const Shape &shape, int seed);

/// An operand of a test call. `value` is set for inputs.
struct TestOperand {
  Shape shape;
  Layout layout;
  DType dtype = DType::F32;
  bool any = false;
  bool opaque = false;
  const Tensor *value = nullptr;
  const std::vector<char> *bytes = nullptr; ///< content of an opaque input
  std::optional<size_t> sharesPlaceOf = {}; ///< an earlier operand, overwritten in place
};

TestOperand in(const Tensor &value, Layout layout = {}, DType dtype = DType::F32);
TestOperand inAny(const Tensor &value, DType dtype = DType::F32);
TestOperand out(const Shape &shape, Layout layout = {}, DType dtype = DType::F32);
TestOperand outAny(const Shape &shape, DType dtype = DType::F32);
TestOperand outOver(size_t operand, const TestOperand &other);
TestOperand opaqueOut();
TestOperand opaqueIn(const std::vector<char> &bytes);

struct CallResult {
  std::vector<Tensor> tensors;          ///< every operand read back; empty for opaque ones
  std::vector<std::vector<char>> bytes; ///< of opaque operands
  std::vector<int64_t> padding;         ///< bytes other than zero in the padding of blocks
  LibraryRequirements requirements;
  Command command;            ///< as bound
  int64_t allocatedBytes = 0; ///< by running the call once more, by the whole process
};

CallResult runCall(CommandOp op, const std::vector<TestOperand> &operands,
                   std::map<std::string, std::vector<int64_t>> ints = {},
                   std::map<std::string, double> floats = {}, int64_t threads = 2);

/// A tensor with its elements in `layout`, as raw bytes, and back.
void storeTensor(const Tensor &tensor, const Operand &place, char *arena);
Tensor loadTensor(const Operand &place, const char *arena);

/// Largest difference, relative to the largest reference magnitude.
double relativeError(const Tensor &found, const Tensor &expected);

inline Layout channelsLast() { return {1, {0, 2, 3, 1}, {}}; }
inline Layout blocked16() { return {1, {0, 1, 2, 3}, {{1, 16}}}; }

} // namespace stow::host::test
