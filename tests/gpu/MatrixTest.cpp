// Matrix instructions in the way that kernels use them: tiles through ldmatrix into mma, against plain
// loops over whole matrices. The values are small multiples of 1/8, so that every sum is exact.
#include "tests/gpu/Ptx.h"

#include <bit>
#include <random>

using namespace stow::sim;

namespace {

using Matrix = std::vector<std::vector<float>>;

Matrix drawn(size_t rows, size_t columns, unsigned seed) {
  std::mt19937 random(seed);
  Matrix matrix(rows, std::vector<float>(columns));
  for (auto &row : matrix)
    for (float &value : row)
      value = static_cast<float>(static_cast<int>(random() % 33) - 16) / 8;
  return matrix;
}

Matrix transposed(const Matrix &matrix) {
  Matrix result(matrix[0].size(), std::vector<float>(matrix.size()));
  for (size_t i = 0; i < matrix.size(); ++i)
    for (size_t k = 0; k < matrix[0].size(); ++k)
      result[k][i] = matrix[i][k];
  return result;
}

/// Row-major in 16 bits; the values have at most seven bits.
std::vector<uint16_t> halves(const Matrix &matrix, bool brain) {
  std::vector<uint16_t> bits;
  for (auto &row : matrix)
    for (float value : row) {
      auto wide = std::bit_cast<uint32_t>(value);
      auto half =
          static_cast<uint16_t>((wide >> 16 & 0x8000) | ((wide & 0x7FFFFFFF) >> 13) - (112 << 10));
      bits.push_back(brain ? static_cast<uint16_t>(wide >> 16) : value == 0 ? 0 : half);
    }
  return bits;
}

std::vector<float> flat(const Matrix &matrix) {
  std::vector<float> all;
  for (auto &row : matrix)
    all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::vector<float> product(const Matrix &a, const Matrix &b, const Matrix &c) {
  std::vector<float> all;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b[0].size(); ++j) {
      float sum = c[i][j];
      for (size_t k = 0; k < b.size(); ++k)
        sum += a[i][k] * b[k][j];
      all.push_back(sum);
    }
  return all;
}

// Registers of C and D: rows lane / 4 and 8 more, columns 2 (lane % 4) and the next.
const std::string kPlaceOfSums = R"(
    shr.u32 %r3, %r0, 2; and.b32 %r4, %r0, 3;
    shl.b32 %r5, %r3, 5; shl.b32 %r6, %r4, 3; add.u32 %r5, %r5, %r6; cvt.u64.u32 %d5, %r5;
    add.s64 %d6, %in2, %d5; add.s64 %d7, %out, %d5;
    ld.global.v2.b32 {%r10, %r11}, [%d6]; ld.global.v2.b32 {%r12, %r13}, [%d6+256];
)";
const std::string kStoreSums = R"(
    st.global.v2.b32 [%d7], {%r10, %r11}; st.global.v2.b32 [%d7+256], {%r12, %r13};
    ret;)";

// A is 16 x 16, in rows of 32 bytes; B is 16 x 8, as it lies or transposed.
TEST(Matrix, TilesOf16Bits) {
  Matrix a = drawn(16, 16, 1), b = drawn(16, 8, 2), c = drawn(16, 8, 3);
  for (bool brain : {false, true})
    for (bool columns : {false, true}) {
      Device device;
      uint64_t in0 = device.upload(halves(a, brain));
      uint64_t in1 = device.upload(halves(columns ? transposed(b) : b, brain));
      uint64_t in2 = device.upload(flat(c)), out = device.upload(std::vector<float>(128));
      std::string rowOfB = columns ? R"(
    and.b32 %r7, %r0, 7; shl.b32 %r7, %r7, 5; shr.u32 %r8, %r0, 3; and.b32 %r8, %r8, 1;
    shl.b32 %r8, %r8, 4; add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r20;)"
                                   : R"(
    and.b32 %r7, %r0, 15; shl.b32 %r7, %r7, 4; add.u32 %r7, %r7, %r20;)";
      std::string type = brain ? "bf16" : "f16", trans = columns ? "" : ".trans";
      device.run(kernelOf(R"(
    .shared .align 16 .b8 s[768];
    mov.u32 %r20, s;
    mul.wide.u32 %d1, %r0, 16; add.s64 %d2, %in0, %d1; ld.global.v4.b32 {%r30, %r31, %r32, %r33}, [%d2];
    shl.b32 %r21, %r0, 4; add.u32 %r21, %r21, %r20; st.shared.v4.b32 [%r21], {%r30, %r31, %r32, %r33};
    add.u32 %r20, %r20, 512;
    mul.wide.u32 %d1, %r0, 8; add.s64 %d2, %in1, %d1; ld.global.v2.b32 {%r30, %r31}, [%d2];
    shl.b32 %r21, %r0, 3; add.u32 %r21, %r21, %r20; st.shared.v2.b32 [%r21], {%r30, %r31};
    bar.sync 0;
    mov.u32 %r22, s; and.b32 %r23, %r0, 15; shl.b32 %r23, %r23, 5; shr.u32 %r24, %r0, 4; shl.b32 %r24, %r24, 4;
    add.u32 %r23, %r23, %r24; add.u32 %r22, %r22, %r23;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r14, %r15, %r16, %r17}, [%r22];
)" + rowOfB + R"(
    ldmatrix.sync.aligned.m8n8.x2)" +
                          trans + R"(.shared.b16 {%r18, %r19}, [%r7];
)" + kPlaceOfSums + R"(
    mma.sync.aligned.m16n8k16.row.col.f32.)" +
                          type + "." + type + R"(.f32
        {%r10, %r11, %r12, %r13}, {%r14, %r15, %r16, %r17}, {%r18, %r19}, {%r10, %r11, %r12, %r13};
)" + kStoreSums),
                 {in0, in1, in2, out});
      EXPECT_EQ(device.download<float>(out, 128), product(a, b, c)) << type << trans;
    }
}

// The same through two products over half of k each, and with sums in f16.
TEST(Matrix, SmallerTiles) {
  Matrix a = drawn(16, 8, 4), b = drawn(8, 8, 5), c = drawn(16, 8, 6);
  Device device;
  uint64_t in0 = device.upload(halves(a, true)), in1 = device.upload(halves(transposed(b), true));
  uint64_t in2 = device.upload(flat(c)), out = device.upload(std::vector<float>(128));
  device.run(kernelOf(kPlaceOfSums + R"(
    shl.b32 %r5, %r0, 2; cvt.u64.u32 %d5, %r5; add.s64 %d1, %in0, %d5; add.s64 %d2, %in1, %d5;
    ld.global.b32 %r14, [%d1]; ld.global.b32 %r15, [%d1+128]; ld.global.b32 %r16, [%d2];
    mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
        {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16}, {%r10, %r11, %r12, %r13};
)" + kStoreSums),
             {in0, in1, in2, out});
  EXPECT_EQ(device.download<float>(out, 128), product(a, b, c));
}

TEST(Matrix, Tf32) {
  Matrix a = drawn(16, 8, 7), b = drawn(8, 8, 8), c = drawn(16, 8, 9);
  Device device;
  uint64_t in0 = device.upload(flat(a)), in1 = device.upload(flat(transposed(b)));
  uint64_t in2 = device.upload(flat(c)), out = device.upload(std::vector<float>(128));
  // Rows of 8 floats: element (lane / 4, lane % 4), 4 columns and 8 rows further.
  device.run(kernelOf(kPlaceOfSums + R"(
    shl.b32 %r5, %r3, 5; shl.b32 %r6, %r4, 2; add.u32 %r5, %r5, %r6; cvt.u64.u32 %d5, %r5;
    add.s64 %d1, %in0, %d5; add.s64 %d2, %in1, %d5;
    ld.global.b32 %r14, [%d1]; ld.global.b32 %r15, [%d1+256];
    ld.global.b32 %r16, [%d1+16]; ld.global.b32 %r17, [%d1+272];
    ld.global.b32 %r18, [%d2]; ld.global.b32 %r19, [%d2+16];
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%r10, %r11, %r12, %r13}, {%r14, %r15, %r16, %r17}, {%r18, %r19}, {%r10, %r11, %r12, %r13};
)" + kStoreSums),
             {in0, in1, in2, out});
  EXPECT_EQ(device.download<float>(out, 128), product(a, b, c));
}

// Tests that stmatrix writes what ldmatrix read.
TEST(Matrix, StoredAsLoaded) {
  Device device;
  std::vector<uint32_t> data(128);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<uint32_t>(i * 0x10001);
  uint64_t in = device.upload(data), out = device.upload(std::vector<uint32_t>(128));
  device.run(kernelOf(R"(
    .shared .align 16 .b8 s[1024];
    mov.u32 %r20, s; shl.b32 %r21, %r0, 4; add.u32 %r22, %r20, %r21;
    mul.wide.u32 %d1, %r0, 16; add.s64 %d2, %in0, %d1; add.s64 %d3, %out, %d1;
    ld.global.v4.b32 {%r30, %r31, %r32, %r33}, [%d2]; st.shared.v4.b32 [%r22], {%r30, %r31, %r32, %r33};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r22];
    stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r22+512], {%r10, %r11, %r12, %r13};
    bar.sync 0;
    ld.shared.v4.b32 {%r30, %r31, %r32, %r33}, [%r22+512]; st.global.v4.b32 [%d3], {%r30, %r31, %r32, %r33};
    ret;)"),
             {in, in, in, out});
  EXPECT_EQ(device.download<uint32_t>(out, 128), data);
}

// Tests that a warp that is not whole is refused.
TEST(Matrix, NeedsAWholeWarp) {
  Device device;
  uint64_t out = device.upload(std::vector<uint32_t>(128));
  EXPECT_THAT(device.fault(Fault::Kind::Barrier, kernelOf(R"(
    setp.eq.u32 %p1, %r0, 5;
    @%p1 exit;
    mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
        {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16}, {%r10, %r11, %r12, %r13};
    ret;)"),
                           {out, out, out, out}),
              testing::HasSubstr("thread (5,0,0)"));
}

} // namespace
