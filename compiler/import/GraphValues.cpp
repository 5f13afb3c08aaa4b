// From slots to values: arguments for what is trained or fed, constants for the rest.
#include "compiler/import/GraphImport.h"
#include "compiler/import/TensorContent.h"
#include "ir/StowShapeOps.h"
#include "ir/TiedNames.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/GlobPattern.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Values from this size on are shared with the file's bytes instead of being uniqued.
constexpr size_t kResourceBytes = 4096;

} // namespace

GraphImport::Verdict GraphImport::verdictOf(const Slot &slot) const {
  if (slot.origin == Slot::Origin::Computed || slot.origin == Slot::Origin::Failed)
    return {};
  if (slot.origin == Slot::Origin::Input && roles.dataInputs.count(slot.name))
    return {ArgumentKind::Input, ""};
  if (checkedElementCount(slot.shape) == 0)
    return {std::nullopt, "has no elements"};
  if (roles.named.count(slot.name) &&
      (slot.origin == Slot::Origin::Initializer || slot.origin == Slot::Origin::Input))
    return {ArgumentKind::Parameter, "named with --parameter"};
  if (!model.signature)
    return verdictByRules(slot);
  // The file's own statement decides. With --allow-folded weights that it does not list go by the
  // rules: there may be parameters in them.
  const GraphSignature::Entry *stated = model.signature->find(slot.name);
  const bool isStored =
      slot.origin == Slot::Origin::Initializer || slot.origin == Slot::Origin::Input;
  if (!stated || !isStored)
    return options.allowFolded && isWeightPosition(roles.useOf(slot.name))
               ? verdictByRules(slot)
               : Verdict{std::nullopt, "not listed in the graph signature"};
  if (stated->kind == GraphSignature::Kind::Parameter && isFloat(slot.type))
    return {ArgumentKind::Parameter, model.signature->frozen.contains(slot.name)
                                         ? "asks for no gradient in the module"
                                         : "graph signature"};
  const Use use = roles.useOf(slot.name);
  if (use == Use::Mean || use == Use::Variance || slot.origin == Slot::Origin::Input)
    return {ArgumentKind::Statistic, "buffer in the graph signature"};
  if (model.signature->hasNextValue(slot.name))
    return {ArgumentKind::Statistic, "buffer that every step updates"};
  return {std::nullopt, "buffer in the graph signature"};
}

GraphImport::Verdict GraphImport::verdictByRules(const Slot &slot) const {
  const Use use = roles.useOf(slot.name);
  const bool isStatistic = use == Use::Mean || use == Use::Variance;
  const Verdict state{isStatistic ? ArgumentKind::Statistic : ArgumentKind::Parameter,
                      "rule: " + describe(use)};
  if (slot.origin == Slot::Origin::Input)
    return state;
  if (!isFloat(slot.type) || slot.shape.empty())
    return {std::nullopt, "rule: a scalar"};
  if (slot.origin == Slot::Origin::Initializer) {
    auto held = roles.constants.find(slot.name);
    const bool isHeld = use == Use::Bias ? roles.masks.count(slot.name) != 0
                                         : !isWeightPosition(use) && held != roles.constants.end();
    if (isHeld)
      return {std::nullopt, "rule: " + held->second};
    return isLearnable(use) ? state : Verdict{std::nullopt, "rule: " + describe(use)};
  }
  if (!isWeightPosition(use) || (use == Use::Bias && slot.tensor && isAdditiveMask(*slot.tensor)))
    return {std::nullopt, "rule: a Constant node"};
  const bool isRandom =
      slot.distribution && slot.distribution->kind != Distribution::Kind::Constant;
  if (isFromPyTorch(model) && !isRandom)
    return {std::nullopt, "rule: PyTorch stores parameters as initializers"};
  return state;
}

const Literal *GraphImport::literalOf(Slot &slot) {
  if (slot.literal)
    return &*slot.literal;
  bool isSource = slot.origin == Slot::Origin::Initializer ||
                  slot.origin == Slot::Origin::ConstantNode || slot.origin == Slot::Origin::Recipe;
  if (!isSource || argumentKindOf(slot))
    return nullptr;
  if (slot.tensor) {
    slot.literal = onnx::literalOf(*slot.tensor);
  } else if (int64_t count = *checkedElementCount(slot.shape);
             count <= kLiteralLimit && byteWidthOf(slot.type)) {
    Literal fill{slot.type, slot.shape, {}, {}};
    if (fill.isFloat())
      fill.floats.assign(count, slot.distribution->a);
    else
      fill.ints.assign(count, static_cast<int64_t>(slot.distribution->a));
    slot.literal = std::move(fill);
  }
  return slot.literal ? &*slot.literal : nullptr;
}

Value GraphImport::materialize(Slot &slot, std::optional<int64_t> fanIn, Location location) {
  if (slot.value)
    return slot.value;
  if (slot.sequence)
    throw Error::badInput("reads the sequence '" + slot.name + "' where a tensor is expected");
  const Verdict verdict = verdictOf(slot);
  if (verdict.kind) {
    slot.value = argument(slot, *verdict.kind, fanIn);
    return slot.value;
  }
  if (change.resizeRows)
    resizeUniform(slot);
  RankedTensorType type = typeOf(slot.type, slot.shape);
  ElementsAttr elements;
  if (!withData)
    elements = DenseElementsAttr::get(
        type, ArrayRef<Attribute>(builder.getZeroAttr(type.getElementType())));
  else if (const Literal *literal = literalOf(slot))
    elements = elementsOf(*literal);
  else if (slot.tensor)
    elements = elementsOf(*slot.tensor);
  else {
    const double fill = slot.distribution->a;
    const Attribute element =
        isFloat(slot.type)
            ? Attribute(builder.getFloatAttr(type.getElementType(), fill))
            : builder.getIntegerAttr(type.getElementType(), static_cast<int64_t>(fill));
    elements = DenseElementsAttr::get(type, ArrayRef(element));
  }
  slot.value = ConstantOp::create(builder, location, elements);
  if (isFloat(slot.type))
    report.tensors.push_back({ImportedTensor::Kind::Constant, slot.name, slot.shape,
                              verdict.reason.empty() ? "computed from constants" : verdict.reason});
  return slot.value;
}

/// A constant state of one value, [batch, ...]: any number of its rows is the same state.
void GraphImport::resizeUniform(Slot &slot) {
  if (slot.shape.size() < 2 || !oldBatch || !options.batch || slot.shape[0] != *oldBatch ||
      !isFloat(slot.type))
    return;
  const Literal *known = literalOf(slot);
  if (!known || known->floats.empty() ||
      llvm::any_of(known->floats, [&](double x) { return x != known->floats[0]; }))
    return;
  Literal resized = *known;
  resized.shape[0] = slot.shape[0] = *options.batch;
  resized.floats.assign(elementCount(resized.shape), known->floats[0]);
  slot.tensor = nullptr;
  slot.literal = std::move(resized);
}

Value GraphImport::argument(const Slot &slot, ArgumentKind kind, std::optional<int64_t> fanIn) {
  using Kind = ImportedTensor::Kind;
  Kind became = kind == ArgumentKind::Parameter ? Kind::Trained : Kind::Statistic;
  if (kind == ArgumentKind::Parameter && isFrozen(slot.name)) {
    kind = ArgumentKind::Frozen;
    became = Kind::Frozen;
  }
  NamedAttrList attrs;
  attrs.append(kNameAttr, builder.getStringAttr(slot.name));
  attrs.append(kKindAttr, ArgumentKindAttr::get(&context, kind));
  const bool isBytes = kind == ArgumentKind::Input && slot.type == ElementType::UInt8;
  RankedTensorType type = typeOf(isBytes ? ElementType::Bool : slot.type, slot.shape);
  if (isBytes)
    type = cast<RankedTensorType>(type.clone(builder.getI8Type()));
  if (kind != ArgumentKind::Input && withData)
    attrs.append(kInitAttr, initOf(slot, fanIn));
  if (kind == ArgumentKind::Frozen && model.signature)
    if (auto stored = model.signature->stored.find(slot.name);
        stored != model.signature->stored.end())
      attrs.append(kStoredAttr,
                   TypeAttr::get(stored->second == "float16" ? Type(builder.getF16Type())
                                                             : builder.getBF16Type()));
  if (kind != ArgumentKind::Input && model.signature)
    if (auto others = model.signature->otherNames.find(slot.name);
        others != model.signature->otherNames.end())
      attrs.append(kOtherNamesAttr, builder.getStrArrayAttr(SmallVector<StringRef>(
                                        others->second.begin(), others->second.end())));
  if (kind != ArgumentKind::Input) {
    report.tensors.push_back({became, slot.name, slot.shape, verdictOf(slot).reason});
  }
  unsigned position = kind == ArgumentKind::Input       ? inputCount++
                      : kind == ArgumentKind::Parameter ? inputCount + parameterCount++
                                                        : argumentAttrs.size();
  argumentAttrs.insert(argumentAttrs.begin() + position, attrs.getDictionary(&context));
  // Parameters are named by their module: "layer1.0.conv1.weight".
  const size_t dot = kind == ArgumentKind::Input ? std::string::npos : slot.name.rfind('.');
  Location location =
      namedLocation(slot.name, 0, dot == std::string::npos ? "" : slot.name.substr(0, dot));
  return function.getBody().front().insertArgument(position, type, location);
}

Attribute GraphImport::initOf(const Slot &slot, std::optional<int64_t> fanIn) {
  if (slot.tensor)
    return elementsOf(*slot.tensor);
  // A random node says how its weight starts; other recipes are place holders.
  bool isRandom = slot.distribution && slot.distribution->kind != Distribution::Kind::Constant;
  static constexpr StringLiteral names[] = {"constant", "normal", "uniform"};
  if (!isFloat(slot.type))
    return InitAttr::get(&context, names[0], APFloat(0.0), APFloat(0.0));
  Distribution chosen = isRandom ? *slot.distribution
                                 : distributionFor(init, roles.useOf(slot.name), slot.shape, fanIn);
  return InitAttr::get(&context, names[size_t(chosen.kind)], APFloat(chosen.a), APFloat(chosen.b));
}

ElementsAttr GraphImport::elementsOf(const Tensor &tensor) {
  RankedTensorType type = typeOf(tensor.type, tensor.shape);
  ArrayRef<char> bytes(tensor.bytes->data(), tensor.bytes->size());
  if (bytes.size() < kResourceBytes || tensor.type == ElementType::Bool) {
    std::optional<Literal> literal = onnx::literalOf(tensor);
    if (!literal)
      throw Error::badInput(absl::StrCat("the constant '", tensor.name, "' is a mask of more than ",
                                         kLiteralLimit, " elements"));
    return elementsOf(*literal);
  }
  AsmResourceBlob blob(
      bytes, *byteWidthOf(tensor.type), [keep = tensor.bytes](void *, size_t, size_t) {},
      /*dataIsMutable=*/false);
  return DenseResourceElementsAttr::get(type, tensor.name, std::move(blob));
}

ElementsAttr GraphImport::elementsOf(const Literal &literal) {
  RankedTensorType type = typeOf(literal.type, literal.shape);
  // Masks are large: the common types take the direct way.
  if (type.getElementType().isF32())
    return DenseElementsAttr::get(
        type, ArrayRef(llvm::map_to_vector(literal.floats, [](double x) { return float(x); })));
  if (type.getElementType().isInteger(1))
    return DenseElementsAttr::get(
        type, ArrayRef(llvm::map_to_vector(literal.ints, [](int64_t x) { return x != 0; })));
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    SmallVector<APFloat> values;
    for (double number : literal.floats) {
      APFloat value(number);
      bool lost;
      value.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      values.push_back(value);
    }
    return DenseElementsAttr::get(type, values);
  }
  unsigned width = type.getElementTypeBitWidth();
  SmallVector<APInt> values;
  for (int64_t number : literal.ints)
    values.push_back(APInt(64, static_cast<uint64_t>(number)).trunc(width));
  return DenseElementsAttr::get(type, values);
}

RankedTensorType GraphImport::typeOf(ElementType type, const Shape &shape) {
  std::optional<int64_t> count = checkedElementCount(shape);
  if (!count || *count == 0)
    throw Error::badInput(count ? "a tensor of " + textOf(shape) + " has no elements"
                                : tooLarge(shape));
  Type element;
  switch (type) {
  case ElementType::Float:
    element = builder.getF32Type();
    break;
  case ElementType::Double:
    element = builder.getF64Type();
    break;
  case ElementType::Float16:
    element = builder.getF16Type();
    break;
  case ElementType::BFloat16:
    element = builder.getBF16Type();
    break;
  case ElementType::Int64:
    element = builder.getI64Type();
    break;
  case ElementType::Int32:
    element = builder.getI32Type();
    break;
  case ElementType::Bool:
    element = builder.getI1Type();
    break;
  default:
    throw Error::badInput("element type " + nameOf(type) +
                          " is not supported; expected float, double, float16, bfloat16, int64, "
                          "int32 or bool");
  }
  return RankedTensorType::get(shape, element);
}

ImportReport GraphImport::takeReport(const ExportFindings &findings) {
  report.source = model.signature ? "the file's graph signature" : "rules (docs/onnx-ops.md)";
  for (ImportedTensor &tensor : report.tensors)
    if (auto ties = findings.ties.find(tensor.name); ties != findings.ties.end())
      for (const std::string &other : ties->second)
        tensor.reason += ", tied with " + other;
  // A file with a signature states what is trained.
  if (!model.signature)
    for (const auto &[name, readers] : roles.unreached)
      report.unreached.push_back(absl::StrCat("'", name, "' (", readers, ")"));
  for (const std::string &name : findings.unused)
    report.tensors.push_back(
        {ImportedTensor::Kind::Unused, name, {}, "no output depends on it, or it is tied"});
  return std::move(report);
}

bool GraphImport::isFrozen(const std::string &name) {
  bool frozen = model.signature && model.signature->frozen.contains(name);
  for (size_t i = 0; i < options.frozen.size(); ++i) {
    auto pattern = llvm::GlobPattern::create(options.frozen[i]);
    if (!pattern) {
      llvm::consumeError(pattern.takeError());
      continue;
    }
    if (pattern->match(name))
      frozen = frozenUsed[i] = true;
  }
  return frozen;
}

} // namespace stow::onnx
