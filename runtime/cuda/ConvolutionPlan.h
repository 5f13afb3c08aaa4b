// A convolution as cuDNN plans it: the same descriptors for the compiler, which describes a chip, and
// for a program, which has one.
//
//   Command "cuda.convolution*" --> Convolution --> operation graph --+
//                                                                     +--> execution plan, scratch bytes
//                             Engine: its number and its knobs -------+
//
// The graph is one operation, or a chain whose tensors in between, in the sums' type, are in no memory:
//
//   x, weight --> convolution --> + added --> + bias --> relu --> y
//
// What the compiler chose stands in the command as integers: "engine", "knobs" (type and value in turn),
// "cudnn" (the version that was asked) and "tf32"; "spares" has other engines that fit the same scratch, each as its
// chip's number, its own, how many knobs it has, and these. In a program for several chips "engine" has a number for
// each, "knobs" those of all one after the other, "knob_counts" how many each has, and "architectures" what
// the chips are. An engine's number and knobs, and not cuDNN's
// serialized plan: that belongs to one version and one device to the letter, and a plan that is built anew
// shows by its scratch and its notes whether it still is what was planned.
#pragma once

#include "runtime/cuda/CudnnApi.h"
#include "runtime/format/Program.h"

#include <compare>
#include <optional>
#include <span>
#include <utility>

namespace stow::cuda {

enum class ConvolutionKind : uint8_t { Forward, GradInput, GradWeight };

/// A tensor of F64, F32, BF16 or F16 as cuDNN sees it: [N,C,...] or [O,C/groups,...], with the distance in elements between
/// neighbours in each dimension. Channels last are strides like any others.
struct StridedTensor {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  DType type = DType::F32;
  auto operator<=>(const StridedTensor &) const = default;
};

/// `x` and `y` are the images on both sides, whichever of them is computed. Operands and
/// result have the same type in every engine there is. Sums are in F64 or F32. A forward one may have what
/// is done to it before it is written: with a bias of y's channels, [1,O,1,...], and that with a tensor of y's
/// extents added and the maximum with 0 taken, in this order.
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::Forward;
  StridedTensor x, weight, y;
  std::vector<int64_t> strides, dilations, padsBefore, padsAfter; ///< by spatial dimension
  std::optional<StridedTensor> added = {}, bias = {};
  bool hasRelu = false;

  DType operandType() const { return kind == ConvolutionKind::GradInput ? y.type : x.type; }
  auto operator<=>(const Convolution &) const = default;
};

/// Numbers of a command's operands.
struct ConvolutionOperands {
  size_t x, weight, y;
  std::optional<size_t> added = {}, bias = {};
};

/// What `command` computes: "cuda.convolution", "cuda.convolution_epilogue", "cuda.convolution_grad_input" or
/// "cuda.convolution_grad_weight", with layouts without blocks; the second with the operands and
/// attributes of an epilogue (runtime/cuda/ProductEpilogue.h). One dimension of space counts
/// as two, the first of extent 1: cuDNN convolves planes and volumes. Throws Error(BadInput) naming the node.
Convolution convolutionOf(const Command &command);

ConvolutionOperands operandsOf(const Command &command);
/// Of one that has three.
ConvolutionOperands operandsOf(ConvolutionKind kind);

/// True for the commands that convolutionOf takes.
bool isConvolution(const Command &command);

/// "convolution with bias, relu of f32, x 128x64x56x56, weight ...".
std::string describe(const Convolution &convolution);

/// How f32 products are computed: as such, or from operands cut to 10 bits of mantissa (TF32).
enum class F32Products : uint8_t { Exact, Tf32 };

/// An engine of cuDNN's for one operation graph.
struct Engine {
  int64_t index = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs; ///< type and value, in cuDNN's order
};

/// Where a plan is to run: on the device of a handle, or on a described one.
struct PlanSite {
  void *handle = nullptr;
  const CudnnDescriptor *device = nullptr;
};

/// Identifiers of the tensors of a graph, as a variant pack names them.
inline constexpr int64_t kIdX = 'x', kIdWeight = 'w', kIdY = 'y', kIdAdded = 'a', kIdBias = 'b';

CudnnDescriptor operationGraph(const CudnnLibrary &library, const Convolution &convolution,
                               const PlanSite &site);

/// The engine of a configuration that cuDNN's heuristics gave.
Engine engineOf(const CudnnLibrary &library, const CudnnDescriptor &config);

/// What is against using an engine of this graph, e.g. "results that differ from run to run"; empty
/// where nothing is: products are as exact as asked for, sums in f32 at least, results the same in
/// every run.
std::string objectionTo(const CudnnLibrary &library, const CudnnDescriptor &graph,
                        const Engine &engine, const PlanSite &site, DType type,
                        F32Products products);

/// The plan of an engine of the graph. Throws Error(BadInput) with cuDNN's reason.
CudnnDescriptor executionPlan(const CudnnLibrary &library, const CudnnDescriptor &graph,
                              const Engine &engine, const PlanSite &site);

Bytes workspaceOf(const CudnnDescriptor &plan);

/// The engine that a convolution runs with on one of the program's chips.
struct ChipEngine {
  uint32_t architecture = 0; ///< of the chip, 90: compute capability 9.0
  Engine engine;
};

/// Writes what the compiler chose, by chip, into a command, and reads it. Throws Error(BadInput) naming the
/// node where the command does not say. A program for one chip does not say its architecture: 0.
void setEngines(Command &command, std::span<const ChipEngine> engines, int64_t version,
                F32Products products);
std::vector<ChipEngine> enginesOf(const Command &command);

/// An engine that takes the place of the planned one on chip number `chip` of the program's where that is not what was
/// planned: where another version of cuDNN has changed it, or a device needs more scratch than its description said.
struct SpareEngine {
  size_t chip = 0;
  Engine engine;
};

/// In the order in which they are tried. Throws Error(BadInput) naming the node where the command's list is cut off.
void setSpareEngines(Command &command, std::span<const SpareEngine> spares);
std::vector<SpareEngine> spareEnginesOf(const Command &command);
int64_t plannedVersion(const Command &command);
F32Products productsOf(const Command &command);

} // namespace stow::cuda
