// What the arena of a GPU is sent, by the call log of the stand-in for libcuda.
#include "runtime/cuda/CudaDevice.h"
#include "tests/gpu/driver/StandIn.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::cuda {
namespace {

using testing::ElementsAre;

constexpr Bytes kPiece = 4096, kOffset = 64;

class CudaTransfersTest : public testing::Test {
protected:
  struct Sent {
    uint64_t host = 0;
    Bytes bytes = 0;
    bool operator==(const Sent &) const = default;
  };

  void SetUp() override {
    setenv("STANDIN_LOG", log.c_str(), 1);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    reinterpret_cast<decltype(&standinReset)>(dlsym(library, "standinReset"))();
    reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"))(
        0); // which the runtime has done once
    DeviceOptions options;
    options.arenaBytes = options.stagingBytes = 1 << 20;
    device.emplace(options);
  }
  void TearDown() override {
    device.reset();
    unsetenv("STANDIN_LOG");
    std::filesystem::remove(log);
  }

  /// Copies to the device so far.
  std::vector<Sent> sent() const {
    std::vector<Sent> all;
    std::ifstream file(log);
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("cuMemcpyHtoDAsync"))
        continue;
      auto number = [&](const std::string &key) {
        return std::stoull(line.substr(line.find(key) + key.size()));
      };
      all.push_back({number(" host="), static_cast<Bytes>(number(" bytes="))});
    }
    return all;
  }

  /// Begins an upload of three pieces and writes its first `bytes`.
  char *begin(char value, Bytes bytes) {
    char *staged = device->beginUpload(kOffset, 3 * kPiece);
    std::memset(staged, value, static_cast<size_t>(bytes));
    return staged;
  }

  std::string download() {
    return {device->download(kOffset, 3 * kPiece), static_cast<size_t>(3 * kPiece)};
  }

  const std::string log =
      std::filesystem::temp_directory_path() / ("transfers_" + std::to_string(getpid()));
  std::optional<CudaDevice> device;
};

TEST_F(CudaTransfersTest, AnUploadGoesInPieces) {
  char *staged = begin('a', kPiece);
  device->sendUpload(kPiece);
  EXPECT_EQ(sent().size(), 1u); // before the rest is there
  device->sendUpload(kPiece);
  std::memset(staged + kPiece, 'b', 2 * kPiece);
  device->sendUpload(2 * kPiece);
  device->endUpload();
  const auto host = reinterpret_cast<uint64_t>(staged);
  EXPECT_THAT(sent(), ElementsAre(Sent{host, kPiece}, Sent{host + kPiece, kPiece},
                                  Sent{host + 2 * kPiece, kPiece}));
  EXPECT_EQ(download(), std::string(kPiece, 'a') + std::string(2 * kPiece, 'b'));
  EXPECT_THROW(device->sendUpload(0), Error); // of an upload that has ended
  begin('c', 3 * kPiece);
  device->endUpload();
  EXPECT_EQ(sent().back().bytes, 3 * kPiece);
}

// Tests that what is on its way of an upload that is given up is read from memory that nobody writes to meanwhile.
TEST_F(CudaTransfersTest, GivenUpOnTheWay) {
  const char *first = begin('a', kPiece);
  device->sendUpload(kPiece);
  device->cancelUpload();
  const char *second = begin('b', 3 * kPiece);
  EXPECT_GE(second, first + kPiece);
  device->endUpload();
  EXPECT_EQ(download(), std::string(3 * kPiece, 'b'));
}

} // namespace
} // namespace stow::cuda
