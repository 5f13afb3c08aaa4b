// RUN: stowage-opt %s --stow-verify-step --split-input-file --verify-diagnostics

// Tests that a whole step passes: forward, backward, update inside the backward.
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>},
      %m: tensor<4xf32> {stow.name = "w.momentum", stow.kind = #stow.kind<optimizer>, stow.init = #stow.init<"constant", 0.0, 0.0>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "w"}, tensor<4xf32> {stow.state = "w.momentum"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %g = stow.neg %x {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %w1, %m1 = stow.sgd %w, %g, %lr, %m {momentum = 0.9 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %l, %w1, %m1 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func @eval(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    %y = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// S1, S2: form and functions.
// expected-error @+2 {{expects stow.form = "step", found none}}
// expected-error @+1 {{form "step" expects a function of role eval}}
module {
  func.func @train() attributes {stow.role = #stow.role<train>} { return }
}

// -----

// S3: kinds, types of scalars, one learning rate; S5: optimizer state has an initial value.
module attributes {stow.form = "step"} {
  // expected-error @+5 {{@train: argument 1 ("b") of kind learning_rate expects tensor<f32>, found 'tensor<1xf32>'}}
  // expected-error @+4 {{@train: more than one argument of kind learning_rate}}
  // expected-error @+3 {{@train: argument 2 ("c") of kind seed expects tensor<i64>, found 'tensor<i32>'}}
  // expected-error @+2 {{@train: argument 3 ("d") of kind optimizer has no stow.init}}
  // expected-error @+1 {{@train: optimizer state "d" is not returned}}
  func.func @train(%a: tensor<f32> {stow.name = "a", stow.kind = #stow.kind<learning_rate>},
      %b: tensor<1xf32> {stow.name = "b", stow.kind = #stow.kind<learning_rate>},
      %c: tensor<i32> {stow.name = "c", stow.kind = #stow.kind<seed>},
      %d: tensor<4xf32> {stow.name = "d", stow.kind = #stow.kind<optimizer>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    return %a : tensor<f32>
  }
  // expected-error @+1 {{@eval: argument 0 ("t") has kind target; expected one of input, parameter, frozen, statistic}}
  func.func @eval(%t: tensor<4xf32> {stow.name = "t", stow.kind = #stow.kind<target>}) attributes {stow.role = #stow.role<eval>} { return }
}

// -----

// S4: the two graphs disagree about an argument.
module attributes {stow.form = "step"} {
  func.func @train(%a: tensor<f32> {stow.name = "a", stow.kind = #stow.kind<input>}, %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    return %a : tensor<f32>
  }
  // expected-error @+2 {{@eval: argument "a" differs from @train's in kind or type}}
  // expected-error @+1 {{@eval: argument "b" differs from @train's in kind or type}}
  func.func @eval(%a: tensor<2xf32> {stow.name = "a", stow.kind = #stow.kind<input>}, %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<statistic>}) attributes {stow.role = #stow.role<eval>} { return }
}

// -----

// S6: results of training.
module attributes {stow.form = "step"} {
  // expected-error @+8 {{@train: expects a scalar float named "loss" as its first result}}
  // expected-error @+7 {{@train: result 1 is a gradient; run stow-attach-optimizer first}}
  // expected-error @+6 {{@train: result 2 replaces no state argument (stow.state = "")}}
  // expected-error @+5 {{@train: result 3 replaces no state argument (stow.state = "other")}}
  // expected-error @+4 {{@train: result 4 replaces "x", which is of kind input, not state}}
  // expected-error @+3 {{@train: result 5 replaces "s" of type 'tensor<2xf32>', found 'tensor<4xf32>'}}
  // expected-error @+2 {{@train: result 7 replaces "w" a second time}}
  // expected-error @+1 {{@train: optimizer state "m" is not returned}}
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %s: tensor<2xf32> {stow.name = "s", stow.kind = #stow.kind<statistic>},
      %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<optimizer>, stow.init = #stow.init<"constant", 0.0, 0.0>})
      -> (tensor<4xf32> {stow.name = "loss"}, tensor<4xf32> {stow.gradient_of = "w"}, tensor<4xf32>,
          tensor<4xf32> {stow.state = "other"}, tensor<4xf32> {stow.state = "x"}, tensor<4xf32> {stow.state = "s"},
          tensor<4xf32> {stow.state = "w"}, tensor<4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    return %x, %x, %x, %x, %x, %x, %x, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func @eval() attributes {stow.role = #stow.role<eval>} { return }
}

// -----

// S7, S8, S9: the evaluation graph.
module attributes {stow.form = "step"} {
  func.func @train(%a: tensor<f32> {stow.name = "a", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    return %a : tensor<f32>
  }
  // expected-error @+1 {{@eval: result 0 has no stow.name}}
  func.func @eval(%a: tensor<f32> {stow.name = "a", stow.kind = #stow.kind<input>}) -> tensor<f32> attributes {stow.role = #stow.role<eval>} {
    // expected-error @+1 {{'stow.dropout' has no place in the evaluation graph}}
    %0 = stow.dropout %a {ratio = 0.5 : f64} : (tensor<f32>) -> tensor<f32>
    // expected-error @+1 {{'stow.relu_grad' has no place in the evaluation graph}}
    %1 = stow.relu_grad %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // expected-error @+1 {{'stow.copy_out' has no place in the evaluation graph}}
    %copy = stow.copy_out %a : (tensor<f32>) -> tensor<0xi8>
    // expected-error @+1 {{has phase backward in the evaluation graph}}
    %2 = stow.neg %a {stow.phase = #stow.phase<backward>} : (tensor<f32>) -> tensor<f32>
    return %a : tensor<f32>
  }
}

// -----

// S8, S9: the training graph.
module attributes {stow.form = "step"} {
  func.func @train(%a: tensor<f32> {stow.name = "a", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{'stow.dropout' belongs to the form "model"; run stow-split-train-eval first}}
    %0 = stow.dropout %a {ratio = 0.5 : f64} : (tensor<f32>) -> tensor<f32>
    // expected-error @+1 {{has phase update; updates, and only they, have update}}
    %2 = stow.neg %a {stow.phase = #stow.phase<update>} : (tensor<f32>) -> tensor<f32>
    %3 = stow.neg %a {stow.phase = #stow.phase<backward>} : (tensor<f32>) -> tensor<f32>
    // expected-error @+1 {{belongs to the forward but reads a value of the backward}}
    %4 = stow.neg %3 : (tensor<f32>) -> tensor<f32>
    return %a : tensor<f32>
  }
  func.func @eval() attributes {stow.role = #stow.role<eval>} { return }
}

// -----

// S10: an update returned under another name, one of a computed value, and one before the last
// reader of the old value (which reads it through a view).
module attributes {stow.form = "step"} {
  func.func @train(%a: tensor<f32> {stow.name = "a", stow.kind = #stow.kind<input>},
      %v: tensor<4xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<4xf32> {stow.state = "v"}) attributes {stow.role = #stow.role<train>} {
    %view = stow.reshape %w : (tensor<4xf32>) -> tensor<2x2xf32>
    %c = stow.neg %v {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{overwrites operand 0, which is not an argument}}
    %c1 = stow.sgd %c, %v, %a {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    // expected-error @+1 {{result 0 is not returned as "w", which it overwrites}}
    %w1 = stow.sgd %w, %v, %a {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    // expected-error @+1 {{reads state after its update}}
    %late = stow.neg %view {stow.phase = #stow.phase<backward>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %a, %w1 : tensor<f32>, tensor<4xf32>
  }
  func.func @eval() attributes {stow.role = #stow.role<eval>} { return }
}

// -----

// Tests that a step over several batches passes: sums of gradients are state of their own, which the
// first half adds to and the second reads. Names are free.
module attributes {stow.form = "step"} {
  func.func @evaluate(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    return %x : tensor<f32>
  }
  func.func @first(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %s: tensor<f32> {stow.name = "w.sum", stow.kind = #stow.kind<accumulator>, stow.init = #stow.init<"constant", 0.0, 0.0>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<f32> {stow.state = "w.sum"}) attributes {stow.role = #stow.role<accumulate>} {
    %s1 = stow.add %s, %x {stow.phase = #stow.phase<backward>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %x, %s1 : tensor<f32>, tensor<f32>
  }
  func.func @last(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<f32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
      %s: tensor<f32> {stow.name = "w.sum", stow.kind = #stow.kind<accumulator>, stow.init = #stow.init<"constant", 0.0, 0.0>},
      %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<f32> {stow.name = "loss"}, tensor<f32> {stow.state = "w"}) attributes {stow.role = #stow.role<commit>} {
    %s1 = stow.add %s, %x {stow.phase = #stow.phase<backward>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %w1 = stow.sgd %w, %s1, %lr {momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false, stow.phase = #stow.phase<update>}
        : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    return %x, %w1 : tensor<f32>, tensor<f32>
  }
}

// -----

// S2: a function without a role, one whose role has no place here, and two of one role.
module attributes {stow.form = "step"} {
  func.func @train() attributes {stow.role = #stow.role<train>} { return }
  func.func @eval() attributes {stow.role = #stow.role<eval>} { return }
  // expected-error @+1 {{@other has no stow.role; form "step" expects one of eval, train, accumulate, commit}}
  func.func @other() { return }
  // expected-error @+1 {{@forward has the role model; form "step" expects one of eval, train, accumulate, commit}}
  func.func @forward() attributes {stow.role = #stow.role<model>} { return }
  // expected-error @+1 {{@again has the role eval, as @eval has; each role has one function}}
  func.func @again() attributes {stow.role = #stow.role<eval>} { return }
}

// -----

// S2: half a step over several batches; S3: what such a half may read.
module attributes {stow.form = "step"} {
  func.func @eval() attributes {stow.role = #stow.role<eval>} { return }
  // expected-error @+1 {{@commit: a step over several batches has functions of both roles, accumulate and commit}}
  func.func @commit(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<commit>} {
    return %x : tensor<f32>
  }
}

// -----

// S2: a step is one graph or two halves.
module attributes {stow.form = "step"} {
  // expected-error @+1 {{@train: a step over several batches has no function of role train}}
  func.func @train(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<train>} {
    return %x : tensor<f32>
  }
  func.func @eval() attributes {stow.role = #stow.role<eval>} { return }
  func.func @accumulate(%x: tensor<f32> {stow.name = "x", stow.kind = #stow.kind<input>}) -> (tensor<f32> {stow.name = "loss"}) attributes {stow.role = #stow.role<accumulate>} {
    return %x : tensor<f32>
  }
}

// -----

// S3 and S6 in the first half: no rate of the optimizer, sums have an initial value and are returned; S4.
module attributes {stow.form = "step"} {
  func.func @eval() attributes {stow.role = #stow.role<eval>} { return }
  // expected-error @+4 {{@accumulate: argument 0 ("lr") has kind learning_rate; expected one of input, target, parameter, frozen, statistic, optimizer, accumulator, seed}}
  // expected-error @+3 {{@accumulate: argument 1 ("s") of kind accumulator has no stow.init}}
  // expected-error @+2 {{@accumulate: expects a scalar float named "loss" as its first result}}
  // expected-error @+1 {{@accumulate: accumulator state "s" is not returned}}
  func.func @accumulate(%lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>}, %s: tensor<f32> {stow.name = "s", stow.kind = #stow.kind<accumulator>}) attributes {stow.role = #stow.role<accumulate>} { return }
  // expected-error @+2 {{@commit: argument "s" differs from @accumulate's in kind or type}}
  // expected-error @+1 {{@commit: expects a scalar float named "loss" as its first result}}
  func.func @commit(%s: tensor<2xf32> {stow.name = "s", stow.kind = #stow.kind<accumulator>, stow.init = #stow.init<"constant", 0.0, 0.0>}) attributes {stow.role = #stow.role<commit>} { return }
}
