// The state of one import and the view of it that an op's converter gets.
//
// Every tensor of the graph has a slot. A slot is known content (a literal, an initializer), a
// value of the function under construction, or both; arguments are created when a weight is first
// used as a tensor. Converters are functions `void convert(NodeImport &)` that read their node
// through NodeImport and bind their outputs; they throw Error(BadInput) with the reason when they
// cannot, which becomes an obstacle at the node. Nodes that depend on a failed one are skipped.
#pragma once

#include "compiler/import/BatchShapes.h"
#include "compiler/import/ExportCheck.h"
#include "compiler/import/Import.h"
#include "compiler/import/Initialization.h"
#include "compiler/import/Literal.h"
#include "compiler/import/Roles.h"
#include "ir/Stow.h"
#include "runtime/base/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace stow::onnx {

/// Some of the rows of a tensor, one after the other, where only data says how many (a mixture of experts): what is computed with
/// them is computed for all rows, and joined again the rows of each part are chosen.
struct RowPart {
  mlir::Value sizes; ///< how many rows each part has
  int64_t index = 0;

  bool operator==(const RowPart &other) const = default;
};

struct Slot {
  enum class Origin { Initializer, ConstantNode, Recipe, Input, Computed, Failed };
  Origin origin = Origin::Computed;
  std::string name; ///< tensor name in the file
  ElementType type = ElementType::Undefined;
  Shape shape;
  const Tensor *tensor = nullptr;           ///< data of Initializer and ConstantNode
  std::optional<Distribution> distribution; ///< of a Recipe: a random node's own, or the fill
  std::optional<Literal> literal;           ///< content of a Computed constant
  mlir::Value value;                        ///< once used as a tensor
  std::optional<RowPart> part;              ///< of what rows of `value` it stands for; absent: all
  /// The elements of a sequence; absent for tensors.
  std::optional<std::vector<std::shared_ptr<Slot>>> sequence;
};

class NodeImport;

/// How a file made for one batch is imported for another.
struct BatchChange {
  const BatchShapes *before = nullptr; ///< shapes at the file's batch; null: the batch stays
  /// Constants of one value and random numbers follow in a leading extent of the batch.
  bool resizeRows = false;
};

/// Builds the module; one object per import.
class GraphImport {
public:
  GraphImport(mlir::MLIRContext &context, const Model &model, const ImportOptions &options,
              BatchChange batchChange = {});

  /// For run(): no data, only shapes. The module serves for nothing else.
  void leaveOutData() { withData = false; }

  /// The batch baked into the file; absent where it is symbolic.
  std::optional<int64_t> fileBatch() const;

  /// Shapes and small constants, after run().
  BatchShapes takeShapes();

  /// Null after emitting the obstacles.
  mlir::OwningOpRef<mlir::ModuleOp> run();

  /// What became of the tensors, after run().
  ImportReport takeReport(const ExportFindings &findings);

private:
  friend class NodeImport;

  void findReads();
  void addDataInputs();
  void addDataInput(const Input &input);
  /// True for what the file's signature calls a buffer or a constant of the module: of any type, in a file without weights an input.
  bool isBuffer(const std::string &name) const;
  void addInitializers();
  void addInitializer(const std::string &name, const Tensor &tensor);
  void importNode(size_t index);
  void importNode(NodeImport &node);
  void importBranch(NodeImport &node);
  void importLoop(NodeImport &node);
  void importScan(NodeImport &node);
  using Slots = std::vector<std::shared_ptr<Slot>>;
  Slots importGraph(NodeImport &node, const Graph &graph, const Slots &inputs,
                    const std::string &place);
  void convertNode(NodeImport &node);
  std::optional<RowPart> partOf(NodeImport &node);
  bool bindSource(NodeImport &node);
  bool foldNode(NodeImport &node);
  std::optional<Literal> foldFloats(NodeImport &node, const std::vector<const Literal *> &inputs);
  void failOutputs(const Node &node);
  void finish();
  /// The buffer whose next value a result of the graph is; empty for other results.
  std::string bufferOf(const std::string &output) const;
  void checkResultBatch(const std::string &name, mlir::Value value);
  std::string dynamicBatchAdvice() const;

  /// What a tensor with data or a recipe becomes, and why.
  struct Verdict {
    std::optional<ArgumentKind> kind; ///< absent for constants
    std::string reason;
  };
  Verdict verdictOf(const Slot &slot) const;
  Verdict verdictByRules(const Slot &slot) const;
  std::optional<ArgumentKind> argumentKindOf(const Slot &slot) const {
    return verdictOf(slot).kind;
  }

  /// Content of the slot when it is a constant and small.
  const Literal *literalOf(Slot &slot);

  mlir::Value materialize(Slot &slot, std::optional<int64_t> fanIn, mlir::Location location);
  void resizeUniform(Slot &slot);
  mlir::Value argument(const Slot &slot, ArgumentKind kind, std::optional<int64_t> fanIn);
  mlir::Attribute initOf(const Slot &slot, std::optional<int64_t> fanIn);
  mlir::ElementsAttr elementsOf(const Tensor &tensor);
  mlir::ElementsAttr elementsOf(const Literal &literal);
  mlir::RankedTensorType typeOf(ElementType type, const Shape &shape);
  bool isFrozen(const std::string &name);
  void obstacle(mlir::Location location, const llvm::Twine &text);
  /// Of what the file calls `name`; the module, where it is known, lies beside the file's line.
  mlir::Location namedLocation(const std::string &name, size_t line,
                               const std::string &modulePath) const;
  mlir::Location nodeLocation(size_t index) const;

  mlir::MLIRContext &context;
  const Model &model;
  const ImportOptions &options;
  Initialization init;
  Roles roles;
  bool keepsModes; ///< normalizations in inference form are so in training, too
  int64_t opset = 0;
  std::optional<int64_t> oldBatch; ///< extent of the batch dimension in the file
  BatchChange change;
  MergedDims mergedDims;
  bool withData = true;
  std::map<std::string, std::shared_ptr<Slot>> slots;
  std::set<std::string> readByNodes; ///< tensors that live nodes read
  std::set<std::string> results;     ///< the graph's outputs
  std::set<std::string> dropped;     ///< results of the graph that are left out
  std::vector<bool> frozenUsed;      ///< per pattern of options.frozen
  ImportReport report;
  bool failed = false;

  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  unsigned inputCount = 0, parameterCount = 0;
  int64_t randomCount = 0; ///< random ops so far
  std::vector<mlir::DictionaryAttr> argumentAttrs;
};

/// Splits "'stow.x' op reason" into its reason, and the like.
std::string bareReason(const std::string &diagnostic);

/// Fan in of the convolution or product that defines `value`, looking through nothing.
std::optional<int64_t> fanInOfProduct(mlir::Value value);

/// The double a person meant by a float in the file: 0.1f is 0.1.
double decimal(float value);

/// One node under conversion.
class NodeImport {
public:
  NodeImport(GraphImport &graph, const Node &node, mlir::Location location)
      : graph(graph), source(node), location(location) {}

  const Node &node() const { return source; }
  int64_t opset() const { return graph.opset; }
  mlir::OpBuilder &builder() { return graph.builder; }
  mlir::Location place() const { return location; }

  // Inputs. Those that are missing where one is needed throw.
  size_t inputCount() const { return source.inputs.size(); }
  bool has(size_t i) const { return i < source.inputs.size() && !source.inputs[i].empty(); }
  Slot &slot(size_t i) const;
  const Shape &shape(size_t i) const { return slot(i).shape; }
  ElementType elementType(size_t i) const;
  bool isFromData(size_t i) const { return graph.roles.fromData.count(source.inputs[i]) != 0; }
  /// True for a parameter or a statistic.
  bool isState(size_t i) const;
  const Literal *literal(size_t i) { return has(i) ? graph.literalOf(slot(i)) : nullptr; }
  const Literal &constant(size_t i, const char *what);
  mlir::Value value(size_t i, std::optional<int64_t> fanIn = std::nullopt);

  // Attributes. A wrong kind throws.
  int64_t integer(const char *name, int64_t fallback) const;
  double number(const char *name, double fallback) const;
  std::string text(const char *name, const std::string &fallback) const;
  std::optional<std::vector<int64_t>> integers(const char *name) const;
  std::optional<std::vector<std::string>> texts(const char *name) const;
  bool flag(const char *name, bool fallback) const { return integer(name, fallback) != 0; }

  /// True when a later live node or the graph's result reads output `i`.
  bool isRead(size_t i) const;

  /// True when a later live node reads output `i`.
  bool isReadByNode(size_t i) const;

  /// Leaves output `i` out of the graph's results: training keeps that value itself.
  void dropResult(size_t i) { graph.dropped.insert(source.outputs[i]); }

  void bind(size_t i, mlir::Value value);
  /// Result `i` of the op that defines `value`.
  void bindResult(size_t i, mlir::Value value, unsigned result) {
    bind(i, value.getDefiningOp()->getResult(result));
  }
  void bindLiteral(size_t i, Literal literal);
  void bindSlot(size_t i, size_t input);

  // Sequences.
  const std::vector<std::shared_ptr<Slot>> &sequence(size_t i) const;
  std::shared_ptr<Slot> sharedSlot(size_t i) const;
  std::shared_ptr<Slot> newSlot(mlir::Value value) const;
  std::shared_ptr<Slot> newSlot(Literal literal) const;
  mlir::Value value(Slot &of);
  const Literal *literal(Slot &of) { return graph.literalOf(of); }
  void bindShared(size_t i, std::shared_ptr<Slot> slot);
  void bindSequence(size_t i, std::vector<std::shared_ptr<Slot>> elements);

  /// The rows of `x` in parts of computed sizes, input `sizes`.
  std::vector<std::shared_ptr<Slot>> rowParts(mlir::Value x, size_t sizes);
  /// True where an input is some rows of a tensor.
  bool readsRowParts() const;
  /// The inputs, all parts of one tensor in their order, as one. Throws where they are not.
  mlir::Value joinedRowParts(int64_t axis);

  /// Batch sizes the file was made for and is imported for, when they differ.
  std::optional<std::pair<int64_t, int64_t>> batchChange() const;

  /// Shape of input or output `i` at the file's batch; null when the batch stays, or not known.
  const Shape *inputShapeBefore(size_t i) const;
  const Shape *outputShapeBefore(size_t i) const;

  /// True when the constant input `i` has other values than at the file's batch: it was computed
  /// from shapes.
  bool followsBatch(size_t i);
  MergedDims &mergedDims() { return graph.mergedDims; }
  std::optional<double> batchNormMomentum() const { return graph.options.batchNormMomentum; }
  bool isFromPyTorch() const { return onnx::isFromPyTorch(graph.model); }

  /// True for a normalization whose module stands in evaluation mode while others train.
  bool isEvaluatedNorm() const { return graph.keepsModes && !isTrainingNorm(node()); }

  /// True in a file of stowage.export, whose operators are meant as they stand.
  bool spellsItsMeaning() const {
    return graph.model.signature && graph.model.signature->keepsModes;
  }

  /// A rank-0 constant of the element type of `like`.
  mlir::Value scalar(double value, mlir::Value like);

  /// A constant of the literal's numbers in the element type of `like`.
  mlir::Value tensor(const Literal &literal, mlir::Value like);
  mlir::Value tensor(const Literal &literal, mlir::Type element);

  /// Constant whole numbers: i32 where they fit, else i64.
  mlir::Value integers(const std::vector<int64_t> &values, const Shape &shape);

  /// The mask of `a predicate b`.
  mlir::Value compare(mlir::Value a, mlir::Value b, const char *predicate);

  /// `x` in another element type; `x` itself when it has that type.
  mlir::Value cast(mlir::Value x, mlir::Type element);

  /// Random numbers of a stream of their own.
  mlir::Value random(const char *distribution, double a, double b, mlir::RankedTensorType type);

  /// The shape to draw random numbers in whose shape in the file, `given`, is not that of data:
  /// numbers of each sample follow the batch. Throws where the file's batch of 1 hides whether the
  /// samples share them.
  Shape drawnShape(Shape given) const;

  mlir::Value reshape(mlir::Value x, const Shape &shape);

  /// The box of `sizes` elements from `starts` on.
  mlir::Value slice(mlir::Value x, const Shape &starts, const Shape &sizes);

  /// Builds an op. `set` fills its properties; `type` is given where it is not inferred.
  template <typename Op, typename Set>
  mlir::Value emit(mlir::ValueRange operands, Set set, mlir::RankedTensorType type = {}) {
    mlir::OperationState state(location, Op::getOperationName());
    state.addOperands(operands);
    if constexpr (requires { typename Op::Properties; })
      set(state.getOrAddProperties<typename Op::Properties>());
    if (type) {
      state.addTypes(type);
      return create(state);
    }
    if constexpr (Op::template hasTrait<mlir::InferTypeOpInterface::Trait>())
      infer(state, [&](llvm::SmallVectorImpl<mlir::Type> &types) {
        return Op::inferReturnTypes(&graph.context, location, operands, {},
                                    state.getRawProperties(), {}, types);
      });
    return create(state);
  }
  template <typename Op> mlir::Value emit(mlir::ValueRange operands) {
    return emit<Op>(operands, [](auto &) {});
  }
  template <typename Op> mlir::Value emitAs(mlir::Value x, mlir::RankedTensorType type) {
    return emit<Op>(x, [](auto &) {}, type);
  }

  mlir::DenseI64ArrayAttr array(llvm::ArrayRef<int64_t> values) {
    return graph.builder.getDenseI64ArrayAttr(values);
  }
  mlir::IntegerAttr i64(int64_t value) { return graph.builder.getI64IntegerAttr(value); }
  mlir::FloatAttr f64(double value) { return graph.builder.getF64FloatAttr(value); }
  mlir::BoolAttr boolean(bool value) { return graph.builder.getBoolAttr(value); }
  mlir::UnitAttr unit() { return graph.builder.getUnitAttr(); }
  mlir::RankedTensorType typeOf(ElementType type, const Shape &shape) {
    return graph.typeOf(type, shape);
  }

private:
  friend class GraphImport;
  const NodeAttribute *attribute(const char *name, NodeAttribute::Kind kind) const;
  void infer(mlir::OperationState &state,
             llvm::function_ref<llvm::LogicalResult(llvm::SmallVectorImpl<mlir::Type> &)> types);
  mlir::Value create(mlir::OperationState &state);

  GraphImport &graph;
  const Node &source;
  mlir::Location location;
};

/// The entry of an operator: how it is imported, and where it takes weights.
struct OpRule {
  void (*convert)(NodeImport &);
  size_t minInputs;
  size_t maxInputs;
  OpWeights weights = {};
};

/// The domain of the functions that stowage.export writes.
inline constexpr const char *kOwnDomain = "stowage";

/// The rule of an operator of ai.onnx, or of one of our own functions; null when it is not supported.
const OpRule *ruleOf(const std::string &type, const std::string &domain = "");

/// The tensor type's shape.
inline Shape shapeOf(mlir::Value value) {
  auto shape = mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  return Shape(shape.begin(), shape.end());
}

/// The tensor type's element type.
inline mlir::Type elementOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}

using RuleTable = std::map<std::string, OpRule>;

/// The rules of all supported operators.
const RuleTable &allRules();

/// The rules of the functions of our own domain that are imported whole.
const RuleTable &functionRules();

/// Says where operators of these types, which are in the table, take weights.
void takeWeights(RuleTable &table, OpWeights weights, std::initializer_list<const char *> types);

/// The rules of Roles.h on a model, with what the user named.
Roles rolesOf(const Model &model, const ImportOptions &options);

// One table per Convert*.cpp.
void addAttentionRules(RuleTable &table);
void addBitRules(RuleTable &table);
void addElementwiseRules(RuleTable &table);
void addFourierRules(RuleTable &table);
void addFunctionRules(RuleTable &table);
void addIndexRules(RuleTable &table);
void addLogicRules(RuleTable &table);
void addOrderRules(RuleTable &table);
void addQuantizedRules(RuleTable &table);
void addRandomRules(RuleTable &table);
void addLinearRules(RuleTable &table);
void addLossRules(RuleTable &table);
void addNormRules(RuleTable &table);
void addRecurrentRules(RuleTable &table);
void addReduceRules(RuleTable &table);
void addResampleRules(RuleTable &table);
void addSampleRules(RuleTable &table);
void addSequenceRules(RuleTable &table);
void addShapeRules(RuleTable &table);
void addWindowRules(RuleTable &table);

} // namespace stow::onnx
