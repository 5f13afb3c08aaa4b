#include "tests/runtime/host/CallHarness.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/Float16.h"
#include "tests/runtime/base/CountAllocations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <stdexcept>

namespace stow::host::test {

namespace {

size_t position(const Shape &shape, std::initializer_list<int64_t> index) {
  size_t result = 0, i = 0;
  for (int64_t x : index) {
    if (x < 0 || x >= shape.at(i))
      throw std::out_of_range("reference index");
    result = result * shape[i++] + x;
  }
  return result;
}

} // namespace

double &Tensor::at(std::initializer_list<int64_t> index) { return data[position(shape, index)]; }
double Tensor::at(std::initializer_list<int64_t> index) const {
  return data[position(shape, index)];
}

Tensor sample(const Shape &shape, int seed) {
  Tensor tensor(shape);
  uint64_t state = 88172645463325252ull + static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15ull;
  for (double &value : tensor.data) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    value = static_cast<double>(state % 257) / 128.0 - 1.0;
  }
  return tensor;
}

TestOperand in(const Tensor &value, Layout layout, DType dtype) {
  return {value.shape, layout, dtype, false, false, &value, nullptr, {}};
}
TestOperand inAny(const Tensor &value, DType dtype) {
  return {value.shape, {}, dtype, true, false, &value, nullptr, {}};
}
TestOperand out(const Shape &shape, Layout layout, DType dtype) {
  return {shape, layout, dtype, false, false, nullptr, nullptr, {}};
}
TestOperand outAny(const Shape &shape, DType dtype) {
  return {shape, {}, dtype, true, false, nullptr, nullptr, {}};
}
TestOperand outOver(size_t operand, const TestOperand &other) {
  TestOperand result = out(other.shape, other.layout, other.dtype);
  result.sharesPlaceOf = operand;
  return result;
}
TestOperand opaqueOut() { return {{1}, {}, DType::U8, false, true, nullptr, nullptr, {}}; }
TestOperand opaqueIn(const std::vector<char> &bytes) {
  return {{static_cast<int64_t>(bytes.size())}, {}, DType::U8, false, true, nullptr, &bytes, {}};
}

void storeTensor(const Tensor &tensor, const Operand &place, char *arena) {
  char *base = arena + place.offset;
  std::memset(base, 0, storedBytes(place.layout, place.shape, place.dtype));
  LayoutIndex index(place.layout, place.shape);
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    float value = static_cast<float>(tensor.data[i]);
    if (place.dtype == DType::F32) {
      std::memcpy(base + index(i) * 4, &value, 4);
      continue;
    }
    if (place.dtype == DType::I1) {
      base[index(i)] = value != 0;
      continue;
    }
    if (place.dtype == DType::I32) {
      const auto integer = static_cast<int32_t>(tensor.data[i]);
      std::memcpy(base + index(i) * 4, &integer, 4);
      continue;
    }
    if (place.dtype == DType::I64) {
      const auto integer = static_cast<int64_t>(tensor.data[i]);
      std::memcpy(base + index(i) * 8, &integer, 8);
      continue;
    }
    if (!is16Bit(place.dtype))
      throw std::invalid_argument("test tensors are f32, bf16, f16, i32, i64 or i1");
    uint16_t bits = place.dtype == DType::BF16 ? narrowBf16(value) : narrowF16(value);
    std::memcpy(base + index(i) * 2, &bits, 2);
  }
}

Tensor loadTensor(const Operand &place, const char *arena) {
  Tensor tensor(place.shape);
  const char *base = arena + place.offset;
  LayoutIndex index(place.layout, place.shape);
  for (size_t i = 0; i < tensor.data.size(); ++i) { // integers and masks are inputs alone
    if (place.dtype == DType::F32) {
      float value;
      std::memcpy(&value, base + index(i) * 4, 4);
      tensor.data[i] = value;
    } else if (is16Bit(place.dtype)) {
      uint16_t bits;
      std::memcpy(&bits, base + index(i) * 2, 2);
      tensor.data[i] = place.dtype == DType::BF16 ? widenBf16(bits) : widenF16(bits);
    }
  }
  return tensor;
}

/// Bytes of a tensor's padding that are not zero.
int64_t countPadding(const Operand &place, const char *arena) {
  std::vector<char> stored(arena + place.offset,
                           arena + place.offset +
                               storedBytes(place.layout, place.shape, place.dtype));
  LayoutIndex index(place.layout, place.shape);
  const Bytes size = sizeOf(place.dtype);
  for (int64_t i = 0; i < elementCount(place.shape); ++i)
    std::fill_n(stored.begin() + index(i) * size, size, char{0});
  return static_cast<int64_t>(stored.size()) - std::ranges::count(stored, char{0});
}

CallResult runCall(CommandOp op, const std::vector<TestOperand> &operands,
                   std::map<std::string, std::vector<int64_t>> ints,
                   std::map<std::string, double> floats, int64_t threads) {
  const ThreadScope scope(threads); // a program's calls run on its threads
  CallResult result;
  Command &command = result.command;
  command.op = op;
  command.name = "node";
  command.ints = std::move(ints);
  command.floats = std::move(floats);
  std::vector<bool> any;
  for (const TestOperand &operand : operands) {
    command.operands.push_back({0, operand.dtype, operand.shape, operand.layout});
    any.push_back(operand.any);
  }
  result.requirements = queryLibrary(command, any, threads);
  Bytes top = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    Operand &place = command.operands[i];
    if (operands[i].opaque) {
      if (!operands[i].bytes)
        place.shape = {result.requirements.opaqueBytes[i]};
    } else {
      place.layout = result.requirements.layouts[i];
    }
    if (operands[i].sharesPlaceOf) {
      place.offset = command.operands[*operands[i].sharesPlaceOf].offset;
      continue;
    }
    place.offset = top;
    top = alignUp(top + storedBytes(place.layout, place.shape, place.dtype), 64);
  }
  command.workspaceOffset = top;
  command.workspaceBytes = result.requirements.workspaceBytes;
  top += command.workspaceBytes;
  constexpr Bytes guard = 256; // after the workspace, which is exactly what was asked for
  std::vector<char> storage(top + guard + 64, static_cast<char>(0xff));
  char *arena = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  std::unique_ptr<LibraryCall> call = bindLibraryCall(command, arena, threads);
  auto runOnce = [&](unsigned char poison) {
    std::memset(arena + command.workspaceOffset, poison, command.workspaceBytes);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].value)
        storeTensor(*operands[i].value, command.operands[i], arena);
      if (operands[i].bytes)
        std::ranges::copy(*operands[i].bytes, arena + command.operands[i].offset);
    }
    int64_t before = stow::test::allocationsSoFar().bytes;
    call->run();
    return stow::test::allocationsSoFar().bytes - before;
  };
  runOnce(0xff); // NaN in every type
  std::vector<char> first(arena, arena + command.workspaceOffset);
  result.allocatedBytes = runOnce(0x4b); // 13 million in f32
  const std::string title = concat(nameOf(op), " (", result.requirements.implementation, ")");
  EXPECT_LT(result.allocatedBytes,
            result.requirements.pieces * (1024 + result.requirements.heapBytes))
      << title;
  EXPECT_TRUE(std::ranges::equal(first, std::span(arena, first.size())))
      << title << " gives other bytes when run again";
  EXPECT_TRUE(std::all_of(arena + top, arena + top + guard, [](char c) { return c == '\xff'; }))
      << title << " writes behind its workspace";
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand &place = command.operands[i];
    char *begin = arena + place.offset;
    result.tensors.push_back(operands[i].opaque ? Tensor() : loadTensor(place, arena));
    result.bytes.emplace_back();
    result.padding.push_back(operands[i].opaque ? 0 : countPadding(place, arena));
    if (operands[i].opaque)
      result.bytes.back().assign(begin, begin + place.shape[0]);
  }
  return result;
}

double relativeError(const Tensor &found, const Tensor &expected) {
  if (found.data.size() != expected.data.size())
    return INFINITY;
  double difference = 0, magnitude = 1e-30;
  for (size_t i = 0; i < found.data.size(); ++i) {
    if (std::isnan(expected.data[i]) && std::isnan(found.data[i]))
      continue;
    double error = std::abs(found.data[i] - expected.data[i]);
    if (std::isnan(error))
      return INFINITY;
    difference = std::max(difference, error);
    magnitude = std::max(magnitude, std::abs(expected.data[i]));
  }
  return difference / magnitude;
}

} // namespace stow::host::test
