// Tests the text of optimizers and of groups of parameters.
#include "runtime/format/Optimizer.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using Kind = OptimizerSpec::Kind;

template <typename Parse> std::string errorOf(Parse parse) {
  try {
    parse();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

// Tests that settings end in their fields, that the others have their defaults, and that the text
// stays as given.
TEST(Optimizer, ReadsSettings) {
  OptimizerSpec sgd = parseOptimizer("sgd:lr=0.5,momentum=0.9,nesterov");
  EXPECT_EQ(sgd.kind, Kind::Sgd);
  EXPECT_EQ(sgd.learningRate, 0.5);
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(sgd.text, "sgd:lr=0.5,momentum=0.9,nesterov");
  OptimizerSpec adamw = parseOptimizer("adamw:amsgrad=false");
  EXPECT_EQ(adamw.kind, Kind::AdamW);
  EXPECT_EQ(adamw.learningRate, 0.001);
  EXPECT_EQ(adamw.beta1, 0.9);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_EQ(adamw.epsilon, 1e-8);
  EXPECT_EQ(adamw.weightDecay, 0.01);
  EXPECT_FALSE(adamw.amsgrad);
  OptimizerSpec adafactor = parseOptimizer("adafactor:beta2-decay=-0.5");
  EXPECT_EQ(adafactor.beta2Decay, -0.5);
  EXPECT_EQ(adafactor.threshold, 1);
  EXPECT_EQ(adafactor.epsilon1, std::nullopt); // that of the parameter's type
  EXPECT_EQ(parseOptimizer("adafactor:epsilon1=1e-6").epsilon1, 1e-6);
  EXPECT_EQ(parseOptimizer("adagrad:initial-accumulator=0.25").initialSum, 0.25);
}

// Tests that each optimizer is called what its text calls it.
TEST(Optimizer, NamesEveryKind) {
  for (const char *name : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "adafactor"})
    EXPECT_EQ(nameOf(parseOptimizer(name).kind), name);
}

// Tests that an error names the setting, what was expected and what is known.
TEST(Optimizer, RefusesOthers) {
  auto of = [](const char *text) { return errorOf([&] { parseOptimizer(text); }); };
  EXPECT_EQ(of("shampoo"), "unknown optimizer \"shampoo\"; known are sgd, adam, adamw, rmsprop, "
                           "adagrad, lion, adafactor");
  EXPECT_EQ(of("sgd:beta1=0.9"), "optimizer sgd has no setting \"beta1\"; known are lr, momentum, "
                                 "nesterov, weight-decay");
  EXPECT_EQ(of("sgd:lr=-1"), "--optimizer lr: expected a number of at least 0, found '-1'");
  EXPECT_EQ(of("adam:beta1=x"), "--optimizer beta1: expected a number, found 'x'");
  EXPECT_EQ(of("adam:beta1=inf"), "--optimizer beta1: expected a finite number, found 'inf'");
  EXPECT_EQ(of("adam:beta1=1"), "optimizer adam: beta1: expected a number in [0, 1), found 1");
  EXPECT_EQ(of("adafactor:beta2-decay=1"),
            "optimizer adafactor: beta2-decay: expected a number of at most 0, found 1");
  EXPECT_EQ(of("adafactor:threshold=0.5"),
            "optimizer adafactor: threshold: expected a number of at least 1, found 0.5");
  EXPECT_EQ(of("rmsprop:centered=maybe"),
            "optimizer rmsprop: centered: expected true or false, found maybe");
  EXPECT_EQ(of("sgd:nesterov"), "optimizer sgd: nesterov needs a momentum above 0");
}

// Tests that groups read and print; names may hold colons.
TEST(Optimizer, ReadsGroups) {
  ParameterGroup group = parseGroup("a:b.*:lr-scale=0.1,weight-decay=0");
  EXPECT_EQ(group.pattern, "a:b.*");
  EXPECT_EQ(group.rateScale, 0.1);
  EXPECT_EQ(group.weightDecay, 0.0);
  EXPECT_EQ(print(group), "a:b.*:lr-scale=0.1,weight-decay=0");
  EXPECT_EQ(print(parseGroup("head:lr-scale=10")), "head:lr-scale=10");
  EXPECT_THAT(errorOf([] { parseGroup("head"); }), testing::HasSubstr("either or both"));
  EXPECT_THAT(errorOf([] { parseGroup("head:momentum=1"); }),
              testing::HasSubstr("known are weight-decay, lr-scale"));
}

} // namespace
} // namespace stow
