// A training step as PyTorch eager runs it: calls of ATen operators on tensors, in the program's order.
#pragma once

#include "runtime/base/Bytes.h"
#include "runtime/base/Layout.h"
#include "runtime/format/Optimizer.h"

#include <string>
#include <vector>

namespace stow::eager {

struct Tensor {
  enum class Kind {
    Result,    ///< of a call
    Parameter, ///< trained
    State,     ///< a buffer, or a parameter that is not trained
    Input,     ///< of the batch
  };
  std::string name;
  Shape shape;
  int64_t width = 4; ///< bytes of an element
  Kind kind = Kind::Result;
};

struct Call {
  std::string op;              ///< without namespace and overload: "conv2d"
  std::vector<size_t> reads;   ///< tensors among the arguments, in their order
  std::vector<size_t> results; ///< those that somebody reads; the first is the one with a gradient
  std::vector<int64_t> dimensions = {}; ///< whole numbers among the arguments, lists spelled out
  double rate = 0;                      ///< of a dropout within the operator
};

struct Program {
  std::vector<Tensor> tensors;
  std::vector<Call> calls;
  size_t loss = 0;          ///< the tensor that the backward begins at
  bool accumulates = false; ///< a step is several runs: gradients are there before the last
  bool isInHalves = false;  ///< the module is in 16 bits, and so are its tensors here
};

/// Where it runs: kernels save other tensors on a GPU, and optimizers update all parameters at once.
enum class Device { Cpu, Cuda };

/// By PyTorch's name: "cpu", "cuda". Throws Error(Internal) for others.
Device requireDevice(const std::string &name);

/// The most bytes of tensors that live at once in a step after the first: parameters, buffers, optimizer state and batch, what
/// autograd saves, gradients, and the operators' results. No library's scratch and no allocator's rounding.
Bytes peakOf(const Program &program, const OptimizerSpec &optimizer, Device device);

/// The operators of `program` of which nobody has said here what autograd keeps, each once.
std::vector<std::string> unknownOperators(const Program &program);

} // namespace stow::eager
