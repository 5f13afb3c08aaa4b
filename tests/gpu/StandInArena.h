// A context, a stream and an arena of the stand-in for libcuda, for tests of the runtime's library calls.
#pragma once

#include "tests/gpu/driver/Elements.h"

#include "runtime/cuda/Driver.h"
#include "runtime/format/Program.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

namespace stow::cuda {

/// Before the stand-in is opened, which reads it.
inline const int kTwoGpus = setenv("STANDIN_DEVICES", "2", 1);

class StandInArena : public testing::Test {
protected:
  static constexpr Bytes kArena = 1 << 20;

  void SetUp() override {
    driver.require(driver.primaryCtxRetain(&context, 0), "context");
    driver.require(driver.ctxSetCurrent(context), "context");
    driver.require(driver.streamCreate(&stream, kStreamNonBlocking), "stream");
    driver.require(driver.memAlloc(&arena, kArena), "arena");
  }

  void TearDown() override {
    driver.memFree(arena);
    driver.streamDestroy(stream);
    driver.primaryCtxRelease(0);
  }

  void upload(const Operand &to, const std::vector<double> &values) {
    std::vector<char> bytes(values.size() * static_cast<size_t>(sizeOf(to.dtype)));
    for (size_t i = 0; i < values.size(); ++i)
      sim::store(bytes.data(), to.dtype, static_cast<int64_t>(i), values[i]);
    driver.require(driver.memcpyHtoDAsync(arena + static_cast<Address>(to.offset), bytes.data(),
                                          bytes.size(), stream),
                   "upload");
  }

  std::vector<double> download(const Operand &from) {
    const auto count = static_cast<size_t>(elementCount(from.shape));
    std::vector<char> bytes(count * static_cast<size_t>(sizeOf(from.dtype)));
    driver.require(driver.memcpyDtoHAsync(bytes.data(), arena + static_cast<Address>(from.offset),
                                          bytes.size(), stream),
                   "download");
    driver.require(driver.streamSynchronize(stream), "waiting");
    std::vector<double> values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(sim::load(bytes.data(), from.dtype, static_cast<int64_t>(i)));
    return values;
  }

  /// Runs `use` with a stream of GPU 1, whose context is current meanwhile, and gone afterwards. The stand-in has one memory.
  void onSecondGpu(const std::function<void(Stream)> &use) {
    Context second = nullptr;
    Stream there = nullptr;
    driver.require(driver.primaryCtxRetain(&second, 1), "context");
    driver.require(driver.ctxSetCurrent(second), "context");
    driver.require(driver.streamCreate(&there, kStreamNonBlocking), "stream");
    use(there);
    driver.streamDestroy(there);
    driver.primaryCtxRelease(1);
    driver.require(driver.ctxSetCurrent(context), "context");
  }

  const Driver &driver = openDriver();
  Context context = nullptr;
  Stream stream = nullptr;
  Address arena = 0;
};

} // namespace stow::cuda
