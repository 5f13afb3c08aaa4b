// Tests the reports of planning that need no model: profiles, the frontier's text and picture.
#include "compiler/DeviceProfile.h"
#include "compiler/FrontierReport.h"
#include "runtime/base/Error.h"

#include <fstream>
#include <gmock/gmock.h>
#include <regex>

using namespace stow;
using testing::HasSubstr;

namespace {

TEST(DeviceProfile, EveryShippedProfileLoads) {
  EXPECT_THAT(deviceNames(),
              testing::ElementsAre("a100", "b200", "cpu", "cpu-avx2", "h100", "h200", "rtx4090"));
  for (const std::string &name : deviceNames())
    EXPECT_EQ(loadDevice(name, 1).device, name);
}

TEST(DeviceProfile, OnlyTheCpuGrowsWithThreads) {
  EXPECT_EQ(loadDevice("cpu", 4).bytesPerSecond, 4 * loadDevice("cpu", 1).bytesPerSecond);
  EXPECT_EQ(loadDevice("h200", 4).bytesPerSecond, loadDevice("h200", 1).bytesPerSecond);
}

TEST(DeviceProfile, FaultsNameTheKey) {
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
  EXPECT_THAT(messageOf("{"), HasSubstr("device profile"));
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

// Tests that the labels of the axes leave room for each other at any size and any time.
TEST(Frontier, LabelsDoNotOverlap) {
  const std::regex label("class=\"small\" x=\"([0-9.]+)\" y=\"400.0\"[^>]*>([^<]*)<");
  for (Bytes full : {Bytes{1000}, Bytes{123456}, Bytes{7093444}, Bytes{2373193156}, Bytes{1} << 42})
    for (Bytes bound : {Bytes{0}, full / 3, full - 1, full}) {
      Frontier frontier;
      frontier.lowerBound = bound;
      frontier.points = {{full, full, full, 100, 100, "keep all"}};
      const std::string picture = drawFrontier(frontier);
      double end = 0;
      int count = 0;
      for (std::sregex_iterator found(picture.begin(), picture.end(), label), none; found != none;
           ++found, ++count) {
        double half =
            4.0 * static_cast<double>((*found)[2].length()); // 8 units for a digit of 12 px
        EXPECT_GT(std::stod((*found)[1]) - half, end) << picture;
        end = std::stod((*found)[1]) + half;
      }
      EXPECT_GE(count, 2) << picture;
    }
}

// Tests that the bound, which counts no copies, and a plan that saves some stay on the picture.
TEST(Frontier, NothingIsDrawnBelowTheAxis) {
  Frontier frontier;
  frontier.lowerBound = 300;
  frontier.points = {{1000, 1000, 990, 100, 80, "keep all"},
                     {900, 900, 890, 97, 90, "schedule"},
                     {500, 480, 470, 150, 120, "schedule"}};
  const std::string picture = drawFrontier(frontier);
  const std::regex bound("id=\"bound\"[^>]*d=\"([^\"]*)\""), height("(?:M[0-9.]+ |V)([0-9.]+)"),
      dot("cy=\"([0-9.]+)\""), axis("class=\"axis\" x1=\"80.0\" y1=\"([0-9.]+)\"");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(picture, found, axis)) << picture;
  const double lowest = std::stod(found[1]);
  ASSERT_TRUE(std::regex_search(picture, found, bound)) << picture;
  const std::string path = found[1];
  std::vector<double> heights;
  for (const auto &[text, form] : {std::pair(&path, &height), std::pair(&picture, &dot)})
    for (std::sregex_iterator it(text->begin(), text->end(), *form), none; it != none; ++it)
      heights.push_back(std::stod((*it)[1]));
  EXPECT_EQ(heights.size(), 3u + 3u) << picture;
  EXPECT_THAT(heights, testing::Each(testing::Le(lowest))) << picture;
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
  frontier.model = "a<b.onnx";
  const std::string picture = renderFrontier(frontier, "svg");
  EXPECT_THAT(picture, HasSubstr("480 B (480 bytes), 50.000 % more time, at least 20.000 %"));
  EXPECT_THAT(picture, HasSubstr("<title>Time against memory: a&lt;b.onnx (costs: cpu)</title>"));
  EXPECT_THAT(picture, HasSubstr(">arena, bytes</text>"));
  EXPECT_THAT(picture, HasSubstr(">extra time, %</text>"));
  EXPECT_THAT(picture, HasSubstr("no plan below 300 B"));
  // From 1,000 bytes at 0 % up to 50 % at 1,000 and left to 480; the bound left to 500 and up
  // to 20.
  EXPECT_THAT(picture, HasSubstr("<path id=\"plans\" class=\"line plan\" d=\"M690.0 380.0 V84.0 "
                                 "H236.9\"/>"));
  EXPECT_THAT(picture, HasSubstr("d=\"M690.0 380.0 H254.3 V261.6\"/>"));
  EXPECT_THAT(frontierFormats(), testing::ElementsAre("text", "csv", "svg", "html"));
}

} // namespace
