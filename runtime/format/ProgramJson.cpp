// The JSON form of a program, as it lies inside an executable. Default layouts are left out, the
// rest is written in full: the document is its own reference.
#include "runtime/base/Concat.h"
#include "runtime/format/PlanJson.h"
#include "runtime/format/Program.h"
#include "runtime/format/SlowCopies.h"

#include <algorithm>
#include <array>
#include <ranges>

namespace stow {

namespace {

constexpr int64_t formatVersion = 1;

template <typename Enum, size_t count>
using NameTable = std::array<std::pair<Enum, std::string_view>, count>;

constexpr NameTable<InputRole, 6> roleNames = {{
    {InputRole::Data, "data"},
    {InputRole::Target, "target"},
    {InputRole::LearningRate, "learning_rate"},
    {InputRole::Step, "step"},
    {InputRole::Seed, "seed"},
    {InputRole::Rows, "rows"},
}};

constexpr NameTable<Init::Kind, 4> initNames = {{
    {Init::Kind::Data, "data"},
    {Init::Kind::Constant, "constant"},
    {Init::Kind::Normal, "normal"},
    {Init::Kind::Uniform, "uniform"},
}};

template <typename Enum, size_t count>
std::string_view enumName(const NameTable<Enum, count> &table, Enum value) {
  for (const auto &[candidate, name] : table)
    if (candidate == value)
      return name;
  throw Error::internal(concat("enumeration value ", static_cast<int>(value), " has no name"));
}

template <typename Enum, size_t count>
Enum enumFrom(const NameTable<Enum, count> &table, const std::string &text) {
  for (const auto &[value, name] : table)
    if (name == text)
      return value;
  throw Error::badInput(concat("unknown value '", text, "'; expected one of ",
                               joined(table | std::views::values, ", ")));
}

Json operandJson(const Operand &operand) {
  Json json;
  json["offset"] = operand.offset;
  json["dtype"] = nameOf(operand.dtype);
  json["shape"] = operand.shape;
  if (operand.layout != Layout())
    json["layout"] = formatLayout(operand.layout);
  return json;
}

Operand operandFrom(const JsonNode &node) {
  Operand operand;
  operand.offset = node.count("offset");
  operand.dtype = node.parsed("dtype", parseDType);
  operand.shape = node.counts("shape");
  if (node.has("layout"))
    operand.layout = node.parsed("layout", [&](const std::string &text) {
      Layout layout = parseLayout(text);
      checkLayout(layout, operand.shape);
      return layout;
    });
  return operand;
}

Json operandsJson(const std::vector<Operand> &operands) {
  Json json = Json::array();
  for (const Operand &operand : operands)
    json.push_back(operandJson(operand));
  return json;
}

std::vector<Operand> operandsFrom(const JsonNode &node, const char *key) {
  std::vector<Operand> operands;
  node.forEach(key, [&](const JsonNode &operand) { operands.push_back(operandFrom(operand)); });
  return operands;
}

Json stateJson(const StateTensor &tensor) {
  Json json;
  json["name"] = tensor.name;
  json["kind"] = nameOf(tensor.kind);
  json["place"] = operandJson(tensor.place);
  Json init;
  init["kind"] = enumName(initNames, tensor.init.kind);
  init["a"] = tensor.init.a;
  init["b"] = tensor.init.b;
  init["data_offset"] = tensor.init.dataOffset;
  json["init"] = std::move(init);
  json["saved"] = tensor.saved;
  if (tensor.quantized) {
    json["quantized"]["scheme"] = nameOf(tensor.quantized->scheme);
    json["quantized"]["shape"] = tensor.quantized->shape;
  }
  if (tensor.shardOf)
    json["shard_of"] = *tensor.shardOf;
  if (!tensor.otherNames.empty())
    json["other_names"] = tensor.otherNames;
  return json;
}

QuantizedTensor quantizedFrom(const JsonNode &node, const Operand &place) {
  QuantizedTensor tensor;
  const auto scheme = quantizationNamed(node.text("scheme"));
  if (!scheme)
    node.fail("scheme", "expected nf4 or int8, found " + node.text("scheme"));
  tensor.scheme = *scheme;
  tensor.shape = node.counts("shape");
  const int64_t elements = elementCount(tensor.shape);
  if (!isQuantizable(elements) || sizeOf(place.dtype) != 1 ||
      elementCount(place.shape) != partsOf(*scheme, elements).size)
    node.fail("shape", concat("has ", elements, " elements, which are not ",
                              elementCount(place.shape), " bytes in ", nameOf(*scheme)));
  return tensor;
}

StateTensor stateFrom(const JsonNode &node) {
  StateTensor tensor;
  tensor.name = node.text("name");
  tensor.kind = node.parsed("kind", parseBufferKind);
  tensor.place = operandFrom(node.at("place"));
  JsonNode init = node.at("init");
  tensor.init.kind =
      init.parsed("kind", [](const std::string &text) { return enumFrom(initNames, text); });
  tensor.init.a = init.number("a");
  tensor.init.b = init.number("b");
  tensor.init.dataOffset = init.unsignedInteger("data_offset");
  tensor.saved = node.boolean("saved");
  if (node.has("quantized"))
    tensor.quantized = quantizedFrom(node.at("quantized"), tensor.place);
  if (node.has("shard_of"))
    tensor.shardOf = node.counts("shard_of");
  if (node.has("other_names"))
    tensor.otherNames = node.texts("other_names");
  return tensor;
}

Json commandJson(const Command &command) {
  Json json;
  json["op"] = nameOf(command.op);
  json["name"] = command.name;
  json["kernel"] = command.kernel;
  json["tasks"] = command.tasks;
  json["kind"] = command.kind;
  json["phase"] = command.phaseName();
  json["flops"] = command.flops;
  json["bytes"] = command.bytes;
  json["operands"] = operandsJson(command.operands);
  json["ints"] = Json::object();
  for (const auto &[key, values] : command.ints)
    json["ints"][key] = values;
  json["floats"] = Json::object();
  for (const auto &[key, value] : command.floats)
    json["floats"][key] = value;
  json["workspace_offset"] = command.workspaceOffset;
  json["workspace_bytes"] = command.workspaceBytes;
  json["dying"] = operandsJson(command.dying);
  if (!command.parts.empty()) {
    json["parts"] = Json::array();
    for (const Command &part : command.parts)
      json["parts"].push_back(commandJson(part));
  }
  return json;
}

Command commandFrom(const JsonNode &node) {
  Command command;
  command.op = node.parsed("op", parseCommandOp);
  command.name = node.text("name");
  command.kernel = node.integer("kernel");
  command.tasks = node.count("tasks");
  command.kind = node.text("kind");
  if (!node.text("phase").empty())
    command.phase = node.parsed("phase", parseStepPhase);
  command.flops = node.number("flops");
  command.bytes = node.number("bytes");
  command.operands = operandsFrom(node, "operands");
  node.forEachMember("ints", [&](const std::string &key, const JsonNode &value) {
    command.ints[key] = value.asIntegers();
  });
  node.forEachMember("floats", [&](const std::string &key, const JsonNode &value) {
    command.floats[key] = value.asNumber();
  });
  command.workspaceOffset = node.count("workspace_offset");
  command.workspaceBytes = node.count("workspace_bytes");
  command.dying = operandsFrom(node, "dying");
  if (node.has("parts"))
    node.forEach("parts",
                 [&](const JsonNode &part) { command.parts.push_back(commandFrom(part)); });
  return command;
}

Json graphJson(const GraphProgram &graph) {
  Json json;
  json["name"] = nameOf(graph.role);
  if (!graph.shape.empty())
    json["shape"] = graph.shape;
  json["inputs"] = Json::array();
  for (const GraphInput &input : graph.inputs) {
    Json item;
    item["name"] = input.name;
    item["role"] = enumName(roleNames, input.role);
    item["place"] = operandJson(input.place);
    item["indexed_rows"] = input.indexedRows;
    item["label_classes"] = input.labelClasses;
    item["ignored_label"] = input.ignoredLabel;
    if (input.padding)
      item["padding"] = *input.padding;
    if (input.nextOffset)
      item["next_offset"] = *input.nextOffset;
    if (input.keptRows)
      item["kept_rows"] = *input.keptRows;
    json["inputs"].push_back(std::move(item));
  }
  json["outputs"] = Json::array();
  for (const GraphOutput &output : graph.outputs) {
    Json item;
    item["name"] = output.name;
    item["place"] = operandJson(output.place);
    if (output.joining != Joining::Rows)
      item["joining"] = nameOf(output.joining);
    json["outputs"].push_back(std::move(item));
  }
  json["commands"] = Json::array();
  for (const Command &command : graph.commands)
    json["commands"].push_back(commandJson(command));
  if (graph.nextFrom)
    json["next_from"] = *graph.nextFrom;
  return json;
}

GraphProgram graphFrom(const JsonNode &node) {
  GraphProgram graph;
  graph.role = node.parsed("name", parseGraphRole);
  if (node.has("shape"))
    graph.shape = node.text("shape");
  node.forEach("inputs", [&](const JsonNode &item) {
    auto role =
        item.parsed("role", [](const std::string &text) { return enumFrom(roleNames, text); });
    graph.inputs.push_back({item.text("name"), role, operandFrom(item.at("place")),
                            item.count("indexed_rows"), item.count("label_classes"),
                            item.integer("ignored_label")});
    if (item.has("padding"))
      graph.inputs.back().padding = item.integer("padding");
    if (item.has("next_offset"))
      graph.inputs.back().nextOffset = item.count("next_offset");
    if (item.has("kept_rows"))
      graph.inputs.back().keptRows = item.count("kept_rows");
  });
  node.forEach("outputs", [&](const JsonNode &item) {
    graph.outputs.push_back({item.text("name"), operandFrom(item.at("place"))});
    if (item.has("joining"))
      graph.outputs.back().joining = item.parsed("joining", parseJoining);
  });
  node.forEach("commands",
               [&](const JsonNode &item) { graph.commands.push_back(commandFrom(item)); });
  if (node.has("next_from"))
    graph.nextFrom = static_cast<size_t>(node.count("next_from"));
  return graph;
}

/// Parts in which a batch of so many samples is evaluated.
int64_t partsFrom(const JsonNode &node, int64_t batch) {
  const int64_t parts = node.has("evaluation_parts") ? node.count("evaluation_parts") : 1;
  if (parts < 1 || batch % parts != 0)
    node.fail("evaluation_parts",
              concat("expected a divisor of the batch, ", batch, ", found ", parts));
  return parts;
}

ProgramShape shapeFrom(const JsonNode &node) {
  ProgramShape shape = {node.text("name"), node.count("batch")};
  shape.evaluationParts = partsFrom(node, shape.batch);
  return shape;
}

/// No role twice in a shape: everything finds its graph by both. Each shape has a step, and an evaluation where the first has one.
void checkRoles(const Program &program, const JsonNode &node) {
  for (size_t i = 0; i < program.graphs.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (program.graphs[i].role == program.graphs[j].role &&
          program.graphs[i].shape == program.graphs[j].shape)
        node.fail("graphs", concat("graphs ", j, " and ", i, " are both of role '",
                                   program.graphs[i].name(), "'"));
  for (size_t shape = 0; shape < program.shapes.size(); ++shape) {
    const ProgramShape &one = program.shapes[shape];
    if (one.batch < 1 || one.batch > program.batch)
      node.fail("shapes", concat("expected a batch of 1 to ", program.batch,
                                 ", that of the largest, for '", one.name, "', found ", one.batch));
    auto has = [&](GraphRole role, const std::string &name) {
      return std::ranges::any_of(program.graphs, [&](const GraphProgram &graph) {
        return graph.role == role && graph.shape == name;
      });
    };
    const std::string name = shape == 0 ? "" : one.name;
    if (!has(program.batchesPerStep == 1 ? GraphRole::Train : GraphRole::Commit, name))
      node.fail("shapes", concat("no graph trains in '", one.name, "'"));
    if (has(GraphRole::Eval, "") && !has(GraphRole::Eval, name))
      node.fail("shapes", concat("no graph evaluates in '", one.name, "'"));
  }
}

/// The copies of each graph are whole and agree with the slow memory.
void checkCopies(const Program &program, const JsonNode &node) {
  std::vector<SlowState> state;
  try {
    state = slowStateOf(program);
  } catch (const Error &error) {
    node.fail("state", error.what());
  }
  for (size_t i = 0; i < program.graphs.size(); ++i)
    try {
      slowCopiesOf(program.graphs[i], program.slowBytes, state);
    } catch (const Error &error) {
      node.fail(concat("graphs[", i, "].commands").c_str(), error.what());
    }
}

} // namespace

bool startsExchanges(const Program &program) {
  return std::ranges::any_of(program.graphs, [](const GraphProgram &graph) {
    return std::ranges::any_of(
        graph.commands, [](const Command &command) { return command.op == CommandOp::AwaitRanks; });
  });
}

size_t graphIndex(const Program &program, GraphRole role, size_t shape) {
  const std::string name = shape == 0 ? "" : program.shapes.at(shape).name;
  auto found = std::ranges::find_if(program.graphs, [&](const GraphProgram &graph) {
    return graph.role == role && graph.shape == name;
  });
  if (found == program.graphs.end())
    throw Error::badInput("the program has no '" + graphName(role, name) + "' graph");
  return static_cast<size_t>(found - program.graphs.begin());
}

size_t stepGraphIndex(const Program &program, int64_t number, size_t shape) {
  if (program.batchesPerStep == 1)
    return graphIndex(program, GraphRole::Train, shape);
  const bool isLast = number == program.batchesPerStep - 1;
  return graphIndex(program, isLast ? GraphRole::Commit : GraphRole::Accumulate, shape);
}

std::string toJson(const Program &program) {
  Json json;
  json["version"] = program.version;
  json["target"] = program.target;
  json["model"] = program.model;
  json["batch"] = program.batch;
  if (program.batchesPerStep > 1)
    json["batches_per_step"] = program.batchesPerStep;
  if (program.devices > 1)
    json["devices"] = program.devices;
  if (program.evaluationParts > 1)
    json["evaluation_parts"] = program.evaluationParts;
  json["threads"] = program.threads;
  if (!program.kernels.empty())
    json["kernels"] = program.kernels;
  json["loss"] = print(program.loss);
  json["loss_output"] = program.lossOutput;
  json["output_activation"] = nameOf(program.outputActivation);
  json["optimizer"] = program.optimizer.text;
  json["learning_rate"] = program.optimizer.learningRate;
  json["state"] = Json::array();
  for (const StateTensor &tensor : program.state)
    json["state"].push_back(stateJson(tensor));
  if (!program.shapes.empty())
    json["shapes"] = Json::array();
  for (const ProgramShape &shape : program.shapes) {
    json["shapes"].push_back({{"name", shape.name}, {"batch", shape.batch}});
    if (shape.evaluationParts > 1)
      json["shapes"].back()["evaluation_parts"] = shape.evaluationParts;
  }
  if (program.fillsBatches)
    json["fills_batches"] = true;
  if (program.slowBytes > 0)
    json["slow_bytes"] = program.slowBytes;
  if (!program.slowFolder.empty())
    json["slow_folder"] = program.slowFolder;
  json["graphs"] = Json::array();
  for (const GraphProgram &graph : program.graphs)
    json["graphs"].push_back(graphJson(graph));
  json["plan"] = toJsonValue(program.plan);
  return dumpJson(json, -1);
}

Program programFromJson(std::string_view text) {
  Json json = parseJson(text, "program");
  JsonNode node(json, "program");
  Program program;
  program.version = node.integer("version");
  if (program.version != formatVersion)
    node.fail("version", concat("expected ", formatVersion, ", found ", program.version,
                                "; the program was written by another release, compile it again"));
  program.target = node.text("target");
  program.model = node.text("model");
  program.batch = node.count("batch");
  if (node.has("batches_per_step"))
    program.batchesPerStep = node.count("batches_per_step");
  if (program.batchesPerStep < 1)
    node.fail("batches_per_step", "expected 1 or more");
  program.devices = node.has("devices") ? node.count("devices") : 1;
  if (program.devices < 1)
    node.fail("devices", "expected 1 or more");
  program.evaluationParts = partsFrom(node, program.batch);
  program.threads = node.count("threads");
  if (node.has("kernels"))
    program.kernels = node.texts("kernels");
  program.loss = node.parsed("loss", [](const std::string &text) { return parseLoss(text); });
  program.lossOutput = node.text("loss_output");
  program.outputActivation = node.parsed("output_activation", parseOutputActivation);
  program.optimizer = node.parsed("optimizer", parseOptimizer);
  program.optimizer.learningRate = node.number("learning_rate");
  node.forEach("state", [&](const JsonNode &item) { program.state.push_back(stateFrom(item)); });
  if (node.has("shapes"))
    node.forEach("shapes",
                 [&](const JsonNode &item) { program.shapes.push_back(shapeFrom(item)); });
  if (node.has("fills_batches"))
    program.fillsBatches = node.boolean("fills_batches");
  if (node.has("slow_bytes"))
    program.slowBytes = node.count("slow_bytes");
  if (program.slowBytes % kSlowAlignment != 0)
    node.fail("slow_bytes",
              concat("expected a multiple of ", kSlowAlignment, ", found ", program.slowBytes));
  if (node.has("slow_folder"))
    program.slowFolder = node.text("slow_folder");
  node.forEach("graphs", [&](const JsonNode &item) { program.graphs.push_back(graphFrom(item)); });
  checkRoles(program, node);
  program.plan = planFrom(node.at("plan"));
  checkCopies(program, node);
  return program;
}

} // namespace stow
