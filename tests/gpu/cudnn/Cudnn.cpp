// A stand-in for cuDNN 9's backend interface over the stand-in for libcuda: checked descriptors, a few
// engines with fixed scratch, plain loops in double.
//
// It answers the compiler's questions about a described device, where there is no driver, and runs plans
// on the device at hand. Convolutions run as host functions of the stream, so that they take their place
// among kernels and copies, captured ones too. Operands are looked up in the device's memory at that time;
// what lies outside an allocation ends the process. Scratch is overwritten before and after, all of it: an
// operand that overlaps it loses its values.
#include "runtime/base/Concat.h"
#include "tests/gpu/cudnn/Descriptor.h"
#include "tests/gpu/driver/StandIn.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace stow::sim;
using namespace stow::cuda::cudnn;
using stow::concat;

namespace {

thread_local std::string lastError;

struct Handle {
  void *stream = nullptr;
  int multiprocessors = 0;
  void *context = nullptr; ///< of the device that it is for (cudnnCreate)
};

/// A function of the driver that this process has opened; null where it has none.
template <typename Function> Function *ofDriver(const char *name) {
  static void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  return driver ? reinterpret_cast<Function *>(dlsym(driver, name)) : nullptr;
}

std::optional<int> multiprocessorsAtHand() {
  constexpr int kMultiprocessors = 16;
  auto *ofDevice = ofDriver<int(int *, int, int)>("cuDeviceGetAttribute");
  int count = 0;
  if (!ofDevice || ofDevice(&count, kMultiprocessors, 0) != 0)
    return std::nullopt;
  return count;
}

/// Runs the body of a call.
template <typename Body> int call(Body body) {
  try {
    body();
    return 0;
  } catch (const CudnnRefusal &refusal) {
    lastError = refusal.what();
    return refusal.status;
  }
}

Descriptor &descriptorAt(void *raw) {
  if (!raw)
    throw CudnnRefusal(kBadParam, "no descriptor");
  return *static_cast<Descriptor *>(raw);
}

/// One convolution, to be run when the stream comes to it.
struct Work {
  ConvolutionWork convolution;
  uint64_t x, weight, y, added, bias, scratch; ///< 0 for what there is not
  uint64_t scratchBytes;
};

void *place(uint64_t address, uint64_t bytes, const char *what) {
  static auto *find = ofDriver<decltype(standinHostPointer)>("standinHostPointer");
  void *found = find ? find(address, bytes) : nullptr;
  if (!found) {
    std::fprintf(
        stderr, "cudnnBackendExecute: %s at %#llx of %llu bytes is not inside an allocation\n",
        what, static_cast<unsigned long long>(address), static_cast<unsigned long long>(bytes));
    std::abort();
  }
  return found;
}

void run(void *data) {
  const Work &work = *static_cast<const Work *>(data);
  const ConvolutionWork &of = work.convolution;
  void *x = place(work.x, of.x.bytes(), "x"), *y = place(work.y, of.y.bytes(), "y"),
       *weight = place(work.weight, of.weight.bytes(), "the weight");
  void *added = of.added ? place(work.added, of.added->bytes(), "what is added") : nullptr,
       *bias = of.bias ? place(work.bias, of.bias->bytes(), "the bias") : nullptr;
  void *scratch =
      work.scratchBytes > 0 ? place(work.scratch, work.scratchBytes, "scratch") : nullptr;
  constexpr int kAnything = 0xFF; // NaN in every type
  if (scratch)
    std::memset(scratch, kAnything, work.scratchBytes);
  convolve(of, x, weight, y, added, bias);
  if (scratch)
    std::memset(scratch, kAnything, work.scratchBytes);
}

uint64_t pointerOf(const Descriptor &pack, const ConvolutionTensor &tensor) {
  const std::vector<int64_t> ids = pack.integers(kVariantPackIds);
  const std::vector<int64_t> pointers = pack.integers(kVariantPackPointers);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != tensor.id)
      continue;
    const auto pointer = static_cast<uint64_t>(pointers[i]);
    if (pointer == 0 || pointer % static_cast<uint64_t>(tensor.alignment) != 0)
      throw CudnnRefusal(kBadParam,
                         concat("tensor ", tensor.id, " is not aligned as its descriptor says"));
    return pointer;
  }
  throw CudnnRefusal(kBadParam, concat("the pack has no tensor ", tensor.id));
}

void *contextAtHand() {
  auto *current = ofDriver<int(void **)>("cuCtxGetCurrent");
  void *context = nullptr;
  return current && current(&context) == 0 ? context : nullptr;
}

void execute(const Handle &handle, const Descriptor &plan, const Descriptor &pack) {
  if (plan.type != kExecutionPlan || !plan.isFinal || pack.type != kVariantPack || !pack.isFinal)
    throw CudnnRefusal(kBadParam, "plan or pack is not final");
  if (handle.context != contextAtHand())
    throw CudnnRefusal(kBadParam, "the handle is for another device than the thread's");
  if (!plan.isForHandle)
    throw CudnnRefusal(kBadParam, "the plan is for a described device, not for the one at hand");
  const auto scratch = static_cast<uint64_t>(pack.integer(kVariantPackWorkspace));
  constexpr uint64_t kScratchAlignment = 256; // a promise of ours: what cuDNN needs is nowhere said
  if (plan.workspaceBytes > 0 && (scratch == 0 || scratch % kScratchAlignment != 0))
    throw CudnnRefusal(kBadParam, "scratch is missing or not aligned to 256 bytes");
  // A captured convolution runs any number of times: its description lives as long as the process.
  static std::vector<std::unique_ptr<Work>> all;
  const ConvolutionWork &of = plan.work;
  const uint64_t added = of.added ? pointerOf(pack, *of.added) : 0,
                 bias = of.bias ? pointerOf(pack, *of.bias) : 0;
  all.push_back(std::make_unique<Work>(Work{of, pointerOf(pack, of.x), pointerOf(pack, of.weight),
                                            pointerOf(pack, of.y), added, bias, scratch,
                                            static_cast<uint64_t>(plan.workspaceBytes)}));
  auto *launch = ofDriver<int(void *, void (*)(void *), void *)>("cuLaunchHostFunc");
  if (!launch || launch(handle.stream, run, all.back().get()) != 0)
    throw CudnnRefusal(kExecutionFailed, "the stream takes no work");
}

//===-- Attributes that are read --------------------------------------------------------------===//

template <typename Value>
void give(const std::vector<Value> &from, int64_t room, int64_t *count, void *values) {
  *count = static_cast<int64_t>(from.size());
  if (values)
    std::copy_n(from.begin(), std::clamp<int64_t>(room, 0, *count), static_cast<Value *>(values));
}

/// Fills descriptors that the caller has made.
void fill(const std::vector<Descriptor> &from, int64_t room, int64_t *count, void *values) {
  *count = static_cast<int64_t>(from.size());
  for (int64_t i = 0; values && i < std::min(room, *count); ++i) {
    Descriptor &to = descriptorAt(static_cast<void **>(values)[i]);
    const Descriptor &source = from[static_cast<size_t>(i)];
    if (to.type != source.type)
      throw CudnnRefusal(kBadParam, "a descriptor of another type was given to fill");
    to.~Descriptor();
    new (&to) Descriptor(source);
  }
}

std::vector<Descriptor> knobsOf(const Descriptor &config) {
  std::vector<Descriptor> knobs;
  for (auto [name, value] : config.knobs) {
    Descriptor &knob = knobs.emplace_back(kKnobChoice);
    knob.set(kKnobType, kTypeKnob, 1, &name);
    knob.set(kKnobValue, kTypeInt64, 1, &value);
    knob.finalize({});
  }
  return knobs;
}

std::vector<Descriptor> configsOf(const Descriptor &heuristics) {
  const bool isFallback = heuristics.integer(kHeuristicsMode) == kFallback;
  std::vector<Descriptor> configs;
  const Descriptor *graph = &heuristics.child(kHeuristicsGraph);
  if (!hasEngines(graph->work))
    return configs;
  const int multiprocessors = heuristics.child(kHeuristicsDevice).multiprocessors;
  for (const StandInEngine &known : standInEngines()) {
    if (known.isFallback != isFallback || multiprocessors >= known.belowMultiprocessors)
      continue;
    Descriptor engine(kEngine), config(kEngineConfig);
    engine.set(kEngineGraph, kTypeDescriptor, 1, &graph);
    engine.set(kEngineIndex, kTypeInt64, 1, &known.index);
    engine.finalize({});
    const Descriptor *made = &engine;
    config.set(kEngineConfigEngine, kTypeDescriptor, 1, &made);
    config.finalize({});
    configs.push_back(std::move(config));
  }
  return configs;
}

void read(const Descriptor &from, int name, int64_t room, int64_t *count, void *values) {
  if (!from.isFinal)
    throw CudnnRefusal(kBadParam, "the descriptor is not final");
  switch (name) {
  case kHeuristicsResults:
    return fill(configsOf(from), room, count, values);
  case kEngineConfigEngine:
    return fill({from.child(kEngineConfigEngine)}, room, count, values);
  case kEngineConfigKnobs:
    return fill(knobsOf(from), room, count, values);
  case kEngineIndex:
    return give(std::vector<int64_t>{from.engine}, room, count, values);
  case kEngineNumericalNotes:
    for (const StandInEngine &known : standInEngines())
      if (known.index == from.engine)
        give(known.notes, room, count, values);
    return;
  case kKnobType:
    return give(std::vector<int>{static_cast<int>(from.integer(name))}, room, count, values);
  case kKnobValue:
    return give(std::vector<int64_t>{from.integer(name)}, room, count, values);
  case kPlanWorkspaceBytes:
    return give(std::vector<int64_t>{from.workspaceBytes}, room, count, values);
  case kPlanJson: {
    const std::string text = jsonOf(from);
    return give(std::vector<char>(text.c_str(), text.c_str() + text.size() + 1), room, count,
                values);
  }
  default:
    throw CudnnRefusal(kNotSupported, concat("reading attribute ", name));
  }
}

} // namespace

extern "C" {

#define STANDIN __attribute__((visibility("default")))

STANDIN int cudnnBackendCreateDescriptor(int type, void **descriptor) {
  return call([&] { *descriptor = new Descriptor(type); });
}

STANDIN int cudnnBackendDestroyDescriptor(void *descriptor) {
  delete static_cast<Descriptor *>(descriptor);
  return 0;
}

STANDIN int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
                                     const void *values) {
  return call([&] { descriptorAt(descriptor).set(name, type, count, values); });
}

STANDIN int cudnnBackendGetAttribute(void *descriptor, int name, int, int64_t room, int64_t *count,
                                     void *values) {
  return call([&] { read(descriptorAt(descriptor), name, room, count, values); });
}

STANDIN int cudnnBackendFinalize(void *descriptor) {
  return call([&] { descriptorAt(descriptor).finalize(multiprocessorsAtHand()); });
}

STANDIN int cudnnBackendExecute(void *handle, void *plan, void *pack) {
  return call([&] {
    if (!handle)
      throw CudnnRefusal(kBadParam, "no handle");
    execute(*static_cast<Handle *>(handle), descriptorAt(plan), descriptorAt(pack));
  });
}

STANDIN int cudnnCreate(void **handle) {
  return call([&] {
    void *context = contextAtHand();
    if (!context)
      throw CudnnRefusal(kNotInitialized, "there is no context of a device");
    *handle = new Handle{nullptr, multiprocessorsAtHand().value_or(0), context};
  });
}

STANDIN int cudnnDestroy(void *handle) {
  delete static_cast<Handle *>(handle);
  return 0;
}

STANDIN int cudnnSetStream(void *handle, void *stream) {
  return call([&] {
    if (!handle)
      throw CudnnRefusal(kBadParam, "no handle");
    static_cast<Handle *>(handle)->stream = stream;
  });
}

STANDIN size_t cudnnGetVersion() {
  constexpr size_t kVersion = 99900; // 9.99.0, which nobody has
  const char *other = std::getenv("STANDIN_CUDNN_VERSION");
  return other ? static_cast<size_t>(std::atoll(other)) : kVersion;
}

STANDIN const char *cudnnGetErrorString(int status) {
  return status == 0                  ? "CUDNN_STATUS_SUCCESS"
         : status == kNotInitialized  ? "CUDNN_STATUS_NOT_INITIALIZED"
         : status == kBadParam        ? "CUDNN_STATUS_BAD_PARAM"
         : status == kNotSupported    ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == kExecutionFailed ? "CUDNN_STATUS_EXECUTION_FAILED"
                                      : "CUDNN_STATUS_INTERNAL_ERROR";
}

STANDIN void cudnnGetLastErrorString(char *text, size_t room) {
  std::snprintf(text, room, "%s", lastError.c_str());
  lastError.clear();
}
}
