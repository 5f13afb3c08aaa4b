// Elementwise kernels and copies on the simulated device, 16 bytes at a time: whole tasks with several
// vectors a thread, what is left over, vectors that reach over the ends of rows, addresses that are not
// aligned, tiles that are transposed.
#include "ir/StowKernelOps.h"
#include "runtime/base/Concat.h"
#include "runtime/host/Float16.h"
#include "tests/codegen/LoadedKernels.h"
#include "tests/gpu/Accesses.h"
#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/LoadedModule.h"

#include <array>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace stow;

namespace {

std::string addition(const std::string &x, const std::string &b) {
  return "func.func @g(%x: tensor<" + x + ">, %b: tensor<" + b +
         ">) {\n%0 = stow.map %x, %b : (tensor<" + x + ">, tensor<" + b + ">) -> tensor<" + x +
         R"(> {
    ^bb0(%u: f32, %v: f32):
      %1 = arith.addf %u, %v : f32
      stow.yield %1 : f32
    }
    return
  })";
}

// Tests that 2^21 + 1,031 elements, which make unrolled tasks, vectors that are left and elements that are
// left, are all computed, and nothing beyond.
TEST(Vectors, WholeTasksAndWhatIsLeft) {
  const size_t count = (size_t{1} << 22) + 1031;
  const std::string type = concat(count, "xf32");
  LoadedKernels kernels(addition(type, type));
  auto a = someFloats(count), b = someFloats(count, 3, 2);
  std::vector<float> y(count + 4, -7);
  kernels.run(0, {a.data(), b.data(), y.data()});
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(y[i], a[i] + b[i]) << i;
  EXPECT_EQ(y[count], -7);
}

// Tests one number a plane of 7x7, so that vectors hold the ends of planes.
TEST(Vectors, ReachOverRows) {
  LoadedKernels kernels(addition("5x6x7x7xf32", "6x1x1xf32"));
  auto x = someFloats(5 * 6 * 49), b = someFloats(6, 3, 2);
  std::vector<float> y(x.size());
  kernels.run(0, {x.data(), b.data(), y.data()});
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(y[i], x[i] + b[i / 49 % 6]) << i;
}

/// Numbers a plane of 7x7 added to channels [0, 8) of 12, of images whose other channels are someone else's.
const char *const kPartOfImages = R"(
  func.func @g(%x: tensor<5x8x7x7xf32>, %b: tensor<8x1x1xf32>) {
    %0 = stow.map %x, %b : (tensor<5x8x7x7xf32>, tensor<8x1x1xf32>)
        -> tensor<5x8x7x7xf32, #stow.layout<"of 1:12">> {
    ^bb0(%u: f32, %v: f32):
      %1 = arith.addf %u, %v : f32
      stow.yield %1 : f32
    }
    return
  })";

// Tests that vectors reach over the ends of planes inside images, where images lie apart.
TEST(Vectors, ReachOverRowsOfParts) {
  LoadedKernels kernels(kPartOfImages);
  auto x = someFloats(5 * 8 * 49), b = someFloats(8, 3, 2);
  std::vector<float> y(5 * 12 * 49, -7), expected(y);
  kernels.run(0, {x.data(), b.data(), y.data()});
  for (size_t i = 0; i < x.size(); ++i)
    expected[i / (8 * 49) * 12 * 49 + i % (8 * 49)] = x[i] + b[i / 49 % 8];
  EXPECT_EQ(y, expected);
  Module parts(kPartOfImages);
  EXPECT_EQ(accesses(parts.ptx, "ld", 16), 2) << parts.ptx; // a whole task, and what is left
  EXPECT_EQ(accesses(parts.ptx, "st", 16), 2) << parts.ptx;
  EXPECT_EQ(accesses(parts.ptx, "st", 4), 0) << parts.ptx;
}

TEST(Vectors, SixteenBytesAtOnce) {
  Module rows(addition("4096x1024xf32", "1024xf32"));
  EXPECT_EQ(accesses(rows.ptx, "ld", 16), 3) << rows.ptx; // the bias is read once
  EXPECT_EQ(accesses(rows.ptx, "ld", 4), 0);
  EXPECT_EQ(accesses(rows.ptx, "st", 16), 2);
  Module planes(addition("64x64x7x7xf32", "64x1x1xf32"));
  EXPECT_EQ(accesses(planes.ptx, "ld", 16), 1) << planes.ptx;
  EXPECT_EQ(accesses(planes.ptx, "ld", 4), 2); // the numbers of the first and the last lane's plane
  EXPECT_EQ(accesses(planes.ptx, "st", 16), 1);
}

// Tests that the gradient of a loss moves 16 bytes where no row begins at a multiple of that, and reads what
// a row has, its target, logarithm and factor, for a vector's first and last lane.
TEST(Vectors, RowsOfOddLength) {
  Module module(R"(
    func.func @g(%x: tensor<2048x1001xbf16>, %t: tensor<2048xi64>, %lse: tensor<2048xf32>, %d: tensor<2048xf32>) {
      %g = stow.cross_entropy_rows_grad %x, %t, %lse, %d {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}
          : (tensor<2048x1001xbf16>, tensor<2048xi64>, tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048x1001xbf16>
      return
    })");
  EXPECT_EQ(accesses(module.ptx, "ld", 16), 1) << module.ptx;
  EXPECT_EQ(accesses(module.ptx, "st", 16), 1) << module.ptx;
  EXPECT_EQ(accesses(module.ptx, "ld", 2) + accesses(module.ptx, "st", 2), 0) << module.ptx;
  // Numbers of 64 bits may be read by halves; one a lane would be 24.
  EXPECT_LE(accesses(module.ptx, "ld", 4) + accesses(module.ptx, "ld", 8), 8) << module.ptx;
}

/// A sum of 16-bit images of `channels` channels, channels last, each times a number a channel in f32, in bf16
/// and in f32; where `indexed`, with the element's number modulo 8 in addition.
std::string scaledSum(int images, int64_t channels, bool indexed) {
  const std::string image = concat("tensor<2x", channels, "x3x5x"),
                    last = ", #stow.layout<\"0,2,3,1\">>",
                    scale = concat("tensor<1x", channels, "x1x1xf32>");
  std::string arguments, operands, types, block, body = "%z = arith.constant 0.0 : f32\n",
                                                 sum = "%z";
  if (indexed)
    append(body, "%n = stow.element_index : i64\n%seven = arith.constant 7 : i64\n",
           "%rest = arith.andi %n, %seven : i64\n%start = arith.sitofp %rest : i64 to f32\n"),
        sum = "%start";
  for (int i = 0; i < images; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    append(arguments, comma, "%x", i, ": ", image, "bf16", last, ", %s", i, ": ", scale);
    append(operands, comma, "%x", i, ", %s", i);
    append(types, comma, image, "bf16", last, ", ", scale);
    append(block, comma, "%u", i, ": bf16, %v", i, ": f32");
    append(body, "%w", i, " = arith.extf %u", i, " : bf16 to f32\n%p", i, " = arith.mulf %w", i,
           ", %v", i, " : f32\n%q", i, " = arith.addf ", sum, ", %p", i, " : f32\n");
    sum = concat("%q", i);
  }
  return concat("func.func @g(", arguments, ") {\n%y, %z = stow.map ", operands, " : (", types,
                ") -> (", image, "bf16", last, ", ", image, "f32", last, ") {\n^bb0(", block,
                "):\n", body, "%r = arith.truncf ", sum, " : f32 to bf16\nstow.yield %r, ", sum,
                " : bf16, f32\n}\nreturn\n}");
}

// Tests that vectors of 8 16-bit elements stay whole however many tensors are read, with what is wider read
// and written part by part, in two parts or in four.
TEST(Vectors, InParts) {
  for (const int images : {9, 13}) {
    for (const bool indexed : {false, true}) {
      const int64_t channels = 24, pixels = 2 * 3 * 5;
      const size_t count = pixels * channels;
      const std::string text = scaledSum(images, channels, indexed);
      const int64_t parts = images == 9 ? 2 : 4;
      const Module module(text);
      EXPECT_EQ(accesses(module.ptx, "ld", 16), parts == 2 ? 3 * images : images) << module.ptx;
      EXPECT_EQ(accesses(module.ptx, "ld", 8), parts == 2 ? 0 : 4 * images) << module.ptx;
      EXPECT_EQ(accesses(module.ptx, "st", 16), parts == 2 ? 3 : 1) << module.ptx;
      EXPECT_EQ(accesses(module.ptx, "ld", 4) + accesses(module.ptx, "ld", 2), 0) << module.ptx;
      LoadedKernels kernels(text);
      std::vector<std::vector<uint16_t>> x;
      std::vector<std::vector<float>> s;
      std::vector<void *> arguments;
      for (int i = 0; i < images; ++i) {
        x.emplace_back();
        for (float value : someFloats(count, 1, i + 1))
          x.back().push_back(host::narrowBf16(value));
        s.push_back(someFloats(channels, 1, 100 + i));
      }
      for (int i = 0; i < images; ++i)
        arguments.insert(arguments.end(), {x[i].data(), s[i].data()});
      std::vector<uint16_t> y(count + 8, 7);
      std::vector<float> z(count + 4, -7);
      arguments.insert(arguments.end(), {y.data(), z.data()});
      kernels.run(0, arguments);
      for (size_t at = 0; at < count; ++at) {
        // Numbers count channels before places of space.
        const int64_t pixel = at / channels,
                      number = (pixel / 15 * channels + at % channels) * 15 + pixel % 15;
        float sum = indexed ? static_cast<float>(number % 8) : 0;
        for (int i = 0; i < images; ++i)
          sum += host::widenBf16(x[i][at]) * s[i][at % channels];
        ASSERT_NEAR(z[at], sum, 1e-5) << at;
        ASSERT_EQ(y[at], host::narrowBf16(z[at])) << at;
      }
      EXPECT_EQ(y[count], 7);
      EXPECT_EQ(z[count], -7);
    }
  }
}

// Tests that tensors of several sizes in whole tasks have one kernel, each with its own number of tasks, and
// those with something left over kernels of their own; and that the shared one computes every size.
TEST(Vectors, SizesShareAKernel) {
  std::string graph = "func.func @g(";
  const std::vector<int> sizes = {1024, 4096, 8192, 4100};
  for (size_t i = 0; i < sizes.size(); ++i)
    append(graph, i == 0 ? "" : ", ", "%x", i, ": tensor<", sizes[i], "xf32>");
  graph += ") {\n";
  for (size_t i = 0; i < sizes.size(); ++i)
    append(graph, "%", i, " = stow.map %x", i, " : (tensor<", sizes[i], "xf32>) -> tensor<",
           sizes[i],
           "xf32> {\n^bb0(%u: f32):\n %a = arith.addf %u, %u : f32\n stow.yield %a : f32\n}\n");
  graph += "return\n}";
  mlir::MLIRContext context;
  context.loadDialect<StowDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>();
  auto parsed = mlir::parseSourceString<mlir::ModuleOp>(graph, &context);
  KernelModule kernels(&context, KernelTarget::Device);
  std::vector<KernelInfo> infos;
  parsed->walk([&](MapOp op) { infos.push_back(*kernels.add(op)); });
  ASSERT_EQ(infos.size(), sizes.size());
  EXPECT_EQ(infos[1].symbol, infos[0].symbol);
  EXPECT_EQ(infos[2].symbol, infos[0].symbol);
  EXPECT_NE(infos[3].symbol, infos[0].symbol);
  EXPECT_EQ(infos[0].tasks, 1);
  EXPECT_EQ(infos[1].tasks, 4);
  EXPECT_EQ(infos[2].tasks, 8);
  LoadedKernels loaded(graph);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto count = static_cast<size_t>(sizes[i]);
    auto x = someFloats(count);
    std::vector<float> y(count + 4, -7);
    loaded.run(i, {x.data(), y.data()});
    for (size_t at = 0; at < count; ++at)
      ASSERT_EQ(y[at], x[at] + x[at]) << sizes[i] << ", " << at;
    EXPECT_EQ(y[count], -7);
  }
}

// Tests copies of several boxes in one kernel whose first box is in whole tasks: each takes its own tasks only.
TEST(Vectors, BoxesKeepToTheirTasks) {
  LoadedKernels concat(
      "func.func @g(%a: tensor<1024xf32>, %b: tensor<2048xf32>, %c: tensor<7xf32>) {\n"
      "%y = stow.concat %a, %b, %c {axis = 0 : i64} : (tensor<1024xf32>, "
      "tensor<2048xf32>, tensor<7xf32>) -> tensor<3079xf32>\nreturn\n}");
  auto a = someFloats(1024), b = someFloats(2048, 3, 2), c = someFloats(7, 5, 3);
  std::vector<float> y(3079 + 4096, -7);
  concat.run(0, {a.data(), b.data(), c.data(), y.data()});
  std::vector<float> expected = a;
  expected.insert(expected.end(), b.begin(), b.end());
  expected.insert(expected.end(), c.begin(), c.end());
  expected.resize(y.size(), -7);
  EXPECT_EQ(y, expected);

  LoadedKernels pad(
      "func.func @g(%x: tensor<4x1024xf32>) {\n"
      "%y = stow.pad %x {before = array<i64: 1, 0>, after = array<i64: 2, 0>, value = "
      "2.5 : f64} : (tensor<4x1024xf32>) -> tensor<7x1024xf32>\nreturn\n}");
  auto x = someFloats(4096);
  std::vector<float> padded(7 * 1024 + 4096, -7), wanted(1024, 2.5F);
  pad.run(0, {x.data(), padded.data()});
  wanted.insert(wanted.end(), x.begin(), x.end());
  wanted.resize(7 * 1024, 2.5F);
  wanted.resize(padded.size(), -7);
  EXPECT_EQ(padded, wanted);
}

// Tests that operands whose place is a multiple of 4 bytes only are read and written where they are.
TEST(Vectors, UnalignedPlaces) {
  Module module(addition("1024xf32", "1024xf32"), 4);
  EXPECT_EQ(accesses(module.ptx, "ld", 4), 8) << module.ptx;
  sim::DeviceMemory memory(1 << 20);
  sim::LoadedModule loaded(module.ptx, memory);
  uint64_t place = memory.allocate(1 << 16);
  sim::Launch launch;
  launch.kernel = loaded.kernel(module.info.symbol);
  launch.block = {256, 1, 1}, launch.grid = {1, 1, 1};
  auto *values = reinterpret_cast<float *>(memory.host(place, 1 << 16));
  for (int i = 0; i < 4096; ++i)
    values[i] = static_cast<float>(i);
  const std::vector<uint64_t> params = {0, static_cast<uint64_t>(module.info.tasks), place + 4,
                                        place + 4108, place + 8212};
  launch.params.resize(8 * params.size());
  memcpy(launch.params.data(), params.data(), launch.params.size());
  sim::execute(launch, memory);
  values = reinterpret_cast<float *>(memory.host(place, 1 << 16));
  for (int i = 0; i < 1024; ++i)
    ASSERT_EQ(values[2053 + i], static_cast<float>(i + 1 + i + 1027)) << i;
}

// Tests that a fold's loop, of a length that is known, is marked to stay as it is written, four vectors at a
// time, by 16 bytes though there are few columns, and that behind it a thread reads of shared memory its share of
// a column, 8 parts of 128, and the results of its 8 columns.
TEST(Folds, ReadOncePerThread) {
  const Module module(
      "func.func @g(%x: tensor<16384x256xbf16>) {\n%y = stow.reduce_sum %x {axes = array<i64: 0>, "
      "keepdims = false} : (tensor<16384x256xbf16>) -> tensor<256xbf16>\nreturn\n}");
  EXPECT_EQ(accesses(module.ptx, "ld", 16), 4) << module.ptx;
  EXPECT_NE(module.ptx.find(".pragma \"nounroll\""), std::string::npos) << module.ptx;
  const std::regex shared(R"(ld\.shared)");
  EXPECT_EQ(std::distance(std::sregex_iterator(module.ptx.begin(), module.ptx.end(), shared),
                          std::sregex_iterator()),
            16)
      << module.ptx;
}

/// A copy of matrices of `rows` x `columns` elements to `columns` x `rows`.
std::string transposition(int64_t batch, int64_t rows, int64_t columns, const std::string &type,
                          size_t number = 0) {
  const std::string from = concat("tensor<", batch, "x", rows, "x", columns, "x", type, ">");
  const std::string to = concat("tensor<", batch, "x", columns, "x", rows, "x", type, ">");
  return concat("func.func @g", number, "(%x: ", from, ") {\n%0 = stow.transpose %x ",
                "{permutation = array<i64: 0, 2, 1>} : (", from, ") -> ", to, "\nreturn\n}\n");
}

// Tests that both sides of a transposition are moved 16 bytes at a time where their rows allow it, also
// in 16 bits and at the edge of a tile, and the side alone whose rows do.
TEST(Tiles, SixteenBytesOnBothSides) {
  for (std::string type : {"f32", "bf16", "i1"}) {
    Module whole(transposition(2, 128, 192, type)), edges(transposition(2, 80, 208, type));
    for (const std::string &ptx : {whole.ptx, edges.ptx})
      for (std::string kind : {"ld", "st"}) {
        EXPECT_GT(accesses(ptx, kind, 16), 0) << type << ptx;
        for (int bytes : {1, 2, 4, 8})
          EXPECT_EQ(accesses(ptx, kind, bytes), 0) << type << bytes << ptx;
      }
  }
  Module odd(transposition(2, 128, 50, "f32"));
  EXPECT_EQ(accesses(odd.ptx, "ld", 16), 0);
  EXPECT_GT(accesses(odd.ptx, "ld", 8), 0); // rows of 50 begin at 8 bytes
  EXPECT_GT(accesses(odd.ptx, "st", 16), 0);
}

// Tests every element of tiles that are whole, cut on one side and on both, long one way, and of one
// row more than a dozen.
TEST(Tiles, EveryElement) {
  struct Case {
    std::string type;
    size_t bytes, batch, rows, columns;
  };
  std::vector<Case> cases;
  std::string graph;
  for (auto [type, bytes] :
       std::vector<std::pair<std::string, size_t>>{{"f64", 8}, {"f32", 4}, {"bf16", 2}, {"i1", 1}})
    for (auto [batch, rows, columns] : std::vector<std::array<size_t, 3>>{
             {2, 64, 128}, {1, 72, 100}, {3, 197, 8}, {1, 13, 520}, {1, 65, 63}}) {
      graph += transposition(batch, rows, columns, type, cases.size());
      cases.push_back({type, bytes, batch, rows, columns});
    }
  LoadedKernels kernels(graph);
  ASSERT_EQ(kernels.size(), cases.size());
  for (size_t number = 0; number < cases.size(); ++number) {
    const auto &[type, bytes, batch, rows, columns] = cases[number];
    const size_t plane = rows * columns, count = batch * plane;
    std::vector<uint8_t> x(count * bytes), y(count * bytes, 0xee), expected(y);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<uint8_t>(bytes == 1 ? i * 7 % 3 % 2 : i * 7 % 253 + i / 253);
    for (size_t i = 0; i < count; ++i) {
      const size_t from = i / plane * plane + i % plane % rows * columns + i % plane / rows;
      memcpy(&expected[i * bytes], &x[from * bytes], bytes);
    }
    kernels.run(number, {x.data(), y.data()}, 1);
    ASSERT_EQ(y, expected) << type << " " << rows << "x" << columns;
  }
}

/// Max pooling with what it saves, or its gradient, of 64 channels of `side` x `side` images.
std::string pooling(bool gradient, int64_t side, int64_t kernel, const std::string &type,
                    const std::string &layout) {
  auto tensor = [&](int64_t extent, const std::string &element) {
    return concat("tensor<2x64x", extent, "x", extent, "x", element, ", #stow.layout<\"", layout,
                  "\">>");
  };
  const int64_t pad = kernel / 2 - (kernel % 2 == 0 ? 1 : 0);
  const std::string x = tensor(side, type), y = tensor(side / 2, type),
                    saved = tensor(side / 2, "i8");
  const std::string with =
      concat(" {kernel = array<i64: ", kernel, ", ", kernel, ">, strides = array<i64: 2, 2>, ",
             "pads = array<i64: ", pad, ", ", pad, ", ", pad, ", ", pad,
             ">, dilations = array<i64: 1, 1>} : (");
  if (gradient)
    return "func.func @g(%dy: " + y + ", %s: " + saved + ") {\n%dx = stow.max_pool_grad %dy, %s" +
           with + y + ", " + saved + ") -> " + x + "\nreturn\n}";
  return "func.func @g(%x: " + x + ") {\n%y, %s = stow.max_pool_training %x" + with + x + ") -> (" +
         y + ", " + saved + ")\nreturn\n}";
}

// Tests that poolings move 16 bytes a thread, channels or what lies along a row, and read of overlapping
// windows each piece of a row once.
TEST(Pools, SixteenBytesAtOnce) {
  struct Case {
    bool gradient;
    int64_t kernel;
    std::string type, layout;
    int64_t loads, stores;
  };
  for (const auto &[gradient, kernel, type, layout, loads, stores] : std::vector<Case>{
           {false, 3, "bf16", "0,2,3,1", 9, 1}, // a tap each
           {false, 2, "f32", "0,2,3,1", 4, 1},
           {false, 3, "f32", "0,1,2,3", 3 * 3, 1}, // 4 windows of 3 rows: 10 elements of each
           {false, 2, "f32", "0,1,2,3", 2 * 2, 1},
           {true, 3, "bf16", "0,2,3,1", 2 * 2, 1}, // of 9 taps at most 4 have the position
           {true, 2, "f32", "0,2,3,1", 1, 1},
           {true, 3, "f32", "0,1,2,3", 2 * 2, 2}, // 8 positions, 5 windows in either row
           {true, 2, "f32", "0,1,2,3", 1, 2}}) {
    Module module(pooling(gradient, 16, kernel, type, layout));
    EXPECT_EQ(accesses(module.ptx, "ld", 16), loads) << kernel << type << layout << module.ptx;
    EXPECT_EQ(accesses(module.ptx, "st", 16), stores) << kernel << type << layout << module.ptx;
    EXPECT_EQ(accesses(module.ptx, "ld", 2) + accesses(module.ptx, "st", 2), 0) << module.ptx;
    EXPECT_EQ(accesses(module.ptx, "ld", 1) + accesses(module.ptx, "st", 1), 0) << module.ptx;
  }
}

// Tests that planes whose rows are no whole vectors are moved by 16 bytes, too, through shared memory, and the
// taps that are saved, of one byte each, by 4 at least.
TEST(Pools, PlanesOfShortRows) {
  for (bool gradient : {false, true})
    for (int64_t side : {14, 28}) {
      Module module(pooling(gradient, side, 3, "f32", "0,1,2,3"));
      for (const char *kind : {"ld", "st"}) {
        EXPECT_GT(accesses(module.ptx, kind, 16), 0) << side << module.ptx;
        for (int bytes : {1, 2})
          EXPECT_EQ(accesses(module.ptx, kind, bytes), 0) << side << module.ptx;
      }
      const char *ofTaps = gradient ? "ld" : "st", *other = gradient ? "st" : "ld";
      EXPECT_LE(accesses(module.ptx, ofTaps, 4) + accesses(module.ptx, ofTaps, 8), 4) << module.ptx;
      EXPECT_EQ(accesses(module.ptx, other, 4) + accesses(module.ptx, other, 8), 0) << module.ptx;
    }
}

} // namespace
