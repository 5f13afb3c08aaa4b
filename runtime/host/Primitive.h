// What every library call has in common: reading a command, choosing a oneDNN primitive for it, and
// checking that the primitive takes the operands exactly as they are stored.
//
// Each op has one function prepareX(Call) that turns a command into a Preparation. Querying reads
// requirements from it, binding creates the primitive from it; neither knows the ops.
#pragma once

#include "runtime/host/Descriptors.h"
#include "runtime/host/Library.h"
#include "runtime/host/MemoryDesc.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stow::host {

/// The CPU engine, one per process.
const dnnl::engine &cpuEngine();

/// Attributes of every primitive: scratchpads belong to the caller.
const dnnl::primitive_attr &callAttributes();

/// An operand as its primitive sees it.
struct Argument {
  size_t operand;          ///< index into Command::operands
  int dnnlArgument;        ///< DNNL_ARG_*
  dnnl::memory::desc desc; ///< may view the operand with other dimensions (groups, transposes)
  Layout layout;           ///< the operand's layout: as given, or as the library chose
  bool opaque = false;     ///< bytes that only the matching gradient reads
};

/// Loops of this room that stand in for a primitive.
struct Loops {
  const char *name; ///< for reports
  Bytes scratchBytes = 0;
  /// Addresses are those of the arguments, in their order, and of the scratch.
  std::function<void(const std::vector<char *> &addresses, char *scratch, int64_t threads)> run;
};

struct Pieces;
struct Parts;

/// A primitive, in parts (Parts.h) or as a whole, loops or pieces (Pieces.h), chosen for a command.
struct Preparation {
  dnnl::primitive_desc_base descriptor; ///< empty where there are loops or pieces
  std::vector<Argument> arguments;
  std::optional<Loops> loops = {};
  std::shared_ptr<const Pieces> pieces = {};
  std::shared_ptr<const Parts> parts = {};
};

/// Makes a Preparation for one op.
using PrepareFn = Preparation (*)(const Command &, const std::vector<bool> &anyLayout);

/// Makes one where loops of this room do better than the library; none where they do not.
using PrepareLoopsFn = std::optional<Preparation> (*)(const Command &,
                                                      const std::vector<bool> &anyLayout);

/// True for implementations on the library's own matrix product, which packs its operands into
/// buffers that it takes from the heap during the run, whatever the scratchpad mode.
bool usesHeap(const char *implementation);

/// True for the library's slow reference code.
bool isReference(const char *implementation);

/// The first implementation, in the library's order of preference, that works in the caller's
/// scratch and is not reference code; the library's first choice when there is none.
template <typename Descriptor> Descriptor preferPlanned(const Descriptor &first) {
  Descriptor next = first;
  while (usesHeap(next.impl_info_str()))
    if (!next.next_impl())
      return first;
  return isReference(next.impl_info_str()) ? first : next;
}

/// "dnnl.convolution of node 'conv1'".
std::string callTitle(const Command &call);

/// A command being prepared. All checks name the call, the node and the operand in their errors.
class Call {
public:
  /// `names` are the operands' names in order. Throws when their number differs.
  Call(const Command &command, const std::vector<bool> &anyLayout,
       std::vector<std::string> operandNames);

  const Operand &operand(size_t index) const { return command.operands.at(index); }
  const Shape &shape(size_t index) const { return operand(index).shape; }
  bool isAny(size_t index) const { return index < anyLayout.size() && anyLayout[index]; }

  /// Attributes. `ints` wants exactly `count` values.
  std::vector<int64_t> ints(const std::string &name, size_t count) const;
  int64_t integer(const std::string &name) const;
  int64_t integerOr(const std::string &name, int64_t absent) const;
  double number(const std::string &name) const;

  /// Throws unless operand `index` has `rank` dimensions.
  void requireRank(size_t index, size_t rank) const;

  /// The operand's descriptor, or one with a free layout when the caller lets the library choose.
  dnnl::memory::desc desc(size_t index) const;

  /// The operand's descriptor in the layout of operand `like` when its own layout is free: for ops
  /// that work in whatever layout their input has.
  dnnl::memory::desc descLike(size_t index, size_t like) const;

  /// An operand whose primitive sees it with its own dimensions (layouts with groups included).
  /// `given` is what was asked for, `chosen` what the primitive descriptor answers.
  Argument argument(size_t index, int dnnlArgument, const dnnl::memory::desc &given,
                    const dnnl::memory::desc &chosen, int64_t groups = 1) const;

  /// As above for a view with other dimensions; `chosenStored` is the chosen descriptor taken back
  /// to the operand's own dimensions.
  Argument viewArgument(size_t index, int dnnlArgument, const dnnl::memory::desc &given,
                        const dnnl::memory::desc &chosen, const dnnl::memory::desc &chosenStored,
                        int64_t groups) const;

  /// A one-dimensional f32 operand of `count` elements (statistics, biases), always row-major.
  Argument vector(size_t index, int dnnlArgument, int64_t count, DType type = DType::F32) const;

  /// Opaque bytes of the size of `desc` (which may be empty).
  Argument opaque(size_t index, int dnnlArgument, const dnnl::memory::desc &desc) const;

  /// Runs `create` and turns the library's refusal into an error that lists all operands.
  template <typename Create> auto choose(const Create &create) const {
    try {
      return create();
    } catch (const dnnl::error &error) {
      refuse(error.message);
    }
  }

  /// "dnnl.convolution of node 'conv1': ".
  std::string prefix() const;
  /// "operand 1 (weights, f32 64x3x7x7, layout row-major)".
  std::string describe(size_t index) const;
  [[noreturn]] void fail(const std::string &why) const;

private:
  [[noreturn]] void refuse(const std::string &reason) const;

  const Command &command;
  const std::vector<bool> &anyLayout;
  std::vector<std::string> names;
};

Preparation prepareConvolution(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareConvolutionGradInput(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareConvolutionGradWeight(const Command &command,
                                         const std::vector<bool> &anyLayout);
/// Dense convolutions of images that are smaller than their windows (TapLoops.h).
std::optional<Preparation> prepareTaps(const Command &command, const std::vector<bool> &anyLayout);
std::optional<Preparation> prepareTapsGradInput(const Command &command,
                                                const std::vector<bool> &anyLayout);
std::optional<Preparation> prepareTapsGradWeight(const Command &command,
                                                 const std::vector<bool> &anyLayout);
Preparation prepareMatMul(const Command &command, const std::vector<bool> &anyLayout);
/// A product of which the result is added to what is there.
Preparation prepareMatMulAdding(const Command &command, const std::vector<bool> &anyLayout);
/// Both in loops, for products with a short dimension (SkinnyProduct.h) and for small ones that the library has
/// scratch for (PanelProduct.h).
std::optional<Preparation> prepareMatMulLoops(const Command &command,
                                              const std::vector<bool> &anyLayout);
std::optional<Preparation> prepareMatMulAddingLoops(const Command &command,
                                                    const std::vector<bool> &anyLayout);
/// Products of few rows with a quantized matrix (CodedProduct.h).
Preparation prepareCodedMatMul(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareMaxPool(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareMaxPoolGrad(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareMaxPoolInference(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareAvgPool(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareAvgPoolGrad(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareBatchNorm(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareBatchNormStatistics(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareBatchNormInference(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareBatchNormGrad(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareNormMaxPool(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareNormMaxPoolGrad(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareReorder(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareAttention(const Command &command, const std::vector<bool> &anyLayout);
Preparation prepareAttentionGradient(const Command &command, const std::vector<bool> &anyLayout);

} // namespace stow::host
