// What converters read and build through.
#include "compiler/import/GraphImport.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <absl/strings/str_cat.h>
#include <charconv>
#include <limits>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Collects the first error emitted while it lives, instead of printing it.
class FirstError {
public:
  explicit FirstError(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && text.empty())
            text = diagnostic.str();
          return success();
        }) {}

  std::string reason() const { return text.empty() ? "its operands do not fit" : bareReason(text); }

private:
  std::string text;
  ScopedDiagnosticHandler handler;
};

} // namespace

std::string bareReason(const std::string &diagnostic) {
  size_t op = diagnostic.find("' op ");
  return op == std::string::npos || diagnostic[0] != '\'' ? diagnostic : diagnostic.substr(op + 5);
}

double decimal(float value) {
  char text[64];
  double result = value;
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  if (error == std::errc())
    std::from_chars(text, end, result);
  return result;
}

std::optional<int64_t> fanInOfProduct(Value value) {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  if (auto conv = dyn_cast_or_null<Conv2dOp>(op))
    return conv.getWeight().getType().getNumElements() / conv.getWeight().getType().getDimSize(0);
  if (auto product = dyn_cast_or_null<MatmulOp>(op))
    return product.getA().getType().getShape().end()[product.getTransposeA() ? -2 : -1];
  return std::nullopt;
}

Slot &NodeImport::slot(size_t i) const {
  if (!has(i))
    throw Error::badInput(absl::StrCat("lacks input ", i));
  return *graph.slots.at(source.inputs[i]);
}

const Literal &NodeImport::constant(size_t i, const char *what) {
  const Literal *known = graph.literalOf(slot(i));
  if (!known)
    throw Error::badInput(std::string(what) + " ('" + source.inputs[i] +
                          "') depends on data or a parameter; it must be constant");
  return *known;
}

bool NodeImport::isState(size_t i) const {
  const std::optional<ArgumentKind> kind = graph.argumentKindOf(slot(i));
  return kind && stow::isState(*kind);
}

Value NodeImport::value(size_t i, std::optional<int64_t> fanIn) {
  return graph.materialize(slot(i), fanIn, location);
}

Value NodeImport::value(Slot &of) {
  if (of.part)
    throw Error::badInput("reads a part of rows whose number depends on data");
  return graph.materialize(of, std::nullopt, location);
}

const NodeAttribute *NodeImport::attribute(const char *name, NodeAttribute::Kind kind) const {
  auto found = source.attributes.find(name);
  if (found == source.attributes.end())
    return nullptr;
  if (found->second.kind != kind)
    throw Error::badInput(std::string("attribute '") + name + "' is of the wrong type");
  return &found->second;
}

int64_t NodeImport::integer(const char *name, int64_t fallback) const {
  const NodeAttribute *found = attribute(name, NodeAttribute::Kind::Int);
  return found ? found->i : fallback;
}

double NodeImport::number(const char *name, double fallback) const {
  const NodeAttribute *found = attribute(name, NodeAttribute::Kind::Float);
  return found ? decimal(found->f) : fallback;
}

std::string NodeImport::text(const char *name, const std::string &fallback) const {
  const NodeAttribute *found = attribute(name, NodeAttribute::Kind::String);
  return found ? found->s : fallback;
}

std::optional<std::vector<int64_t>> NodeImport::integers(const char *name) const {
  const NodeAttribute *found = attribute(name, NodeAttribute::Kind::Ints);
  return found ? std::optional(found->ints) : std::nullopt;
}

std::optional<std::vector<std::string>> NodeImport::texts(const char *name) const {
  const NodeAttribute *found = attribute(name, NodeAttribute::Kind::Strings);
  return found ? std::optional(found->strings) : std::nullopt;
}

bool NodeImport::isRead(size_t i) const {
  return isReadByNode(i) || (i < source.outputs.size() && graph.results.count(source.outputs[i]));
}

bool NodeImport::isReadByNode(size_t i) const {
  return i < source.outputs.size() && !source.outputs[i].empty() &&
         graph.readByNodes.count(source.outputs[i]);
}

void NodeImport::bind(size_t i, Value value) {
  if (i >= source.outputs.size() || source.outputs[i].empty())
    return;
  auto slot = std::make_shared<Slot>();
  slot->name = source.outputs[i];
  slot->shape = shapeOf(value);
  slot->value = value;
  graph.slots[slot->name] = slot;
}

void NodeImport::bindLiteral(size_t i, Literal literal) {
  if (i >= source.outputs.size() || source.outputs[i].empty())
    return;
  auto slot = std::make_shared<Slot>();
  slot->name = source.outputs[i];
  slot->type = literal.type;
  slot->shape = literal.shape;
  slot->literal = std::move(literal);
  graph.slots[slot->name] = slot;
}

const std::vector<std::shared_ptr<Slot>> &NodeImport::sequence(size_t i) const {
  const Slot &known = slot(i);
  if (!known.sequence)
    throw Error::badInput(absl::StrCat("expects a sequence as input ", i));
  return *known.sequence;
}

std::shared_ptr<Slot> NodeImport::sharedSlot(size_t i) const {
  slot(i);
  return graph.slots.at(source.inputs[i]);
}

std::shared_ptr<Slot> NodeImport::newSlot(Value value) const {
  auto slot = std::make_shared<Slot>();
  slot->name = source.name;
  slot->shape = shapeOf(value);
  slot->value = value;
  return slot;
}

std::shared_ptr<Slot> NodeImport::newSlot(Literal literal) const {
  auto slot = std::make_shared<Slot>();
  slot->name = source.name;
  slot->type = literal.type;
  slot->shape = literal.shape;
  slot->literal = std::move(literal);
  return slot;
}

void NodeImport::bindShared(size_t i, std::shared_ptr<Slot> slot) {
  if (i < source.outputs.size() && !source.outputs[i].empty())
    graph.slots[source.outputs[i]] = std::move(slot);
}

void NodeImport::bindSequence(size_t i, std::vector<std::shared_ptr<Slot>> elements) {
  auto slot = std::make_shared<Slot>();
  slot->name = source.name;
  slot->sequence = std::move(elements);
  bindShared(i, std::move(slot));
}

void NodeImport::bindSlot(size_t i, size_t input) {
  slot(input);
  if (i < source.outputs.size() && !source.outputs[i].empty())
    graph.slots[source.outputs[i]] = graph.slots.at(source.inputs[input]);
}

std::optional<std::pair<int64_t, int64_t>> NodeImport::batchChange() const {
  if (!graph.oldBatch || !graph.options.batch || *graph.oldBatch == *graph.options.batch)
    return std::nullopt;
  return std::pair(*graph.oldBatch, *graph.options.batch);
}

const Shape *NodeImport::inputShapeBefore(size_t i) const {
  if (!graph.change.before || !has(i))
    return nullptr;
  auto found = graph.change.before->shapes.find(source.inputs[i]);
  return found == graph.change.before->shapes.end() ? nullptr : &found->second;
}

const Shape *NodeImport::outputShapeBefore(size_t i) const {
  if (!graph.change.before || i >= source.outputs.size())
    return nullptr;
  auto found = graph.change.before->shapes.find(source.outputs[i]);
  return found == graph.change.before->shapes.end() ? nullptr : &found->second;
}

bool NodeImport::followsBatch(size_t i) {
  const Literal *now = literal(i);
  if (!graph.change.before || !now)
    return false;
  auto before = graph.change.before->literals.find(source.inputs[i]);
  return before != graph.change.before->literals.end() && before->second != now->ints;
}

Value NodeImport::scalar(double value, Value like) {
  return tensor(Literal{ElementType::Double, {}, {}, {value}}, like);
}

Value NodeImport::tensor(const Literal &literal, Value like) {
  return tensor(literal, elementOf(like));
}

Value NodeImport::tensor(const Literal &literal, Type element) {
  auto type = RankedTensorType::get(literal.shape, element);
  SmallVector<mlir::Attribute> numbers;
  for (int64_t i = 0; i < literal.size(); ++i) {
    if (isa<FloatType>(element))
      numbers.push_back(graph.builder.getFloatAttr(element, literal.number(i)));
    else
      numbers.push_back(graph.builder.getIntegerAttr(
          element, literal.isFloat() ? static_cast<int64_t>(literal.floats[i]) : literal.ints[i]));
  }
  auto attr = DenseElementsAttr::get(type, numbers);
  return emit<ConstantOp>({}, [&](ConstantOp::Properties &p) { p.value = attr; }, type);
}

Value NodeImport::integers(const std::vector<int64_t> &values, const Shape &shape) {
  bool fits = llvm::all_of(values, [](int64_t v) { return v == static_cast<int32_t>(v); });
  auto type = RankedTensorType::get(shape, graph.builder.getIntegerType(fits ? 32 : 64));
  DenseElementsAttr attr =
      fits ? DenseElementsAttr::get(type,
                                    ArrayRef(llvm::map_to_vector(
                                        values, [](int64_t v) { return static_cast<int32_t>(v); })))
           : DenseElementsAttr::get(type, ArrayRef(values));
  return emit<ConstantOp>({}, [&](ConstantOp::Properties &p) { p.value = attr; }, type);
}

Value NodeImport::compare(Value a, Value b, const char *predicate) {
  return emit<CompareOp>({a, b}, [&](CompareOp::Properties &p) {
    p.predicate = graph.builder.getStringAttr(predicate);
  });
}

Value NodeImport::cast(Value x, Type element) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  return type.getElementType() == element
             ? x
             : emitAs<CastOp>(x, RankedTensorType::get(type.getShape(), element));
}

Value NodeImport::random(const char *distribution, double a, double b, RankedTensorType type) {
  return emit<RandomOp>(
      {},
      [&](RandomOp::Properties &p) {
        p.distribution = graph.builder.getStringAttr(distribution);
        p.a = f64(a);
        p.b = f64(b);
        p.stream = i64(graph.randomCount++);
      },
      type);
}

Shape NodeImport::drawnShape(Shape given) const {
  if (!graph.change.before || given.empty() || given[0] != graph.oldBatch)
    return given;
  if (graph.oldBatch == 1)
    throw Error::badInput("draws random numbers for each sample or for all of them: a file made "
                          "with a batch of 1 does not tell");
  if (graph.change.resizeRows)
    given[0] = *graph.options.batch;
  return given;
}

ElementType NodeImport::elementType(size_t i) const {
  const Slot &known = slot(i);
  if (known.type != ElementType::Undefined || !known.value)
    return known.type;
  Type element = elementOf(known.value);
  return element.isF32()         ? ElementType::Float
         : element.isF64()       ? ElementType::Double
         : element.isF16()       ? ElementType::Float16
         : element.isBF16()      ? ElementType::BFloat16
         : element.isInteger(1)  ? ElementType::Bool
         : element.isInteger(32) ? ElementType::Int32
                                 : ElementType::Int64;
}

Value NodeImport::reshape(Value x, const Shape &shape) {
  while (auto view = x.getDefiningOp<ReshapeOp>())
    x = view.getX();
  auto type = cast<RankedTensorType>(x.getType());
  auto target = RankedTensorType::get(shape, type.getElementType());
  return type == target ? x : emitAs<ReshapeOp>(x, target);
}

Value NodeImport::slice(Value x, const Shape &starts, const Shape &sizes) {
  return emit<SliceOp>(x, [&](SliceOp::Properties &p) {
    p.starts = array(starts);
    p.sizes = array(sizes);
  });
}

void NodeImport::infer(OperationState &state,
                       llvm::function_ref<LogicalResult(SmallVectorImpl<Type> &)> types) {
  FirstError error(&graph.context);
  SmallVector<Type> inferred;
  if (mlir::failed(types(inferred)))
    throw Error::badInput(error.reason());
  state.addTypes(inferred);
}

Value NodeImport::create(OperationState &state) {
  for (Type type : state.types) {
    auto extents = cast<RankedTensorType>(type).getShape();
    const Shape shape(extents.begin(), extents.end());
    std::optional<int64_t> count = checkedElementCount(shape);
    if (!count || *count == 0)
      throw Error::badInput("its result: " +
                            (count ? textOf(shape) + " has no elements" : tooLarge(shape)));
  }
  FirstError error(&graph.context);
  Operation *op = graph.builder.create(state);
  if (mlir::failed(mlir::verify(op))) {
    op->erase();
    throw Error::badInput(error.reason());
  }
  return op->getResult(0);
}

} // namespace stow::onnx
