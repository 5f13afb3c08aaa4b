// Tests the reports of planning that need no model: profiles, the frontier's text and CSV.
#include "compiler/DataSheet.h"
#include "compiler/FrontierReport.h"
#include "runtime/base/Error.h"

#include <fstream>
#include <gmock/gmock.h>

using namespace stow;
using testing::HasSubstr;

namespace {

TEST(DataSheet, EveryShippedSheetLoads) {
  EXPECT_THAT(deviceNames(),
              testing::ElementsAre("a100", "b200", "cpu", "cpu-avx2", "h100", "h200", "rtx4090"));
  for (const std::string &name : deviceNames())
    EXPECT_EQ(loadDevice(name, 1).device, name);
}

TEST(DataSheet, OnlyTheCpuGrowsWithThreads) {
  EXPECT_EQ(loadDevice("cpu", 4).bytesPerSecond, 4 * loadDevice("cpu", 1).bytesPerSecond);
  EXPECT_EQ(loadDevice("h200", 4).bytesPerSecond, loadDevice("h200", 1).bytesPerSecond);
}

TEST(DataSheet, FaultsNameTheKey) {
  const std::string path = testing::TempDir() + "profile.json";
  auto messageOf = [&](const std::string &text) -> std::string {
    std::ofstream(path) << text;
    try {
      loadDevice(path, 1);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(messageOf("{"), HasSubstr("data sheet"));
  EXPECT_THAT(messageOf(R"({"device": "x", "flops_per_second": {"f64": 1}, "bytes_per_second": 1,
                            "launch_seconds": 1})"),
              HasSubstr("has no f32"));
  EXPECT_THAT(messageOf(R"({"device": "x", "flops_per_second": {"f32": 1}, "bytes_per_second": 0,
                            "launch_seconds": 1})"),
              HasSubstr("bytes_per_second must be above zero"));
  EXPECT_EQ(messageOf(R"({"device": "x", "flops_per_second": {"f32": 1}, "bytes_per_second": 1,
                          "launch_seconds": 1})"),
            "");
}

TEST(DataSheet, Tf32IsARateOfItsOwn) {
  EXPECT_EQ(loadDevice("h100", 1).f32ProductsPerSecond, 0);
  EXPECT_EQ(loadDevice("h100", 1, true).f32ProductsPerSecond, 494.7e12);
  EXPECT_EQ(loadDevice("cpu", 2, true).f32ProductsPerSecond, 0) << "has none";
}

TEST(Frontier, RendersEveryFormat) {
  Frontier frontier;
  frontier.device = "cpu";
  frontier.lowerBound = 300;
  frontier.points = {{1000, 1000, 990, 100, 100, "keep all"},
                     {500, 480, 470, 150, 120, "schedule"}};
  EXPECT_EQ(renderFrontier(frontier, "csv"),
            "budget_bytes,arena_bytes,live_peak_bytes,time_ns,bound_ns,extra_time_percent,method\n"
            "1000,1000,990,100,100,0.0000,keep all\n"
            "500,480,470,150,120,50.0000,schedule\n");
  EXPECT_THAT(renderFrontier(frontier, "text"), HasSubstr("no plan takes less than 300 B"));
  EXPECT_THAT(frontierFormats(), testing::ElementsAre("text", "csv", "json", "html"));
}

} // namespace
