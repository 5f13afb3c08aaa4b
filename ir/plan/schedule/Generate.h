// Synthetic schedule problems: the families on which solvers are tested and measured. Every
// generator is a pure function of its arguments: the same seed gives the same problem everywhere.
#pragma once

#include "ir/plan/schedule/Lanes.h"

#include <cstdint>

namespace stow::schedule {

/// The small random problem of the property tests, of a size and family drawn from the seed.
Problem generate(uint64_t seed);

/// A random problem of `opCount` ops with everything the family can express: several outputs,
/// views, in-place versions, overwrite options, pinned values and their updates, kept values,
/// alternatives, ops that are not recomputable. Sizes are below 64 bytes, costs below 16.
Problem generateMixed(uint64_t seed, int opCount);

/// A concatenation whose parts are written where they belong, as views of the first; readers in
/// front of a crowded op and behind it. At most 7 ops.
Problem generateConcatenation(uint64_t seed);

/// A forward chain of `length` ops with random costs and sizes, and its backward: op `b_i` reads
/// the output of forward op i-1 and of `b_{i+1}` (as Revolve and Rotor assume).
Problem generateChainStep(uint64_t seed, int length);

/// The same chain with unit costs and unit sizes.
Problem unitChainStep(int length);

/// Random lanes for a problem: links that move a tenth of all bytes to five times as many in the
/// time of its step, with latency or without, a slow memory from a quarter of all bytes to as much as
/// asked, and now and then a storage that has to stay.
Lanes generateLanes(uint64_t seed, const Problem &problem);

/// The problem with state in slow memory: up to `most` times, a value that is fetched to be updated
/// from what an op has made, and sent; or one that is fetched for two ops, which may be fetched again,
/// and never changes or is updated and sent behind them. No larger than the largest storage of the problem.
Problem withTravellingState(uint64_t seed, const Problem &problem, int most);

/// Random layered graphs (after Gagrani et al., "Neural Topological Ordering for Computation
/// Graphs", 2022, appendix A): layers of random width, random edges between neighbouring layers,
/// and a given fraction of edges that skip layers; the input order lists layer by layer. With the
/// defaults an op of a graph of 1,000 reads about six values.
struct LayeredOptions {
  int opCount = 100;
  double width = 0.5;             ///< mean layer width as an exponent of opCount
  double widthVariability = 0.75; ///< relative standard deviation of the width
  double edgeDensity = 0.2;       ///< probability of an edge between neighbouring layers
  double nonLocalFraction = 0.14; ///< share of edges that skip layers; below 0.5
};
Problem generateLayered(uint64_t seed, const LayeredOptions &options);

/// A training step from a forward graph of single-output ops: one loss op that reads every sink,
/// and per forward op v, in reverse order, `v_backward`, which reads v's output, the outputs of v's
/// readers and their gradients. A backward costs `backwardCost` times its forward; gradients have
/// the size of the output.
Problem trainingStep(const Problem &forward, int64_t backwardCost = 2);

/// Convolutional networks by name ("vgg19", "resnet50", "mobilenet", "unet", "segnet") as forward
/// graphs with costs in FLOPs and float32 outputs; Throws Error(BadInput) on other names.
Problem convolutionalForward(const std::string &name, int64_t batch);

/// One training step of a GPT of `layers` blocks with optimizer updates: weights, gradients and
/// states included. About 60 ops per block.
Problem gptStep(int layers, int64_t batch = 8, int64_t sequence = 1024, int64_t width = 768);

/// One training step of a recurrent network unrolled over `steps` time steps with shared weights
/// (the weight gradient is accumulated in place). About 20 ops per time step.
Problem recurrentStep(int steps, int64_t batch = 64, int64_t width = 512);

/// One training step in which ops overwrite what they read, forward and backward, by family: layers
/// of convolution, norm and activation, the latter two in place, in a "chain", with "residual" sums
/// in place, "dense" concatenations or in a "unet" of `depth` levels; or a "recurrent" network whose
/// gates and cells are in place. Gradients of one value are added up in place. Throws
/// Error(BadInput) on other names.
Problem inPlaceStep(const std::string &family, int depth);

/// A small random step of that kind, with `layers` ops that are followed by up to three in place.
Problem generateInPlace(uint64_t seed, int layers);

} // namespace stow::schedule
