// The C interface of a compiled model (runtime/include/stowage.h) over Instance: arguments become
// C++ values, exceptions become a status and a text. Every exported function is here; everything
// else in a shared library is hidden by the linker.
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/PlanJson.h"
#include "runtime/include/stowage.h"
#include "runtime/program/EmbeddedProgram.h"
#include "runtime/program/Instance.h"
#include "runtime/ranks/Ranks.h"

#include <algorithm>
#include <array>
#include <new>

struct stowage_model {
  stow::Instance instance;
};

namespace {

using namespace stow;

thread_local std::string lastError;

stowage_status fail(stowage_status status, const char *message) {
  try {
    lastError = message;
  } catch (const std::bad_alloc &) {
    lastError.clear(); // no memory even for the text
  }
  return status;
}

/// Calls `body`; nothing that it throws gets further than this.
template <typename Body> stowage_status guarded(const Body &body) {
  try {
    body();
    return STOWAGE_OK;
  } catch (const Error &error) {
    return fail(error.kind() == ErrorKind::Internal ? STOWAGE_INTERNAL : STOWAGE_BAD_INPUT,
                error.what());
  } catch (const std::bad_alloc &) {
    return fail(STOWAGE_BAD_INPUT, "the machine has no memory left");
  } catch (const std::exception &error) {
    return fail(STOWAGE_INTERNAL, error.what());
  } catch (...) {
    return fail(STOWAGE_INTERNAL, "unknown exception");
  }
}

const void *require(const void *pointer, const char *what) {
  if (!pointer)
    throw Error::badInput(std::string(what) + " is NULL");
  return pointer;
}

/// By stowage_dtype.
constexpr std::array<ElementType, 13> elementTypes = {{{ElementType::Kind::Float, 8},
                                                       {ElementType::Kind::Float, 4},
                                                       {ElementType::Kind::Float, 2},
                                                       {ElementType::Kind::BFloat, 2},
                                                       {ElementType::Kind::Signed, 8},
                                                       {ElementType::Kind::Signed, 4},
                                                       {ElementType::Kind::Unsigned, 1},
                                                       {ElementType::Kind::Boolean, 1},
                                                       {ElementType::Kind::Signed, 2},
                                                       {ElementType::Kind::Signed, 1},
                                                       {ElementType::Kind::Unsigned, 8},
                                                       {ElementType::Kind::Unsigned, 4},
                                                       {ElementType::Kind::Unsigned, 2}}};

stowage_dtype dtypeOf(DType type) {
  auto found = std::ranges::find(elementTypes, elementTypeOf(type));
  return static_cast<stowage_dtype>(found - elementTypes.begin());
}

HostArray hostArray(const stowage_array &array, const std::string &what) {
  auto type = static_cast<size_t>(array.dtype);
  if (type >= elementTypes.size())
    throw Error::badInput(concat(what, ": ", array.dtype, " is no stowage_dtype"));
  if (array.rank < 0 || (array.rank > 0 && !array.shape))
    throw Error::badInput(what + ": expected a rank of at least 0 and as many dimensions");
  HostArray host{array.data, elementTypes[type], {}};
  for (int32_t i = 0; i < array.rank; ++i) {
    if (array.shape[i] < 0)
      throw Error::badInput(concat(what, ": dimension ", i, " is negative"));
    host.shape.push_back(array.shape[i]);
  }
  return host;
}

std::vector<HostArray> hostArrays(const stowage_array *inputs, int64_t count) {
  if (count > 0)
    require(inputs, "inputs");
  std::vector<HostArray> arrays;
  for (int64_t i = 0; i < count; ++i)
    arrays.push_back(hostArray(inputs[i], concat("input ", i)));
  return arrays;
}

void describe(const std::string &name, const char *kind, const Operand &place,
              stowage_tensor &out) {
  out = {name.c_str(),
         kind,
         dtypeOf(place.dtype),
         static_cast<int32_t>(place.shape.size()),
         place.shape.data(),
         elementCount(place.shape) * sizeOf(place.dtype),
         0};
}

/// Names of kinds lie in literals, so that data() is ended by a zero byte.
void describe(const StateTensor &tensor, stowage_tensor &out) {
  describe(tensor.name, nameOf(tensor.kind).data(), tensor.place, out);
  out.saved = tensor.saved;
}

void describe(const GraphInput *input, stowage_tensor &out) {
  describe(input->name, input->role == InputRole::Target ? "target" : "data", input->place, out);
}

void describe(const GraphOutput &output, stowage_tensor &out) {
  describe(output.name, "output", output.place, out);
}

/// Calls `visit` with the list that `list` names.
template <typename Visit>
auto visitList(const Instance &instance, stowage_list list, const Visit &visit) {
  switch (list) {
  case STOWAGE_STATE:
    return visit(instance.program().state);
  case STOWAGE_STEP_INPUTS:
    return visit(instance.stepInputs());
  case STOWAGE_EVAL_INPUTS:
    return visit(instance.evalInputs());
  case STOWAGE_EVAL_OUTPUTS:
    return visit(instance.evalOutputs());
  case STOWAGE_STEP_OUTPUTS:
    return visit(instance.stepOutputs());
  case STOWAGE_EVALUATED:
    return visit(instance.evaluated());
  }
  throw Error::badInput(concat(list, " is no stowage_list"));
}

size_t requireIndex(int64_t index, size_t count) {
  if (index < 0 || static_cast<uint64_t>(index) >= count)
    throw Error::badInput(
        concat("expected the position of one of ", count, " tensors, found ", index));
  return static_cast<size_t>(index);
}

/// "NAME<tab>OTHER" in each line.
WeightAliases aliasesOf(const char *lines) {
  WeightAliases aliases;
  for (std::string_view rest = lines ? lines : ""; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos)
      throw Error::badInput(
          concat("aliases: expected a name, a tab and another one, found '", line, "'"));
    aliases[std::string(line.substr(0, tab))].emplace_back(line.substr(tab + 1));
  }
  return aliases;
}

/// As RankGroup::setTimeout takes it.
std::optional<int64_t> timeoutOf(int64_t seconds) {
  return seconds == 0 ? std::nullopt : std::optional(std::max<int64_t>(seconds, 0));
}

/// The library's one program, parsed at the first use; models copy it.
const Program &program() {
  static const Program parsed = embeddedProgram();
  return parsed;
}

} // namespace

extern "C" {

int32_t stowage_abi_version(void) { return STOWAGE_ABI_VERSION; }

const char *stowage_last_error(void) { return lastError.c_str(); }

stowage_status stowage_describe_program(stowage_program *out) {
  return guarded([&] {
    require(out, "out");
    const Program &given = program();
    static const std::string loss = print(given.loss);
    *out = {given.model.c_str(),
            loss.c_str(),
            given.optimizer.text.c_str(),
            given.samplesPerStep() / given.devices,
            given.threads,
            given.plan.arenaBytes,
            given.optimizer.learningRate};
  });
}

const char *stowage_plan_json(void) {
  const char *text = nullptr;
  guarded([&] {
    static const std::string json = toJson(program().plan);
    text = json.c_str();
  });
  return text;
}

stowage_status stowage_create(const stowage_options *options, stowage_model **out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    stowage_options given = {};
    if (options)
      std::copy_n(reinterpret_cast<const char *>(options), std::min(options->size, sizeof(given)),
                  reinterpret_cast<char *>(&given));
    ExecutorOptions executor{given.threads, given.poison != 0};
    if (given.offload)
      executor.slow.folder = given.offload;
    if (given.gpu != 0)
      executor.gpu = given.gpu;
    *out = new stowage_model{Instance(
        program(), embeddedImage(), given.seed, executor,
        {given.weights ? given.weights : "", aliasesOf(given.aliases)}, timeoutOf(given.timeout))};
  });
}

void stowage_destroy(stowage_model *model) { delete model; }

int64_t stowage_device_count(void) {
  int64_t count = 0;
  guarded([&] { count = program().devices; });
  return count;
}

int64_t stowage_rank(const stowage_model *model) { return model ? model->instance.rank() : 0; }

stowage_status stowage_gather(stowage_model *model, const double *own, int64_t count, double *all) {
  return guarded([&] {
    require(model, "model");
    const auto numbers = static_cast<size_t>(std::max<int64_t>(count, 0));
    if (numbers > 0) {
      require(own, "own");
      require(all, "all");
    }
    const auto devices = static_cast<size_t>(program().devices);
    model->instance.gather({own, numbers}, {all, numbers * devices});
  });
}

stowage_status stowage_share_statistics(stowage_model *model) {
  return guarded([&] {
    require(model, "model");
    model->instance.shareStatistics();
  });
}

stowage_status stowage_leave(void) { return guarded(leaveRanks); }

int64_t stowage_count(const stowage_model *model, stowage_list list) {
  int64_t count = 0;
  guarded([&] {
    require(model, "model");
    count = visitList(model->instance, list,
                      [](const auto &items) { return static_cast<int64_t>(items.size()); });
  });
  return count;
}

stowage_status stowage_describe(const stowage_model *model, stowage_list list, int64_t index,
                                stowage_tensor *out) {
  return guarded([&] {
    require(model, "model");
    require(out, "out");
    visitList(model->instance, list,
              [&](const auto &items) { describe(items[requireIndex(index, items.size())], *out); });
  });
}

stowage_status stowage_step(stowage_model *model, const stowage_array *inputs, int64_t count,
                            double *loss) {
  return guarded([&] {
    require(model, "model");
    double value = model->instance.step(hostArrays(inputs, count));
    if (loss)
      *loss = value;
  });
}

stowage_status stowage_eval(stowage_model *model, const stowage_array *inputs, int64_t input_count,
                            void *const *outputs, int64_t output_count) {
  return guarded([&] {
    require(model, "model");
    if (output_count > 0)
      require(outputs, "outputs");
    model->instance.evaluate(hostArrays(inputs, input_count),
                             {outputs, static_cast<size_t>(std::max<int64_t>(output_count, 0))});
  });
}

stowage_status stowage_measure(stowage_model *model, const stowage_array *inputs, int64_t count,
                               stowage_metrics *out) {
  return guarded([&] {
    require(model, "model");
    require(out, "out");
    Metrics found = model->instance.measure(hostArrays(inputs, count));
    *out = {found.rows, found.targets, found.hasAccuracy ? found.correct : -1, found.lossSum,
            found.weightSum};
  });
}

stowage_status stowage_read_step_output(const stowage_model *model, int64_t index, void *to,
                                        int64_t bytes) {
  return guarded([&] {
    require(model, "model");
    require(to, "to");
    const std::vector<GraphOutput> &outputs = model->instance.stepOutputs();
    const GraphOutput &output = outputs[requireIndex(index, outputs.size())];
    int64_t expected = elementCount(output.place.shape) * sizeOf(output.place.dtype);
    if (bytes != expected)
      throw Error::badInput(
          concat("'", output.name, "' takes ", expected, " bytes, found room for ", bytes));
    model->instance.readStepOutput(static_cast<size_t>(index), to);
  });
}

stowage_status stowage_read_state(const stowage_model *model, int64_t index, void *to,
                                  int64_t bytes) {
  return guarded([&] {
    require(model, "model");
    require(to, "to");
    const std::vector<StateTensor> &state = model->instance.program().state;
    const StateTensor &tensor = state[requireIndex(index, state.size())];
    int64_t expected = elementCount(tensor.place.shape) * sizeOf(tensor.place.dtype);
    if (bytes != expected)
      throw Error::badInput(
          concat("'", tensor.name, "' takes ", expected, " bytes, found room for ", bytes));
    model->instance.readState(static_cast<size_t>(index), to);
  });
}

stowage_status stowage_write_state(stowage_model *model, int64_t index, const stowage_array *from) {
  return guarded([&] {
    require(model, "model");
    require(from, "from");
    const std::vector<StateTensor> &state = model->instance.program().state;
    const StateTensor &tensor = state[requireIndex(index, state.size())];
    HostArray array = hostArray(*from, "'" + tensor.name + "'");
    if (elementCount(array.shape) > 0)
      require(array.data, "data");
    model->instance.writeState(static_cast<size_t>(index), array);
  });
}

double stowage_learning_rate(const stowage_model *model) {
  return model ? model->instance.learningRate() : 0;
}

stowage_status stowage_set_learning_rate(stowage_model *model, double rate) {
  return guarded([&] {
    require(model, "model");
    model->instance.setLearningRate(rate);
  });
}

int64_t stowage_shape_count(void) {
  int64_t count = 0;
  guarded([&] { count = static_cast<int64_t>(program().shapeCount()); });
  return count;
}

int64_t stowage_step_shape(const stowage_model *model) {
  return model ? static_cast<int64_t>(model->instance.stepShape()) : 0;
}

int32_t stowage_fills_batches(void) {
  int32_t fills = 0;
  guarded([&] { fills = program().fillsBatches; });
  return fills;
}

int64_t stowage_step_count(const stowage_model *model) {
  return model ? model->instance.stepCount() : 0;
}

stowage_status stowage_set_step_count(stowage_model *model, int64_t steps) {
  return guarded([&] {
    require(model, "model");
    model->instance.setStepCount(steps);
  });
}

stowage_status stowage_reset(stowage_model *model, uint64_t seed) {
  return guarded([&] {
    require(model, "model");
    model->instance.reset(seed);
  });
}

stowage_status stowage_save(const stowage_model *model, const char *path) {
  return guarded([&] {
    require(model, "model");
    require(path, "path");
    model->instance.save(path);
  });
}

stowage_status stowage_load(stowage_model *model, const char *path, int32_t parameters_only) {
  return guarded([&] {
    require(model, "model");
    require(path, "path");
    model->instance.load(path, parameters_only ? Restore::Parameters : Restore::Everything);
  });
}

} // extern "C"
