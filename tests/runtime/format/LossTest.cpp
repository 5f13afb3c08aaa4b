#include "runtime/format/Loss.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

std::string errorOf(const std::string &text) {
  try {
    parseLoss(text);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(LossTest, ReadsSettings) {
  LossSpec loss = parseLoss("cross-entropy:reduction=sum,ignore-index=-1,class-axis=-1,label-"
                            "smoothing=0.1,weight=[1,2.5]");
  EXPECT_EQ(loss.kind, LossSpec::Kind::CrossEntropy);
  EXPECT_EQ(loss.reduction, LossSpec::Reduction::Sum);
  EXPECT_EQ(loss.ignoreIndex, -1);
  EXPECT_EQ(loss.classAxis, -1);
  EXPECT_EQ(loss.labelSmoothing, 0.1);
  EXPECT_EQ(loss.weight, (std::vector<double>{1, 2.5}));
  EXPECT_TRUE(loss.readsClasses());
  EXPECT_FALSE(parseLoss("cross-entropy:probabilities").readsClasses());
  EXPECT_EQ(parseLoss("huber:delta=0.5").beta, 0.5);
  EXPECT_EQ(parseLoss("output:loss,reduction=mean").output, "loss");
}

// Tests that what is printed reads back to the same text.
TEST(LossTest, PrintsWhatItReads) {
  for (const char *text :
       {"cross-entropy", "cross-entropy:ignore-index=3,label-smoothing=0.1,weight=[1,0.25]",
        "cross-entropy:reduction=mean,class-axis=-1,probabilities", "nll:reduction=sum",
        "bce-with-logits:weight=[0.5],pos-weight=[2,3]", "kl-div:reduction=batchmean,log-target",
        "mse", "l1", "smooth-l1:beta=0.3", "huber:delta=2", "output:loss",
        "output:all losses,reduction=sum"})
    EXPECT_EQ(print(parseLoss(text)), text);
}

TEST(LossTest, ShortensLongLists) {
  LossSpec loss;
  loss.weight.assign(21, 0.5);
  EXPECT_EQ(describe(loss), "cross-entropy:weight=[21 numbers]");
}

TEST(LossTest, ListsMayBeFiles) {
  auto read = [](const std::string &path) {
    EXPECT_EQ(path, "w.npy");
    return std::vector<double>{3, 4};
  };
  EXPECT_EQ(parseLoss("nll:weight=w.npy", read).weight, (std::vector<double>{3, 4}));
  EXPECT_THAT(errorOf("nll:weight=w.npy"), testing::HasSubstr("expected numbers of at least 0"));
}

TEST(LossTest, NamesWhatIsWrong) {
  EXPECT_EQ(errorOf("hinge"),
            "unknown loss \"hinge\"; known are cross-entropy, nll, bce-with-logits, "
            "kl-div, mse, l1, smooth-l1, huber, output:NAME");
  EXPECT_EQ(errorOf("mse:beta=1"), "loss mse has no setting \"beta\"; known are reduction");
  EXPECT_EQ(errorOf("mse:reduction=none"),
            "loss mse: reduction: expected mean or sum: training needs "
            "one number, found 'none'");
  EXPECT_EQ(errorOf("mse:reduction=batchmean"),
            "loss mse: reduction: expected mean or sum, found 'batchmean'");
  EXPECT_EQ(errorOf("cross-entropy:label-smoothing=1.5"),
            "loss cross-entropy: label-smoothing: expected a number from 0 to 1, found '1.5'");
  EXPECT_EQ(errorOf("cross-entropy:ignore-index=x"),
            "loss cross-entropy: ignore-index: expected a whole number, found 'x'");
  EXPECT_EQ(errorOf("cross-entropy:weight=[1,-2]"),
            "loss cross-entropy: weight: expected numbers of at least 0 as [1,0.5,...], found "
            "'[1,-2]'");
  EXPECT_EQ(errorOf("huber:delta=0"), "loss huber: delta: expected a number above 0, found '0'");
  EXPECT_EQ(errorOf("kl-div:log-target=maybe"),
            "loss kl-div: log-target: expected true or false, found 'maybe'");
  EXPECT_EQ(errorOf("output"),
            "loss output: expected the name of the model's output, as output:NAME");
}

} // namespace
} // namespace stow
