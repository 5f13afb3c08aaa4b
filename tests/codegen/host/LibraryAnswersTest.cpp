// Tests that a kept answer is the library's own: for calls that differ in one thing each, asked in turns, and for calls that it refuses.
#include "codegen/host/LibraryAnswers.h"

#include "runtime/base/Error.h"

#include <gtest/gtest.h>

namespace stow::host::test {
namespace {

struct Question {
  Command call;
  std::vector<bool> anyLayout;
  int64_t threads;
};

Command product(DType type, int64_t rows, int64_t columns, int64_t depth, bool isTransposed) {
  Command call;
  call.op = CommandOp::DnnlMatmul;
  call.name = "product";
  call.operands = {
      {0, type, {rows, depth}, {}},
      {64, type, isTransposed ? Shape{columns, depth} : Shape{depth, columns}, {}},
      {128, type, {rows, columns}, {}},
  };
  call.ints = {{"transpose_b", {isTransposed}}};
  return call;
}

/// Each differs from the first in one thing that the answer may depend on.
std::vector<Question> questions() {
  const Question first = {product(DType::BF16, 512, 512, 512, false), {}, 2};
  std::vector<Question> all(9, first);
  all[1].threads = 1;
  all[2].call = product(DType::BF16, 512, 512, 512, true);
  all[3].call = product(DType::F32, 512, 512, 512, false);
  all[4].call = product(DType::BF16, 512, 1024, 512, false);
  all[5].call = product(DType::BF16, 1024, 512, 512, false);
  all[6].call.operands[1].layout.order = {1, 0};
  all[7].call.operands[0].layout.pitch = {1, 1024};
  all[8].call.ints["piece"] = {128, 128, 512};
  return all;
}

TEST(LibraryAnswers, AreThoseOfTheLibrary) {
  for (int round : {1, 2})
    for (const Question &question : questions()) {
      const LibraryRequirements found =
          askLibrary(question.call, question.anyLayout, question.threads);
      const LibraryRequirements expected =
          queryLibrary(question.call, question.anyLayout, question.threads);
      EXPECT_EQ(found.workspaceBytes, expected.workspaceBytes) << round;
      EXPECT_EQ(found.layouts, expected.layouts);
      EXPECT_EQ(found.opaqueBytes, expected.opaqueBytes);
      EXPECT_EQ(found.implementation, expected.implementation);
      EXPECT_EQ(found.pieces, expected.pieces);
      EXPECT_EQ(found.piece, expected.piece);
      EXPECT_EQ(found.heapBytes, expected.heapBytes);
      EXPECT_EQ(found.reference, expected.reference);
      EXPECT_EQ(found.converted, expected.converted);
    }
}

TEST(LibraryAnswers, AreNoneForWhatIsRefused) {
  Command call = product(DType::F32, int64_t{1} << 31, 512, 512, false);
  for (const char *name : {"one", "other"}) {
    call.name = name;
    try {
      askLibrary(call, {}, 1);
      FAIL() << "expected an error";
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

} // namespace
} // namespace stow::host::test
