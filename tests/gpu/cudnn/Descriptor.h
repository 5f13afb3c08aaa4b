// Descriptors of the stand-in for cuDNN: attributes as they were set, checked when they are finalized.
#pragma once

#include "runtime/cuda/CudnnApi.h"
#include "tests/gpu/cudnn/Reference.h"

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace stow::sim {

/// What a call returns instead of success, and says as its last error; thrown inside calls.
struct CudnnRefusal : std::runtime_error {
  CudnnRefusal(int status, const std::string &why) : std::runtime_error(why), status(status) {}
  int status;
};
inline constexpr int kBadParam = 2000, kNotSupported = 3000, kNotInitialized = 1001,
                     kExecutionFailed = 5000;

/// An operation on each element: y = x + b, or y = max(x, 0) where there is no b.
struct PointwiseWork {
  ConvolutionTensor x, y;
  std::optional<ConvolutionTensor> b;
};

class Descriptor;
using DescriptorPtr = std::shared_ptr<const Descriptor>;

struct Attribute {
  int type = 0;
  int64_t count = 0;
  std::vector<char> bytes;             ///< of values
  std::vector<DescriptorPtr> children; ///< of descriptors, as they were when they were set
};

/// One engine that the stand-in has: fixed, so that tests know what to expect.
struct StandInEngine {
  int64_t index;
  bool isFallback;
  std::vector<int> notes;
  std::vector<std::pair<int, int64_t>> knobs; ///< type and the value that the heuristics choose
  const char *knobName;                       ///< of the first one, in the plan's JSON
  int belowMultiprocessors = 1 << 30;         ///< of the devices that it runs on
};

/// True where the library has engines that it knows without a device: of a convolution alone or with a bias, and
/// with that more, as cuDNN 9.19 has.
bool hasEngines(const ConvolutionWork &work);

/// In the order in which the heuristics name them.
const std::vector<StandInEngine> &standInEngines();

class Descriptor {
public:
  explicit Descriptor(int type);

  void set(int name, int type, int64_t count, const void *values);
  /// The device at hand, where no description of one was set.
  void finalize(std::optional<int> multiprocessors);

  /// What was set, or Refusal.
  const Attribute &at(int name) const;
  bool has(int name) const { return attributes.contains(name); }
  const Descriptor &child(int name) const { return *at(name).children.front(); }
  int64_t integer(int name) const;
  std::vector<int64_t> integers(int name) const;

  const int type;
  bool isFinal = false;
  // What finalizing finds out.
  ConvolutionWork work;         ///< of an operation, and all that is made of it
  PointwiseWork pointwise;      ///< of such an operation
  int multiprocessors = 0;      ///< of a device, heuristics, a plan
  int64_t engine = -1;          ///< of an engine, a configuration, a plan
  std::map<int, int64_t> knobs; ///< of a configuration, a plan
  int64_t workspaceBytes = 0;   ///< of a plan
  bool isForHandle = false;     ///< of a plan: it can be executed

private:
  void finalizeTensor() const;
  void finalizeOperation();
  void finalizeFunction() const;
  void finalizePointwise();
  void finalizeGraph();
  void finalizeEngine();
  void finalizeConfig();
  void finalizePlan(std::optional<int> atHand);
  void finalizePack() const;

  std::map<int, Attribute> attributes;
};

/// Scratch of an engine: nothing, 144 or 288 bytes, or partial results and odd bytes that depend on the device.
int64_t workspaceBytesOf(const Descriptor &plan);

/// The plan as the library writes it, as far as anyone here reads it.
std::string jsonOf(const Descriptor &plan);

} // namespace stow::sim
