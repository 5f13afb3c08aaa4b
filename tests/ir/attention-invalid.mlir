// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// attention C1: keys have the queries' columns.
func.func @case(%q: tensor<2x5x4xf32>, %k: tensor<2x7x3xf32>, %v: tensor<2x7x4xf32>) {
  // expected-error @+2 {{expects queries [..., T, D], keys [..., S, D] and values [..., S, E], found}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<2x5x4xf32>, tensor<2x7x3xf32>, tensor<2x7x4xf32>) -> (tensor<2x5x4xf32>, tensor<2x5x2xf32>)
  return
}

// -----

// attention C2: heads of queries are a multiple of those of keys.
func.func @case(%q: tensor<5x6x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<2x7x4xf32>) {
  // expected-error @+2 {{expects equal leading extents, or heads of queries that are a multiple of those of keys and values, found}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x6x4xf32>, tensor<2x7x4xf32>, tensor<2x7x4xf32>) -> (tensor<5x6x4xf32>, tensor<5x6x2xf32>)
  return
}

// -----

// attention C3: the mask broadcasts to the scores.
func.func @case(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>, %m: tensor<7x5xi1>) {
  // expected-error @+2 {{expects a mask of i1 or floats that broadcasts to 'tensor<5x7xf32>', found 'tensor<7x5xi1>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v mask %m {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>, tensor<7x5xi1>) -> (tensor<5x4xf32>, tensor<5x2xf32>)
  return
}

// -----

// attention C4: every query sees a key.
func.func @case(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>) {
  // expected-error @+2 {{expects a diagonal of 0 or more, found -1}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v {diagonal = -1 : i64, ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>) -> (tensor<5x4xf32>, tensor<5x2xf32>)
  return
}

// -----

// attention C4: a window ends at the diagonal, and no query's lies behind the last key.
func.func @case(%q: tensor<12x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>) {
  // expected-error @+2 {{expects a diagonal, and a window in which all of 12 queries see one of 7 keys, found 5}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v {diagonal = 0 : i64, ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, window = 5 : i64, zero_rows = false} : (tensor<12x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>) -> (tensor<12x4xf32>, tensor<12x2xf32>)
  return
}

// -----

// attention C5: something is kept.
func.func @case(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>) {
  // expected-error @+2 {{expects a ratio from 0 to below 1, found 1.0}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v {ratio = 1.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>) -> (tensor<5x4xf32>, tensor<5x2xf32>)
  return
}

// -----

// attention C5: one seed.
func.func @case(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>, %s: tensor<2xi64>) {
  // expected-error @+2 {{expects a scalar seed, found 'tensor<2xi64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v seed %s {ratio = 0.5 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>, tensor<2xi64>) -> (tensor<5x4xf32>, tensor<5x2xf32>)
  return
}

// -----

// attention C6: documents are of queries and of keys.
func.func @case(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>, %d: tensor<5xi64>) {
  // expected-error @+2 {{expects documents of queries and of keys, both of i32 or both of i64, that broadcast to [5] and [7], found tensor<5xi64> and tensor<5xi64>}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v documents %d, %d {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>, tensor<5xi64>, tensor<5xi64>) -> (tensor<5x4xf32>, tensor<5x2xf32>)
  return
}

// -----

// attention C6: both are of one type.
func.func @case(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>, %d: tensor<5xi64>, %e: tensor<7xi32>) {
  // expected-error @+2 {{both of i32 or both of i64, that broadcast to [5] and [7], found tensor<5xi64> and tensor<7xi32>}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = stow.attention %q, %k, %v documents %d, %e {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>, tensor<5xi64>, tensor<7xi32>) -> (tensor<5x4xf32>, tensor<5x2xf32>)
  return
}

// -----

// attention_gradient C6: neither stands alone.
func.func @case(%q: tensor<5x4xf32>, %l: tensor<5x2xf32>, %d: tensor<5xi64>) {
  // expected-error @+2 {{that broadcast to [5] and [5], found none and tensor<5xi64>}}
  // expected-error @+1 {{failed to infer returned types}}
  %dq, %dk, %dv = "stow.attention_gradient"(%q, %q, %q, %q, %l, %q, %d) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 1, 0>, ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false}> : (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x2xf32>, tensor<5x4xf32>, tensor<5xi64>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>)
  return
}

// -----

// attention_gradient C7: the results of the forward.
func.func @case(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>, %l: tensor<7x2xf32>) {
  // expected-error @+2 {{expects y and dy of type 'tensor<5x4xf32>' and lse of type 'tensor<5x2xf32>', found}}
  // expected-error @+1 {{failed to infer returned types}}
  %dq, %dk, %dv = stow.attention_gradient %q, %k, %v, %q, %l, %q {ratio = 0.0 : f64, scale = 0.5 : f64, stream = 0 : i64, zero_rows = false} : (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>, tensor<5x4xf32>, tensor<7x2xf32>, tensor<5x4xf32>) -> (tensor<5x4xf32>, tensor<7x4xf32>, tensor<7x4xf32>)
  return
}
