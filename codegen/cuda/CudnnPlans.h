// What cuDNN would run a convolution with on a named GPU, asked on a machine that may have none.
//
//   convolution + chip --> operation graph --> heuristics --> engine configurations, best first
//                                                                 |  notes: exact? deterministic?
//                                                                 v
//                             execution plans: identity, workspace bytes, JSON to load at run time
//
// The order is cuDNN's own: its heuristics' (mode A), then its fallback list. Times it does not give.
// The same library version, chip and convolution give the same answer.
#pragma once

#include "codegen/cuda/Chip.h"
#include "codegen/cuda/CudnnApi.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/DType.h"

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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
/// result have the same type in every engine there is. Sums are in F64 or F32.
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::Forward;
  StridedTensor x, weight, y;
  std::vector<int64_t> strides, dilations, padsBefore, padsAfter; ///< by spatial dimension

  DType operandType() const { return kind == ConvolutionKind::GradInput ? y.type : x.type; }
  auto operator<=>(const Convolution &) const = default;
};

/// How f32 products are computed: as such, or from operands cut to 10 bits of mantissa (TF32).
enum class F32Products : uint8_t { Exact, Tf32 };

struct EnginePlan {
  std::string identity;     ///< "engine 28 (KBLOCK=2, STAGES=5)": unique among a convolution's
  Bytes workspaceBytes = 0; ///< exact: what the plan's execution must be given
  int position = 0;         ///< among the plans that may be used, best first
  bool isFallback = false;  ///< cuDNN's heuristics do not list it, only its fallback list does
  std::string json;         ///< what CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION loads
};

class CudnnPlans {
public:
  /// Throws Error(BadInput) where the library refuses the chip's description.
  CudnnPlans(std::shared_ptr<const CudnnLibrary> library, const Chip &chip,
             F32Products products = F32Products::Exact);

  /// The plans that may be used, best first: deterministic ones whose sums are in f32 at least and
  /// whose products are exact, so without Winograd's, Fourier's and, for f32, tensor cores'.
  /// Asked once per distinct convolution. Throws Error(BadInput) with cuDNN's reason where it takes
  /// none, or with the engines' notes where none of them may be used.
  const std::vector<EnginePlan> &of(const Convolution &convolution);

  std::string version() const { return library->version(); }

private:
  std::vector<EnginePlan> ask(const Convolution &convolution) const;

  std::shared_ptr<const CudnnLibrary> library;
  std::string chip;
  F32Products products;
  CudnnDescriptor device;
  std::map<Convolution, std::vector<EnginePlan>> known;
  std::mutex mutex;
};

} // namespace stow::cuda
