// RUN: stowage-opt %s --stow-verify-step --split-input-file --verify-diagnostics

// S11: a parameter's update that reads what one rank has, and a loss of one rank.
module attributes {stow.form = "step", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{@train: "loss" would differ from rank to rank: it is computed from "x" without a stow.all_reduce between them}}
    %l = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %g = stow.neg %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{@train: "w" would differ from rank to rank: it is computed from "x"}}
    %w1 = stow.sgd %w, %g, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %l, %w1 : tensor<f32>, tensor<4xf32>
  }
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// S11: with reductions in between it passes; running statistics may differ.
module attributes {stow.form = "step", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %s: tensor<4xf32> {stow.name = "s", stow.kind = #stow.kind<statistic>, stow.init = #stow.init<"constant", 0.0, 0.0>},
      %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "w"}, tensor<4xf32> {stow.state = "s"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s1 = stow.add %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %p = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %l = stow.all_reduce %p {ranks = 2 : i64} : (tensor<f32>) -> tensor<f32>
    %h = stow.neg %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %g = stow.all_reduce %h {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %w1 = stow.sgd %w, %g, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %l, %w1, %s1 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// S11: a module of one device reduces nothing.
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    %p = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    // expected-error @+1 {{is of 2 ranks in a graph of role train; the module is for 1 device}}
    %l = stow.all_reduce %p {ranks = 2 : i64} : (tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// S11: a parameter that is computed from a rank's shard is gathered; the state of which each rank has a shard may differ.
module attributes {stow.form = "step", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<2xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}, %u: tensor<4xf32> {stow.name = "u", stow.kind = #stow.kind<parameter>},
      %m: tensor<2xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>, stow.init = #stow.init<"constant", 0.0, 0.0>, stow.shard_of = tensor<4xf32>},
      %lr: tensor<f32> {stow.name = "learning_rate", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<2xf32> {stow.state = "w"}, tensor<4xf32> {stow.state = "u"}, tensor<2xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
    %p = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %l = stow.all_reduce %p {ranks = 2 : i64} : (tensor<f32>) -> tensor<f32>
    %g = stow.reduce_scatter %x {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<2xf32>
    %s = stow.shard %u {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<2xf32>
    // expected-error @+1 {{@train: "w" would differ from rank to rank: it is computed from a stow.shard without a stow.all_gather between them}}
    %w1 = stow.sgd %w, %s, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %v, %m1 = stow.sgd %s, %g, %lr, %m {momentum = 0.9 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %u1 = stow.all_gather %v, %u {ranks = 2 : i64, stow.phase = #stow.phase<update>} : (tensor<2xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %l, %w1, %u1, %m1 : tensor<f32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>
  }
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// S11: gathering makes the same of all ranks' shards, but adds up no gradients.
module attributes {stow.form = "step", stow.devices = 2 : i64} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %u: tensor<4xf32> {stow.name = "u", stow.kind = #stow.kind<parameter>},
      %m: tensor<2xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>, stow.init = #stow.init<"constant", 0.0, 0.0>, stow.shard_of = tensor<4xf32>},
      %lr: tensor<f32> {stow.name = "learning_rate", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "u"}, tensor<2xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
    %p = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %l = stow.all_reduce %p {ranks = 2 : i64} : (tensor<f32>) -> tensor<f32>
    %g = stow.shard %x {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<2xf32>
    %s = stow.shard %u {ranks = 2 : i64, stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<2xf32>
    // expected-error @+1 {{@train: "m" would differ from rank to rank: it is computed from "x" without a stow.all_reduce between them}}
    %v, %m1 = stow.sgd %s, %g, %lr, %m {momentum = 0.9 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    // expected-error @+1 {{@train: "u" would differ from rank to rank: it is computed from "x" without a stow.all_reduce between them}}
    %u1 = stow.all_gather %v, %u {ranks = 2 : i64, stow.phase = #stow.phase<update>} : (tensor<2xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %l, %u1, %m1 : tensor<f32>, tensor<4xf32>, tensor<2xf32>
  }
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// S11: a shard is of the module's devices.
// expected-error @+2 {{@train: "m" is no shard of a parameter or of optimizer state tensor<4xf32> on 4 devices}}
module attributes {stow.form = "step", stow.devices = 4 : i64} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %m: tensor<2xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>, stow.init = #stow.init<"constant", 0.0, 0.0>, stow.shard_of = tensor<4xf32>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<2xf32> {stow.state = "m"}) attributes {stow.role = #stow.role<train>} {
    %p = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %l = stow.all_reduce %p {ranks = 4 : i64} : (tensor<f32>) -> tensor<f32>
    return %l, %m : tensor<f32>, tensor<2xf32>
  }
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
