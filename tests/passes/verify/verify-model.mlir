// RUN: stowage-opt %s --stow-verify-model --split-input-file --verify-diagnostics

// Tests that a model of form "model" passes.
module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<"normal", 0.0, 1.0>},
      %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.init = dense<0.0> : tensor<4xf32>})
      -> (tensor<4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %y = stow.add %0, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// M1: another form.
// expected-error @+1 {{expects stow.form = "model", found "step"}}
module attributes {stow.form = "step"} {
  func.func @model() attributes {stow.role = #stow.role<model>} { return }
}

// -----

// M2: another function.
module attributes {stow.form = "model"} {
  func.func @model() attributes {stow.role = #stow.role<model>} { return }
  // expected-error @+1 {{@train has the role train; form "model" expects one of model}}
  func.func @train() attributes {stow.role = #stow.role<train>} { return }
}

// -----

// M2: no model.
// expected-error @+1 {{form "model" expects a function of role model}}
module attributes {stow.form = "model"} {
}

// -----

// M2: two blocks.
module attributes {stow.form = "model"} {
  // expected-error @+1 {{expects one block, found 2}}
  func.func @model() attributes {stow.role = #stow.role<model>} {
    return
  ^bb1:
    return
  }
}

// -----

// M2: an op of another dialect.
module attributes {stow.form = "model"} {
  func.func @model() attributes {stow.role = #stow.role<model>} {
    // expected-error @+1 {{a graph holds stow ops only, found 'arith.constant'}}
    %0 = arith.constant 1 : i64
    return
  }
}

// -----

// M3: names and kinds of arguments.
module attributes {stow.form = "model"} {
  // expected-error @+5 {{@model: argument 0 has no stow.name}}
  // expected-error @+4 {{@model: argument 2 repeats the name "x"}}
  // expected-error @+3 {{@model: argument 3 ("t") has kind target; expected one of input, parameter, frozen, statistic}}
  // expected-error @+2 {{@model: argument 4 ("i") of kind parameter expects a float tensor, found 'tensor<4xi64>'}}
  // expected-error @+1 {{@model: argument 5 ("d") of kind input expects a tensor of static shape, found 'tensor<?xf32>'}}
  func.func @model(%a: tensor<4xf32> {stow.kind = #stow.kind<input>},
      %b: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %c: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %d: tensor<4xf32> {stow.name = "t", stow.kind = #stow.kind<target>},
      %e: tensor<4xi64> {stow.name = "i", stow.kind = #stow.kind<parameter>},
      %f: tensor<?xf32> {stow.name = "d", stow.kind = #stow.kind<input>}) attributes {stow.role = #stow.role<model>} {
    return
  }
}

// -----

// M4: initial values.
module attributes {stow.form = "model"} {
  // expected-error @+2 {{@model: argument 0 ("a") is initialized with elements of type 'tensor<3xf32>', expected 'tensor<4xf32>'}}
  // expected-error @+1 {{@model: argument 1 ("b") expects a distribution or elements as stow.init, found "zeros"}}
  func.func @model(%a: tensor<4xf32> {stow.name = "a", stow.kind = #stow.kind<parameter>, stow.init = dense<0.0> : tensor<3xf32>},
      %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>, stow.init = "zeros"}) attributes {stow.role = #stow.role<model>} {
    return
  }
}

// -----

// M5: results.
module attributes {stow.form = "model"} {
  // expected-error @+3 {{@model: result 0 has no stow.name}}
  // expected-error @+2 {{@model: result 2 repeats the name "y"}}
  // expected-error @+1 {{@model: result 3 (stow.state "a") is the next value of no statistic}}
  func.func @model(%a: tensor<4xf32> {stow.name = "a", stow.kind = #stow.kind<input>})
      -> (tensor<4xf32>, tensor<4xf32> {stow.name = "y"}, tensor<4xf32> {stow.name = "y"}, tensor<4xf32> {stow.state = "a"}) attributes {stow.role = #stow.role<model>} {
    return %a, %a, %a, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// M5: next values of statistics, of their types and one each; statistics may count.
module attributes {stow.form = "model"} {
  // expected-error @+2 {{@model: result 2 (stow.state "m") is a second next value of that statistic}}
  // expected-error @+1 {{@model: result 3 (stow.state "v") is 'tensor<4xf32>'; expected 'tensor<5xf32>'}}
  func.func @model(%a: tensor<4xf32> {stow.name = "a", stow.kind = #stow.kind<input>},
      %m: tensor<4xf32> {stow.name = "m", stow.kind = #stow.kind<statistic>},
      %n: tensor<i64> {stow.name = "n", stow.kind = #stow.kind<statistic>},
      %v: tensor<5xf32> {stow.name = "v", stow.kind = #stow.kind<statistic>})
      -> (tensor<4xf32> {stow.state = "m"}, tensor<i64> {stow.state = "n"}, tensor<4xf32> {stow.state = "m"}, tensor<4xf32> {stow.state = "v"}) attributes {stow.role = #stow.role<model>} {
    return %a, %n, %a, %a : tensor<4xf32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// M6: ops of later forms.
module attributes {stow.form = "model"} {
  func.func @model(%a: tensor<4xf32> {stow.name = "a", stow.kind = #stow.kind<input>}, %s: tensor<i64> {stow.name = "s", stow.kind = #stow.kind<input>}) attributes {stow.role = #stow.role<model>} {
    // expected-error @+1 {{'stow.dropout_training' has no place in the form "model"}}
    %0 = stow.dropout_training %a, %s {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
    // expected-error @+1 {{'stow.reorder' has no place in the form "model"}}
    %1 = stow.reorder %a : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{'stow.relu_grad' has no place in the form "model"}}
    %2 = stow.relu_grad %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{'stow.copy_out' has no place in the form "model"}}
    %3 = stow.copy_out %a : (tensor<4xf32>) -> tensor<0xi8>
    return
  }
}

// -----

// M7: attributes and layouts of later forms.
module attributes {stow.form = "model"} {
  // expected-error @+1 {{@model: argument 1 has a layout}}
  func.func @model(%a: tensor<4xf32> {stow.name = "a", stow.kind = #stow.kind<input>},
      %b: tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">> {stow.name = "b", stow.kind = #stow.kind<input>}) attributes {stow.role = #stow.role<model>} {
    // expected-error @+1 {{stow.phase belongs to a later form than "model"}}
    %0 = stow.neg %a {stow.phase = #stow.phase<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{layouts belong to a later form than "model"}}
    %1 = stow.neg %b : (tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<1x2x3x4xf32, #stow.layout<"0,2,3,1">>
    return
  }
}
