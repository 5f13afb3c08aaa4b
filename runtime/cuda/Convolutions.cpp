#include "runtime/cuda/Convolutions.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/PerDevice.h"

#include <optional>
#include <vector>

namespace stow::cuda {
namespace {

/// cuDNN and a handle for one device.
struct Cudnn {
  Cudnn() = default;
  Cudnn(const Cudnn &) = delete;
  Cudnn &operator=(const Cudnn &) = delete;
  ~Cudnn() {
    if (handle)
      library->destroyHandle(handle);
  }

  std::shared_ptr<const CudnnLibrary> library;
  void *handle = nullptr;
};

std::shared_ptr<const Cudnn> start() {
  auto cudnn = std::make_shared<Cudnn>();
  cudnn->library = CudnnLibrary::open("", "in LD_LIBRARY_PATH: this program convolves with cuDNN, "
                                          "and the GPU's driver does not bring it");
  if (const int status = cudnn->library->createHandle(&cudnn->handle))
    throw Error::badInput("cuDNN " + cudnn->library->version() +
                          " does not start on this GPU: " + cudnn->library->lastError(status));
  return cudnn;
}

/// For the device that is current in this thread, to which a handle belongs (cudnnCreate); there from the first convolution on that
/// runs there.
std::shared_ptr<const Cudnn> openCudnn() {
  static PerDevice<const Cudnn> opened;
  return opened.get(start);
}

std::string describe(const Engine &engine) {
  std::string knobs;
  for (auto [type, value] : engine.knobs)
    append(knobs, knobs.empty() ? "" : ", ", type, "=", value);
  return concat("engine ", engine.index, knobs.empty() ? "" : " (knobs " + knobs + ")");
}

class BoundConvolution final : public LibraryCall {
public:
  BoundConvolution(const Command &command, size_t chip, Address arena)
      : opened(openCudnn()), cudnn(*opened), title("command " + command.title()),
        pack(*cudnn.library, cudnn::kVariantPack) {
    buildPlan(command, chip);
    const ConvolutionOperands at = operandsOf(command);
    std::vector<int64_t> ids;
    std::vector<uint64_t> places;
    auto add = [&](int64_t id, std::optional<size_t> operand) {
      if (!operand)
        return;
      ids.push_back(id);
      places.push_back(placeOf(command.operands[*operand].offset, arena));
    };
    add(kIdX, at.x), add(kIdWeight, at.weight), add(kIdY, at.y);
    add(kIdAdded, at.added), add(kIdBias, at.bias);
    const auto count = static_cast<int64_t>(ids.size());
    const uint64_t scratch =
        command.workspaceBytes > 0 ? placeOf(command.workspaceOffset, arena) : 0;
    attempt([&] {
      pack.set(cudnn::kVariantPackIds, cudnn::kTypeInt64, count, ids.data());
      pack.set(cudnn::kVariantPackPointers, cudnn::kTypePointer, count, places.data());
      pack.set(cudnn::kVariantPackWorkspace, cudnn::kTypePointer, 1, &scratch);
      pack.finalize();
    });
  }

  void submit(Stream stream) override {
    int status = cudnn.library->setStream(cudnn.handle, stream);
    if (status == 0)
      status = cudnn.library->execute(cudnn.handle, plan->raw, pack.raw);
    if (status != 0)
      throw Error::badInput(title + " failed in cuDNN " + cudnn.library->version() + ": " +
                            cudnn.library->lastError(status));
  }

  std::string note() const override { return another; }

private:
  /// The planned engine's plan here, or that of the first spare one that is as good: what was planned has to hold.
  void buildPlan(const Command &command, size_t chip) {
    const std::vector<ChipEngine> engines = enginesOf(command);
    if (chip >= engines.size())
      throw Error::badInput(concat(title, " has engines for ", engines.size(),
                                   " chips, none for number ", chip, "; compile the model again"));
    const Engine &planned = engines[chip].engine;
    const Convolution convolution = convolutionOf(command);
    const CudnnLibrary &library = *cudnn.library;
    const int64_t version = plannedVersion(command);
    about = title + ", " + describe(convolution) + ", planned with cuDNN " +
            CudnnLibrary::versionText(version) + " and " + describe(planned) +
            (library.versionNumber() == version ? "" : ", found cuDNN " + library.version());
    attempt([&] {
      const CudnnDescriptor graph =
          operationGraph(library, convolution, PlanSite{cudnn.handle, nullptr});
      const std::string against = tryEngine(graph, convolution, planned, command);
      if (against.empty())
        return;
      std::string others;
      for (const auto &[of, engine] : spareEnginesOf(command)) {
        if (of != chip)
          continue;
        const std::string againstToo = tryEngine(graph, convolution, engine, command);
        if (againstToo.empty()) {
          another = title + ": " + describe(planned) + " " + against + "; " + describe(engine) +
                    " runs instead";
          return;
        }
        append(others, "; ", describe(engine), " ", againstToo);
      }
      throw Error::badInput("the engine " + against + others + kNextStep);
    });
  }

  /// Makes the plan of `engine`; what is against it, and no plan, otherwise.
  std::string tryEngine(const CudnnDescriptor &graph, const Convolution &convolution,
                        const Engine &engine, const Command &command) {
    const PlanSite site{cudnn.handle, nullptr};
    try {
      const std::string against = objectionTo(*cudnn.library, graph, engine, site,
                                              convolution.operandType(), productsOf(command));
      if (!against.empty())
        return "has " + against + " here";
      CudnnDescriptor made = executionPlan(*cudnn.library, graph, engine, site);
      const Bytes needed = workspaceOf(made);
      if (needed > command.workspaceBytes)
        return "needs " + formatBytesExact(needed) + " of scratch here and was planned with " +
               formatBytesExact(command.workspaceBytes);
      plan.emplace(std::move(made));
      return "";
    } catch (const Error &error) {
      return std::string("is refused here: ") + error.what();
    }
  }

  uint64_t placeOf(Bytes offset, Address arena) const {
    constexpr Address kAlignment = 64; // as the plan's tensors say
    const Address place = arena + static_cast<Address>(offset);
    if (place % kAlignment != 0)
      throw Error::badInput(concat(about, ": an operand at offset ", offset,
                                   " of the arena is not aligned to 64 bytes"));
    return place;
  }

  template <typename Action> void attempt(Action action) const {
    try {
      action();
    } catch (const Error &error) {
      throw Error::badInput(about + ": " + error.what());
    }
  }

  static constexpr const char *kNextStep =
      "; run it with the version that it was planned with, or compile the model again";

  const std::shared_ptr<const Cudnn> opened;
  const Cudnn &cudnn; ///< of that
  std::string title;
  std::string about;   ///< the title, and what was planned with what
  std::string another; ///< which engine runs, and why, where it is not the planned one
  std::optional<CudnnDescriptor> plan;
  CudnnDescriptor pack;
};

} // namespace

std::unique_ptr<LibraryCall> bindConvolution(const Command &command, size_t chip, Address arena) {
  return std::make_unique<BoundConvolution>(command, chip, arena);
}

} // namespace stow::cuda
