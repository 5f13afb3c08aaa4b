// RUN: stowage-opt %s --stow-verify-ordered --split-input-file --verify-diagnostics

// Tests that a sound ordered module passes: an operand overwritten at its last read, read twice by
// the op that overwrites it; a state result that updates its argument; an output that is a view.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
      %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<2x2xf32> {stow.name = "y"}, tensor<4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %y = stow.map %x, %x {stow.in_place = array<i64: 0, 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %a, %b : f32
      stow.yield %0 : f32
    }
    %w1 = stow.map %w, %y {updates = array<i64: 0, 0>, stow.phase = #stow.phase<update>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.subf %a, %b : f32
      stow.yield %0 : f32
    }
    %v = stow.reshape %y : (tensor<4xf32>) -> tensor<2x2xf32>
    return %v, %w1 : tensor<2x2xf32>, tensor<4xf32>
  }
}

// -----

// O1: the form is claimed.
// expected-error @+1 {{expects stow.form = "ordered"; run stow-bind-state first}}
module attributes {stow.form = "step"} {
  func.func @train() attributes {stow.role = #stow.role<train>} { return }
}

// -----

// O1: no elementwise op of the dialect, no constant.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{'stow.relu' op does not belong to the ordered form; run stow-fuse-elementwise}}
    %y = stow.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{'stow.constant' op does not belong to the ordered form; run stow-fuse-elementwise}}
    %c = stow.constant dense<1.0> : tensor<4xf32>
    return %y, %c : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// O2: a value is read after its storage went to another.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<train>} {
    // expected-note @+1 {{overwritten here}}
    %y = stow.softmax %x {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{reads operand 1 after its storage has been overwritten}}
    %z = stow.matmul %y, %x {transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y, %z : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// O2: a view made before is as dead as what it looks at, for the caller too.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16xf32>) attributes {stow.role = #stow.role<train>} {
    %v = stow.reshape %x : (tensor<4x4xf32>) -> tensor<16xf32>
    // expected-note @+1 {{overwritten here}}
    %y = stow.softmax %x {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{reads operand 1 after its storage has been overwritten}}
    return %y, %v : tensor<4x4xf32>, tensor<16xf32>
  }
}

// -----

// O2: old state is read after its update.
module attributes {stow.form = "ordered"} {
  func.func @train(%w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<f32>, tensor<4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    // expected-note @+1 {{overwritten here}}
    %w1 = stow.map %w {updates = array<i64: 0, 0>} : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: f32):
      stow.yield %a : f32
    }
    // expected-error @+1 {{reads operand 0 after its storage has been overwritten}}
    %s = stow.reduce_sum %w {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    return %s, %w1 : tensor<f32>, tensor<4xf32>
  }
}

// -----

// O3: marks on ops that overwrite nothing, and odd ones.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x4xf32>, %l: tensor<4xf32>, %z: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{carries stow.in_place but overwrites nothing}}
    %s = stow.matmul %x, %x {transpose_a = false, transpose_b = false, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{carries stow.in_place but overwrites nothing}}
    %y = stow.softmax %z {axis = 1 : i64, stow.in_place = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %s, %y : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// O3: an operand that the op reads for other elements later: batch_norm_grad may overwrite x and dy, not
// the scale.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x2xf32>, %m: tensor<2xf32>, %v: tensor<2xf32>, %s: tensor<2xf32>, %dy: tensor<4x2xf32>) -> tensor<4x2xf32> attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{result 1 may not overwrite operand 3}}
    %dx, %ds, %db = stow.batch_norm_grad %x, %m, %v, %s, %dy {epsilon = 1.0e-5 : f64, stow.in_place = array<i64: 1, 3>}
        : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
    return %dx : tensor<4x2xf32>
  }
}

// -----

// O3: a result that does not exist, and an operand that does not.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{result 1 may not overwrite operand 0}}
    %y = stow.softmax %x {axis = 1 : i64, stow.in_place = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{result 0 may not overwrite operand 7}}
    %w = stow.softmax %z {axis = 1 : i64, stow.in_place = array<i64: 0, 7>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y, %w : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// O3: x takes 4*3*4 = 48 bytes; y, blocked by 4 with padding, 64.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x3xf32>) -> tensor<4x3xf32, #stow.layout<"0,1;1:4">> attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{result 0 and operand 0 differ in stored size}}
    %y = stow.softmax %x {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32, #stow.layout<"0,1;1:4">>
    return %y : tensor<4x3xf32, #stow.layout<"0,1;1:4">>
  }
}

// -----

// O3: two results in one place.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{overwrites operand 0 with more than one result}}
    %y, %z = stow.map %x {stow.in_place = array<i64: 0, 0, 1, 0>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    ^bb0(%a: f32):
      stow.yield %a, %a : f32, f32
    }
    return %y, %z : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// O3: a view of the overwritten operand is read by the same op, in another order as far as types tell.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x4xf32>) -> tensor<1x4x4xf32> attributes {stow.role = #stow.role<train>} {
    %v = stow.reshape %x : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    // expected-error @+1 {{result 0 overwrites operand 0, which the op also reads as operand 1}}
    %z = stow.map %v, %x {stow.in_place = array<i64: 0, 0>} : (tensor<1x4x4xf32>, tensor<4x4xf32>) -> tensor<1x4x4xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %a, %b : f32
      stow.yield %0 : f32
    }
    return %z : tensor<1x4x4xf32>
  }
}

// -----

// O3: an activation on top of a parameter.
module attributes {stow.form = "ordered"} {
  func.func @eval(%w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4x4xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<eval>} {
    // expected-error @+1 {{result 0 overwrites state "w"; only its new value may}}
    %y = stow.softmax %w {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}

// -----

// O4: a new state value that lies elsewhere, and one that updates another argument.
module attributes {stow.form = "ordered"} {
  // expected-error @+1 {{the new value of state "w" does not update its argument; run stow-bind-state}}
  func.func @train(%x: tensor<4xf32> {stow.name = "x", stow.kind = #stow.kind<input>}, %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %w1 = stow.map %w, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: f32, %b: f32):
      stow.yield %b : f32
    }
    return %w1 : tensor<4xf32>
  }
  // expected-error @+1 {{the new value of state "w" does not update its argument; run stow-bind-state}}
  func.func @eval(%v: tensor<4xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>}, %w: tensor<4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>}) -> (tensor<4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<eval>} {
    %w1 = stow.map %v, %w {updates = array<i64: 0, 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: f32, %b: f32):
      stow.yield %b : f32
    }
    return %w1 : tensor<4xf32>
  }
}

// -----

// Tests that sound placement passes: parts of a concat, a slice read where it lies, and the whole
// overwritten once its parts are read no more.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<8x4xf32>) -> tensor<8x8xf32> attributes {stow.role = #stow.role<train>} {
    %a, %b = stow.map %x : (tensor<8x4xf32>) -> (tensor<8x4xf32, #stow.layout<"of 1:8">>, tensor<8x4xf32, #stow.layout<"of 1:8">>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    %y = stow.concat %a, %b {axis = 1 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<8x4xf32, #stow.layout<"of 1:8">>, tensor<8x4xf32, #stow.layout<"of 1:8">>) -> tensor<8x8xf32>
    %s = stow.slice %y {starts = array<i64: 0, 2>, sizes = array<i64: 8, 4>, stow.inside = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8x4xf32, #stow.layout<"of 1:8">>
    %t = stow.map %s : (tensor<8x4xf32, #stow.layout<"of 1:8">>) -> tensor<8x4xf32> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    %z = stow.softmax %y {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %z : tensor<8x8xf32>
  }
}

// -----

// O5: overwriting the whole overwrites its parts, and overwriting a part the whole.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<8x4xf32>) attributes {stow.role = #stow.role<train>} {
    %a, %b = stow.map %x : (tensor<8x4xf32>) -> (tensor<8x4xf32, #stow.layout<"of 1:8">>, tensor<8x4xf32, #stow.layout<"of 1:8">>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    %y = stow.concat %a, %b {axis = 1 : i64, stow.inside = array<i64: 0, 1>}
        : (tensor<8x4xf32, #stow.layout<"of 1:8">>, tensor<8x4xf32, #stow.layout<"of 1:8">>) -> tensor<8x8xf32>
    // expected-note @+1 {{overwritten here}}
    %z = stow.softmax %y {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{reads operand 0 after its storage has been overwritten}}
    %t = stow.map %a : (tensor<8x4xf32, #stow.layout<"of 1:8">>) -> tensor<8x4xf32> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    return %z, %t : tensor<8x8xf32>, tensor<8x4xf32>
  }
  func.func @eval(%x: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) attributes {stow.role = #stow.role<eval>} {
    %a, %b = stow.map %x : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    ^bb0(%e: f32):
      stow.yield %e, %e : f32, f32
    }
    %y = stow.concat %a, %b {axis = 0 : i64, stow.inside = array<i64: 0, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-note @+1 {{overwritten here}}
    %z = stow.softmax %b {axis = 1 : i64, stow.in_place = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{reads operand 0 after its storage has been overwritten}}
    return %y, %z : tensor<8x4xf32>, tensor<4x4xf32>
  }
}

// -----

// O5: what may not lie inside: other strides, arguments, views, an input of two concats; bad lists.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x4xf32>) -> tensor<4x8xf32> attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{input 0 lies inside 'tensor<4x8xf32>', but has other strides as 'tensor<4x4xf32>'}}
    %p = stow.concat %a, %x {axis = 1 : i64, stow.inside = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
    // expected-error @+1 {{input 1 lies inside, but is an argument or a slice of another tensor}}
    %q = stow.concat %a, %x {axis = 0 : i64, stow.inside = array<i64: 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %r = stow.concat %a, %x {axis = 0 : i64, stow.inside = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error @+1 {{input 1 lies inside twice}}
    %s = stow.concat %x, %a {axis = 0 : i64, stow.inside = array<i64: 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error @+1 {{lists 2 as inside but has 2 parts}}
    %t = stow.concat %x, %a {axis = 0 : i64, stow.inside = array<i64: 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error @+1 {{carries stow.inside; only ops whose operands or results may lie in one another do, with a list of them}}
    %u = stow.softmax %x {axis = 1 : i64, stow.inside = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{carries stow.inside; only ops whose}}
    %w = stow.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 4, 2>, stow.inside} : (tensor<4x4xf32>) -> tensor<4x2xf32>
    // expected-error @+1 {{is a view of 'tensor<4x4xf32>', but has other strides as 'tensor<4x2xf32>'}}
    %v = stow.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 4, 2>, stow.inside = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x2xf32>
    return %p : tensor<4x8xf32>
  }
}

// -----

// O5: gaps without a concat, and gaps under a reshape.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<4x4xf32>) -> tensor<8xf32> attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{result 0 has gaps but lies inside no concat; run stow-place-inside}}
    %a = stow.map %x : (tensor<4x4xf32>) -> tensor<4x4xf32, #stow.layout<"of 1:8">> {
    ^bb0(%e: f32):
      stow.yield %e : f32
    }
    %s = stow.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 4, 2>, stow.inside = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x2xf32, #stow.layout<"of 1:4">>
    // expected-error @+1 {{cannot take operand 0, which has gaps}}
    %r = stow.reshape %s : (tensor<4x2xf32, #stow.layout<"of 1:4">>) -> tensor<8xf32>
    return %r : tensor<8xf32>
  }
}

// -----

// O6: a view shows the elements in another order than they lie in.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x128xf32>) attributes {stow.role = #stow.role<train>} {
    // expected-error @+1 {{views its operand, but the elements of 'tensor<2x128xf32>' lie in another order than those of 'tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>'; run stow-assign-layouts}}
    %y = stow.reshape %x : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x128xf32>
    return %y : tensor<2x128xf32>
  }
}

// -----

// O6 holds for a transpose that shows the same bytes, and for one that is a copy.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> (tensor<2x4x4x8xf32>, tensor<8x2x4x4xf32>) attributes {stow.role = #stow.role<train>} {
    %y = stow.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<2x4x4x8xf32>
    %z = stow.transpose %x {permutation = array<i64: 1, 0, 2, 3>} : (tensor<2x8x4x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<8x2x4x4xf32>
    return %y, %z : tensor<2x4x4x8xf32>, tensor<8x2x4x4xf32>
  }
}

// -----

// O1: each function has a role of its own; names are free.
module attributes {stow.form = "ordered"} {
  func.func @a() attributes {stow.role = #stow.role<train>} { return }
  func.func @b() attributes {stow.role = #stow.role<accumulate>} { return }
  func.func @c() attributes {stow.role = #stow.role<commit>} { return }
  // expected-error @+1 {{@eval has the role commit, as @c has; each role has one function}}
  func.func @eval() attributes {stow.role = #stow.role<commit>} { return }
  // expected-error @+1 {{@none has no stow.role; form "ordered" expects one of train, eval, accumulate, commit}}
  func.func @none() { return }
  // expected-error @+1 {{@model has the role model; form "ordered" expects one of train, eval, accumulate, commit}}
  func.func @model() attributes {stow.role = #stow.role<model>} { return }
}

// -----

// O7: one await for each copy, and no reader of what comes but that.
module attributes {stow.form = "ordered"} {
  func.func @train(%x: tensor<1024xf32>) -> (tensor<1024xf32>) attributes {stow.role = #stow.role<train>} {
    %t = stow.copy_out %x : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %t, %x : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %1 = stow.copy_in %t : (tensor<0xi8>) -> tensor<1024xf32>
    %2 = stow.await_in %t, %1 : (tensor<0xi8>, tensor<1024xf32>) -> tensor<1024xf32>
    // expected-error @+1 {{expects one await_in to wait for what it brings, and nothing else to read that}}
    %3 = stow.copy_in %t : (tensor<0xi8>) -> tensor<1024xf32>
    // expected-error @+1 {{expects one await_in to wait for what it brings, and nothing else to read that}}
    %4 = stow.copy_in %t : (tensor<0xi8>) -> tensor<1024xf32>
    %5 = stow.softmax %4 {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %2 : tensor<1024xf32>
  }
  func.func @eval(%x: tensor<1024xf32>) attributes {stow.role = #stow.role<eval>} {
    // expected-error @+1 {{is awaited 0 times; expected once}}
    %t = stow.copy_out %x : (tensor<1024xf32>) -> tensor<0xi8>
    // expected-error @+1 {{is awaited 2 times; expected once}}
    %u = stow.copy_out %x : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %u, %x : (tensor<0xi8>, tensor<1024xf32>) -> ()
    stow.await_out %u, %x : (tensor<0xi8>, tensor<1024xf32>) -> ()
    // expected-error @+1 {{makes a token that an op reads which is no copy or await}}
    %v = stow.copy_out %x : (tensor<1024xf32>) -> tensor<0xi8>
    stow.await_out %v, %x : (tensor<0xi8>, tensor<1024xf32>) -> ()
    %w = stow.reshape %v : (tensor<0xi8>) -> tensor<1x0xi8>
    return
  }
}
