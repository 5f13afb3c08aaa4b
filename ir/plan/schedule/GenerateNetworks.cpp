// Convolutional networks as forward graphs: shapes and FLOPs from the published layer tables.
#include "ir/plan/schedule/Generate.h"

#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>

namespace stow::schedule {
namespace {

/// Builds a forward graph op by op; every op has one float32 output of shape [batch, c, h, w].
class Network {
public:
  Network(int64_t batch, int64_t height, int64_t width) : batch(batch) {
    input = {{}, 3, height, width};
  }

  struct Tensor {
    std::optional<ValueId> value; ///< absent: the data, which is not counted
    int64_t channels, height, width;
  };

  Tensor conv(const Tensor &x, int64_t channels, int64_t kernel = 3, int64_t stride = 1,
              int64_t groups = 1) {
    Tensor out{{}, channels, (x.height + stride - 1) / stride, (x.width + stride - 1) / stride};
    return emit("conv", out, 2 * elements(out) * kernel * kernel * x.channels / groups, {x});
  }
  Tensor pool(const Tensor &x) {
    return emit("pool", {{}, x.channels, x.height / 2, x.width / 2}, elements(x), {x});
  }
  Tensor upsample(const Tensor &x) {
    return emit("upsample", {{}, x.channels, x.height * 2, x.width * 2}, 4 * elements(x), {x});
  }
  Tensor pointwise(const char *name, const Tensor &x) {
    return emit(name, x, 4 * elements(x), {x});
  }
  Tensor add(const Tensor &x, const Tensor &y) { return emit("add", x, elements(x), {x, y}); }
  Tensor concat(const Tensor &x, const Tensor &y) {
    return emit("concat", {{}, x.channels + y.channels, x.height, x.width},
                elements(x) + elements(y), {x, y});
  }
  Tensor dense(const Tensor &x, int64_t features) {
    return emit("dense", {{}, features, 1, 1},
                2 * batch * features * x.channels * x.height * x.width, {x});
  }
  Tensor average(const Tensor &x) {
    return emit("average", {{}, x.channels, 1, 1}, elements(x), {x});
  }

  Tensor input;
  Problem problem;

private:
  int64_t elements(const Tensor &x) const { return batch * x.channels * x.height * x.width; }
  Tensor emit(const char *kind, Tensor out, Cost flops, const std::vector<Tensor> &inputs) {
    std::vector<ValueId> reads;
    for (const Tensor &x : inputs)
      if (x.value && (reads.empty() || reads.back() != *x.value))
        reads.push_back(*x.value);
    const std::string name = absl::StrCat(kind, problem.ops.size());
    out.value = problem.addValue(name, 4 * elements(out));
    problem.addOp(name, flops / 1000, reads, {*out.value}); // kFLOP: sums stay far below 2^56
    return out;
  }
  int64_t batch;
};

using Tensor = Network::Tensor;

void vgg19(Network &net) {
  Tensor x = net.input;
  const int64_t blocks[][2] = {{64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}};
  for (auto [channels, depth] : blocks) {
    for (int64_t i = 0; i < depth; ++i)
      x = net.conv(x, channels);
    x = net.pool(x);
  }
  x = net.dense(net.dense(net.dense(x, 4096), 4096), 1000);
}

void resnet50(Network &net) {
  Tensor x = net.conv(net.input, 64, 7, 2);
  x = net.pool(net.pointwise("relu", net.pointwise("bn", x)));
  const int64_t stages[][3] = {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}};
  for (auto [channels, depth, stride] : stages)
    for (int64_t i = 0; i < depth; ++i) {
      int64_t step = i == 0 ? stride : 1;
      Tensor skip = x;
      if (i == 0)
        skip = net.pointwise("bn", net.conv(x, 4 * channels, 1, step));
      Tensor y = net.pointwise("relu", net.pointwise("bn", net.conv(x, channels, 1, step)));
      y = net.pointwise("relu", net.pointwise("bn", net.conv(y, channels, 3)));
      y = net.pointwise("bn", net.conv(y, 4 * channels, 1));
      x = net.pointwise("relu", net.add(y, skip));
    }
  net.dense(net.average(x), 1000);
}

void mobilenet(Network &net) {
  Tensor x = net.pointwise("relu", net.pointwise("bn", net.conv(net.input, 32, 3, 2)));
  const int64_t blocks[][2] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                               {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                               {512, 1}, {1024, 2}, {1024, 1}};
  for (auto [channels, stride] : blocks) {
    x = net.pointwise("relu", net.pointwise("bn", net.conv(x, x.channels, 3, stride, x.channels)));
    x = net.pointwise("relu", net.pointwise("bn", net.conv(x, channels, 1)));
  }
  net.dense(net.average(x), 1000);
}

void encoderDecoder(Network &net, bool skips) {
  Tensor x = net.input;
  std::vector<Tensor> encoder;
  const int64_t channels[] = {64, 128, 256, 512, 512};
  for (int64_t c : channels) {
    x = net.conv(net.conv(x, c), c);
    encoder.push_back(x);
    x = net.pool(x);
  }
  for (int i = 4; i >= 0; --i) {
    x = net.upsample(x);
    if (skips)
      x = net.concat(x, encoder[i]);
    x = net.pointwise("bn", net.conv(x, channels[i]));
  }
  net.pointwise("softmax", net.conv(x, 12, 1));
}

} // namespace

Problem convolutionalForward(const std::string &name, int64_t batch) {
  bool segmentation = name == "unet" || name == "segnet";
  Network net(batch, segmentation ? 416 : 224, segmentation ? 608 : 224);
  if (name == "vgg19")
    vgg19(net);
  else if (name == "resnet50")
    resnet50(net);
  else if (name == "mobilenet")
    mobilenet(net);
  else if (segmentation)
    encoderDecoder(net, name == "unet");
  else
    throw Error::badInput("unknown network \"" + name +
                          "\"; expected vgg19, resnet50, mobilenet, unet or segnet");
  net.problem.name = absl::StrCat(name, "-b", batch);
  return net.problem;
}

} // namespace stow::schedule
