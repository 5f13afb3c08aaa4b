#include "runtime/format/CommandOp.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>

namespace stow {
namespace {

TEST(CommandOpTest, NamesReadBack) {
  for (int op = 0; op <= static_cast<int>(CommandOp::CudaMatmulEpilogue); ++op)
    EXPECT_EQ(parseCommandOp(nameOf(static_cast<CommandOp>(op))), static_cast<CommandOp>(op));
  EXPECT_EQ(nameOf(CommandOp::Kernel), "kernel");
  EXPECT_EQ(nameOf(CommandOp::ProductMap), "product_map");
  EXPECT_EQ(nameOf(CommandOp::DnnlBatchNormMaxPoolGrad), "dnnl.batch_norm_max_pool_grad");
  EXPECT_EQ(nameOf(CommandOp::CudaMatmul), "cuda.matmul");
}

TEST(CommandOpTest, OtherNamesAreRefused) {
  for (const char *name : {"", "matmul", "dnnl.", "dnnl.matmul ", "cuda.reorder"})
    EXPECT_THROW(parseCommandOp(name), Error) << name;
}

} // namespace
} // namespace stow
