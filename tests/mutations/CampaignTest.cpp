// That a campaign finds what it is there for, and makes it small.
#include "tests/mutations/Campaign.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

namespace stow::test {
namespace {

using testing::HasSubstr;

Format format(std::function<void(const std::string &)> use, bool isEverAccepted = true) {
  return {"planted",
          "txt",
          Content::Text,
          {{"ten lines", "a 1\nb 2\nc 3\nd 4\ne 5\nf 6\ng 7\nh 8\ni 9\nj 10\n"}},
          [use](const std::string &bytes, const std::string &) { use(bytes); },
          0,
          0,
          isEverAccepted};
}

CampaignOptions files(int64_t count) {
  CampaignOptions options;
  options.count = count;
  options.keep = testing::TempDir() + "kept";
  options.mostFailures = 1;
  return options;
}

TEST(CampaignTest, CountsWhatIsAcceptedAndRefused) {
  const CampaignResult result = runCampaign(format([](const std::string &bytes) {
                                              if (bytes.size() % 2)
                                                throw Error::badInput("odd");
                                            }),
                                            files(200));
  EXPECT_TRUE(result.failures.empty());
  EXPECT_GT(result.accepted, 20);
  EXPECT_GT(result.refused, 20);
  EXPECT_EQ(result.accepted + result.refused, 200);
}

// Tests that what crashes is found in another process, with its seed, and reduced to one edit of one byte.
TEST(CampaignTest, ReducesACrash) {
  const CampaignResult result = runCampaign(format([](const std::string &bytes) {
                                              if (bytes.find('#') != std::string::npos) {
                                                std::fputs("planted words", stderr);
                                                std::raise(SIGSEGV);
                                              }
                                            }),
                                            files(3000));
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_THAT(result.failures[0],
              testing::ContainsRegex("FAILED: planted, seed [0-9]+ \\(ten lines\\): signal 11"));
  EXPECT_THAT(result.failures[0], HasSubstr("  1 of "));
  EXPECT_THAT(result.failures[0], testing::ContainsRegex(": 0 bytes \"\" become 1 bytes \"#\""));
  EXPECT_THAT(result.failures[0], HasSubstr("planted words"));
}

TEST(CampaignTest, FindsInternalErrorsAndUnnoticedDamage) {
  const CampaignResult thrown = runCampaign(format([](const std::string &bytes) {
                                              if (bytes.size() > 60)
                                                throw Error::internal("planted");
                                            }),
                                            files(1000));
  ASSERT_EQ(thrown.failures.size(), 1u);
  EXPECT_THAT(thrown.failures[0], HasSubstr("planted"));
  const CampaignResult unnoticed =
      runCampaign(format([](const std::string &) {}, false), files(10));
  ASSERT_EQ(unnoticed.failures.size(), 1u);
  EXPECT_THAT(unnoticed.failures[0], HasSubstr("the damage was not noticed"));
}

} // namespace
} // namespace stow::test
