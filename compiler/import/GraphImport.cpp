// Walks a model in file order and builds the function.
#include "compiler/import/GraphImport.h"

#include "compiler/import/Fold.h"
#include "ir/Graphs.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow::onnx {
namespace {

constexpr int64_t kFirstOpset = 7, kLastOpset = 28;

std::string domainName(const std::string &domain) { return domain.empty() ? "ai.onnx" : domain; }

} // namespace

GraphImport::GraphImport(MLIRContext &context, const Model &model, const ImportOptions &options,
                         BatchChange batchChange)
    : context(context), model(model), options(options), init(parseInitialization(options.init)),
      roles(rolesOf(model, options)), keepsModes(stow::onnx::keepsModes(model)),
      change(batchChange), frozenUsed(options.frozen.size(), false), builder(&context) {}

std::optional<int64_t> GraphImport::fileBatch() const {
  for (const Input &input : model.inputs)
    if (roles.dataInputs.count(input.name) && input.dims && !input.dims->empty() &&
        input.dims->front().size)
      return input.dims->front().size;
  return std::nullopt;
}

BatchShapes GraphImport::takeShapes() {
  BatchShapes result;
  for (const auto &[name, slot] : slots) {
    if (slot->origin == Slot::Origin::Failed)
      continue;
    result.shapes[name] = slot->shape;
    result.widths[name] = slot->value ? (elementOf(slot->value).getIntOrFloatBitWidth() + 7) / 8
                                      : byteWidthOf(slot->type).value_or(0);
    const Literal *literal = isFloat(slot->type) ? nullptr : literalOf(*slot);
    if (literal && !literal->isFloat())
      result.literals[name] = literal->ints;
  }
  return result;
}

std::string GraphImport::dynamicBatchAdvice() const {
  std::string inputs;
  for (const Input &input : model.inputs)
    if (roles.dataInputs.count(input.name))
      inputs += (inputs.empty() ? "" : ", ") + (model.signature
                                                    ? std::string("{0: \"batch\"}")
                                                    : "\"" + input.name + "\": {0: \"batch\"}");
  return absl::StrCat("; at the file's own batch of ", *oldBatch, " it is imported: export with ",
                      model.signature ? "dynamic_shapes=(" + inputs + ",)"
                                      : "dynamic_axes={" + inputs + "}");
}

std::string GraphImport::bufferOf(const std::string &output) const {
  if (!model.signature)
    return "";
  auto found = model.signature->nextValues.find(output);
  return found == model.signature->nextValues.end() ? "" : found->second;
}

/// A result whose leading extent was the file's batch must have the new one.
void GraphImport::checkResultBatch(const std::string &name, Value value) {
  if (!change.before || !options.batch || !oldBatch)
    return;
  auto before = change.before->shapes.find(name);
  const Shape now = shapeOf(value);
  if (before != change.before->shapes.end() && !now.empty() && before->second == now &&
      now[0] == *oldBatch && *oldBatch != 1)
    obstacle(function.getLoc(), "output '" + name + "' has " + Twine(*oldBatch) +
                                    " samples whatever --batch says" + dynamicBatchAdvice());
}

OwningOpRef<ModuleOp> GraphImport::run() {
  Location fileLocation = FileLineColLoc::get(&context, model.fileName, 0, 0);
  module = ModuleOp::create(fileLocation);
  (*module)->setAttr(kFormAttr, builder.getStringAttr("model"));
  (*module)->setAttr("stow.seed", builder.getI64IntegerAttr(static_cast<int64_t>(options.seed)));
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, fileLocation, "model", builder.getFunctionType({}, {}));
  setRole(function, Role::Model);
  builder.setInsertionPointToStart(function.addEntryBlock());

  auto known = model.opsets.find("");
  if (known == model.opsets.end())
    obstacle(fileLocation, "the model names no opset of domain ai.onnx");
  else if (known->second < kFirstOpset || known->second > kLastOpset)
    obstacle(fileLocation, "opset " + Twine(known->second) + " of domain ai.onnx; expected " +
                               Twine(kFirstOpset) + " to " + Twine(kLastOpset) +
                               "; convert the model with onnx.version_converter");
  else
    opset = known->second;
  for (const std::string &text : model.obstacles)
    obstacle(fileLocation, text);
  findReads();
  addInitializers();
  addDataInputs();
  for (size_t i = 0; i < model.nodes.size(); ++i)
    if (roles.live[i])
      importNode(i);
  finish();
  if (failed)
    return nullptr;
  return std::move(module);
}

void GraphImport::addInitializers() {
  for (const auto &[name, tensor] : model.initializers)
    addInitializer(name, tensor);
}

void GraphImport::addInitializer(const std::string &name, const Tensor &tensor) {
  auto slot = std::make_shared<Slot>();
  slot->origin = Slot::Origin::Initializer;
  slot->name = name;
  slot->type = tensor.type;
  slot->shape = tensor.shape;
  slot->tensor = &tensor;
  slots[name] = slot;
}

void GraphImport::findReads() {
  results.insert(model.outputs.begin(), model.outputs.end());
  for (size_t i = 0; i < model.nodes.size(); ++i)
    if (roles.live[i]) {
      const Node &node = model.nodes[i];
      readByNodes.insert(node.inputs.begin(), node.inputs.end());
      readByNodes.insert(node.captured.begin(), node.captured.end());
    }
}

void GraphImport::addDataInputs() {
  for (const Input &input : model.inputs)
    if (readByNodes.count(input.name) || results.count(input.name) ||
        llvm::is_contained(options.dataInputs, input.name))
      addDataInput(input);
}

bool GraphImport::isBuffer(const std::string &name) const {
  using Kind = GraphSignature::Kind;
  const GraphSignature::Entry *stated = model.signature ? model.signature->find(name) : nullptr;
  return stated && (stated->kind == Kind::Buffer || stated->kind == Kind::Constant);
}

void GraphImport::addDataInput(const Input &input) {
  Location location = namedLocation(input.name, 0, "");
  auto slot = std::make_shared<Slot>();
  slot->origin = Slot::Origin::Input;
  slot->name = input.name;
  slot->type = input.type;
  slots[input.name] = slot;
  bool isData = roles.dataInputs.count(input.name) != 0;
  std::string what = "input '" + input.name + "' ";
  std::string reason;
  if (!input.isTensor || !input.dims)
    reason = "is no tensor with a shape";
  else if (!isData && !isFloat(input.type) && !isBuffer(input.name))
    reason = "of element type " + nameOf(input.type) +
             " is not named with --input, and only float tensors can be parameters";
  for (size_t d = 0; reason.empty() && d < input.dims->size(); ++d) {
    const Input::Dim &dim = (*input.dims)[d];
    bool isBatch = isData && d == 0;
    if (isBatch && dim.size && !oldBatch)
      oldBatch = dim.size;
    if (isBatch && options.batch)
      slot->shape.push_back(*options.batch);
    else if (dim.size)
      slot->shape.push_back(*dim.size);
    else if (auto known = options.extents.find(dim.symbol);
             isData && known != options.extents.end())
      slot->shape.push_back(known->second);
    else
      reason = absl::StrCat("has no static extent in dimension ", d,
                            dim.symbol.empty() ? "" : " (" + dim.symbol + ")",
                            isBatch              ? "; give the batch size with --batch=N"
                            : dim.symbol.empty() ? "; export the model with fixed sizes"
                                                 : "; say --shapes=" + dim.symbol +
                                                       ":N, or export the model with fixed sizes");
  }
  if (reason.empty()) {
    try {
      const bool isBytes = isData && input.type == ElementType::UInt8; // which only data may be
      typeOf(isBytes ? ElementType::Bool : input.type, slot->shape);
      if (isData)
        slot->value = argument(*slot, ArgumentKind::Input, std::nullopt);
      return;
    } catch (const Error &error) {
      reason = error.what();
    }
  }
  obstacle(location, what + reason);
  slot->origin = Slot::Origin::Failed;
}

/// "/layer1/layer1.0/conv1/Conv": the modules that were called, and the operation. A child of a
/// Sequential repeats its parent's name.
static std::string modulePathOfName(std::string_view name) {
  std::string path;
  std::string_view last;
  for (size_t slash; (slash = name.find('/')) != std::string_view::npos;) {
    std::string_view part = name.substr(0, slash);
    name.remove_prefix(slash + 1);
    if (part.empty())
      continue;
    std::string_view own = part;
    if (!last.empty() && part.size() > last.size() + 1 && part.starts_with(last) &&
        part[last.size()] == '.')
      own.remove_prefix(last.size() + 1);
    path += (path.empty() ? "" : ".") + std::string(own);
    last = part;
  }
  return path;
}

Location GraphImport::namedLocation(const std::string &name, size_t line,
                                    const std::string &modulePath) const {
  Location place = FileLineColLoc::get(&context, model.fileName, unsigned(line), 0);
  if (!modulePath.empty())
    place = FusedLoc::get({place}, StringAttr::get(&context, modulePath), &context);
  return NameLoc::get(StringAttr::get(&context, name), place);
}

Location GraphImport::nodeLocation(size_t index) const {
  const Node &node = model.nodes[index];
  return namedLocation(node.name, index + 1,
                       node.modulePath.empty() ? modulePathOfName(node.name) : node.modulePath);
}

void GraphImport::obstacle(Location location, const Twine &text) {
  failed = true;
  mlir::emitError(location) << text;
}

void GraphImport::failOutputs(const Node &node) {
  for (const std::string &output : node.outputs) {
    auto slot = std::make_shared<Slot>();
    slot->origin = Slot::Origin::Failed;
    slot->name = output;
    slots[output] = slot;
  }
}

/// What to do about an operator that is not supported.
static std::string instead(const std::string &type) {
  if (type == "NonZero" || type == "Compress" || type == "Unique")
    return "its result has a size that depends on the data: multiply by a mask instead of "
           "selecting";
  if (type.starts_with("QLinear") || type.starts_with("Quantize") || type.starts_with("Dequantize"))
    return "export the model before it is quantized";
  return "write this part of the model with others";
}

void GraphImport::importNode(size_t index) {
  NodeImport import(*this, model.nodes[index], nodeLocation(index));
  importNode(import);
}

void GraphImport::importNode(NodeImport &import) {
  const Node &node = import.node();
  auto version = model.opsets.find(node.domain);
  std::string reason;
  bool skipped = false;
  if (!ruleOf(node.type, node.domain) && !node.domain.empty())
    reason = "operators of this domain are not supported; export the model with ai.onnx operators, "
             "or with functions that define them";
  else if (!ruleOf(node.type, node.domain))
    reason = "this operator is not supported; " + instead(node.type) +
             " (docs/onnx-ops.md lists the operators that are)";
  for (const std::string &input : node.inputs) {
    if (input.empty())
      continue;
    auto found = slots.find(input);
    if (found == slots.end())
      reason = "reads '" + input + "', which no earlier node, input or initializer defines";
    else
      skipped |= found->second->origin == Slot::Origin::Failed;
  }
  for (const std::string &output : node.outputs)
    if (!output.empty() && slots.count(output))
      reason = "defines '" + output + "', which is defined already";
  // Without a usable opset nothing can be said about an op but whether it is known.
  skipped |= opset == 0;
  if (reason.empty() && !skipped) {
    try {
      convertNode(import);
      return;
    } catch (const Error &error) {
      reason = error.what();
    }
  }
  failOutputs(node);
  if (!reason.empty() && change.before && oldBatch)
    reason += dynamicBatchAdvice();
  if (!reason.empty())
    obstacle(
        import.location,
        // In the graph of another node, that one's name stands before it.
        absl::StrCat("node '", cast<NameLoc>(import.location).getName().str(), "' (", node.type,
                     ", domain ", domainName(node.domain), ", opset ",
                     version == model.opsets.end() ? "unknown" : std::to_string(version->second),
                     node.modulePath.empty() ? "" : ", module " + node.modulePath,
                     node.pythonLine.empty() ? "" : ", " + node.pythonLine, "): ", reason));
}

/// Whether a node takes bytes of data, which are no numbers to compute with before they are cast.
static bool takesBytes(const Node &node) {
  return llvm::is_contained(
      {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}, node.type);
}

void GraphImport::convertNode(NodeImport &import) {
  const Node &node = import.node();
  const OpRule &rule = *ruleOf(node.type, node.domain);
  if (node.inputs.size() < rule.minInputs || node.inputs.size() > rule.maxInputs)
    throw Error::badInput(
        absl::StrCat("has ", node.inputs.size(), " inputs, expected ", rule.minInputs,
                     rule.maxInputs == rule.minInputs ? ""
                     : rule.maxInputs > 100           ? " or more"
                                                      : absl::StrCat(" to ", rule.maxInputs)));
  if (node.type == "If")
    return importBranch(import);
  if (node.type == "Loop")
    return importLoop(import);
  if (node.type == "Scan")
    return importScan(import);
  for (const std::string &name : node.inputs)
    if (auto slot = slots.find(name);
        slot != slots.end() && slot->second->value && !takesBytes(node) &&
        getElementTypeOrSelf(slot->second->value.getType()).isInteger(8))
      throw Error::badInput("reads '" + name +
                            "', which is uint8; cast it to float in front of it: x.float()");
  std::optional<Error> tooLarge;
  try {
    if (bindSource(import) || foldNode(import))
      return;
  } catch (const TooManyElements &error) {
    tooLarge = error;
  }
  const std::optional<RowPart> part = partOf(import);
  try {
    rule.convert(import);
  } catch (const Error &error) {
    throw tooLarge.value_or(error);
  }
  for (const std::string &output : node.outputs)
    if (auto bound = slots.find(output); part && bound != slots.end())
      bound->second->part = part;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (import.isRead(i) && !slots.count(node.outputs[i]) && !dropped.count(node.outputs[i]))
      throw Error::badInput(absl::StrCat("output ", i, " ('", node.outputs[i],
                                         "') is read; only earlier outputs are supported"));
}

bool GraphImport::bindSource(NodeImport &import) {
  const Node &node = import.node();
  bool isConstant = node.type == "Constant", isFill = node.type == "ConstantOfShape";
  bool isRandom = node.type == "RandomNormal" || node.type == "RandomUniform";
  if ((!isConstant && !isFill && !isRandom) || node.outputs.empty())
    return false;
  auto slot = std::make_shared<Slot>();
  slot->name = node.outputs[0];
  slot->origin = isConstant ? Slot::Origin::ConstantNode : Slot::Origin::Recipe;
  slot->type = ElementType::Float;
  auto value = node.attributes.find("value");
  if (isConstant) {
    if (value == node.attributes.end() || !value->second.tensor)
      return false; // value_int and its kind: the converter's
    slot->tensor = &*value->second.tensor;
    slot->type = slot->tensor->type;
    slot->shape = slot->tensor->shape;
  } else if (isFill) {
    const Literal &shape = import.constant(0, "shape");
    if (shape.isFloat())
      throw Error::badInput("expects an integer shape");
    slot->shape = shape.ints;
    slot->distribution = Distribution{};
    if (value != node.attributes.end()) {
      auto fill = value->second.tensor ? onnx::literalOf(*value->second.tensor) : std::nullopt;
      if (!fill || fill->size() != 1)
        throw Error::badInput("expects a value of one element");
      slot->type = fill->type;
      slot->distribution->a = fill->number(0);
    }
  } else {
    if (!isWeightPosition(roles.useOf(slot->name)))
      return false; // drawn anew in every step: the converter's
    bool isNormal = node.type == "RandomNormal";
    slot->type = static_cast<ElementType>(import.integer("dtype", 1));
    slot->shape = import.integers("shape").value_or(std::vector<int64_t>{});
    slot->distribution = isNormal
                             ? Distribution{Distribution::Kind::Normal, import.number("mean", 0),
                                            import.number("scale", 1)}
                             : Distribution{Distribution::Kind::Uniform, import.number("low", 0),
                                            import.number("high", 1)};
    if (slot->distribution->b < (isNormal ? 0 : slot->distribution->a))
      throw Error::badInput("draws from an empty range");
  }
  if (!checkedElementCount(slot->shape))
    throw Error::badInput("has a negative or too large dimension");
  slots[slot->name] = slot;
  return true;
}

bool GraphImport::foldNode(NodeImport &import) {
  const Node &node = import.node();
  std::vector<const Literal *> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(import.literal(i));
    if (import.has(i) && !inputs.back())
      return false;
  }
  if (auto computed = foldFloats(import, inputs)) {
    import.bindLiteral(0, std::move(*computed));
    return true;
  }
  auto outputs = fold(node, inputs);
  if (!outputs)
    return false;
  for (size_t i = 0; i < outputs->size(); ++i)
    import.bindLiteral(i, std::move((*outputs)[i]));
  return true;
}

void GraphImport::finish() {
  Location location = module->getLoc();
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> resultAttrs;
  for (const std::string &name : model.outputs) {
    auto found = slots.find(name);
    if (dropped.count(name))
      continue;
    if (found == slots.end()) {
      obstacle(location, "output '" + name + "' is defined by no node, input or initializer");
      continue;
    }
    if (found->second->origin == Slot::Origin::Failed)
      continue;
    try {
      if (found->second->part)
        throw Error::badInput("is a part of rows whose number depends on data");
      const std::string buffer = bufferOf(name);
      Value stored =
          buffer.empty() ? Value() : materialize(*slots.at(buffer), std::nullopt, location);
      Value value = materialize(*found->second, std::nullopt, location);
      if (value == stored) // a batch normalization's, which it updates itself
        continue;
      values.push_back(value);
      if (!stored)
        checkResultBatch(name, value);
    } catch (const Error &error) {
      obstacle(location, "output '" + name + "': " + error.what());
      continue;
    }
    const std::string buffer = bufferOf(name);
    NamedAttrList attrs;
    attrs.append(buffer.empty() ? kNameAttr : kStateAttr,
                 builder.getStringAttr(buffer.empty() ? name : buffer));
    resultAttrs.push_back(attrs.getDictionary(&context));
  }
  for (const auto &entry : model.initializers)
    isFrozen(entry.first); // a pattern may name what is constant anyway
  for (size_t i = 0; !failed && i < options.frozen.size(); ++i)
    if (!frozenUsed[i])
      obstacle(location, "no parameter matches --freeze=" + options.frozen[i] +
                             "; --list-parameters names those there are");
  if (failed)
    return;
  if (inputCount == 0)
    return obstacle(location, "the graph reads no data input; name it with --input=NAME");
  func::ReturnOp::create(builder, location, values);
  auto types = function.getBody().front().getArgumentTypes();
  function.setFunctionType(builder.getFunctionType(types, ValueRange(values).getTypes()));
  function.setAllArgAttrs(argumentAttrs);
  function.setAllResultAttrs(resultAttrs);
}

} // namespace stow::onnx
