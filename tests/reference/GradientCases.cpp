#include "tests/reference/GradientCases.h"

namespace stow::reference {
namespace {

using Cases = std::vector<GradientCase>;

std::string tensor(const std::string &shape) { return "tensor<" + shape + "f64>"; }

/// One op from float arguments %a, %b, ... to one float result.
GradientCase single(std::string name, std::string op, std::vector<std::string> shapes,
                    std::string attributes, std::string result, double low = -2, double high = 2) {
  std::string arguments, operands, types;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::string value = std::string("%") + static_cast<char>('a' + i);
    std::string separator = i ? ", " : "";
    arguments += separator + value + ": " + tensor(shapes[i]);
    operands += separator + value;
    types += separator + tensor(shapes[i]);
  }
  std::string dictionary = attributes.empty() ? "" : " {" + attributes + "}";
  return {name,
          arguments,
          tensor(result),
          "%y = stow." + op + " " + operands + dictionary + " : (" + types + ") -> " +
              tensor(result) + "\nreturn %y : " + tensor(result),
          low,
          high};
}

void addUnary(Cases &cases) {
  for (std::string op : {"neg", "abs", "sign", "sin", "cos", "atan", "exp", "reciprocal", "sigmoid",
                         "tanh", "erf", "softplus", "relu", "expm1"})
    cases.push_back(single(op, op, {"3x4x"}, "", "3x4x"));
  for (std::string op : {"log", "sqrt", "log1p"})
    cases.push_back(single(op, op, {"3x4x"}, "", "3x4x", 0.3, 2));
  cases.push_back(single("hard_swish", "hard_swish", {"5x5x"}, "", "5x5x", -4.1, 4.1));
  cases.push_back(single("leaky_relu", "leaky_relu", {"3x4x"}, "alpha = 0.1 : f64", "3x4x"));
  cases.push_back(
      single("thresholded_relu", "thresholded_relu", {"3x4x"}, "alpha = 0.4 : f64", "3x4x"));
  cases.push_back(single("elu", "elu", {"3x4x"}, "alpha = 1.5 : f64", "3x4x"));
  cases.push_back(single("hard_sigmoid", "hard_sigmoid", {"5x4x"},
                         "alpha = 0.2 : f64, beta = 0.5 : f64", "5x4x", -3.9, 3.9));
  cases.push_back(single("hard_sigmoid_falling", "hard_sigmoid", {"5x4x"},
                         "alpha = -0.3 : f64, beta = 0.4 : f64", "5x4x", -3.9, 3.9));
  cases.push_back(single("clip", "clip", {"3x4x"}, "low = -1.03 : f64, high = 0.52 : f64", "3x4x"));
  cases.push_back(
      single("hard_tanh", "hard_tanh", {"3x4x"}, "low = -1.03 : f64, high = 0.52 : f64", "3x4x"));
  cases.push_back(single("cast", "cast", {"3x4x"}, "", "3x4x"));
  for (std::string saved : {"output", "mask", "input"}) {
    cases.push_back(single("relu_" + saved, "relu", {"3x4x"}, "", "3x4x"));
    cases.back().saved = saved;
  }
  cases.push_back({"dropout_training",
                   "%a: tensor<5x7xf64>, %seed: tensor<i64>",
                   "tensor<5x7xf64>",
                   R"(
      %y = stow.dropout_training %a, %seed {ratio = 0.4 : f64, stream = 3 : i64}
          : (tensor<5x7xf64>, tensor<i64>) -> tensor<5x7xf64>
      return %y : tensor<5x7xf64>)",
                   -2,
                   2,
                   {12345}});
}

void addBinary(Cases &cases) {
  struct Shapes {
    std::string name, a, b, y;
  };
  for (const Shapes &s :
       {Shapes{"same", "3x4x", "3x4x", "3x4x"}, Shapes{"row", "3x4x", "4x", "3x4x"},
        Shapes{"column", "3x1x", "2x3x4x", "2x3x4x"}, Shapes{"both", "2x1x4x", "3x1x", "2x3x4x"},
        Shapes{"scalar", "", "3x4x", "3x4x"}}) {
    for (std::string op : {"add", "sub", "mul", "maximum", "minimum"})
      cases.push_back(single(op + "_" + s.name, op, {s.a, s.b}, "", s.y));
    cases.push_back(single("atan2_" + s.name, "atan2", {s.a, s.b}, "", s.y));
    cases.push_back(single("binary_cross_entropy_" + s.name, "binary_cross_entropy", {s.a, s.b}, "",
                           s.y, 0.1, 0.9));
    for (std::string op : {"div", "pow"})
      cases.push_back(single(op + "_" + s.name, op, {s.a, s.b}, "", s.y, 0.4, 2));
  }
  cases.push_back({"mul_square", "%a: tensor<3x4xf64>", "tensor<3x4xf64>", R"(
      %y = stow.mul %a, %a : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>
      return %y : tensor<3x4xf64>)"});
  for (std::string exponent : {"0.0", "1.0", "2.0", "3.0", "-1.0"})
    cases.push_back({"pow_constant_" + exponent, "%a: tensor<3x4xf64>", "tensor<3x4xf64>",
                     "%e = stow.constant dense<" + exponent + R"(> : tensor<f64>
      %y = stow.pow %a, %e : (tensor<3x4xf64>, tensor<f64>) -> tensor<3x4xf64>
      return %y : tensor<3x4xf64>)"});
}

void addLinear(Cases &cases) {
  struct Convolution {
    std::string name, x, w, bias, y, attributes;
  };
  for (const Convolution &c :
       {Convolution{"plain", "2x3x5x4x", "4x3x3x3x", "", "2x4x3x2x",
                    "strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = "
                    "array<i64: 1, 1>, groups = 1 : i64"},
        Convolution{"bias_padded", "2x2x4x5x", "3x2x3x3x", "3x", "2x3x4x5x",
                    "strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = "
                    "array<i64: 1, 1>, groups = 1 : i64"},
        Convolution{"strided", "1x2x7x6x", "2x2x3x2x", "2x", "1x2x4x3x",
                    "strides = array<i64: 2, 2>, pads = array<i64: 1, 0, 1, 0>, dilations = "
                    "array<i64: 1, 1>, groups = 1 : i64"},
        Convolution{"uneven_pads", "1x1x6x6x", "2x1x3x3x", "", "1x2x3x4x",
                    "strides = array<i64: 2, 2>, pads = array<i64: 0, 1, 1, 2>, dilations = "
                    "array<i64: 1, 1>, groups = 1 : i64"},
        Convolution{"grouped", "1x4x4x4x", "6x2x2x2x", "6x", "1x6x3x3x",
                    "strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = "
                    "array<i64: 1, 1>, groups = 2 : i64"},
        Convolution{"depthwise_dilated", "2x3x6x5x", "3x1x3x2x", "", "2x3x4x6x",
                    "strides = array<i64: 1, 1>, pads = array<i64: 1, 2, 1, 1>, dilations = "
                    "array<i64: 2, 2>, groups = 3 : i64"}}) {
    std::vector<std::string> shapes = {c.x, c.w};
    if (!c.bias.empty())
      shapes.push_back(c.bias);
    cases.push_back(single("conv2d_" + c.name, "conv2d", shapes, c.attributes, c.y));
    // A transposed convolution: what was y is read.
    cases.push_back(
        single("conv2d_grad_input_" + c.name, "conv2d_grad_input", {c.y, c.w}, c.attributes, c.x));
  }
  std::string volume = "strides = array<i64: 1, 2, 1>, pads = array<i64: 1, 0, 0, 0, 1, 0>, "
                       "dilations = array<i64: 1, 1, 2>, groups = 2 : i64";
  cases.push_back(
      single("conv2d_volume", "conv2d", {"1x4x3x4x5x", "2x2x2x3x2x", "2x"}, volume, "1x2x3x2x3x"));
  cases.push_back(single("conv2d_grad_input_volume", "conv2d_grad_input",
                         {"1x2x3x2x3x", "2x2x2x3x2x"}, volume, "1x4x3x4x5x"));
  cases.push_back(single("conv2d_line", "conv2d", {"2x2x6x", "3x2x3x"},
                         "strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: "
                         "1>, groups = 1 : i64",
                         "2x3x3x"));
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      std::string flags = std::string("transpose_a = ") + (ta ? "true" : "false") +
                          ", transpose_b = " + (tb ? "true" : "false");
      std::string suffix = std::string(ta ? "_ta" : "") + (tb ? "_tb" : "");
      std::string a = ta ? "4x3x" : "3x4x", b = tb ? "2x4x" : "4x2x";
      auto add = [&](std::string name, std::vector<std::string> shapes, std::string y) {
        cases.push_back(single("matmul_" + name + suffix, "matmul", shapes, flags, y));
      };
      add("plain", {a, b, "2x"}, "3x2x");
      add("stack", {"2x" + a, "2x" + b}, "2x3x2x");
      add("stack_times_matrix", {"2x5x" + a, b, "2x"}, "2x5x3x2x");
      add("matrix_times_stack", {a, "2x" + b}, "2x3x2x");
      add("broadcast", {"2x1x" + a, "3x" + b}, "2x3x3x2x");
    }
}

/// Attention [2,Hq,3,4] with heads of keys [2,H,5,4] and values [2,H,5,2].
GradientCase attention(std::string name, std::string attributes, int64_t heads = 2,
                       std::string mask = "", std::string maskType = "", bool seeded = false) {
  const std::string q = "tensor<2x2x3x4xf64>", h = std::to_string(heads),
                    k = "tensor<2x" + h + "x5x4xf64>", v = "tensor<2x" + h + "x5x2xf64>",
                    y = "tensor<2x2x3x2xf64>";
  const std::string masked = mask.empty() ? "" : " mask %m", given = seeded ? " seed %seed" : "";
  std::string body = mask.empty() ? "" : "%m = stow.constant " + mask + " : " + maskType + "\n";
  body += "%y, %lse = stow.attention %a, %b, %c" + masked + given + " {scale = 0.7 : f64, " +
          attributes + ", stream = 4 : i64} : (" + q + ", " + k + ", " + v +
          (mask.empty() ? "" : ", " + maskType) + (seeded ? ", tensor<i64>" : "") + ") -> (" + y +
          ", tensor<2x2x3x2xf64>)\nreturn %y : " + y;
  return {name,
          "%a: " + q + ", %b: " + k + ", %c: " + v + (seeded ? ", %seed: tensor<i64>" : ""),
          y,
          body,
          -2,
          2,
          seeded ? std::vector<double>{12345} : std::vector<double>{}};
}

/// Three queries of two documents that see one of five keys at least.
GradientCase attentionWithinDocuments() {
  const std::string q = "tensor<2x2x3x4xf64>", k = "tensor<2x1x5x4xf64>", v = "tensor<2x1x5x2xf64>",
                    y = "tensor<2x2x3x2xf64>", ofQueries = "tensor<2x1x3xi64>",
                    ofKeys = "tensor<5xi64>";
  return {"attention_documents",
          "%a: " + q + ", %b: " + k + ", %c: " + v,
          y,
          "%d = stow.constant dense<[[[7, 7, 9]], [[9, 7, 7]]]> : " + ofQueries +
              "\n%e = stow.constant dense<[9, 7, 9, 8, 7]> : " + ofKeys +
              "\n%y, %lse = stow.attention %a, %b, %c documents %d, %e {scale = 0.7 : f64, "
              "diagonal = 1 : i64, zero_rows = false, ratio = 0.0 : f64, stream = 4 : i64} : (" +
              q + ", " + k + ", " + v + ", " + ofQueries + ", " + ofKeys + ") -> (" + y +
              ", tensor<2x2x3x2xf64>)\nreturn %y : " + y,
          -2,
          2,
          {}};
}

void addAttention(Cases &cases) {
  const std::string plain = "zero_rows = false, ratio = 0.0 : f64";
  cases.push_back(attention("attention", plain));
  cases.push_back(attention("attention_triangle", "diagonal = 1 : i64, " + plain));
  cases.push_back(attention("attention_window", "diagonal = 1 : i64, window = 2 : i64, " + plain));
  cases.push_back(attention("attention_shared", "diagonal = 0 : i64, " + plain, 1));
  cases.push_back(attention("attention_masked", plain, 2,
                            "dense<[[true, false, true, true, false], [false, true, true, false, "
                            "true], [true, true, true, true, false]]>",
                            "tensor<3x5xi1>"));
  cases.push_back(attention("attention_empty_row", "zero_rows = true, ratio = 0.0 : f64", 2,
                            "dense<[[[true], [false], [true]]]>", "tensor<1x3x1xi1>"));
  cases.push_back(attention("attention_added", plain, 1, "dense<[[0.0, 1.0, -1.0, 0.5, -0.5]]>",
                            "tensor<1x5xf64>"));
  cases.push_back(attentionWithinDocuments());
  cases.push_back(attention("attention_dropped", "zero_rows = false, ratio = 0.4 : f64", 2, "", "",
                            /*seeded=*/true));
}

void addWindows(Cases &cases) {
  auto window = [](std::string kernel, std::string strides, std::string pads,
                   std::string dilations = "1, 1") {
    return "kernel = array<i64: " + kernel + ">, strides = array<i64: " + strides +
           ">, pads = array<i64: " + pads + ">, dilations = array<i64: " + dilations + ">";
  };
  struct Window {
    std::string name, x, y, attributes;
  };
  for (const Window &w :
       {Window{"plain", "2x2x4x4x", "2x2x2x2x", window("2, 2", "2, 2", "0, 0, 0, 0")},
        Window{"overlapping", "1x2x5x6x", "1x2x3x3x", window("3, 3", "2, 2", "1, 1, 1, 1")},
        Window{"uneven", "1x1x5x5x", "1x1x3x6x", window("3, 2", "2, 1", "0, 1, 2, 1")}}) {
    cases.push_back({"max_pool_training_" + w.name, "%a: " + tensor(w.x), tensor(w.y),
                     "%y, %i = stow.max_pool_training %a {" + w.attributes + "} : (" + tensor(w.x) +
                         ") -> (" + tensor(w.y) + ", tensor<" + w.y +
                         "i8>)\nreturn %y : " + tensor(w.y)});
    for (std::string include : {"true", "false"})
      cases.push_back(single("avg_pool_" + w.name + "_" + include, "avg_pool", {w.x},
                             w.attributes + ", count_include_pad = " + include, w.y));
  }
  std::string volume = window("2, 1, 3", "1, 1, 2", "1, 0, 1, 0, 0, 1", "1, 1, 1");
  cases.push_back({"max_pool_training_volume", "%a: tensor<1x2x3x2x4xf64>", "tensor<1x2x3x2x2xf64>",
                   "%y, %i = stow.max_pool_training %a {" + volume +
                       "} : (tensor<1x2x3x2x4xf64>) -> (tensor<1x2x3x2x2xf64>, "
                       "tensor<1x2x3x2x2xi8>)\nreturn %y : tensor<1x2x3x2x2xf64>"});
  cases.push_back(single("avg_pool_volume", "avg_pool", {"1x2x3x2x4x"},
                         volume + ", count_include_pad = false", "1x2x3x2x2x"));
  cases.push_back({"max_pool_training_dilated", "%a: tensor<1x1x6x6xf64>", "tensor<1x1x4x4xf64>",
                   "%y, %i = stow.max_pool_training %a {" +
                       window("2, 2", "1, 1", "0, 0, 0, 0", "2, 2") +
                       "} : (tensor<1x1x6x6xf64>) -> (tensor<1x1x4x4xf64>, tensor<1x1x4x4xi8>)\n"
                       "return %y : tensor<1x1x4x4xf64>"});
}

/// Instance and group normalization are built of these.
void addPlanes(Cases &cases) {
  for (std::string rest : {"4x", "2x3x", "2x1x2x"}) {
    std::string x = "2x3x" + rest, planes = "2x3x", ones;
    for (size_t i = 0; i + 1 < rest.size(); i += 2)
      ones += "1x";
    std::string results = tensor(planes) + ", " + tensor(planes);
    cases.push_back({"plane_moments_" + rest, "%a: " + tensor(x), results,
                     "%m, %v = stow.plane_moments %a : (" + tensor(x) + ") -> (" + results +
                         ")\nreturn %m, %v : " + results});
    std::string numbers = planes + ones;
    cases.push_back(single("plane_normalize_" + rest, "plane_normalize",
                           {x, numbers, numbers, numbers}, "", x));
  }
}

void addRmsNorm(Cases &cases) {
  for (std::string x : {"4x5x", "2x3x4x"}) {
    std::string row = x.substr(x.size() - 2), rows = x.substr(0, x.size() - 2);
    std::string results = tensor(x) + ", " + tensor(rows);
    cases.push_back({"rms_norm_" + x, "%a: " + tensor(x) + ", %s: " + tensor(row), results,
                     "%y, %r = stow.rms_norm %a, %s {epsilon = 1.0e-3 : f64} : (" + tensor(x) +
                         ", " + tensor(row) + ") -> (" + results +
                         ")\nreturn %y, %r : " + results});
  }
}

void addResampling(Cases &cases) {
  auto resample = [&](std::string name, std::string x, std::string y, std::string axes,
                      std::string extents, std::string starts, std::string sources,
                      std::string weights) {
    cases.push_back(single("resample_" + name, "resample", {x},
                           "axes = array<i64: " + axes + ">, extents = array<i64: " + extents +
                               ">, starts = array<i64: " + starts + ">, sources = array<i64: " +
                               sources + ">, weights = array<f64: " + weights + ">",
                           y));
  };
  resample("nearest", "2x3x", "2x6x", "1", "6", "0, 1, 2, 3, 4, 5, 6", "0, 0, 1, 1, 2, 2",
           "1.0, 1.0, 1.0, 1.0, 1.0, 1.0");
  // An element that is read by none, a row that reads none, sources out of order.
  resample("gaps", "4x2x", "3x2x", "0", "3", "0, 2, 2, 5", "3, 0, 1, 0, 1",
           "0.5, -1.0, 0.25, 2.0, 0.75");
  resample("two_axes", "2x3x2x", "3x3x3x", "0, 2", "3, 3", "0, 1, 3, 4, 4, 5, 7, 8",
           "0, 0, 1, 1, 0, 0, 1, 1", "1.0, 0.5, 0.5, 1.0, 1.0, 0.25, 0.75, 1.0");
  cases.push_back(single("rearrange_depth_to_space", "rearrange", {"1x8x2x3x"},
                         "factors = array<i64: 1, 2, 2, 2, 2, 3>, "
                         "permutation = array<i64: 0, 3, 4, 1, 5, 2>",
                         "1x2x4x6x"));
  cases.push_back(single("rearrange_shuffle", "rearrange", {"2x6x3x"},
                         "factors = array<i64: 2, 3, 2, 3>, permutation = array<i64: 0, 2, 1, 3>",
                         "2x6x3x"));
}

void addSampling(Cases &cases) {
  auto sample = [&](std::string name, std::string x, std::string grid, std::string mode,
                    std::string padding, std::string corners, std::string y) {
    cases.push_back(
        single("grid_sample_" + name, "grid_sample", {x, grid},
               "mode = \"" + mode + "\", padding = \"" + padding + "\", align_corners = " + corners,
               y, -1.7, 1.7));
  };
  for (std::string padding : {"zeros", "border", "reflection"})
    for (std::string corners : {"false", "true"})
      sample(padding + "_" + corners, "2x3x4x5x", "2x3x3x2x", "linear", padding, corners,
             "2x3x3x3x");
  sample("line", "2x2x5x", "2x7x1x", "linear", "zeros", "false", "2x2x7x");
  sample("volume", "1x2x3x2x4x", "1x2x2x3x3x", "linear", "zeros", "true", "1x2x2x2x3x");
  sample("one_element", "1x2x1x3x", "1x2x2x2x", "linear", "reflection", "true", "1x2x2x2x");
  sample("nearest", "2x3x4x5x", "2x3x3x2x", "nearest", "reflection", "false", "2x3x3x3x");
}

void addNorm(Cases &cases) {
  for (std::string x : {"5x3x", "3x2x4x", "2x3x2x3x", "2x3x2x1x2x"}) {
    std::string c = x.substr(2, 2);
    cases.push_back(single("batch_norm_" + x, "batch_norm", {x, c, c, c, c},
                           "epsilon = 1.0e-3 : f64, momentum = 0.1 : f64", x, 0.2, 2));
    std::string results = tensor(x) + ", " + tensor(c) + ", " + tensor(c);
    cases.push_back(
        {"batch_norm_training_" + x,
         "%a: " + tensor(x) + ", %s: " + tensor(c) + ", %b: " + tensor(c), results,
         "%y, %m, %v = stow.batch_norm_training %a, %s, %b {epsilon = 1.0e-3 : f64} : (" + results +
             ") -> (" + results + ")\nreturn %y, %m, %v : " + results});
  }
  cases.push_back(single("channel_window_sum", "channel_window_sum", {"2x5x3x"},
                         "before = 2 : i64, after = 1 : i64", "2x5x3x"));
  cases.push_back(single("channel_window_sum_wide", "channel_window_sum", {"2x3x2x2x"},
                         "before = 0 : i64, after = 4 : i64", "2x3x2x2x"));
}

void addLayerNorm(Cases &cases) {
  for (std::string x : {"4x5x", "2x3x4x"}) {
    std::string row = x.substr(x.size() - 2), rows = x.substr(0, x.size() - 2);
    std::string results = tensor(x) + ", " + tensor(rows) + ", " + tensor(rows);
    for (bool bias : {true, false})
      cases.push_back(
          {"layer_norm_" + x + (bias ? "_bias" : ""),
           "%a: " + tensor(x) + ", %s: " + tensor(row) + (bias ? ", %b: " + tensor(row) : ""),
           results,
           "%y, %m, %r = stow.layer_norm %a, %s" + std::string(bias ? ", %b" : "") +
               " {epsilon = 1.0e-3 : f64} : (" + tensor(x) + ", " + tensor(row) +
               (bias ? ", " + tensor(row) : "") + ") -> (" + results +
               ")\nreturn %y, %m, %r : " + results});
  }
}

void addIndexed(Cases &cases) {
  // Rows read several times, once and never; negative indices count from the end.
  cases.push_back({"embedding",
                   "%t: tensor<5x3xf64>, %i: tensor<2x4xi64>",
                   "tensor<2x4x3xf64>",
                   R"(
      %y = stow.embedding %t, %i : (tensor<5x3xf64>, tensor<2x4xi64>) -> tensor<2x4x3xf64>
      return %y : tensor<2x4x3xf64>)",
                   -2,
                   2,
                   {0, 4, 4, 2, -1, 0, 4, -5}});
  cases.push_back({"embedding_wide",
                   "%t: tensor<3x2x2xf64>, %i: tensor<4xi32>",
                   "tensor<4x2x2xf64>",
                   R"(
      %y = stow.embedding %t, %i : (tensor<3x2x2xf64>, tensor<4xi32>) -> tensor<4x2x2xf64>
      return %y : tensor<4x2x2xf64>)",
                   -2,
                   2,
                   {1, 1, 2, 1}});
  cases.push_back({"select",
                   "%c: tensor<3x1xi1>, %a: tensor<2x3x4xf64>, %b: tensor<4xf64>",
                   "tensor<2x3x4xf64>",
                   R"(
      %y = stow.select %c, %a, %b
          : (tensor<3x1xi1>, tensor<2x3x4xf64>, tensor<4xf64>) -> tensor<2x3x4xf64>
      return %y : tensor<2x3x4xf64>)",
                   -2,
                   2,
                   {1, 0, 1}});
}

void addAlong(Cases &cases) {
  // Elements read several times, once and never, with one index for all columns or each its own.
  cases.push_back({"take_along",
                   "%x: tensor<2x4x3xf64>, %i: tensor<1x5x1xi32>",
                   "tensor<2x5x3xf64>",
                   R"(
      %y = stow.take_along %x, %i {axis = 1 : i64}
          : (tensor<2x4x3xf64>, tensor<1x5x1xi32>) -> tensor<2x5x3xf64>
      return %y : tensor<2x5x3xf64>)",
                   -2,
                   2,
                   {3, 0, 3, -1, 1}});
  cases.push_back({"take_along_columns",
                   "%x: tensor<2x4xf64>, %i: tensor<2x3xi64>",
                   "tensor<2x3xf64>",
                   R"(
      %y = stow.take_along %x, %i {axis = 1 : i64}
          : (tensor<2x4xf64>, tensor<2x3xi64>) -> tensor<2x3xf64>
      return %y : tensor<2x3xf64>)",
                   -2,
                   2,
                   {3, 0, 3, -4, 1, 2}});
  cases.push_back({"scatter_along",
                   "%x: tensor<4x3xf64>, %i: tensor<4x3xi64>",
                   "tensor<5x3xf64>",
                   R"(
      %y = stow.scatter_along %x, %i {axis = 0 : i64, extent = 5 : i64}
          : (tensor<4x3xf64>, tensor<4x3xi64>) -> tensor<5x3xf64>
      return %y : tensor<5x3xf64>)",
                   -2,
                   2,
                   {0, 4, 4, 0, 1, -1, 2, 3, 4, 0, 0, -5}});
}

void addScattered(Cases &cases) {
  for (std::string op : {"scatter_max", "scatter_mul"})
    cases.push_back({op,
                     "%x: tensor<5x3xf64>, %u: tensor<4x3xf64>, %i: tensor<4x3xi64>",
                     "tensor<5x3xf64>",
                     "%y = stow." + op + R"( %x, %u, %i {axis = 0 : i64}
          : (tensor<5x3xf64>, tensor<4x3xf64>, tensor<4x3xi64>) -> tensor<5x3xf64>
      return %y : tensor<5x3xf64>)",
                     -2,
                     2,
                     {0, 4, 4, 0, 1, -1, 2, 3, 4, 0, 0, -5}});
  // One and two zeros at a place: the only value of a tensor of one element is the middle of the range.
  cases.push_back({"scatter_mul_zeros",
                   "%x: tensor<3xf64>, %a: tensor<1xf64>, %b: tensor<1xf64>, %c: tensor<1xf64>, "
                   "%d: tensor<3xf64>, %i: tensor<6xi64>",
                   "tensor<3xf64>",
                   R"(
      %u = stow.concat %a, %b, %c, %d {axis = 0 : i64}
          : (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<3xf64>) -> tensor<6xf64>
      %y = stow.scatter_mul %x, %u, %i {axis = 0 : i64}
          : (tensor<3xf64>, tensor<6xf64>, tensor<6xi64>) -> tensor<3xf64>
      return %y : tensor<3xf64>)",
                   -2,
                   2,
                   {0, 1, 1, 0, 1, 2}});
}

void addSteps(Cases &cases) {
  cases.push_back(single("strided_slice", "strided_slice", {"7x6x"},
                         "starts = array<i64: 1, 5>, sizes = array<i64: 3, 3>, steps = "
                         "array<i64: 2, -2>",
                         "3x3x"));
  cases.push_back(single("strided_pad", "strided_pad", {"3x2x"},
                         "starts = array<i64: 6, 1>, steps = array<i64: -3, 2>, shape = "
                         "array<i64: 8, 5>",
                         "8x5x"));
  for (std::string largest : {"true", "false"})
    cases.push_back({"top_k_" + largest, "%x: tensor<3x5x2xf64>", "tensor<3x2x2xf64>",
                     "%y, %i = stow.top_k %x {axis = 1 : i64, k = 2 : i64, largest = " + largest +
                         R"(} : (tensor<3x5x2xf64>) -> (tensor<3x2x2xf64>, tensor<3x2x2xi64>)
      return %y : tensor<3x2x2xf64>)"});
  for (std::string flags :
       {"exclusive = false, reverse = false", "exclusive = true, reverse = false",
        "exclusive = false, reverse = true", "exclusive = true, reverse = true"})
    cases.push_back(single("cumsum_" + std::to_string(cases.size()), "cumsum", {"3x4x2x"},
                           "axis = 1 : i64, " + flags, "3x4x2x"));
  // Nothing flows back through whole numbers.
  cases.push_back({"detach", "%x: tensor<3x4xf64>", "tensor<3x4xf64>", R"(
      %steps = stow.round %x {mode = "floor"} : (tensor<3x4xf64>) -> tensor<3x4xf64>
      %d = stow.detach %steps : (tensor<3x4xf64>) -> tensor<3x4xf64>
      %y = stow.add %x, %d : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>
      return %y : tensor<3x4xf64>)"});
  cases.push_back(single("round", "round", {"3x4x"}, "mode = \"floor\"", "3x4x"));
  cases.push_back({"compare", "%a: tensor<3x4xf64>, %b: tensor<4xf64>", "tensor<3x4xf64>", R"(
      %limit = stow.constant dense<0.137> : tensor<f64>
      %m = stow.compare %a, %limit {predicate = "lt"} : (tensor<3x4xf64>, tensor<f64>) -> tensor<3x4xi1>
      %y = stow.select %m, %a, %b
          : (tensor<3x4xi1>, tensor<3x4xf64>, tensor<4xf64>) -> tensor<3x4xf64>
      return %y : tensor<3x4xf64>)"});
}

void addReductions(Cases &cases) {
  for (std::string op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_sum_squares"}) {
    cases.push_back(
        single(op + "_last", op, {"3x4x"}, "axes = array<i64: 1>, keepdims = false", "3x"));
    cases.push_back(
        single(op + "_first", op, {"3x4x"}, "axes = array<i64: 0>, keepdims = true", "1x4x"));
    cases.push_back(single(op + "_inner", op, {"2x3x2x2x"},
                           "axes = array<i64: 1, 3>, keepdims = false", "2x2x"));
    cases.push_back(
        single(op + "_all", op, {"2x3x"}, "axes = array<i64: 0, 1>, keepdims = false", ""));
  }
  for (std::string op : {"softmax", "log_softmax"})
    for (std::string axis : {"0", "1", "2"})
      cases.push_back(
          single(op + "_" + axis, op, {"2x3x4x"}, "axis = " + axis + " : i64", "2x3x4x"));
  cases.push_back({"cross_entropy_rows",
                   "%a: tensor<4x3xf64>, %t: tensor<4xi64>",
                   "tensor<4xf64>, tensor<4xf64>",
                   R"(
      %l, %lse = stow.cross_entropy_rows %a, %t {ignore_index = -100 : i64}
          : (tensor<4x3xf64>, tensor<4xi64>) -> (tensor<4xf64>, tensor<4xf64>)
      return %l, %lse : tensor<4xf64>, tensor<4xf64>)",
                   -2,
                   2,
                   {2, -100, 0, 1}});
  cases.push_back({"cross_entropy_rows_weight",
                   "%a: tensor<4x3xf64>, %t: tensor<4xi64>",
                   "tensor<4xf64>, tensor<4xf64>",
                   R"(
      %w = stow.constant dense<[0.5, 2.0, 1.25]> : tensor<3xf64>
      %l, %lse = stow.cross_entropy_rows %a, %t, %w {ignore_index = 1 : i64, label_smoothing = 0.3 : f64}
          : (tensor<4x3xf64>, tensor<4xi64>, tensor<3xf64>) -> (tensor<4xf64>, tensor<4xf64>)
      return %l, %lse : tensor<4xf64>, tensor<4xf64>)",
                   -2,
                   2,
                   {2, 1, 0, 0}});
  cases.push_back({"nll_rows",
                   "%a: tensor<4x3xf64>, %t: tensor<4xi64>",
                   "tensor<4xf64>",
                   R"(
      %l = stow.nll_rows %a, %t {ignore_index = -100 : i64}
          : (tensor<4x3xf64>, tensor<4xi64>) -> tensor<4xf64>
      return %l : tensor<4xf64>)",
                   -2,
                   2,
                   {2, -100, 0, 1}});
}

void addShapes(Cases &cases) {
  cases.push_back(single("reshape", "reshape", {"3x4x"}, "", "2x6x"));
  cases.push_back(
      single("transpose", "transpose", {"2x3x4x"}, "permutation = array<i64: 1, 2, 0>", "3x4x2x"));
  cases.push_back(single("concat", "concat", {"2x3x", "2x1x", "2x2x"}, "axis = 1 : i64", "2x6x"));
  cases.push_back(single("slice", "slice", {"4x5x"},
                         "starts = array<i64: 1, 2>, sizes = array<i64: 2, 3>", "2x3x"));
  cases.push_back(single("pad", "pad", {"2x3x"},
                         "before = array<i64: 1, 0>, after = array<i64: 0, 2>, value = 0.7 : f64",
                         "3x5x"));
  cases.push_back(single("broadcast_to", "broadcast_to", {"3x1x"}, "", "2x3x4x"));
  // A value with several readers, read through a view as well: contributions add up.
  cases.push_back({"fan_out", "%a: tensor<2x6xf64>, %b: tensor<3x4xf64>", "tensor<3x4xf64>", R"(
      %0 = stow.tanh %a : (tensor<2x6xf64>) -> tensor<2x6xf64>
      %1 = stow.reshape %0 : (tensor<2x6xf64>) -> tensor<3x4xf64>
      %2 = stow.mul %1, %b : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>
      %3 = stow.reshape %a : (tensor<2x6xf64>) -> tensor<3x4xf64>
      %4 = stow.add %2, %3 : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>
      %5 = stow.mul %4, %1 : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>
      %6 = stow.relu %5 : (tensor<3x4xf64>) -> tensor<3x4xf64>
      return %6 : tensor<3x4xf64>)"});
}

} // namespace

const std::vector<GradientCase> &gradientCases() {
  static const std::vector<GradientCase> cases = [] {
    Cases all;
    addUnary(all);
    addBinary(all);
    addLinear(all);
    addAttention(all);
    addWindows(all);
    addNorm(all);
    addLayerNorm(all);
    addPlanes(all);
    addRmsNorm(all);
    addResampling(all);
    addSampling(all);
    addIndexed(all);
    addAlong(all);
    addScattered(all);
    addSteps(all);
    addReductions(all);
    addShapes(all);
    return all;
  }();
  return cases;
}

} // namespace stow::reference
