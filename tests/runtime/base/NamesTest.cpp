#include "runtime/base/Names.h"

#include "runtime/base/Error.h"

#include <gtest/gtest.h>

namespace stow {
namespace {

const std::vector<std::string> optimizers = {"sgd", "adam", "adamw"};

TEST(NamesTest, NearestIsAMisspellingABeginningOrAPart) {
  EXPECT_EQ(nearest("weigths", {"data", "weights"}), "weights");
  EXPECT_EQ(nearest("q", {"data", "weights"}), "");
  EXPECT_EQ(nearest("bce", {"l1", "bce-with-logits"}), "bce-with-logits");
  const std::vector<std::string> flags = {"--target", "--memory-budget", "--budget-covers",
                                          "--optimizer"};
  EXPECT_EQ(nearest("--budget", flags), "--memory-budget");
  EXPECT_EQ(nearest("--memory_bugdet", flags), "--memory-budget");
  EXPECT_EQ(nearest("--opt", flags), "--optimizer");
  EXPECT_EQ(nearest("", flags), "");
}

TEST(NamesTest, CapitalsAndJointsDoNotCount) {
  EXPECT_EQ(findName("AdamW", optimizers), 2u);
  EXPECT_EQ(findName("Cross_Entropy", {"mse", "cross-entropy"}), 1u);
  EXPECT_EQ(findName("CrossEntropy", {"mse", "cross-entropy"}), 1u);
  EXPECT_EQ(findName("adamax", optimizers), std::nullopt);
  EXPECT_EQ(findName("", optimizers), std::nullopt);
}

std::string errorOf(const std::string &text, const std::string &flag) {
  try {
    oneOf(text, optimizers, "optimizer", flag);
  } catch (const Error &error) {
    return error.what();
  }
  return "no error";
}

TEST(NamesTest, WhatNoneMeansIsRefusedWithTheNearest) {
  EXPECT_EQ(errorOf("adamx", ""),
            "unknown optimizer \"adamx\"; known are sgd, adam, adamw; did you mean adam?");
  EXPECT_EQ(errorOf("lion", "--optimizer"),
            "unknown optimizer \"lion\" for --optimizer; known are sgd, adam, adamw");
  EXPECT_EQ(errorOf("SGD", ""), "no error");
}

} // namespace
} // namespace stow
