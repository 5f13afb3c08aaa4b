#include "runtime/cuda/ConvolutionPlan.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/ProductEpilogue.h"

#include <algorithm>

namespace stow::cuda {
namespace {

/// What a command computes; nothing for any but convolutions.
std::optional<ConvolutionKind> kindOf(const Command &command) {
  switch (command.op) {
  case CommandOp::CudaConvolution:
  case CommandOp::CudaConvolutionEpilogue:
    return ConvolutionKind::Forward;
  case CommandOp::CudaConvolutionGradInput:
    return ConvolutionKind::GradInput;
  case CommandOp::CudaConvolutionGradWeight:
    return ConvolutionKind::GradWeight;
  default:
    return std::nullopt;
  }
}

const std::vector<int64_t> &intsOf(const Command &command, const char *name) {
  auto found = command.ints.find(name);
  if (found == command.ints.end())
    throw Error::badInput("command " + command.title() + " does not say \"" + name + "\"");
  return found->second;
}

StridedTensor strided(const Operand &operand) {
  StridedTensor tensor;
  tensor.shape = operand.shape;
  tensor.strides = outerStrides(operand.layout, operand.shape);
  tensor.type = operand.dtype;
  if (tensor.shape.size() == 3) {
    tensor.strides.insert(tensor.strides.begin() + 2, tensor.shape[2] * tensor.strides[2]);
    tensor.shape.insert(tensor.shape.begin() + 2, 1);
  }
  return tensor;
}

/// A vector of y's channels, [O] with any extents of 1 around, as [1,O,1,...].
StridedTensor alongChannels(const Operand &operand, size_t rank) {
  StridedTensor tensor;
  const int64_t channels = elementCount(operand.shape);
  tensor.shape.assign(rank, 1), tensor.strides.assign(rank, 1);
  tensor.shape[1] = channels, tensor.strides[0] = channels;
  tensor.type = operand.dtype;
  return tensor;
}

std::vector<int64_t> padded(std::vector<int64_t> values, int64_t inFront) {
  if (values.size() == 1)
    values.insert(values.begin(), inFront);
  return values;
}

cudnn::DataType dataType(DType type) {
  switch (type) {
  case DType::F64:
    return cudnn::kDouble;
  case DType::F32:
    return cudnn::kFloat;
  case DType::F16:
    return cudnn::kHalf;
  case DType::BF16:
    return cudnn::kBfloat16;
  default:
    throw Error::badInput("cuDNN convolves f64, f32, bf16 and f16; found " +
                          std::string(nameOf(type)));
  }
}

cudnn::DataType sumType(DType type) { return type == DType::F64 ? cudnn::kDouble : cudnn::kFloat; }

enum class Storage : uint8_t { Memory, None };

CudnnDescriptor tensor(const CudnnLibrary &library, const StridedTensor &from, int64_t id,
                       Storage storage = Storage::Memory) {
  constexpr int64_t kAlignment = 64; // that of every buffer of an arena
  CudnnDescriptor made(library, cudnn::kTensor);
  if (const bool isVirtual = storage == Storage::None)
    made.set(cudnn::kTensorIsVirtual, cudnn::kTypeBoolean, 1, &isVirtual);
  made.set(cudnn::kTensorType, cudnn::kTypeDataType, dataType(from.type));
  made.set(cudnn::kTensorShape, from.shape);
  made.set(cudnn::kTensorStrides, from.strides);
  made.set(cudnn::kTensorId, id);
  made.set(cudnn::kTensorAlignment, kAlignment);
  made.finalize();
  return made;
}

CudnnDescriptor window(const CudnnLibrary &library, const Convolution &of) {
  CudnnDescriptor made(library, cudnn::kConvolution);
  made.set(cudnn::kConvolutionSpatialDims, static_cast<int64_t>(of.strides.size()));
  made.set(cudnn::kConvolutionComputeType, cudnn::kTypeDataType, sumType(of.operandType()));
  made.set(cudnn::kConvolutionMode, cudnn::kTypeConvolutionMode, cudnn::kCrossCorrelation);
  made.set(cudnn::kConvolutionPadsBefore, of.padsBefore);
  made.set(cudnn::kConvolutionPadsAfter, of.padsAfter);
  made.set(cudnn::kConvolutionDilations, of.dilations);
  made.set(cudnn::kConvolutionStrides, of.strides);
  made.finalize();
  return made;
}

/// y = x + b, elementwise, or y = max(x, 0) where there is no b.
CudnnDescriptor pointwise(const CudnnLibrary &library, const CudnnDescriptor &x,
                          const std::optional<CudnnDescriptor> &b, const CudnnDescriptor &y) {
  CudnnDescriptor function(library, cudnn::kPointwise);
  function.set(cudnn::kPointwiseMode, cudnn::kTypePointwiseMode, b ? cudnn::kAdd : cudnn::kRelu);
  function.set(cudnn::kPointwiseComputeType, cudnn::kTypeDataType, cudnn::kFloat);
  if (!b)
    function.set(cudnn::kPointwiseNan, cudnn::kTypeNan, cudnn::kPropagateNan);
  function.finalize();
  CudnnDescriptor made(library, cudnn::kPointwiseOperation);
  made.set(cudnn::kPointwiseOf, function);
  made.set(cudnn::kPointwiseX, x);
  if (b)
    made.set(cudnn::kPointwiseB, *b);
  made.set(cudnn::kPointwiseY, y);
  made.finalize();
  return made;
}

CudnnDescriptor engineDescriptor(const CudnnLibrary &library, const CudnnDescriptor &graph,
                                 const Engine &engine, const PlanSite &site) {
  CudnnDescriptor made(library, cudnn::kEngine);
  made.set(cudnn::kEngineGraph, graph);
  made.set(cudnn::kEngineIndex, engine.index);
  if (site.device)
    made.set(cudnn::kEngineDevice, *site.device);
  made.finalize();
  return made;
}

/// What a numerical note says against an engine; empty where it says nothing.
std::string objection(int note, DType type, F32Products products) {
  const bool isExactF32 = type == DType::F32 && products == F32Products::Exact;
  switch (note) {
  case cudnn::kStrictNanPropagation:
    return "";
  case cudnn::kTensorCore:
    return isExactF32 ? "TF32 products" : "";
  case cudnn::kDownConvertInputs:
    return type == DType::F32 && products == F32Products::Tf32 ? "" : "narrowed operands";
  case cudnn::kReducedPrecisionReduction:
    return "sums below f32";
  case cudnn::kFft:
    return "Fourier transforms";
  case cudnn::kNondeterministic:
    return "results that differ from run to run";
  case cudnn::kWinograd:
  case cudnn::kWinograd4x4:
  case cudnn::kWinograd6x6:
  case cudnn::kWinograd13x13:
    return "Winograd's transforms";
  default:
    return concat("numerical note ", note);
  }
}

} // namespace

//===-- Commands ------------------------------------------------------------------------------===//

bool isConvolution(const Command &command) { return kindOf(command).has_value(); }

ConvolutionOperands operandsOf(ConvolutionKind kind) {
  switch (kind) {
  case ConvolutionKind::Forward:
    return {0, 1, 2};
  case ConvolutionKind::GradInput:
    return {2, 1, 0};
  case ConvolutionKind::GradWeight:
    break;
  }
  return {0, 2, 1};
}

ConvolutionOperands operandsOf(const Command &command) {
  const std::string title = "command " + command.title();
  const std::optional<ConvolutionKind> kind = kindOf(command);
  const ProductEpilogue epilogue = epilogueOf(command);
  const size_t expected = 3 + epilogue.bias.has_value() + epilogue.added.has_value();
  if (!kind || command.operands.size() != expected)
    throw Error::badInput(
        concat(title, " with ", command.operands.size(), " operands is no convolution for cuDNN; ",
               expected == 3 ? "expected one without bias, or a gradient of one, with 3"
                             : concat("its epilogue takes ", expected)));
  ConvolutionOperands at = operandsOf(*kind);
  if (command.ints.contains("function") != (command.op == CommandOp::CudaConvolutionEpilogue))
    throw Error::badInput(title + " says of no function, or of one that it does not have");
  if (!command.ints.contains("function"))
    return at;
  at.added = epilogue.added, at.bias = epilogue.bias, at.y = command.operands.size() - 1;
  for (std::optional<size_t> operand : {at.added, at.bias})
    if (operand && (*operand <= at.weight || *operand >= at.y))
      throw Error::badInput(concat(title, " has no operand ", *operand, " for its epilogue"));
  if (!at.bias || epilogue.preactivation || at.added == at.bias ||
      (epilogue.function != ProductFunction::None && epilogue.function != ProductFunction::Relu))
    throw Error::badInput(title + " has an epilogue that is none of cuDNN's: expected a bias, and "
                                  "with it a sum, relu or both");
  return at;
}

Convolution convolutionOf(const Command &command) {
  const std::string title = "command " + command.title();
  const ConvolutionOperands at = operandsOf(command);
  Convolution made;
  made.kind = *kindOf(command);
  for (const Operand &operand : command.operands)
    if (!operand.layout.blocks.empty() || operand.layout.groups > 1)
      throw Error::badInput(title + " has an operand whose layout has blocks, which cuDNN does not "
                                    "take");
  made.x = strided(command.operands[at.x]);
  made.weight = strided(command.operands[at.weight]);
  made.y = strided(command.operands[at.y]);
  if (at.added)
    made.added = strided(command.operands[*at.added]);
  if (at.bias)
    made.bias = alongChannels(command.operands[*at.bias], made.y.shape.size());
  made.hasRelu = epilogueOf(command).function == ProductFunction::Relu;
  made.strides = padded(intsOf(command, "strides"), 1);
  made.dilations = padded(intsOf(command, "dilations"), 1);
  const std::vector<int64_t> &pads = intsOf(command, "pads");
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
  made.padsBefore = padded({pads.begin(), middle}, 0);
  made.padsAfter = padded({middle, pads.end()}, 0);
  return made;
}

void setEngines(Command &command, std::span<const ChipEngine> engines, int64_t version,
                F32Products products) {
  std::vector<int64_t> indices, knobs, counts, architectures;
  for (const auto &[architecture, engine] : engines) {
    indices.push_back(engine.index);
    for (auto [type, value] : engine.knobs)
      knobs.insert(knobs.end(), {type, value});
    counts.push_back(static_cast<int64_t>(engine.knobs.size()));
    architectures.push_back(architecture);
  }
  command.ints["engine"] = indices;
  command.ints["knobs"] = knobs;
  if (engines.size() > 1) {
    command.ints["knob_counts"] = counts;
    command.ints["architectures"] = architectures;
  }
  command.ints["cudnn"] = {version};
  command.ints["tf32"] = {products == F32Products::Tf32};
}

static int64_t numberOf(const Command &command, const char *name) {
  const std::vector<int64_t> &values = intsOf(command, name);
  if (values.size() != 1)
    throw Error::badInput(concat("command ", command.title(), " has ", values.size(),
                                 " numbers for \"", name, "\"; expected 1"));
  return values.front();
}

std::vector<ChipEngine> enginesOf(const Command &command) {
  const std::string title = "command " + command.title();
  const std::vector<int64_t> &indices = intsOf(command, "engine"),
                             &knobs = intsOf(command, "knobs");
  if (knobs.size() % 2 != 0)
    throw Error::badInput(title + " has a knob without a value");
  std::vector<int64_t> counts = {static_cast<int64_t>(knobs.size() / 2)}, architectures = {0};
  if (indices.size() != 1)
    counts = intsOf(command, "knob_counts"), architectures = intsOf(command, "architectures");
  if (counts.size() != indices.size() || architectures.size() != indices.size())
    throw Error::badInput(concat(title, " has ", indices.size(), " engines, \"knob_counts\" of ",
                                 counts.size(), " and \"architectures\" of ",
                                 architectures.size()));
  std::vector<ChipEngine> engines;
  std::span<const int64_t> left = knobs;
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto length = 2 * static_cast<size_t>(counts[i]);
    if (counts[i] < 0 || length > left.size())
      throw Error::badInput(concat(title, " has ", knobs.size() / 2, " knobs, engine ", i,
                                   " takes ", counts[i], " of the ", left.size() / 2, " left"));
    Engine engine{indices[i], {}};
    for (size_t knob = 0; knob < length; knob += 2)
      engine.knobs.emplace_back(left[knob], left[knob + 1]);
    left = left.subspan(length);
    engines.push_back({static_cast<uint32_t>(architectures[i]), std::move(engine)});
  }
  if (!left.empty())
    throw Error::badInput(concat(title, " has ", left.size() / 2, " knobs that no engine takes"));
  return engines;
}

void setSpareEngines(Command &command, std::span<const SpareEngine> spares) {
  std::vector<int64_t> &numbers = command.ints["spares"];
  for (const auto &[chip, engine] : spares) {
    numbers.insert(numbers.end(), {static_cast<int64_t>(chip), engine.index,
                                   static_cast<int64_t>(engine.knobs.size())});
    for (auto [type, value] : engine.knobs)
      numbers.insert(numbers.end(), {type, value});
  }
}

std::vector<SpareEngine> spareEnginesOf(const Command &command) {
  std::vector<SpareEngine> spares;
  const auto found = command.ints.find("spares");
  if (found == command.ints.end())
    return spares;
  std::span<const int64_t> left = found->second;
  while (!left.empty()) {
    if (left.size() < 3 || left[0] < 0 || left[2] < 0 ||
        static_cast<size_t>(left[2]) > (left.size() - 3) / 2)
      throw Error::badInput("command " + command.title() +
                            " has a list of spare engines that is cut off");
    SpareEngine spare{static_cast<size_t>(left[0]), {left[1], {}}};
    for (size_t knob = 0; knob < static_cast<size_t>(left[2]); ++knob)
      spare.engine.knobs.emplace_back(left[3 + 2 * knob], left[4 + 2 * knob]);
    left = left.subspan(3 + 2 * spare.engine.knobs.size());
    spares.push_back(std::move(spare));
  }
  return spares;
}

int64_t plannedVersion(const Command &command) { return numberOf(command, "cudnn"); }

F32Products productsOf(const Command &command) {
  return numberOf(command, "tf32") != 0 ? F32Products::Tf32 : F32Products::Exact;
}

std::string describe(const Convolution &of) {
  constexpr const char *kTitles[] = {"convolution", "data gradient", "weight gradient"};
  auto shape = [](const StridedTensor &tensor) { return joined(tensor.shape, "x"); };
  std::string with;
  for (const auto &[has, part] :
       {std::pair(of.bias.has_value(), "bias"), std::pair(of.added.has_value(), "sum"),
        std::pair(of.hasRelu, "relu")})
    if (has)
      with += (with.empty() ? " with " : ", ") + std::string(part);
  return kTitles[static_cast<int>(of.kind)] + with + " of " +
         std::string(nameOf(of.operandType())) + ", x " + shape(of.x) + ", weight " +
         shape(of.weight) + ", y " + shape(of.y);
}

//===-- Descriptors ---------------------------------------------------------------------------===//

/// The three operations have their attributes in the same order from `alpha` on: alpha, beta, the
/// window, the weight, x, y.
CudnnDescriptor operationGraph(const CudnnLibrary &library, const Convolution &of,
                               const PlanSite &site) {
  const CudnnDescriptor x = tensor(library, of.x, kIdX),
                        weight = tensor(library, of.weight, kIdWeight),
                        y = tensor(library, of.y, kIdY), convolution = window(library, of);
  std::vector<std::optional<CudnnDescriptor>> steps; // behind the convolution: what is added; relu
  if (of.added)
    steps.emplace_back(tensor(library, *of.added, kIdAdded));
  if (of.bias)
    steps.emplace_back(tensor(library, *of.bias, kIdBias));
  if (of.hasRelu)
    steps.emplace_back();
  std::vector<CudnnDescriptor> between; // without memory
  StridedTensor sums = of.y;
  sums.type = of.y.type == DType::F64 ? DType::F64 : DType::F32;
  constexpr int64_t kFirstBetween = 'A';
  for (size_t i = 0; i < steps.size(); ++i)
    between.push_back(
        tensor(library, sums, kFirstBetween + static_cast<int64_t>(i), Storage::None));
  const auto [type, alpha] = of.kind == ConvolutionKind::Forward
                                 ? std::pair(cudnn::kForwardOperation, cudnn::kForwardAlpha)
                             : of.kind == ConvolutionKind::GradInput
                                 ? std::pair(cudnn::kGradInputOperation, cudnn::kGradInputAlpha)
                                 : std::pair(cudnn::kGradWeightOperation, cudnn::kGradWeightAlpha);
  CudnnDescriptor operation(library, type);
  const double factors[] = {1, 0};
  const float narrow[] = {1, 0};
  for (int i = 0; i < 2; ++i)
    if (of.operandType() == DType::F64)
      operation.set(alpha + i, cudnn::kTypeDouble, 1, &factors[i]);
    else
      operation.set(alpha + i, cudnn::kTypeFloat, 1, &narrow[i]);
  operation.set(alpha + 2, convolution);
  operation.set(alpha + 3, weight);
  operation.set(alpha + 4, x);
  operation.set(alpha + 5, between.empty() ? y : between.front());
  operation.finalize();
  std::vector<CudnnDescriptor> operations;
  operations.push_back(std::move(operation));
  for (size_t i = 0; i < steps.size(); ++i)
    operations.push_back(
        pointwise(library, between[i], steps[i], i + 1 < steps.size() ? between[i + 1] : y));
  std::vector<void *> raw;
  for (const CudnnDescriptor &made : operations)
    raw.push_back(made.raw);
  CudnnDescriptor graph(library, cudnn::kOperationGraph);
  if (site.handle)
    graph.set(cudnn::kGraphHandle, cudnn::kTypeHandle, 1, &site.handle);
  graph.set(cudnn::kGraphOperations, cudnn::kTypeDescriptor, static_cast<int64_t>(raw.size()),
            raw.data());
  graph.finalize();
  return graph;
}

Engine engineOf(const CudnnLibrary &library, const CudnnDescriptor &config) {
  Engine found;
  CudnnDescriptor engine(library, cudnn::kEngine);
  config.get(cudnn::kEngineConfigEngine, cudnn::kTypeDescriptor, 1, &engine.raw);
  engine.get(cudnn::kEngineIndex, cudnn::kTypeInt64, 1, &found.index);
  constexpr int64_t kMostKnobs = 64;
  std::vector<CudnnDescriptor> knobs;
  std::vector<void *> raw;
  for (int64_t i = 0; i < kMostKnobs; ++i) {
    knobs.emplace_back(library, cudnn::kKnobChoice);
    raw.push_back(knobs.back().raw);
  }
  const int64_t count = std::min(
      config.get(cudnn::kEngineConfigKnobs, cudnn::kTypeDescriptor, kMostKnobs, raw.data()),
      kMostKnobs);
  for (int64_t i = 0; i < count; ++i) {
    int type = 0;
    int64_t value = 0;
    const CudnnDescriptor &knob = knobs[static_cast<size_t>(i)];
    knob.get(cudnn::kKnobType, cudnn::kTypeKnob, 1, &type);
    knob.get(cudnn::kKnobValue, cudnn::kTypeInt64, 1, &value);
    found.knobs.emplace_back(type, value);
  }
  return found;
}

std::string objectionTo(const CudnnLibrary &library, const CudnnDescriptor &graph,
                        const Engine &engine, const PlanSite &site, DType type,
                        F32Products products) {
  const CudnnDescriptor descriptor = engineDescriptor(library, graph, engine, site);
  constexpr int64_t kMostNotes = 32;
  std::vector<int> notes(kMostNotes);
  const int64_t count = descriptor.get(cudnn::kEngineNumericalNotes, cudnn::kTypeNumericalNote,
                                       kMostNotes, notes.data());
  notes.resize(static_cast<size_t>(std::min(count, kMostNotes)));
  for (int note : notes)
    if (const std::string against = objection(note, type, products); !against.empty())
      return against;
  return "";
}

CudnnDescriptor executionPlan(const CudnnLibrary &library, const CudnnDescriptor &graph,
                              const Engine &engine, const PlanSite &site) {
  const CudnnDescriptor chosen = engineDescriptor(library, graph, engine, site);
  CudnnDescriptor config(library, cudnn::kEngineConfig);
  config.set(cudnn::kEngineConfigEngine, chosen);
  std::vector<CudnnDescriptor> knobs;
  std::vector<void *> raw;
  for (auto [type, value] : engine.knobs) {
    knobs.emplace_back(library, cudnn::kKnobChoice);
    knobs.back().set(cudnn::kKnobType, cudnn::kTypeKnob, static_cast<int>(type));
    knobs.back().set(cudnn::kKnobValue, value);
    knobs.back().finalize();
    raw.push_back(knobs.back().raw);
  }
  if (!raw.empty())
    config.set(cudnn::kEngineConfigKnobs, cudnn::kTypeDescriptor, static_cast<int64_t>(raw.size()),
               raw.data());
  config.finalize();
  CudnnDescriptor plan(library, cudnn::kExecutionPlan);
  if (site.handle)
    plan.set(cudnn::kPlanHandle, cudnn::kTypeHandle, 1, &site.handle);
  plan.set(cudnn::kPlanEngineConfig, config);
  if (site.device)
    plan.set(cudnn::kPlanDevice, *site.device);
  plan.finalize();
  return plan;
}

Bytes workspaceOf(const CudnnDescriptor &plan) {
  Bytes bytes = 0;
  plan.get(cudnn::kPlanWorkspaceBytes, cudnn::kTypeInt64, 1, &bytes);
  return bytes;
}

} // namespace stow::cuda
