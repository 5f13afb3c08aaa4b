// What cuDNN would run a convolution with on a named GPU, asked on a machine that may have none.
//
//   convolution + chip --> operation graph --> heuristics --> engine configurations, best first
//                                                                 |  notes: exact? deterministic?
//                                                                 v
//                             execution plans: identity, workspace bytes, engine and knobs
//
// Each plan is made from its engine and knobs, as a program makes it again on the device.
// The order is cuDNN's own: its heuristics' (mode A), then its fallback list. Times it does not give.
// The same library version, chip and convolution give the same answer.
#pragma once

#include "codegen/cuda/Chip.h"
#include "runtime/base/Bytes.h"
#include "runtime/cuda/ConvolutionPlan.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace stow::cuda {

struct EnginePlan {
  std::string identity; ///< "engine 28 (KBLOCK=2, STAGES=5)": unique among a convolution's
  Bytes workspaceBytes =
      0;            ///< what the plan's execution must be given, or more where a device alone tells
  int position = 0; ///< among the plans that may be used, best first
  bool isFallback = false; ///< cuDNN's heuristics do not list it, only its fallback list does
  Engine engine;           ///< what it is made of
};

class CudnnPlans {
public:
  /// Throws Error(BadInput) where the library refuses the chip's description.
  CudnnPlans(std::shared_ptr<const CudnnLibrary> library, const Chip &chip,
             F32Products products = F32Products::Exact);

  /// Those of the library in `folder`, as CudnnLibrary::open looks for it. The same ones throughout the process,
  /// since a step is often planned in several ways. Throws Error(BadInput) as both do.
  static CudnnPlans &opened(const std::string &folder, const Chip &chip, F32Products products);

  /// The plans that may be used, best first: deterministic ones whose sums are in f32 at least and
  /// whose products are exact, so without Winograd's, Fourier's and, for f32, tensor cores'.
  /// Asked once per distinct convolution. Throws Error(BadInput) with cuDNN's reason where it takes
  /// none, or with the engines' notes where none of them may be used.
  const std::vector<EnginePlan> &of(const Convolution &convolution);

  std::string version() const { return library->version(); }
  int64_t versionNumber() const { return library->versionNumber(); }

private:
  struct Answer {
    std::vector<EnginePlan> plans;
    std::string refusal; ///< where there are none
  };
  Answer ask(const Convolution &convolution) const;

  std::shared_ptr<const CudnnLibrary> library;
  std::string chip;
  F32Products products;
  CudnnDescriptor device;
  int64_t multiprocessors = 0; ///< of the chip
  std::map<Convolution, Answer> known;
  std::mutex mutex;
};

} // namespace stow::cuda
