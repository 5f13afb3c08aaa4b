#include "tests/compiler/import/RunCompiled.h"

#include "tests/compiler/import/NodeCase.h"

#include "codegen/Backend.h"
#include "compiler/Pipeline.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"
#include "passes/expand/Passes.h"
#include "passes/plan/Stages.h"
#include "runtime/base/Error.h"
#include "runtime/host/Float16.h"
#include "runtime/program/Executor.h"

#include "mlir/Transforms/Passes.h"

#include <cstring>
#include <map>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Calls `visit` with a value of the C++ type that elements are stored in, and functions that convert.
template <typename Visit> void withElement(DType type, Visit visit) {
  auto same = [](auto x) { return x; };
  switch (type) {
  case DType::F64:
    return visit(double(), same, same);
  case DType::F32:
    return visit(float(), same, same);
  case DType::F16:
    return visit(uint16_t(), [](double x) { return host::narrowF16(float(x)); }, host::widenF16);
  case DType::BF16:
    return visit(uint16_t(), [](double x) { return host::narrowBf16(float(x)); }, host::widenBf16);
  case DType::I64:
    return visit(int64_t(), same, same);
  case DType::I32:
    return visit(int32_t(), same, same);
  default:
    return visit(uint8_t(), same, same);
  }
}

void write(Executor &executor, const Operand &place, const reference::Tensor &tensor) {
  withElement(place.dtype, [&](auto element, auto narrowed, auto) {
    std::vector<decltype(element)> stored;
    for (double value : tensor.values)
      stored.push_back(static_cast<decltype(element)>(narrowed(value)));
    executor.writeTensor(place, stored.data());
  });
}

reference::Tensor read(const Executor &executor, const Operand &place) {
  reference::Tensor tensor(std::vector<int64_t>(place.shape.begin(), place.shape.end()));
  withElement(place.dtype, [&](auto element, auto, auto widened) {
    std::vector<decltype(element)> stored(tensor.values.size());
    executor.readTensor(place, stored.data());
    for (size_t i = 0; i < stored.size(); ++i)
      tensor.values[i] = static_cast<double>(widened(stored[i]));
  });
  return tensor;
}

/// The evaluation of `model`, placed.
OwningOpRef<ModuleOp> placed(ModuleOp model, const Target &target) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(model->clone());
  runStage(*module, "model", [&](PassManager &manager) { addModelPasses(manager, target); });
  runStage(*module, "step",
           [&](PassManager &manager) { manager.addPass(createSplitTrainEvalPass(target, {})); });
  findGraph(*module, Role::Train).erase();
  runStage(*module, "step", [&](PassManager &manager) {
    manager.addPass(createExpandBatchNormPass(target));
    manager.addPass(createConvolutionBiasPass(target));
    manager.addPass(createCanonicalizerPass());
  });
  addKernels(*module, target);
  OwningOpRef<ModuleOp> bound = withStateBound(*module);
  runStage(*bound, "place", [&](PassManager &manager) {
    addSharePasses(manager, target);
    addPlacePasses(manager, packingFor(target));
  });
  return bound;
}

/// The program of `model`. Throws Refusal with what the compiler says.
FailureOr<BuiltProgram> builtProgram(const Backend &backend, ModuleOp model) {
  std::string reasons;
  ScopedDiagnosticHandler handler(model.getContext(), [&](Diagnostic &diagnostic) {
    reasons += diagnostic.str() + "; ";
    return success();
  });
  try {
    OwningOpRef<ModuleOp> module = placed(model, backend.target());
    auto built = backend.build(*module);
    if (succeeded(built))
      return built;
  } catch (const Error &error) {
    reasons += error.what();
  }
  throw Refusal(reasons);
}

} // namespace

std::vector<reference::Tensor> runCompiled(ModuleOp model,
                                           const std::vector<reference::Tensor> &arguments) {
  static const std::unique_ptr<Backend> backend = createBackend({});
  auto graph = *model.getOps<func::FuncOp>().begin();
  std::map<std::string, const reference::Tensor *> named;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    named[argumentAttr(graph, i, kNameAttr).str()] = &arguments[i];
  auto built = builtProgram(*backend, model);
  const std::unique_ptr<LoadedCode> code = backend->load(*built);
  built->program.threads = 1;
  Executor executor(built->program, {code->kernels(), built->constants}, {});
  executor.initializeState(0);
  const size_t index = graphIndex(executor.program(), GraphRole::Eval);
  const GraphProgram &program = executor.program().graphs[index];
  for (const GraphInput &input : program.inputs)
    if (input.role == InputRole::Data)
      write(executor, input.place, *named.at(input.name));
    else
      write(executor, input.place, reference::Tensor({}, 0.0));
  executor.run(index);
  std::map<std::string, reference::Tensor> results;
  for (const GraphOutput &output : program.outputs)
    results[output.name] = read(executor, output.place);
  std::vector<reference::Tensor> ordered;
  for (unsigned i = 0; i < graph.getNumResults(); ++i)
    ordered.push_back(results.at(graph.getResultAttrOfType<StringAttr>(i, kNameAttr).str()));
  return ordered;
}

} // namespace stow::onnx
