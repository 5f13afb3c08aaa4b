// Depthwise convolutions and their gradients against plain loops in double.
#include "tests/codegen/Kernels.h"

#include <string>

using namespace stow;

namespace {

/// One spatial geometry, the same for rows and columns, but for the image's extents.
struct Geometry {
  std::string name;
  int64_t images, channels, height, width, kernel, stride, pad, dilation;

  int64_t out(int64_t extent) const {
    return (extent + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

class Depthwise : public testing::TestWithParam<Geometry> {};

std::string shape(std::vector<int64_t> dims, const char *layout) {
  std::string text = "tensor<";
  for (int64_t dim : dims)
    text += std::to_string(dim) + "x";
  return text + "f32, #stow.layout<\"" + layout + "\">>";
}

// Tests forward with a bias, input gradient and weight gradient: edges, strides, dilation, windows
// larger than the image, and channels that are no multiple of a vector.
TEST_P(Depthwise, MatchesPlainLoops) {
  const Geometry &g = GetParam();
  int64_t oh = g.out(g.height), ow = g.out(g.width);
  std::string x = shape({g.images, g.channels, g.height, g.width}, "0,2,3,1");
  std::string y = shape({g.images, g.channels, oh, ow}, "0,2,3,1");
  std::string w = shape({g.channels, 1, g.kernel, g.kernel}, "2,3,0,1");
  std::string b = "tensor<" + std::to_string(g.channels) + "xf32>";
  auto two = [](int64_t n) { return std::to_string(n) + ", " + std::to_string(n); };
  std::string attributes = "{strides = array<i64: " + two(g.stride) +
                           ">, pads = array<i64: " + two(g.pad) + ", " + two(g.pad) +
                           ">, dilations = array<i64: " + two(g.dilation) +
                           ">, groups = " + std::to_string(g.channels) + " : i64}";
  LoadedKernels kernels("func.func @g(%x: " + x + ", %w: " + w + ", %b: " + b + ", %dy: " + y +
                        ") {\n  %y = stow.conv2d %x, %w, %b " + attributes + " : (" + x + ", " + w +
                        ", " + b + ") -> " + y + "\n  %dx = stow.conv2d_grad_input %dy, %w " +
                        attributes + " : (" + y + ", " + w + ") -> " + x +
                        "\n  %dw = stow.conv2d_grad_weight %x, %dy " + attributes + " : (" + x +
                        ", " + y + ") -> " + w + "\n  return\n}");
  int64_t c = g.channels;
  auto image = someFloats(g.images * g.height * g.width * c);
  auto weight = someFloats(g.kernel * g.kernel * c), bias = someFloats(c);
  auto dy = someFloats(g.images * oh * ow * c);
  std::vector<double> result(dy.size()), dimage(image.size()), dweight(weight.size());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = bias[i % c];
  for (int64_t n = 0; n < g.images; ++n)
    for (int64_t i = 0; i < oh; ++i)
      for (int64_t j = 0; j < ow; ++j)
        for (int64_t p = 0; p < g.kernel; ++p)
          for (int64_t q = 0; q < g.kernel; ++q) {
            int64_t row = i * g.stride - g.pad + p * g.dilation;
            int64_t column = j * g.stride - g.pad + q * g.dilation;
            if (row < 0 || row >= g.height || column < 0 || column >= g.width)
              continue;
            for (int64_t k = 0; k < c; ++k) {
              int64_t from = ((n * g.height + row) * g.width + column) * c + k;
              int64_t to = ((n * oh + i) * ow + j) * c + k, tap = (p * g.kernel + q) * c + k;
              result[to] += double(image[from]) * weight[tap];
              dimage[from] += double(dy[to]) * weight[tap];
              dweight[tap] += double(image[from]) * dy[to];
            }
          }
  std::vector<float> found(result.size()), dx(image.size()), dw(weight.size());
  kernels.run(0, {image.data(), weight.data(), bias.data(), found.data()});
  kernels.run(1, {dy.data(), weight.data(), dx.data()});
  kernels.run(2, {image.data(), dy.data(), dw.data()});
  expectClose(found, result, 1e-5, 1e-5);
  expectClose(dx, dimage, 1e-5, 1e-5);
  expectClose(dw, dweight, 1e-5, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Geometries, Depthwise,
                         testing::Values(Geometry{"Mobile", 2, 24, 9, 11, 3, 1, 1, 1},
                                         Geometry{"Strided", 2, 40, 14, 13, 5, 2, 2, 1},
                                         Geometry{"Large", 1, 33, 12, 16, 7, 1, 3, 1},
                                         Geometry{"LargerThanImage", 2, 16, 2, 2, 7, 1, 3, 1},
                                         Geometry{"Dilated", 1, 18, 10, 9, 3, 1, 2, 2},
                                         Geometry{"DilatedStrided", 1, 8, 11, 12, 3, 2, 2, 2},
                                         Geometry{"StrideThree", 1, 17, 13, 14, 3, 3, 0, 1},
                                         Geometry{"NoPadding", 2, 5, 6, 7, 2, 1, 0, 1}),
                         [](const auto &info) { return info.param.name; });

} // namespace
