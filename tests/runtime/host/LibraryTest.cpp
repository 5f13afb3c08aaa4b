// Descriptors, requirements and errors that do not belong to one op.
#include "runtime/base/Error.h"
#include "runtime/host/Primitive.h"
#include "tests/runtime/host/CallHarness.h"

#include <gmock/gmock.h>

namespace stow::host::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Tests that descriptors and layouts convert into each other without loss, blocks of several levels
// and dimensions of size 1 included.
TEST(MemoryDesc, RoundTrip) {
  struct Case {
    Shape shape;
    Layout layout;
  };
  const Case cases[] = {
      {{7}, {}},
      {{3, 5, 4, 6}, {}},
      {{3, 5, 4, 6}, channelsLast()},
      {{3, 19, 4, 6}, blocked16()},
      {{40, 19, 3, 3}, {1, {0, 2, 3, 1}, {{0, 64}, {1, 2}}}},
      {{40, 19, 3, 3}, {1, {1, 0, 2, 3}, {{1, 8}, {0, 16}, {1, 2}}}},
      {{12, 4, 3, 3}, {3, {0, 1, 2, 3, 4}, {{1, 4}, {2, 2}}}},
      {{24, 1, 3, 3}, {24, {3, 4, 1, 2, 0}, {{0, 16}}}},
      {{12, 4, 3, 3}, {3, {}, {}}},
  };
  for (const Case &c : cases) {
    dnnl::memory::desc desc = descOf(DType::F32, c.shape, c.layout);
    EXPECT_EQ(static_cast<Bytes>(desc.get_size()), storedBytes(c.layout, c.shape, DType::F32));
    std::optional<Layout> back = layoutOf(desc, c.layout.groups);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, c.layout) << formatLayout(c.layout) << " became " << formatLayout(*back);
  }
}

// Tests that with dimensions of size 1 the layout found has the same bytes, if not the same text.
TEST(MemoryDesc, AmbiguousOrders) {
  for (const Shape &shape :
       {Shape{1, 1, 1, 1}, Shape{1, 8, 1, 1}, Shape{4, 1, 5, 5}, Shape{1, 3, 1, 5}})
    for (const Layout &layout : {Layout(), channelsLast()}) {
      std::optional<Layout> back = layoutOf(descOf(DType::F32, shape, layout), 1);
      ASSERT_TRUE(back.has_value());
      LayoutIndex expected(layout, shape), found(*back, shape);
      for (int64_t i = 0; i < elementCount(shape); ++i)
        ASSERT_EQ(found(i), expected(i));
    }
}

// Tests that descriptors which no Layout expresses are not misread: gaps and sub-blocks.
TEST(MemoryDesc, RejectsWhatALayoutCannotSay) {
  using dnnl::memory;
  memory::desc gaps({4, 5}, memory::data_type::f32, memory::dims{8, 1});
  EXPECT_FALSE(layoutOf(gaps, 1).has_value());
  memory::desc part = descOf(DType::F32, {4, 8}, {}).submemory_desc({2, 8}, {2, 0});
  EXPECT_FALSE(layoutOf(part, 1).has_value());
  EXPECT_FALSE(layoutOf(anyDesc(DType::F32, {4, 8}), 1).has_value());
}

Command convolution() {
  Command call;
  call.op = CommandOp::DnnlConvolution;
  call.name = "layer1/conv";
  call.operands = {{0, DType::F32, {2, 16, 8, 8}, channelsLast()},
                   {0, DType::F32, {32, 16, 3, 3}, {}},
                   {0, DType::F32, {2, 32, 8, 8}, channelsLast()}};
  call.ints = {{"strides", {1, 1}}, {"pads", {1, 1, 1, 1}}, {"dilations", {1, 1}}, {"groups", {1}}};
  return call;
}

std::string errorOf(const Command &call, std::vector<bool> any = {}) {
  try {
    queryLibrary(call, any, 2);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    return error.what();
  }
  return "no error";
}

// Tests that a layout the library chose is accepted when it is given, with the same workspace.
TEST(QueryLibrary, ChosenLayoutsAreStable) {
  Command call = convolution();
  LibraryRequirements chosen = queryLibrary(call, {false, true, false}, 2);
  EXPECT_EQ(chosen.layouts[0], channelsLast());
  call.operands[1].layout = chosen.layouts[1];
  LibraryRequirements given = queryLibrary(call, {}, 2);
  EXPECT_EQ(given.layouts[1], chosen.layouts[1]);
  EXPECT_EQ(given.implementation, chosen.implementation);
  EXPECT_EQ(given.workspaceBytes, chosen.workspaceBytes);
  EXPECT_THAT(given.opaqueBytes, testing::Each(0));
}

TEST(QueryLibrary, RepeatsItself) {
  Command call = convolution();
  call.op = CommandOp::DnnlConvolutionGradWeight;
  std::swap(call.operands[1], call.operands[2]);
  LibraryRequirements first = queryLibrary(call, {false, false, true}, 2);
  for (int64_t threads : {1, 2, 3, 4}) {
    LibraryRequirements here = queryLibrary(call, {false, false, true}, threads);
    LibraryRequirements again = queryLibrary(call, {false, false, true}, threads);
    EXPECT_EQ(here.workspaceBytes, again.workspaceBytes);
    EXPECT_EQ(here.layouts, again.layouts);
  }
  EXPECT_EQ(queryLibrary(call, {false, false, true}, 2).workspaceBytes, first.workspaceBytes);
}

// Tests that implementations are told apart by the library's names for them.
TEST(QueryLibrary, KnowsImplementations) {
  for (const char *name : {"ref:any", "lrn_ref:any"})
    EXPECT_TRUE(isReference(name)) << name;
  for (const char *name : {"jit:avx512_core", "brgconv:avx512_core", "gemm:jit", "x64:gemm:jit"})
    EXPECT_FALSE(isReference(name)) << name;
  EXPECT_TRUE(usesHeap("x64:gemm:jit"));
  EXPECT_FALSE(usesHeap("brg:avx512_core"));
}

// Tests that heap use is stated where it exists: three input channels per group have neither fast
// planned code nor would they be worth reference code.
TEST(QueryLibrary, StatesHeapUse) {
  Command call = convolution();
  LibraryRequirements dense = queryLibrary(call, {false, true, false}, 2);
  EXPECT_EQ(dense.heapBytes > 0, usesHeap(dense.implementation.c_str())) << dense.implementation;
  EXPECT_FALSE(dense.reference);
  call.operands[0].shape = {2, 12, 8, 8};
  call.operands[1].shape = {20, 3, 3, 3};
  call.operands[2].shape = {2, 20, 8, 8};
  call.ints["groups"] = {4};
  LibraryRequirements odd = queryLibrary(call, {false, true, false}, 2);
  EXPECT_EQ(odd.heapBytes > 0, usesHeap(odd.implementation.c_str())) << odd.implementation;
}

TEST(LibraryErrors, OperandCount) {
  Command call = convolution();
  call.operands.pop_back();
  EXPECT_THAT(errorOf(call),
              HasSubstr("dnnl.convolution of node 'layer1/conv': expected 3 operands "
                        "(src, weights, dst), found 2"));
}

TEST(LibraryErrors, Attributes) {
  Command call = convolution();
  call.ints.erase("strides");
  EXPECT_THAT(errorOf(call), HasSubstr("attribute 'strides' is missing; expected 2 integers"));
  call = convolution();
  call.ints["pads"] = {1, 1};
  EXPECT_THAT(errorOf(call), HasSubstr("attribute 'pads' has 2 values; expected 4"));
}

TEST(LibraryErrors, Shapes) {
  Command call = convolution();
  call.operands[1].shape = {32, 8, 3, 3};
  EXPECT_THAT(errorOf(call),
              AllOf(HasSubstr("do not form a convolution with groups = 1"),
                    HasSubstr("operand 1 (weights, f32 32x8x3x3, layout row-major)")));
  call = convolution();
  call.operands[2].shape = {2, 32, 8, 7};
  EXPECT_THAT(errorOf(call), HasSubstr("output extent 7 of spatial dimension 1"));
  call = convolution();
  call.ints["dilations"] = {0, 1};
  EXPECT_THAT(errorOf(call), HasSubstr("does not follow from strides, pads and dilations"));
  call = convolution();
  call.operands[0].shape[3] = call.operands[2].shape[3] = int64_t(1) << 25;
  EXPECT_THAT(errorOf(call), HasSubstr("output extent 33554432 of spatial dimension 1; the library "
                                       "takes at most 16777216"));
}

TEST(LibraryErrors, GroupsInLayout) {
  Command call = convolution();
  call.operands[1].layout = {4, {}, {}};
  EXPECT_THAT(errorOf(call), HasSubstr("is laid out in groups, but groups = 1"));
}

TEST(LibraryErrors, ElementType) {
  Command call = convolution();
  call.operands[0].dtype = DType::F64;
  EXPECT_THAT(errorOf(call),
              AllOf(HasSubstr("'layer1/conv': operand 0 (src, f64"),
                    HasSubstr("does not compute with f64; it takes f32, bf16 and f16")));
}

// Tests that what is wrong with a call on 16-bit operands is said, and that its arithmetic is f32's.
TEST(LibraryErrors, OfPieces) {
  Command call = convolution();
  call.operands[0].dtype = call.operands[2].dtype = DType::F16;
  EXPECT_EQ(errorOf(call), "no error");
  call.operands[1].layout = {4, {}, {}};
  EXPECT_THAT(errorOf(call), AllOf(HasSubstr("is laid out in groups, but groups = 1"),
                                   HasSubstr("16-bit operands are converted")));
  call = convolution();
  call.operands[0].dtype = DType::F16;
  call.operands[1].dtype = DType::I64;
  EXPECT_THAT(errorOf(call), HasSubstr("operand 1 (weights, i64"));
}

TEST(LibraryErrors, BadLayout) {
  Command call = convolution();
  call.operands[0].layout = {1, {0, 2, 3}, {}};
  EXPECT_THAT(errorOf(call), HasSubstr("operand 0 (src"));
  EXPECT_THAT(errorOf(call), HasSubstr("is not a permutation of 4 dimensions"));
}

// Tests that the library does not convert behind the plan's back: batch-norm writes in the layout
// it reads, and says which one it would take.
TEST(LibraryErrors, HiddenReorder) {
  Command call;
  call.op = CommandOp::DnnlBatchNorm;
  call.name = "bn";
  Operand data{0, DType::F32, {2, 16, 4, 4}, channelsLast()}, stat{0, DType::F32, {16}, {}};
  Operand other = data;
  other.layout = {};
  call.operands = {data, stat, stat, other, stat, stat};
  call.floats = {{"epsilon", 1e-5}};
  EXPECT_THAT(errorOf(call),
              AllOf(HasSubstr("operand 3 (dst, f32 2x16x4x4, layout row-major)"),
                    HasSubstr("wants layout \"0,2,3,1\""), HasSubstr("dnnl.reorder")));
  call.operands[3] = data;
  EXPECT_EQ(errorOf(call), "no error");
  call.operands[1].shape = {8};
  EXPECT_THAT(errorOf(call), HasSubstr("operand 1 (scale, f32 8"));
  call.operands[1].shape = {16};
  call.floats.clear();
  EXPECT_THAT(errorOf(call), HasSubstr("attribute 'epsilon' is missing; expected a number"));
}

TEST(LibraryErrors, MatMulShapes) {
  Command call;
  call.op = CommandOp::DnnlMatmul;
  call.name = "fc";
  call.operands = {
      {0, DType::F32, {4, 5}, {}}, {0, DType::F32, {6, 7}, {}}, {0, DType::F32, {4, 7}, {}}};
  EXPECT_THAT(errorOf(call), HasSubstr("shapes do not form a product"));
  call.ints["has_bias"] = {1};
  EXPECT_THAT(errorOf(call), HasSubstr("has_bias contradicts the number of operands"));
}

TEST(LibraryErrors, UnknownCall) {
  Command call = convolution();
  call.op = CommandOp::CudaConvolution;
  EXPECT_THAT(errorOf(call), AllOf(HasSubstr("'layer1/conv' calls 'cuda.convolution'"),
                                   HasSubstr("dnnl.convolution_grad_weight")));
}

// Tests that the library has every call of its own, whose operands are then what is wrong.
TEST(LibraryErrors, EveryCallIsKnown) {
  for (int op = 0; op <= static_cast<int>(CommandOp::CudaMatmulEpilogue); ++op) {
    Command call;
    call.op = static_cast<CommandOp>(op);
    EXPECT_EQ(errorOf(call).find("does not have") == std::string::npos,
              nameOf(call.op).starts_with("dnnl."))
        << nameOf(call.op);
  }
}

std::string bindErrorOf(const Command &call, int64_t threads) {
  std::vector<char> arena(1 << 20);
  try {
    bindLibraryCall(call, arena.data(), threads);
  } catch (const Error &error) {
    return error.what();
  }
  return "no error";
}

// Tests that a workspace planned too small is found when binding, not when running.
TEST(BindLibraryCall, WorkspaceTooSmall) {
  Command call;
  call.op = CommandOp::DnnlMatmul; // transposed on both sides: copies b into scratch
  call.name = "fc";
  call.ints = {{"transpose_a", {1}}, {"transpose_b", {1}}};
  call.operands = {{0, DType::F32, {100, 30}, {}},
                   {0, DType::F32, {70, 100}, {}},
                   {0, DType::F32, {30, 70}, {}}};
  call.workspaceBytes = queryLibrary(call, {}, 2).workspaceBytes;
  if (call.workspaceBytes == 0)
    GTEST_SKIP() << "this machine's implementation needs no workspace";
  EXPECT_EQ(bindErrorOf(call, 2), "no error");
  --call.workspaceBytes;
  EXPECT_THAT(bindErrorOf(call, 2),
              AllOf(HasSubstr("dnnl.matmul of node 'fc': the plan has"), HasSubstr("of workspace"),
                    HasSubstr("with 2 threads"),
                    HasSubstr("compile the program on this machine, with --threads=2")));
}

TEST(BindLibraryCall, OpaqueTooSmall) {
  Command call;
  call.op = CommandOp::DnnlMaxPool;
  call.name = "pool";
  call.ints = {
      {"kernel", {2, 2}}, {"strides", {2, 2}}, {"pads", {0, 0, 0, 0}}, {"dilations", {1, 1}}};
  call.operands = {{0, DType::F32, {1, 16, 8, 8}, channelsLast()},
                   {0, DType::F32, {1, 16, 4, 4}, channelsLast()},
                   {0, DType::U8, {255}, {}}};
  EXPECT_EQ(queryLibrary(call, {}, 2).opaqueBytes[2], 256); // a byte per output element
  EXPECT_THAT(bindErrorOf(call, 2), AllOf(HasSubstr("operand 2 has 255 B"), HasSubstr("256 B")));
}

} // namespace
} // namespace stow::host::test
