// RUN: stowage-opt %s --split-input-file --verify-diagnostics

// Initial values: a known distribution.
// expected-error @+1 {{unknown distribution "gamma"; expected constant, normal or uniform}}
func.func @case(%a: tensor<4xf32> {stow.init = #stow.init<"gamma", 0.0, 1.0>}) { return }

// -----

// Initial values: a standard deviation.
// expected-error @+1 {{standard deviation -1.0}}
func.func @case(%a: tensor<4xf32> {stow.init = #stow.init<"normal", 0.0, -1.0>}) { return }

// -----

// Initial values: a range.
// expected-error @+1 {{is empty}}
func.func @case(%a: tensor<4xf32> {stow.init = #stow.init<"uniform", 1.0, 0.0>}) { return }
